"""What runs as one kernel, against what real runtimes ran."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.dtypes import dtype
from sizeup.fusion import FUSIONS, kernels
from sizeup.graph import Constant, Graph, GraphBuilder
from sizeup.latency import execution_of

FLOAT = dtype("float32")


def kinds(graph: Graph, fuses: tuple[str, ...] = ()) -> Counter[str]:
    return Counter("+".join(graph.ops[index].kind for index in ops) for ops in kernels(graph, fuses))


class Network:
    """A graph of named tensors, built by hand."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("by hand")
        self.ids = {"x": self.builder.input("x", (1, 8, 4, 4), FLOAT)}

    def constant(self, name: str, *shape: int) -> None:
        self.ids[name] = self.builder.tensor(name, shape, FLOAT, Constant("parameter"))

    def op(self, kind: str, inputs: str, output: str, **attrs: Any) -> None:
        self.ids[output] = self.builder.tensor(output, (1, 8, 4, 4), FLOAT)
        self.builder.op(kind, [self.ids[each] for each in inputs.split()], [self.ids[output]], attrs)

    def conv(self, inputs: str, output: str) -> None:
        self.constant(f"w_{output}", 8, 8, 1, 1)
        self.op("conv", f"{inputs} w_{output}", output, out_channels=8, kernel=(1, 1))

    def graph(self, *outputs: str) -> Graph:
        self.builder.outputs.extend(self.ids[each] for each in outputs)
        return self.builder.freeze()


def test_without_a_word_every_operator_is_a_kernel_and_views_are_none() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("reshape", "a", "b")
    network.op("relu", "b", "c")
    assert kernels(network.graph("c")) == [(0,), (2,)]


def test_an_activation_is_fused_only_without_another_reader() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("relu", "a", "b")
    network.conv("b", "c")
    network.op("relu", "c", "d")
    network.op("add", "c d", "e")
    graph = network.graph("e")
    assert kernels(graph, ["activation"]) == [(0, 1), (2,), (3,), (4,)]
    assert kernels(graph, ["bias"]) == [(0,), (1,), (2,), (3,), (4,)]


def test_what_leaves_the_graph_is_not_merged_away() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("relu", "a", "b")
    assert kernels(network.graph("a", "b"), ["activation"]) == [(0,), (1,)]


def test_a_residual_joins_the_later_of_two_convolutions() -> None:
    network = Network()
    network.conv("x", "a")
    network.conv("x", "b")
    network.op("add", "a b", "c")
    network.op("relu", "c", "d")
    assert kernels(network.graph("d"), ["add", "activation"]) == [(0,), (1, 2, 3)]
    assert kernels(network.graph("d"), ["activation"]) == [(0,), (1,), (2,), (3,)]


def test_one_activation_ends_a_product() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("relu", "a", "b")
    network.op("sigmoid", "b", "c")
    network.op("add", "c c", "d")
    assert kernels(network.graph("d"), ["activation", "add"]) == [(0, 1), (2,), (3,)]


def test_silu_is_one_kernel_and_a_gate_is_not() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("sigmoid", "a", "b")
    network.op("mul", "a b", "c")
    network.op("sigmoid", "x", "d")
    network.op("mul", "c d", "e")
    assert kernels(network.graph("e"), ["gelu"]) == [(0,), (1, 2), (3,), (4,)]


def test_the_primitives_of_a_layer_norm_are_one_kernel() -> None:
    network = Network()
    for name in ("e", "w", "s"):
        network.constant(name, 1)
    network.op("mean", "x", "m")
    network.op("sub", "x m", "d")
    network.op("pow", "d e", "q")
    network.op("mean", "q", "v")
    network.op("add", "v e", "ve")
    network.op("sqrt", "ve", "r")
    network.op("div", "d r", "n")
    network.op("mul", "n w", "nw")
    network.op("add", "nw s", "y")
    network.op("relu", "y", "z")
    assert kernels(network.graph("z"), ["layer_norm"]) == [tuple(range(9)), (9,)]


def test_pooling_and_conversions_join_what_makes_them() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("pool", "a", "b")
    network.op("quantize", "b", "c")
    graph = network.graph("c")
    assert kernels(graph, ["pool"]) == [(0, 1), (2,)]
    assert kernels(graph, ["pool", "quantize"]) == [(0, 1, 2)]


