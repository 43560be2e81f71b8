"""The table of rules: how it is kept, and whether the formats know the names in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sizeup.cost import count
from sizeup.dtypes import dtype
from sizeup.errors import RuleError
from sizeup.graph import Dim, GraphBuilder
from sizeup.ops import Call, OpRule, cost_rule_of, cost_rules, op_kind_of, op_rule, register
from sizeup.ops.cost_rule import _KINDS, _RULES, names


@pytest.fixture
def own_table() -> Iterator[None]:
    """Whatever a test registers is forgotten after it."""
    kept, kinds = dict(_RULES), dict(_KINDS)
    yield
    _RULES.clear()
    _RULES.update(kept)
    _KINDS.clear()
    _KINDS.update(kinds)


def test_names_are_split_at_white_space_and_a_dash_is_none() -> None:
    assert names("Conv  ConvInteger\n QLinearConv") == ("Conv", "ConvInteger", "QLinearConv")
    assert names("-") == ()


def test_a_name_leads_to_its_kind_in_its_own_format_only() -> None:
    assert (
        op_kind_of("onnx", "Conv")
        == op_kind_of("tflite", "CONV_2D")
        == op_kind_of("torch", "aten.conv2d")
        == "conv"
    )
    assert op_kind_of("tflite", "Conv") is None
    assert cost_rule_of("no such kind") is None


def test_no_two_rules_claim_a_name() -> None:
    claimed = [
        (f, name) for rule in cost_rules() for f in ("torch", "onnx", "tflite") for name in getattr(rule, f)
    ]
    assert len(claimed) == len(set(claimed))


def test_every_rule_says_in_a_sentence_what_it_counts() -> None:
    wrong = [rule.kind for rule in cost_rules() if not rule.summary.endswith(".") or "  " in rule.summary]
    assert wrong == []


def test_a_view_neither_computes_nor_moves() -> None:
    for rule in cost_rules():
        if rule.views:
            assert rule.macs is rule.elementwise is None, rule.kind
            assert rule.reads is not None, rule.kind
            assert rule.writes is not None, rule.kind
            assert not rule.overwrites, rule.kind


def test_an_operator_that_reads_elements_again_or_elsewhere_does_not_run_in_place() -> None:
    rules = {rule.kind: rule for rule in cost_rules()}
    # Pairs of elements are rotated, halves multiplied, elements of two vectors combined, edges searched.
    assert not any(rules[kind].overwrites for kind in ("rotary", "glu", "outer", "bucketize"))
    assert not any(rules[kind].overwrites for kind in ("conv", "matmul", "attention", "pool", "gather"))
    assert all(rules[kind].overwrites for kind in ("relu", "add", "quantize"))


def test_the_weight_is_the_input_that_the_formats_define() -> None:
    """`aten.embedding(weight, indices)`, SVDF(input, features, times, ...), and so on."""
    positions = {rule.kind: rule.weight for rule in cost_rules() if rule.family != "own"}
    second = "conv conv_transpose deform_conv matmul grouped_matmul fused_attention attention_layer svdf"
    assert {kind: position for kind, position in positions.items() if position is not None} == {
        **dict.fromkeys(["embedding", "embedding_bag", "gather_dequantize", "sparse_matmul"], 0),
        **dict.fromkeys([*second.split(), "embedding_lookup"], 1),
        **dict.fromkeys(["bilinear", "embed_layer_norm"], 2),
    }


def test_running_statistics_are_not_trained() -> None:
    """Inputs 3 and 4 of ONNX's BatchNormalization are mean and variance."""
    for kind in ("batch_norm", "batch_norm_training"):
        rule = cost_rule_of(kind)
        assert rule is not None
        assert rule.buffers == (3, 4)


@pytest.mark.usefixtures("own_table")
def test_a_user_adds_a_rule_from_outside() -> None:
    @op_rule("triple", torch=["mylib.triple"], elementwise=lambda call: 2 * call.output.elements)
    def triple(call: Call) -> Dim:
        """Three products
        for each output number."""
        return 3 * call.output.elements

    assert op_kind_of("torch", "mylib.triple") == "triple"
    rule = cost_rule_of("triple")
    assert rule is not None
    assert rule.summary == "Three products for each output number."
    builder = GraphBuilder()
    x = builder.input("x", (2, 5), dtype("float32"))
    builder.op("triple", [x], [builder.tensor("y", (2, 5), dtype("float32"))])
    cost = count(builder.freeze())
    assert (cost.total_macs, cost.total_elementwise, cost.known.tolist()) == (30, 20, [True])


