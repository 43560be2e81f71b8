"""Kernels of a profile and the modules that they belong to; what matches nothing is not given away."""

from __future__ import annotations

import pytest

from networks import three_convolutions
from sizeup import targets
from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.runtimes import Kernel
from sizeup.runtimes.profiles import attribute, by_module, macs_of

FLOAT = dtype("float32")
STEM, DEPTHWISE, POINTWISE = (1024 * each for each in (32 * 27, 32 * 9, 64 * 32))


def two_layers() -> Graph:
    """As an ONNX file: two products of 8 x 16 x 16, each in its own module, the first with a ReLU."""
    builder = GraphBuilder("two_layers", "onnx")
    value = builder.input("x", (8, 16), FLOAT)
    for name in ("first", "second"):
        weights = builder.tensor(f"{name}.w", (16, 16), FLOAT, Constant("parameter"))
        product = builder.tensor(f"/{name}/out", (8, 16), FLOAT)
        builder.op(
            "matmul", [value, weights], [product], {"contracted": (1,)}, source="MatMul",
            name=f"/{name}/MatMul", scope=name,
        )  # fmt: skip
        value = builder.tensor(f"/{name}/act/out", (8, 16), FLOAT)
        builder.op(
            "relu", [product], [value], {}, source="Relu", name=f"/{name}/act/Relu", scope=f"{name}.act"
        )
    builder.outputs.append(value)
    return builder.freeze()


def test_a_fused_kernel_belongs_to_the_module_that_computes_whatever_its_name() -> None:
    cost = count(two_layers())
    kernels = [
        Kernel("/first/act/Relu", "FusedGemm", 3e-6),
        Kernel("/second/MatMul_nchwc", "MatMul", 2e-6),
        Kernel("/second/act/Relu", "Relu", 1e-6),
        Kernel("ReorderOutput", "ReorderOutput", 4e-6),
    ]
    attributed = attribute(cost, kernels, ("activation",))
    assert [each.module for each in attributed] == ["first", "second", "second.act", None]
    macs = [None if each.ops is None else macs_of(cost, each.ops) for each in attributed]
    assert macs == [8 * 16 * 16, 8 * 16 * 16, 0, None]


def test_rows_add_up_and_unmatched_kernels_are_a_row_without_a_rate() -> None:
    cost = count(two_layers())
    kernels = [Kernel("/first/MatMul", "MatMul", 3e-6), Kernel("mystery", "Gemm", 5e-6)]
    target = targets.target("rpi5/ort")
    first, rest = by_module(cost, attribute(cost, kernels, ()), target, ())
    assert (first.module, first.kernels, first.seconds, first.macs) == ("first", 1, 3e-6, 2048)
    assert first.compute_share == pytest.approx(2048 / 3e-6 / (4 * 2.4e9 * 8))
    assert (rest.module, rest.kernels, rest.seconds, rest.macs) == (None, 1, 5e-6, 2048)
    assert rest.macs_per_second is rest.compute_share is None


def test_two_kernels_of_one_operator_do_not_compute_it_twice() -> None:
    cost = count(two_layers())
    kernels = [Kernel(f"/first/MatMul{end}", "MatMul", 1e-6) for end in ("", "_token_1")]
    (first, _) = by_module(cost, attribute(cost, kernels, ()), None, ())
    assert (first.kernels, first.macs) == (2, 2048)


def conv(place: int, module: str | None) -> Kernel:
    return Kernel(f"conv2d_{place}", "aten.conv2d", 1e-6, module=module)


def test_modules_that_the_runtime_tells_are_taken_as_they_are() -> None:
    graph = three_convolutions()
    cost = count(graph)
    kernels = [conv(place, op.scope) for place, op in enumerate(graph.ops)]
    attributed = attribute(cost, kernels, ())
    assert [each.module for each in attributed] == [op.scope for op in graph.ops]
    assert [macs_of(cost, each.ops or ()) for each in attributed] == [STEM, DEPTHWISE, POINTWISE]
    assert sum(row.macs or 0 for row in by_module(cost, attributed, None, ())) == cost.total_macs


def test_without_modules_pytorch_kernels_match_only_if_none_is_missing() -> None:
    graph = three_convolutions()
    cost = count(graph)
    all_of_them = attribute(cost, [conv(place, None) for place in range(3)], ())
    assert [each.module for each in all_of_them] == [op.scope for op in graph.ops]
    two = attribute(cost, [conv(place, None) for place in range(2)], ())
    assert [(each.module, each.ops) for each in two] == [(None, None)] * 2
    (rest,) = by_module(cost, two, None, ())
    assert (rest.module, rest.kernels, rest.macs) == (None, 2, cost.total_macs)
