"""CSV files that come back as they were, and run nothing in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sizeup
from networks import FLOAT
from sizeup.csv_cells import csv_lines, neutralize
from sizeup.logs import inert

# A spreadsheet looks at the first letter of a cell.
RUNS = "=+-@" + "".join(map(chr, range(32))) + "\x7f\uff1d\uff0b\uff0d\uff20"
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
COMMANDS = [
    "##vso[",
    "##teamcity[",
    "##[",
    "::error::",
    " \u00a0::x",
    "--- ",
    "~~~ ",
    "\r\x1b[0K",
    "\n::a",
    "#",
    ":",
]
starts = st.sampled_from(["", "'", "''", *RUNS.replace("\0", ""), *COMMANDS])
hostile = st.builds(lambda *parts: "".join(parts), starts, st.sampled_from(["", *COMMANDS]), text)


def read(lines: Any) -> list[list[str]]:
    return list(csv.reader(io.StringIO("".join(lines), newline="")))


def quiet(cell: str) -> str:
    """The text with spaces in commands, of which the apostrophe is none."""
    return inert(f"'{cell}")[1:] if re.match(f"'*[{re.escape(RUNS)}]", cell) else inert(cell)


def restored(cell: str) -> str:
    """As the documentation says: without the apostrophe before what could run."""
    return cell[1:] if re.match(f"'+[{re.escape(RUNS)}]", cell) else cell


@given(st.lists(st.tuples(hostile, hostile), max_size=5))
def test_texts_come_back_and_none_can_run(rows: list[tuple[str, str]]) -> None:
    header, *cells = read(csv_lines(("a", "b"), rows))
    assert header == ["a", "b"]
    assert [[restored(each) for each in row] for row in cells] == [[*map(quiet, row)] for row in rows]
    assert not any(each[:1] and each[0] in RUNS for row in cells for each in row)
    written = "".join(csv_lines(("a", "b"), rows))
    assert inert(written) == written
    assert read(csv_lines(("a", "b"), rows, raw=True))[1:] == [list(row) for row in rows]


def test_numbers_stay_numbers() -> None:
    numbers = (-5, 1e-3, -2.5e-7, 0, None, 12345678901234567890)
    assert read(csv_lines("abcdef", [numbers]))[1] == [
        "-5", "0.001", "-2.5e-07", "0", "", "12345678901234567890"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_names_of_a_model_run_nothing(name: str) -> None:
    builder = sizeup.GraphBuilder("m")
    x = builder.input("x", (1, 8), FLOAT)
    made = builder.tensor("y", (1, 8), FLOAT)
    builder.op("relu", [x], [made], name=name, source=name, scope=name)
    builder.outputs.append(made)
    from sizeup.render.data.report import csv_lines as of_report

    (row,) = csv.DictReader(io.StringIO("".join(of_report(sizeup.analyze(builder.freeze()))), newline=""))
    assert row["name"] == row["source"] == f"'{name}" == neutralize(name)
    assert row["macs"] == "0"
