from __future__ import annotations

import numpy as np
import pytest

from sizeup.dtypes import DTYPES, PRECISIONS, dtype, precision, precision_name
from sizeup.errors import SizeupError


@pytest.mark.parametrize("name", [name for name in DTYPES if hasattr(np, name)])
def test_widths_agree_with_numpy(name: str) -> None:
    if name != "string":
        assert dtype(name).bits == 8 * np.dtype(name).itemsize


@pytest.mark.parametrize(
    ("name", "bits"),
    [("bfloat16", 16), ("float8_e5m2", 8), ("float4_e2m1fn", 4), ("int4", 4), ("uint2", 2), ("int1", 1)],
)
def test_widths_that_numpy_does_not_have(name: str, bits: int) -> None:
    assert dtype(name).bits == bits


def test_a_string_has_no_fixed_width() -> None:
    assert dtype("string").bits == 0
    assert dtype("string").family == "opaque"


def test_a_type_reads_as_its_name() -> None:
    assert str(dtype("float16")) == "float16"


@pytest.mark.parametrize(
    ("asked", "means"), [("fp32", "float32"), ("INT8", "int8"), ("bfloat16", "bfloat16")]
)
def test_a_precision_goes_by_its_short_name_or_its_type(asked: str, means: str) -> None:
    assert precision(asked) is dtype(means)


def test_every_precision_has_its_own_name_back() -> None:
    assert [precision_name(each) for each in PRECISIONS.values()] == list(PRECISIONS)
    assert precision_name(dtype("uint8")) == "uint8"


@pytest.mark.parametrize("asked", ["fp33", "", "uint8", "string"])
def test_an_unknown_precision_names_the_known_ones(asked: str) -> None:
    with pytest.raises(SizeupError, match=r"known are fp64, fp32, .*int2"):
        precision(asked)
