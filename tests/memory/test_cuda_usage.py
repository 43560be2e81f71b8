"""A graph in PyTorch's caching allocator: the order of allocations, workspaces, and repeated inferences."""

from __future__ import annotations

import pytest

from memory.memory_graphs import one_op
from sizeup.dtypes import dtype, precision
from sizeup.graph import Constant, Graph, GraphBuilder, RecordedRun, Shape
from sizeup.memory import device_memory, usage

KIB, MIB = 1 << 10, 1 << 20
FLOAT = dtype("float32")


def chain(*kinds: str, elements: int = 1 << 20) -> Graph:
    """An input of 4 MiB, a weight of 600 B, and one output of 4 MiB per op; freed after its last use."""
    builder = GraphBuilder("chain", "torch")
    x = builder.input("x", (1, elements), FLOAT)
    weight = builder.tensor("layer.weight", (150,), FLOAT, Constant("parameter"))
    storages = [0, -1]
    for index, kind in enumerate(kinds):
        y = builder.tensor(f"y{index}", (1, elements), FLOAT)
        builder.op(kind, [x, weight], [y], {}, source=f"aten.{kind}", name=kind)
        storages.append(index + 1)
        x = y
    builder.outputs.append(x)
    builder.run = RecordedRun(tuple(storages), ())
    return builder.freeze()


def test_weights_inputs_and_activations_of_a_chain() -> None:
    graph = chain("relu", "relu", "relu")
    memory = device_memory(graph, usage(graph, use_recorded_run=True, on_gpu=True).buffers)
    # The weight: 1,024 B in a small segment. In the large pool, 4 MiB of input and two of three outputs.
    assert memory.weight_bytes == 1_024
    assert memory.allocated_bytes == 1_024 + 3 * 4 * MIB
    assert (memory.reserved_bytes, memory.segments) == (22 * MIB, 2)
    assert memory.blas_workspace_bytes == 0


def test_the_blas_workspace_is_kept_from_the_first_product_on() -> None:
    graph = chain("relu", "matmul", "relu")
    buffers = usage(graph, use_recorded_run=True, on_gpu=True).buffers
    once = device_memory(graph, buffers, blas_workspace_bytes=8_320 * KIB, inferences=1)
    # Input, two activations and 8.125 MiB exceed 20 MiB by 0.125 MiB: a second large segment.
    assert once.allocated_bytes == 1_024 + 3 * 4 * MIB + 8_320 * KIB
    assert once.reserved_bytes == (2 + 20 + 20) * MIB
    assert once.blas_workspace_bytes == 8_320 * KIB
    assert device_memory(graph, buffers, blas_workspace_bytes=8_320 * KIB) == once


def test_the_second_inference_starts_with_the_workspace() -> None:
    """Tensors of 12 MiB in segments of their own, and a product with 512 B of output at the end."""
    builder = GraphBuilder("small end")
    x, a, b = (builder.tensor(name, (1, 3 << 20), FLOAT) for name in "xab")
    c = builder.tensor("c", (1, 1), FLOAT)
    builder.inputs.append(x)
    for kind, before, after in (("relu", x, a), ("relu", a, b), ("matmul", b, c)):
        builder.op(kind, [before], [after], {}, name=kind)
    builder.outputs.append(c)
    graph = builder.freeze()
    first, second = (
        device_memory(graph, usage(graph).buffers, blas_workspace_bytes=32 * MIB, inferences=count)
        for count in (1, 2)
    )
    assert first.allocated_bytes == (12 + 12 + 32) * MIB + 512  # x, b, the workspace and c
    assert second.allocated_bytes == (12 + 12 + 12 + 32) * MIB  # x, a, b and the workspace
    assert first.reserved_bytes == second.reserved_bytes == (12 + 12 + 12 + 32 + 2) * MIB


