from __future__ import annotations

import subprocess
import sys

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


@pytest.mark.parametrize(("name", "means"), [("fp32", "float32"), ("INT8", "int8"), ("bfloat16", "bfloat16")])
def test_a_precision_goes_by_its_short_name_or_its_type(name: str, means: str) -> None:
    assert precision(name) is dtype(means)


def test_every_precision_has_its_own_name_back() -> None:
    assert [precision_name(each) for each in PRECISIONS.values()] == list(PRECISIONS)
    assert precision_name(dtype("uint8")) == "uint8"


@pytest.mark.parametrize("name", ["fp33", "", "uint8", "string"])
def test_an_unknown_precision_names_the_known_ones(name: str) -> None:
    with pytest.raises(SizeupError, match=r"known: fp64, fp32, .*int2"):
        precision(name)


NUMPY = [np.float16, np.dtype("float16"), np.dtype("<f2"), "np.float16", "numpy.float16"]


@pytest.mark.parametrize(
    "name", ["half", "fp16", "FP16", "float16", "torch.float16", "f16", " half ", *NUMPY]
)
def test_half_precision_goes_by_every_name_of_it(name: object) -> None:
    assert precision(name) is dtype("float16")


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("bf16", "bfloat16"),
        ("torch.bfloat16", "bfloat16"),
        ("float", "float32"),
        ("single", "float32"),
        (np.float32, "float32"),
        ("double", "float64"),
        (np.float64, "float64"),
        (np.int8, "int8"),
        (np.dtype("int8"), "int8"),
        ("torch.int8", "int8"),
        ("short", "int16"),
        (DTYPES["int4"], "int4"),
    ],
)
def test_a_precision_goes_by_names_and_types_of_other_libraries(name: object, means: str) -> None:
    assert precision(name) is dtype(means)


def test_types_of_torch_are_precisions() -> None:
    torch = pytest.importorskip("torch")
    names = ("float64", "float32", "float16", "bfloat16", "int16", "int8")
    assert [precision(getattr(torch, name)).name for name in names] == list(names)
    assert precision(torch.half) is dtype("float16")


@pytest.mark.parametrize("name", [np.uint8, np.int32, float, int, 16, None, object()])
def test_other_types_are_no_precisions(name: object) -> None:
    with pytest.raises(SizeupError, match=r"^unknown precision .+; known: fp64"):
        precision(name)


def test_precisions_are_read_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from sizeup.dtypes import precision;"
        " print(precision('torch.half'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "float16\n"
