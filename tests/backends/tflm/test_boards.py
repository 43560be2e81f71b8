"""The smallest arena equals what TFLite Micro needed on emulated boards, with both kernel libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards import FIRMWARES, PAGE, compare, public_models, summary

pytestmark = pytest.mark.extras

LEAST_ROWS = 100  # for the core of which only a part was run


@pytest.mark.parametrize(("core", "kernels"), FIRMWARES)
def test_head_tail_and_smallest_arena_are_those_of_the_board(shared: Path, core: str, kernels: str) -> None:
    rows = compare(shared, core, kernels)
    measured = [row for row in rows if row.measured]
    assert len(measured) >= LEAST_ROWS
    assert not [(row.model, row.computed, row.measured) for row in measured if row.computed != row.measured]
    assert summary(core, kernels, rows) in PAGE.read_text()


def test_the_page_has_the_public_models(shared: Path) -> None:
    assert public_models(shared) in PAGE.read_text()