def test_weights_are_allocated_as_modules_are_moved() -> None:
    """Inner modules come before the parameters of outer ones, which named_parameters lists first."""
    builder = GraphBuilder("model", "torch")
    sizes = {"token": 5, "a.weight": 8, "b.bias": 3, "b.c.weight": 8}
    for name, mebibytes in sizes.items():
        builder.tensor(name, (mebibytes * MIB // 4,), FLOAT, Constant("parameter"))
    x = builder.input("x", (1,), FLOAT)
    builder.outputs.append(x)
    graph = builder.freeze()
    memory = device_memory(graph, usage(graph).buffers)
    # a, b.c and b.bias share 20 MiB, of which the last 1 MiB is not split off; token opens another 20 MiB. In
    # the listed order, token, a and b.bias would leave 4 MiB, and no block would be larger than its weight.
    assert memory.weight_bytes == (8 + 8 + (3 + 1) + 5) * MIB
    assert (memory.reserved_bytes, memory.segments) == ((20 + 20 + 2) * MIB, 3)


def test_a_precision_changes_weights_and_activations() -> None:
    graph = chain("relu", "relu")
    half = precision("fp16")
    buffers = usage(graph, precision=half, use_recorded_run=True, on_gpu=True).buffers
    memory = device_memory(graph, buffers, precision=half)
    assert memory.weight_bytes == 512  # 300 B
    assert memory.allocated_bytes == 512 + 3 * 2 * MIB


def test_a_weight_counts_as_stored_unless_a_precision_is_assumed() -> None:
    builder = GraphBuilder("packed", "torch")
    builder.tensor("weight", (150,), FLOAT, Constant("parameter", stored_bytes=1_500))
    builder.outputs.append(builder.input("x", (1,), FLOAT))
    graph = builder.freeze()
    buffers = usage(graph).buffers
    assert device_memory(graph, buffers).weight_bytes == 1_536
    assert device_memory(graph, buffers, precision=precision("fp16")).weight_bytes == 512  # 300 B


def _attention(number: str, mask: dict[str, tuple[int, ...]]) -> Graph:
    source, shape, keys = "aten.scaled_dot_product_attention", (1, 2, 5, 8), (1, 2, 7, 8)
    return one_op("attention", source, shape, {"q": shape, "k": keys, "v": keys, **mask}, number)


def _conv(weight: Shape, layouts: dict[int, str]) -> Graph:
    side = 9 - weight[2]
    shapes = {"x": (2, 4, 8, 8), "w": weight}
    groups = 4 // weight[1]
    return one_op("conv", "aten.conv2d", (2, 4, side, side), shapes, layouts=layouts, groups=groups)


@pytest.mark.parametrize(
    ("graph", "workspace"),
    [
        # cuDNN chooses its workspace by the free memory; it is not counted.
        (one_op("conv", "aten.conv2d", (2, 4, 6, 6), {"x": (2, 4, 8, 8), "w": (4, 4, 3, 3)}, groups=1), 0),
        # Copies in the layout of the result: of the filter if only the data is channels last, unless it has
        # the same bytes in both layouts; of the data if only the filter is channels last.
        (_conv((4, 4, 3, 3), {0: "channels_last"}), 4 * 4 * 9 * 4),
        (_conv((4, 4, 1, 1), {0: "channels_last"}), 0),
        (_conv((4, 1, 3, 3), {0: "channels_last"}), 0),
        (_conv((4, 4, 3, 3), {0: "channels_last", 1: "channels_last"}), 0),
        (_conv((4, 4, 3, 3), {1: "channels_last"}), 2 * 4 * 64 * 4),
        (_conv((4, 4, 3, 3), {0: "other"}), 2 * 4 * 64 * 4),
        # The indices of the maxima, of 8 B each.
        (one_op("pool", "aten.max_pool2d", (1, 8, 4, 4), {"x": (1, 8, 8, 8)}), 8 * 16 * 8),
        # Mean and reciprocal deviation of 3 x 5 rows.
        (one_op("layer_norm", "aten.layer_norm", (3, 5, 16), {"x": (3, 5, 16), "w": (16,)}), 2 * 15 * 4),
        (one_op("layer_norm", "aten.layer_norm", (3, 5, 16), {"x": (3, 5, 16)}), 2 * 15 * 4),
        # The reciprocal root of 3 rows, each of 5 x 16 numbers.
        (one_op("rms_norm", "aten.rms_norm", (3, 5, 16), {"x": (3, 5, 16), "w": (5, 16)}), 3 * 4),
        # In 16 bits, flash attention returns one sum per query and head.
        (_attention("float16", {}), 2 * 5 * 4),
        # In 32 bits, memory-efficient attention needs none; a boolean mask becomes an additive one.
        (_attention("float32", {"mask": (5, 7)}), 5 * 7 * 4),
        (one_op("matmul", "aten.linear", (4, 8), {"x": (4, 8), "w": (8, 8)}, "bfloat16"), 0),
    ],
)
def test_temporary_tensors_of_kernels_on_a_gpu(graph: Graph, workspace: int) -> None:
    memory = usage(graph, use_recorded_run=True, on_gpu=True)
    listed = [tensor.bytes or 0 for tensor in memory.peak_tensors if tensor.name.startswith("workspace of ")]
    assert sum(listed) == workspace
    assert memory.unmodeled == ()


@pytest.mark.parametrize(
    "graph",
    [
        one_op("lstm", "aten.lstm", (4, 8), {"x": (4, 8)}),
        # Without a batch of heads, attention runs as separate ops.
        one_op("attention", "aten.scaled_dot_product_attention", (2, 5, 8), dict.fromkeys("qkv", (2, 5, 8))),
    ],
)
def test_a_kernel_of_unknown_memory_is_named_on_a_gpu_too(graph: Graph) -> None:
    assert usage(graph, use_recorded_run=True, on_gpu=True).unmodeled == (graph.ops[0].source,)
