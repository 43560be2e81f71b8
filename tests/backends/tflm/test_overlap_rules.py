"""Which inputs an output may overlap, by operands and options that no converter writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sizeup.backends.tflm.head import HeadBuffers
from sizeup.backends.tflm.overlap import OVERLAPPING, overlaps
from sizeup.dtypes import dtype
from sizeup.graph import ABSENT, Constant, GraphBuilder, Shape
from sizeup.memory import buffer_liveness

X, AMOUNTS = 0, 1  # the input and the constant of `permitted`
BOTH = (X, AMOUNTS)


def permitted(
    source: str,
    data: Shape,
    result: Shape,
    dtypes: str = "int8 int8",
    inputs: tuple[int, ...] = BOTH,
    amounts: Any = ((1, 1),),
    **attrs: Any,
) -> list[tuple[int, bool]]:
    """Distance, and whether only the same offset, for the input of an operator."""
    read, written = map(dtype, dtypes.split())
    builder = GraphBuilder("one", "tflite")
    x = builder.input("x", data, read)
    content = np.array(amounts, np.int32)
    builder.tensor("amounts", content.shape, dtype("int32"), Constant("constant", read=lambda: content))
    y = builder.tensor("y", result, written)
    builder.op("op", [*inputs], [y], attrs, source=source)
    builder.outputs.append(y)
    graph = builder.freeze()
    assert x == X
    head = HeadBuffers(buffer_liveness(graph, aliases=False), (), ())
    return [(overlap.distance, overlap.in_place) for overlap in overlaps(graph, head)]


@pytest.mark.parametrize("source", sorted(OVERLAPPING))
@pytest.mark.parametrize("inputs", [(), (ABSENT,), (ABSENT, ABSENT)])
def test_operators_without_inputs_overlap_none(source: str, inputs: tuple[int, ...]) -> None:
    assert permitted(source, (4, 4), (4, 4), inputs=inputs, stride=(1, 1), kernel=(1, 1)) == []


def test_distances_by_hand() -> None:
    assert permitted("RELU", (4,), (4,), inputs=(X,)) == [(0, False)]
    # After number 2, 12 B are written; number 3 is read 3 B after the first.
    assert permitted("DEQUANTIZE", (4,), (4,), "int8 float32", inputs=(X,)) == [(9, False)]
    # One 0 is written before the first number.
    assert permitted("PAD", (2,), (4,)) == [(1, False)]
    assert permitted("PAD", (2,), (4,), "float32 float32") == [(4, False)]
    assert permitted("RESHAPE", (2, 2), (4,)) == [(0, True)]


@pytest.mark.parametrize(
    ("dtypes", "inputs"),
    [
        ("int8 int16", BOTH),
        ("int16 int8", BOTH),
        ("int32 int32", BOTH),
        ("int8 int8", (X,)),
        ("int8 int8", (X, ABSENT)),
        ("int8 int8", (X, AMOUNTS, X)),  # also the number to pad with, which is read until the end
    ],
)
@pytest.mark.parametrize("source", ["PAD", "PADV2"])
def test_padding_of_other_dtypes_and_operands_overlaps_nothing(
    source: str, dtypes: str, inputs: tuple[int, ...]
) -> None:
    assert permitted(source, (1,), (3,), dtypes, inputs) == []


def test_a_copy_to_another_dtype_overlaps_nothing() -> None:
    assert permitted("RESHAPE", (2, 2), (4,), "int8 int16") == []


def test_products_without_weights_overlap_nothing() -> None:
    assert permitted("FULLY_CONNECTED", (2, 3), (2, 4), amounts=np.zeros((4, 3))) != []
    for inputs in ((X,), (X, ABSENT)):
        assert permitted("FULLY_CONNECTED", (2, 3), (2, 4), inputs=inputs) == []


@pytest.mark.parametrize(
    ("options", "is_permitted"),
    [
        ({}, True),
        ({"groups": 1}, True),
        ({"groups": 0}, False),
        ({"groups": 3}, False),
        ({"padding": "same"}, False),
        ({"padding": None}, False),
        ({"stride": (0, 1)}, False),
        ({"dilation": (1, 0)}, False),
        ({"kernel": (0, 2)}, False),
    ],
)
def test_windows_that_do_not_make_their_output_overlap_nothing(
    options: dict[str, Any], is_permitted: bool
) -> None:
    attrs = {"kernel": (2, 2), "stride": (1, 1), "padding": "valid", **options}
    overlapped = permitted("MAX_POOL_2D", (1, 4, 4, 2), (1, 3, 3, 2), inputs=(X,), **attrs)
    assert bool(overlapped) == is_permitted
