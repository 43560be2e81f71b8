"""Results as JSON from a worker that may be in the hands of whoever wrote the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.checks.limits import Contribution, Limit
from sizeup.results.check import Check
from sizeup.workers.plain_data import decode, encode

numbers = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
contributions = st.builds(Contribution, st.text(), st.none() | st.floats(allow_nan=False))
limits = st.builds(
    Limit, st.text(), st.just("bytes"), *[st.none() | st.floats(allow_nan=False)] * 3,
    unknown=st.tuples(st.text()), largest=st.tuples(contributions),
)  # fmt: skip
values = st.recursive(
    numbers | limits,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_checks_paths_and_numbers_of_numpy_are_read() -> None:
    check = Check("model.onnx", "model", limits=(Limit("ram", "bytes", 1.0, np.float64(2), None),))
    assert decode(json.loads(json.dumps(encode((check, Path("here")))))) == (check, Path("here"))


def test_functions_are_refused() -> None:
    with pytest.raises(TypeError, match="not plain data"):
        encode(Check("model", "model", limits=(print,)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        {"class": "os:_Environ", "fields": {}},
        {"class": "sizeup.files:write_text", "fields": {}},
        {"class": "sizeup.workers.supervisor:subprocess", "fields": {}},
        {"class": "sizeup.workers.supervisor:Supervisor", "fields": {}},
        {"class": "sizeup.api.check:Check", "fields": {}},
        {"class": "sizeup.__main__:x", "fields": {}},
        {"class": "sizeup.checks.limits:Contribution", "fields": {"name": "a"}},
        {"class": "sizeup.checks.limits:Contribution", "fields": {"name": "a", "amount": 1, "fits": True}},
        {"class": 5, "fields": {}},
        {"tuple": 5},
        {"pickle": "gASVAA=="},
        {"tuple": [], "list": []},
        {},
        [1],
    ],
)
def test_other_answers_are_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(answer)
