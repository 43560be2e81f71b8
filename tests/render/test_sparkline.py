"""Live memory in one line: heights and the position of the peak."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import sizeup
from networks import three_convolutions, with_unknown
from sizeup.render.console.layout import print_sparkline, sparkline
from sizeup.render.console.report import render

HEIGHTS = " ▁▂▃▄▅▆▇█"


def column(*amounts: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(amounts, np.int64)


def test_heights_are_those_worked_out_by_hand() -> None:
    # Sevenths of 70, rounded up; nothing is blank, and only the peak is full.
    assert sparkline(column(0, 1, 10, 11, 35, 60, 69, 70), 80) == " ▁▁▂▄▆▇█"


def test_terminal_without_blocks_gets_signs() -> None:
    assert sparkline(column(0, 1, 11, 35, 70), 80, ascii_only=True) == " .:=@"


def test_a_second_line_may_be_on_the_scale_of_the_first() -> None:
    assert sparkline(column(10, 35), 80, peak=70) == "▁▄"


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300), st.integers(1, 80))
def test_line_is_as_long_as_allowed_and_marks_every_peak(amounts: list[int], width: int) -> None:
    line = sparkline(column(*amounts), width)
    assert len(line) == min(width, len(amounts))
    most, count = max(amounts), len(line)
    for place, sign in enumerate(line):
        part = amounts[place * len(amounts) // count : (place + 1) * len(amounts) // count]
        assert (sign == "█") == (max(part) == most > 0)
        assert (sign == " ") == (max(part) == 0)
        # Never off by more than the height of a step.
        assert abs(HEIGHTS.index(sign) / 8 - max(part) / max(most, 1)) <= 1 / 7


def printed(width: int, *amounts: int) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    print_sparkline(console, "live memory", column(*amounts), f"over {len(amounts)} operators", 14)
    return buffer.getvalue()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_line_and_its_words_fit_the_terminal(width: int) -> None:
    text = printed(width, *range(1000))
    assert len(text.rstrip("\n")) == width
    assert text.endswith("over 1000 operators, █ peak\n")


def test_nothing_is_drawn_where_there_is_nothing_to_see() -> None:
    assert printed(80, 5, 5) == ""
    assert printed(80, 0, 0, 0, 0) == ""
    assert printed(40, 1, 2, 3) == ""


def test_report_shows_it_where_memory_is_known_and_only_there() -> None:
    buffer = io.StringIO()
    console = Console(file=buffer, width=80, color_system=None)
    report = sizeup.analyze(three_convolutions())
    render(report, console)
    # By hand, in KiB: 48 + 128, 128 + 128, 128 + 256 of 384.
    assert "  live memory  ▄▅█  over 3 operators, █ peak\n" in buffer.getvalue()
    render(sizeup.analyze(with_unknown()), console)
    assert "memory       unknown: the size of 1 tensor depends on data" in buffer.getvalue()
    assert buffer.getvalue().count("live memory") == 1