def test_chains_of_single_numbers_merge_for_a_compiler() -> None:
    network = Network()
    network.op("relu", "x", "a")
    network.op("neg", "a", "b")
    network.op("softmax", "b", "c")
    graph = network.graph("c")
    assert kernels(graph, ["elementwise"]) == [(0, 1), (2,)]
    assert kernels(graph, ["elementwise", "reduction"]) == [(0, 1, 2)]


def test_a_nest_of_loops_writes_what_others_read_and_goes_on() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("batch_norm", "a", "b")
    network.op("relu", "b", "c")
    network.conv("c", "d")
    network.op("batch_norm", "d", "e")
    network.op("add", "c e", "f")
    assert kernels(network.graph("f"), ["loop"]) == [(0,), (1, 2), (3,), (4, 5)]


def test_a_nest_takes_in_branches_that_it_alone_reads() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("batch_norm", "a", "b")
    network.conv("x", "c")
    network.op("batch_norm", "c", "d")
    network.op("add", "b d", "e")
    assert kernels(network.graph("e"), ["loop"]) == [(0,), (2,), (1, 3, 4)]
    assert kernels(network.graph("b", "e"), ["loop"]) == [(0,), (1,), (2,), (3, 4)]


def test_no_nest_waits_for_its_own_result() -> None:
    network = Network()
    network.op("relu", "x", "a")
    network.conv("a", "b")
    network.op("add", "a b", "c")
    network.op("softmax", "c", "d")
    network.op("softmax", "d", "e")
    assert kernels(network.graph("e"), ["loop"]) == [(0,), (1,), (2, 3), (4,)]


def test_what_is_known_before_the_run_is_no_kernel_where_constants_are_folded() -> None:
    network = Network()
    network.constant("k", 1, 8, 4, 4)
    network.op("neg", "k", "a")
    network.op("shape_of", "x", "s")
    network.op("neg", "s", "t")
    network.op("add", "x a", "b")
    graph = network.graph("b")
    assert kernels(graph, ["constant"]) == [(3,)]
    assert kernels(graph) == [(0,), (1,), (2,), (3,)]


def quantized_branch(is_shared: bool) -> Graph:
    """x as int8 into a convolution, whose result goes through int8 into one more, or into two."""
    network = Network()
    network.op("quantize", "x", "xq")
    network.op("dequantize", "xq", "xd")
    network.conv("xd", "a")
    network.op("quantize", "a", "aq")
    network.op("dequantize", "aq", "ad")
    network.conv("ad", "b")
    network.conv("ad" if is_shared else "b", "c")
    return network.graph("b", "c")


def test_numbers_that_two_read_are_computed_in_floats_where_a_runtime_says_so() -> None:
    words = ["quantize", "unshared", "activation", "constant"]
    # A pair of conversions is one kernel, and what quantizes a result is part of what made it.
    assert kernels(quantized_branch(False), words) == [(0, 1), (2, 3, 4), (5,), (6,)]
    assert kernels(quantized_branch(True), ["quantize"]) == [(0, 1), (2, 3, 4), (5,), (6,)]
    assert kernels(quantized_branch(True), words) == [(0,), (1,), (2,), (3,), (4,), (5,), (6,)]


def test_a_result_is_dequantized_by_a_kernel_of_its_own() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("quantize", "a", "q")
    network.op("dequantize", "q", "d")
    assert kernels(network.graph("d"), ["quantize", "unshared"]) == [(0, 1), (2,)]
    assert kernels(network.graph("d"), ["quantize"]) == [(0, 1, 2)]


def test_hard_swish_joins_a_convolution_alone_where_it_may() -> None:
    network = Network()
    network.conv("x", "a")
    network.op("hardswish", "a", "b")
    network.op("hardswish", "b", "c")
    assert kernels(network.graph("c"), ["activation"]) == [(0,), (1,), (2,)]
    assert kernels(network.graph("c"), ["activation", "hardswish"]) == [(0, 1), (2,)]


def test_every_word_is_explained() -> None:
    assert all(text.strip() for text in FUSIONS.values())


