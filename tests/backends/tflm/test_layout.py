"""Structures of the interpreter against the layout that the C compiler's rules give (by ctypes)."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup.backends.tflm.kernels import KERNELS
from sizeup.backends.tflm.layout import ARM_FIRMWARE, FIRMWARE, PYTHON_PACKAGE, Build, extent

_TYPES = {"l": ctypes.c_int64, "i": ctypes.c_int32, "h": ctypes.c_int16, "b": ctypes.c_int8}
_WIDE = Build(8, 4)
# The types of pointers and of enumerations with few values, which are bytes in Arm's embedded ABI.
_ABIS = [
    (PYTHON_PACKAGE, ctypes.c_int64, ctypes.c_int32),
    (FIRMWARE, ctypes.c_int32, ctypes.c_int32),
    (ARM_FIRMWARE, ctypes.c_int32, ctypes.c_int8),
]


@given(st.text("pelihb", max_size=12), st.sampled_from(_ABIS))
def test_a_structure_is_laid_out_as_in_c(fields: str, abi: tuple[Build, Any, Any]) -> None:
    build, pointer, enumeration = abi
    types = {**_TYPES, "p": pointer, "e": enumeration}

    class Structure(ctypes.Structure):
        _fields_ = [(f"field{n}", types[letter]) for n, letter in enumerate(fields)]

    assert extent(fields, build) == (ctypes.sizeof(Structure), ctypes.alignment(Structure))


def test_numbers_repeat_a_field() -> None:
    assert extent("3i2p", _WIDE) == extent("iiipp", _WIDE) == (32, 8)


def test_fields_behind_the_bar_need_compression() -> None:
    assert extent("i|2i", FIRMWARE).size == 4
    assert extent("i|2i", PYTHON_PACKAGE).size == 12


@pytest.mark.parametrize(("name", "wide", "narrow"), [("CONV_2D", 80, 56), ("FULLY_CONNECTED", 72, 48)])
def test_kernels_data_in_both_builds(name: str, wide: int, narrow: int) -> None:
    """Sixteen bytes of padding sizes and eight further numbers around two pointers, for instance."""
    memory = KERNELS[name].memory
    assert memory is not None
    assert extent(memory.data, PYTHON_PACKAGE).size == wide
    assert extent(memory.data, FIRMWARE).size == narrow