@pytest.mark.usefixtures("own_table")
def test_a_rule_is_replaced_only_on_request() -> None:
    mine = OpRule("relu", "own", "Mine.", onnx=("Relu",))
    with pytest.raises(RuleError, match=r"'relu' already has a cost rule; pass replace=True"):
        register(mine)
    register(mine, replace=True)
    assert cost_rule_of("relu") is mine


@pytest.mark.usefixtures("own_table")
def test_a_name_that_is_taken_is_refused_and_nothing_is_registered() -> None:
    with pytest.raises(RuleError, match=r"onnx operator 'Relu' already belongs to 'relu'"):
        register(OpRule("mine", "own", "Mine.", onnx=("Relu",)))
    assert cost_rule_of("mine") is None


# Operators of libraries that are not installed with the extras.
ELSEWHERE = ("torchvision.", "transformers.", "torchao.", "quantized_decomposed.", "higher_order.")


@pytest.mark.slow
@pytest.mark.extras
def test_torch_has_every_name_that_is_called_torchs() -> None:
    import torch
    import torch.nn.attention.varlen  # registers an operator

    missing = []
    for rule in cost_rules():
        for name in rule.torch:
            namespace, _, rest = name.partition(".")
            packet, _, overload = rest.partition(".")
            if rule.family == "own" or name.startswith(ELSEWHERE):
                continue
            found = getattr(getattr(torch.ops, namespace), packet, None)
            if found is None or (overload and overload not in found.overloads()):
                missing.append(name)
    assert missing == []


def tagged(tag: str) -> set[str]:
    """Names of ATen's operators that torch gives a tag, in any of their overloads."""
    import torch

    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten":
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            found |= {packet} if getattr(torch.Tag, tag) in operator.tags else set()
    return found


@pytest.mark.extras
def test_what_torch_calls_pointwise_is_elementwise_here() -> None:
    others = {name for rule in cost_rules() if rule.family != "elementwise" for name in rule.torch}
    # A copy and a plus sign compute nothing; the others are reductions in their other overloads.
    assert {name for name in tagged("pointwise") if f"aten.{name}" in others} == {
        *("clone", "positive"),
        *("equal", "max", "min"),
    }


@pytest.mark.extras
def test_core_aten_is_covered_but_for_what_is_listed() -> None:
    core = tagged("core")
    assert len(core) > 100
    without_rule = {name for name in core if op_kind_of("torch", f"aten.{name.removesuffix('_')}") is None}
    # Training, and transforms whose work depends on the algorithm.
    assert {name for name in without_rule if not name.endswith("_backward")} == {
        "_fft_c2r",
        "_fft_r2c",
    }


@pytest.mark.extras
def test_onnx_has_every_name_that_is_called_onnxs() -> None:
    from onnx import defs

    standard = {schema.name for schema in defs.get_all_schemas_with_history() if not schema.domain}
    # Written by onnxruntime's optimizer under the standard domain.
    beyond = {"SimplifiedLayerNormalization"}
    plain = {name for rule in cost_rules() if rule.family != "own" for name in rule.onnx if "::" not in name}
    assert plain - standard <= beyond


@pytest.mark.extras
def test_onnxruntime_has_every_name_that_is_called_its_own() -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    contributed = {
        f"{schema.domain}::{schema.name}" for schema in state.get_all_operator_schema() if schema.domain
    }
    ours = {name for rule in cost_rules() for name in rule.onnx if name.startswith("com.microsoft::")}
    assert ours - contributed == set()


@pytest.mark.extras
def test_every_onnx_operator_has_a_rule_but_for_what_is_listed() -> None:
    from onnx import defs

    standard = {
        schema.name for schema in defs.get_all_schemas() if not schema.domain and not schema.deprecated
    }
    assert {name for name in standard if op_kind_of("onnx", name) is None} == {
        *("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"),  # strings
        *("DFT", "STFT"),  # the work depends on the algorithm
        "ImageDecoder",  # and here on the data
        *("CausalConvWithState", "LinearAttention"),
    }
