"""Which tests judge a change: those that reach its line, the quickest first."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from pathlib import Path
from xml.etree import ElementTree

from mutation.changes import PACKAGE, ROOT, Mutant

# Both are written by `make coverage`.
DATA = ROOT / "build" / "coverage" / "data"
DURATIONS = ROOT / "build" / "coverage" / "tests.xml"
FAR = 10.0  # factor on the time of functions of other folders, for each level: those that are near come first


@cache
def tests_by_line(path: Path) -> dict[int, list[str]]:
    """The tests that reach each line of a file, as pytest names them; from the data of `make coverage`."""
    from coverage import CoverageData

    data = CoverageData(str(DATA))
    data.read()
    lines: dict[int, list[str]] = {}
    for line, contexts in data.contexts_by_lineno(str(path)).items():
        lines[line] = sorted(context for context in contexts if context)
    return lines


@cache
def seconds_by_test() -> dict[str, float]:
    """How long each test function took, with all its parameters, when coverage was measured."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(DURATIONS).iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        seconds[f"{case.attrib['classname'].replace('.', '/')}.py::{name}"] += float(case.attrib["time"])
    return dict(seconds)


def seconds_of(tests: Iterable[str]) -> float:
    """How long these test functions took in all; a second each if that is not known."""
    return sum(seconds_by_test().get(test, 1.0) for test in tests)


def tests_of(mutant: Mutant, seconds: float, *, is_at_import: bool) -> list[str]:
    """The tests that judge a mutant: the quickest, that long in all; none if no test reaches it.

    What runs at import is recorded for the test that came first. It is judged by all tests that reach its
    file, and by those of its folder: some only read a table.
    """
    lines = tests_by_line(mutant.path)
    numbers = lines if is_at_import else [mutant.line]
    tests = {test for number in numbers for test in lines.get(number, [])}
    folders = {Path("tests", parent) for parent in mutant.path.relative_to(PACKAGE).parents}
    if is_at_import:
        tests |= {test for test in seconds_by_test() if folders <= {*Path(test).parents}}
    durations = {test: seconds_of([test]) for test in tests}
    levels = {test: len(folders - {*Path(test).parents}) for test in tests}
    ordered = sorted(tests, key=lambda test: (durations[test] * FAR ** levels[test], test))
    total = list(accumulate(durations[test] for test in ordered))
    return ordered[: max(1, bisect_right(total, seconds))]