def test_a_long_chain_takes_no_longer_per_operator() -> None:
    network = Network()
    network.op("relu", "x", "0")
    for place in range(20_000):
        network.op("neg", str(place), str(place + 1))
    assert kernels(network.graph("20000"), list(FUSIONS)) == [tuple(range(20_001))]


def exported(name: str, path: Path) -> bytes:
    import torch

    from sizeup.formats.torch.zoo import import_torchvision

    module = import_torchvision().models.get_model(name, weights=None).eval()
    torch.onnx.export(module, (torch.zeros(1, 3, 224, 224),), path, dynamo=False, opset_version=17)
    return path.read_bytes()


# Nodes that only change the layout for the next kernel, and those that move nothing.
_BESIDE = ("ReorderInput", "ReorderOutput", "Flatten", "Reshape", "Squeeze")
_CALLED = {
    "Conv": "conv", "FusedConv": "conv", "Gemm": "matmul", "MatMul": "matmul", "FusedMatMul": "matmul",
    "MaxPool": "pool", "GlobalAveragePool": "global_pool", "QuickGelu": "sigmoid+mul", "Mul": "mul",
    "Concat": "concat", "Relu": "relu", "Add": "add",
}  # fmt: skip


@pytest.mark.extras
@pytest.mark.parametrize("family", ["plain", "residual", "inverted", "fire"])
def test_quantized_kernels_are_those_of_onnx_runtimes_own_profile(family: str) -> None:
    from sizeup.calibration import networks
    from sizeup.calibration.write_onnx import onnx_model

    sketch = next(each for each in networks() if (each.family, each.precision) == (family, "int8"))
    content = onnx_model(sketch).SerializeToString()
    ran = Counter(each.op_kind for each in sizeup.measure(content, seconds=0).timing.kernels)
    cost = sizeup.count(content)
    work = execution_of(cost, None, sizeup.target("i7-12700h/ort").runtime.fusions or ()).work
    ours: Counter[str] = Counter()
    for kind, times in zip(work.class_index.tolist(), work.count.tolist(), strict=True):
        name, _, dtype_name = work.names[kind].partition(".")
        if name.startswith(("conv", "depthwise")):
            ours["QLinearConv" if dtype_name else "Conv"] += int(times)
    assert ours == Counter({kind: ran[kind] for kind in ("Conv", "QLinearConv") if ran[kind]})


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "efficientnet_b0", "squeezenet1_1"])
def test_kernels_are_those_of_onnx_runtimes_own_profile(name: str, tmp_path: Path) -> None:
    content = exported(name, tmp_path / "model.onnx")
    profile = sizeup.measure(content, seconds=0).timing.kernels
    ran = Counter(_CALLED[each.op_kind] for each in profile if each.op_kind not in _BESIDE)
    graph = sizeup.load(content)
    merged = sizeup.target("rpi5/ort").runtime.fusions
    assert merged
    first = [graph.ops[ops[0]].kind for ops in kernels(graph, merged)]
    predicted = Counter("sigmoid+mul" if kind == "sigmoid" else kind for kind in first)
    assert predicted == ran


@pytest.mark.extras
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18", "vit_b_16"])
def test_kernels_are_those_of_torchs_own_profile(name: str) -> None:
    measurement = sizeup.measure(f"torchvision:{name}", seconds=0)
    graph = sizeup.load(f"torchvision:{name}")
    predicted = Counter(graph.ops[index].source for (index,) in kernels(graph))
    ran = Counter(each.op_kind.rstrip("_") for each in measurement.timing.kernels)
    assert Counter({kind.rstrip("_"): count for kind, count in predicted.items()}) == ran


@pytest.mark.extras
@pytest.mark.parametrize("name", ["mlperf_vww96_int8", "mlperf_resnet8_fp32", "te_persondet"])
def test_kernels_are_those_that_litert_lists(shared: Path, name: str) -> None:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    path = shared / "models" / f"{name}.tflite"
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_path=str(path), experimental_op_resolver_type=plain)
    listed = Counter(each["op_name"] for each in interpreter._get_ops_details())
    graph = sizeup.load(path)
    predicted = Counter(graph.ops[index].source for (index,) in kernels(graph))
    # A file's activations are in its operators already; reshaping is an operator that copies nothing.
    assert predicted == Counter({op: count for op, count in listed.items() if op != "RESHAPE"})
