"""The script that changes one operator or number at a time."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from mutation import changes, choice, judge, page

CODE = '''
def size(count: int, limit: int=3) -> int | None:
    """Not changed: 7."""
    zip(range(count), range(count), strict=True)
    if not count or count < limit:
        return None
    return count * 2 if limit is None else count // limit
'''


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "size.py"
    path.write_text(CODE, "utf-8")
    return path


def test_every_operator_and_number_is_changed_once(path: Path) -> None:
    found = {mutant.before: mutant.after for mutant in changes.mutants(path)}
    assert found == {
        "3": "4",
        "not count or count < limit": "not count and count < limit",
        "not count": "count",
        "count < limit": "count <= limit",
        "count * 2 if limit is None else count // limit": "count // limit if limit is None else count * 2",
        "limit is None": "limit is not None",
        "count * 2": "count + 2",
        "2": "3",
        "count // limit": "count * limit",
    }


def test_a_mutant_differs_in_its_own_line_only(path: Path) -> None:
    for mutant in changes.mutants(path):
        before, after = CODE.strip().splitlines(), mutant.text().splitlines()
        different = [
            line for line, pair in enumerate(zip(before, after, strict=True), 2) if pair[0] != pair[1]
        ]
        assert different == [mutant.line], mutant
        assert mutant.after in after[mutant.line - 2]


def test_a_sample_depends_on_its_seed_alone() -> None:
    first = changes.sample(20, 1, ["cost"])
    assert first == changes.sample(20, 1, ["cost"])
    assert first != changes.sample(20, 2, ["cost"])
    assert len(set(first)) == 20


def test_a_sample_stays_when_other_code_changes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PACKAGE", path.parent.parent)
    path.write_text("a = 1 + 1\n" + CODE, "utf-8")
    before = {mutant.key for mutant in changes.sample(5, 0, [path.parent.name])}
    assert len({mutant.key for mutant in changes.mutants(path)}) == len(list(changes.mutants(path))) == 12
    path.write_text("b = a\na = 1 + 1\n" + CODE + "\nc = a < b", "utf-8")
    after = {mutant.key for mutant in changes.sample(6, 0, [path.parent.name])}
    assert len(before) == 5
    assert before < after


def test_functions_in_memory_compute_what_the_changed_file_says(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "PACKAGE", path.parent)
    points = [(count, limit) for count in (0, 2, 3, 7) for limit in (1, 3, 8)]
    at_import = []
    for mutant in changes.mutants(path):
        module = runpy.run_path(str(path))
        expected: dict[str, Any] = {}
        exec(mutant.text(), expected)
        if judge.is_at_import(mutant):
            at_import.append(mutant.before)
            continue
        judge.Functions().change(mutant)
        assert [module["size"](*each) for each in points] == [expected["size"](*each) for each in points]
        assert module["size"].__code__ != runpy.run_path(str(path))["size"].__code__
    assert at_import == ["3"]  # the default of an argument


def test_tables_are_computed_at_import_and_functions_are_not(path: Path) -> None:
    path.write_text(
        "TABLE = {n: n + 1 for n in range(9) if n != 2}\n"
        "TOTAL = sum(n * 2 for n in TABLE)\n"
        "class Class:\n    rows = [n > 3 for n in TABLE]\n"
        "    def method(self):\n        return [n < 4 for n in TABLE]\n"
        "def function():\n    class Local:\n        size = 5\n    return Local\n",
        "utf-8",
    )
    later = {mutant.before for mutant in changes.mutants(path) if not judge.is_at_import(mutant)}
    assert later == {"n < 4", "4", "5"}


def test_the_quickest_tests_judge_until_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    near = {"tests/ops/test_a.py::test_b": 0.5, "tests/ops/test_a.py::test_c": 2.0}
    far = {
        "tests/cli/test_d.py::test_e": 0.04,
        "tests/cli/test_d.py::test_f": 1.0,
        "tests/cli/test_d.py::test_g": 0.1,
    }
    durations = {**near, **far}
    monkeypatch.setattr(choice, "seconds_by_test", lambda: durations)
    monkeypatch.setattr(choice, "tests_by_line", lambda _: {7: sorted(durations), 8: [], 9: ["x"]})
    mutant = changes.Mutant(changes.PACKAGE / "ops" / "conv.py", 0, 7, "a = 1", "1", "2", 0)
    assert choice.tests_of(mutant, 3.0, is_at_import=False) == [
        "tests/cli/test_d.py::test_e",
        "tests/ops/test_a.py::test_b",
        "tests/cli/test_d.py::test_g",
        "tests/ops/test_a.py::test_c",
    ]
    assert choice.tests_of(mutant, 0.0, is_at_import=False) == ["tests/cli/test_d.py::test_e"]
    first = mutant._replace(line=9)  # reached by the test that imported the file
    assert choice.tests_of(first, 3.0, is_at_import=False) == ["x"]
    assert choice.tests_of(first, 3.0, is_at_import=True)[0] == "tests/cli/test_d.py::test_e"
    monkeypatch.setattr(choice, "tests_by_line", lambda _: {9: []})
    assert choice.tests_of(first, 3.0, is_at_import=True) == list(near)  # which may read a table
    assert choice.tests_of(mutant._replace(line=1), 3.0, is_at_import=False) == []
    deep = changes.Mutant(changes.PACKAGE / "ops" / "sub" / "conv.py", 0, 7, "a = 1", "1", "2", 0)
    durations["tests/ops/sub/test_h.py::test_i"] = 0.8  # before 0.04 * 100 and 0.5 * 10
    monkeypatch.setattr(choice, "tests_by_line", lambda _: {7: sorted(durations)})
    assert choice.tests_of(deep, 0.85, is_at_import=False) == [
        "tests/ops/sub/test_h.py::test_i",
        "tests/cli/test_d.py::test_e",
    ]


def test_every_reason_is_that_of_a_change_that_can_be_made() -> None:
    for file, code, before, after in page.reasons():
        change = code, before, after
        every = changes.mutants(changes.PACKAGE / file)
        assert any((each.code, each.before, each.after) == change for each in every), (file, code)
