"""The script that changes one operator or number at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants

CODE = '''
def size(count: int, limit: int=3) -> int | None:
    """Not changed: 7."""
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
    changes = {mutant.before: mutant.after for mutant in mutants.mutants(path)}
    assert changes == {
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
    for mutant in mutants.mutants(path):
        before, after = CODE.strip().splitlines(), mutant.text().splitlines()
        different = [
            line for line, pair in enumerate(zip(before, after, strict=True), 2) if pair[0] != pair[1]
        ]
        assert different == [mutant.line], mutant
        assert mutant.after in after[mutant.line - 2]


def test_a_sample_depends_on_its_seed_alone() -> None:
    first = mutants.sample(20, 1, ["cost"])
    assert first == mutants.sample(20, 1, ["cost"])
    assert first != mutants.sample(20, 2, ["cost"])
    assert len(set(first)) == 20
