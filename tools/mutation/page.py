"""Writes docs/mutants.md: coverage by folder, mutants found by folder, and why the others survive."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mutation.changes import ROOT
from mutation.choice import DURATIONS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COVERAGE = ROOT / "build" / "coverage" / "coverage.json"
REASONS = Path(__file__).with_name("survivors.toml")
HEAD = """# Coverage and mutants

`make coverage` runs all tests but those that compare times, and records the lines and branches of the package
that they reach, also in the processes that they start. The table is of {tests:,} tests: without the slow ones
it is a lower bound. Left out: {omitted}.

{coverage}

`make mutants` then changes one operator, number or condition of the package at a time and runs the tests that
reach its line: the quickest, {seconds:.0f} s in all, and {longer:.0f} s for survivors.
A change that fails no test survives. The sample has {count:,} changes (seed {seed}); all changes of the five
folders are equally likely. Annotations, `strict=` of `zip`, and `frozen=` and `slots=` of classes are not
changed: they compute nothing.

{mutants}

{survivors}
"""
OMITTED = (
    "`__main__.py`, which starts the command line; abstract methods, protocols, overloads, and imports for "
    "type checkers"
)


def reasons() -> dict[tuple[str, str, str, str], str]:
    """Why a mutant may survive, by file, line of code, expression before and after."""
    entries = tomllib.loads(REASONS.read_text("utf-8"))["survivor"]
    return {(each["file"], each["code"], each["before"], each["after"]): each["reason"] for each in entries}


def page(rows: Sequence[dict[str, Any]], seed: int, seconds: float, longer: float) -> str:
    """The page for these mutants and the coverage measured last."""
    return HEAD.format(
        omitted=OMITTED,
        tests=sum(1 for _ in ElementTree.parse(DURATIONS).iter("testcase")),
        coverage="\n".join(_coverage(json.loads(COVERAGE.read_text("utf-8")))),
        count=len(rows),
        seed=seed,
        seconds=seconds,
        longer=longer,
        mutants="\n".join(_by_folder(rows)),
        survivors="\n".join(_survivors(rows)),
    )


def _coverage(measured: dict[str, Any]) -> Iterator[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path, each in measured["files"].items():
        parts = Path(path).parts[2:]  # after src/sizeup
        for name in (parts[0] if len(parts) > 1 else "the package itself", "**all**"):
            counts[name].update(each["summary"])
    yield "| folder | statements | reached | branches | reached |"
    yield "|---|--:|--:|--:|--:|"
    for name in sorted(counts, key=lambda each: (each == "**all**", each)):
        count = counts[name]
        lines = _share(count["covered_lines"], count["num_statements"])
        branches = _share(count["covered_branches"], count["num_branches"])
        yield f"| {name} | {count['num_statements']:,} | {lines} | {count['num_branches']:,} | {branches} |"


def _by_folder(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| folder | mutants | found | survive | not reached |"
    yield "|---|--:|--:|--:|--:|"
    folders = sorted({row["file"].split("/")[0] for row in rows})
    for name in [*folders, ""]:
        some = [row for row in rows if row["file"].startswith(name)]
        found, reached = sum(row["found"] for row in some), sum(row["tests"] > 0 for row in some)
        yield (
            f"| {name or '**all**'} | {len(some):,} | {_share(found, len(some))} | {reached - found:,} "
            f"| {len(some) - reached:,} |"
        )


def _survivors(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What survives, by reason."""
    known = reasons()
    by_reason: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if not row["found"]:
            change = row["file"], row["code"], row["before"], row["after"]
            reason = known.get(change, "no reason yet")
            by_reason[reason].append(f"`{row['file']}:{row['line']}`: `{row['before']}` -> `{row['after']}`")
    for reason, changes in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        yield f"**{len(changes)}: {reason}.**\n"
        yield from (f"- {change}" for change in sorted(changes))
        yield ""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""
