"""Answers as CSV: texts that a spreadsheet would run, through Arrow's own writer."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sizeup.csv_cells import neutralize
from sizeup.logs import inert
from sizeup.sweeps.tables import write

TEXTS = ["=1+1", "+1", "-1", "@a", "\ta", "\r=1", "\n=1", "\x7f", "\uff1d1", "'=1", "'a", "a=1", "", None]
TEXTS += ["a ##vso[x]", "##[g", " \u00a0::error::", "a\n::b", "~~~ c", "=\r\x1b[0K", "####teamcity[", "a::b"]
NUMBERS = [-1.5, *([1e-3] * (len(TEXTS) - 1))]


def reader() -> pa.RecordBatchReader:
    table = pa.table({"=name": TEXTS, "ms": NUMBERS, "large": pa.array(TEXTS, pa.large_string())})
    return table.to_reader(max_chunksize=4)


@pytest.mark.parametrize("raw", [False, True])
def test_texts_are_neutralized_as_in_every_csv_file(tmp_path: Path, raw: bool) -> None:
    path = tmp_path / "answer.csv"
    assert write(reader(), str(path), raw_csv=raw) == len(TEXTS)
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    expected = [each if raw else neutralize(each) for each in (text or "" for text in TEXTS)]
    text = path.read_text("utf-8")
    assert raw == (inert(text) != text)
    assert header == ["=name" if raw else "'=name", "ms", "large"]
    assert [row[0] for row in rows] == [row[2] for row in rows] == expected
    assert [float(row[1]) for row in rows] == NUMBERS


def test_parquet_has_the_texts_unchanged(tmp_path: Path) -> None:
    write(reader(), str(tmp_path / "answer.parquet"))
    assert parquet.read_table(tmp_path / "answer.parquet")["=name"].to_pylist() == TEXTS
