"""Recorded requests from a CSV file with the columns `arrival_s`, `input` and `output`."""

from __future__ import annotations

import math
import os
import re

import numpy as np

from sizeup.errors import SizeupError
from sizeup.formats.csv_tables import read_table
from sizeup.serving.times.scheduler import Requests
from sizeup.units import quoted

_COLUMNS = ("arrival_s", "input", "output")
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_TOKENS = re.compile(r"[1-9]\d{0,8}")


def read_requests(file: str | os.PathLike[str], max_context: int | None = None) -> Requests:
    """The requests of a file in order of arrival.

    Raises SizeupError, with the line, if the file is not such a table, or a request exceeds the context.
    """
    name = os.fspath(file)
    rows = []
    for place, (arrival, *counts) in read_table(name, _COLUMNS, "requests"):
        if not _SECONDS.fullmatch(arrival):
            raise SizeupError(f"{place}: arrival_s {quoted(arrival)} is not a number of seconds such as 12.5")
        for column, count in zip(_COLUMNS[1:], counts, strict=True):
            if not _TOKENS.fullmatch(count):
                raise SizeupError(f"{place}: {column} {quoted(count)} is not a number of tokens such as 1024")
        tokens, answer = map(int, counts)
        if tokens + answer > (max_context or math.inf):
            raise SizeupError(f"{place}: {tokens + answer:,} tokens exceed the context of {max_context:,}")
        rows.append((float(arrival), tokens, answer))
    if not rows:
        raise SizeupError(f"{name}: no request")
    arrivals, inputs, outputs = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    return Requests(np.array(arrivals), np.array(inputs, np.int64), np.array(outputs, np.int64))
