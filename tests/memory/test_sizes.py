"""Unknown sizes, and sizes beyond the supported maximum."""

from __future__ import annotations

import pytest

from sizeup.dtypes import dtype
from sizeup.errors import InvalidGraph
from sizeup.graph import Graph, GraphBuilder
from sizeup.memory import usage


def chain(shape: tuple[int, ...], kind: str, length: int = 1) -> Graph:
    builder = GraphBuilder("chain")
    last = builder.input("x", shape, dtype(kind))
    for number in range(length):
        output = builder.tensor(f"y{number}", shape, dtype(kind))
        builder.op("sub", [last, last], [output])
        last = output
    builder.outputs.append(last)
    return builder.freeze()


def test_strings_have_no_size_that_is_known_and_none_is_not_zero() -> None:
    assert usage(chain((4,), "string")).unknown_sizes == 2
    assert usage(chain((0,), "string")).unknown_sizes == 0  # nothing takes nothing
    assert usage(chain((4,), "float32")).unknown_sizes == 0


@pytest.mark.parametrize("power", [55, 59, 60, 61, 62, 80])
def test_a_tensor_that_fits_no_machine_is_refused(power: int) -> None:
    with pytest.raises(InvalidGraph, match="'x' takes more than 64 PiB"):
        chain((1 << power,), "float32")


@pytest.mark.parametrize("length", [63, 64, 127, 128])
def test_tensors_that_fit_no_machine_together_are_refused_and_never_negative(length: int) -> None:
    with pytest.raises(InvalidGraph, match="B in total; at most 4,611,686,018,427,387,904 B are supported"):
        usage(chain((1 << 54,), "float32", length))


def test_what_a_very_large_machine_has_is_still_counted() -> None:
    assert usage(chain((1 << 50,), "float32")).peak_bytes == 2 * 4 << 50
