from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import sizeup
from networks import FLOAT, looping, three_convolutions, tied_embedding, with_unknown
from sizeup.dtypes import dtype
from sizeup.errors import SizeupError
from sizeup.graph import ABSENT, Constant, Graph, GraphBuilder, Shape
from sizeup.ops import Call, OpRule, cost_rule, register
from sizeup.results.explanation import Explanation


def single(
    kind: str,
    inputs: list[Shape | None],
    output: Shape,
    attrs: dict[str, Any] | None = None,
    format: str = "onnx",
) -> Graph:
    """One operator; an input of None is not given."""
    builder = GraphBuilder("single", format)
    identities = [
        ABSENT if shape is None else builder.input(f"in{index}", shape, FLOAT)
        for index, shape in enumerate(inputs)
    ]
    out = builder.tensor("out", output, FLOAT)
    builder.op(kind, identities, [out], attrs, source=kind.title(), name="only")
    return builder.freeze()


def line(explanation: Explanation, label: str) -> str:
    return "; ".join(text for each, text in explanation.lines if each == label)


@pytest.fixture
def own_rules() -> Iterator[None]:
    """The table of rules as it was, once the test that adds to it is over."""
    rules, kinds = dict(cost_rule._RULES), dict(cost_rule._KINDS)
    yield
    cost_rule._RULES.clear()
    cost_rule._RULES.update(rules)
    cost_rule._KINDS.clear()
    cost_rule._KINDS.update(kinds)


def test_formula_names_its_numbers() -> None:
    explanation = sizeup.explain(three_convolutions(), 0)
    assert line(explanation, "MACs") == (
        "output elements 32,768 x (input 1 elements 864 // out_channels 32) = 884,736"
    )
    assert line(explanation, "FLOPs") == "2 x MACs = 1,769,472"
    assert line(explanation, "cost rule") == "Output elements x filter taps x input channels per group."
    assert line(explanation, "module") == "stem.conv"
    assert line(explanation, "input 1") == "stem.conv.weight 32x3x3x3 float32 parameter"


HEADS = (1, 4, 128, 64)
CASES: list[tuple[str, list[Shape | None], Shape, dict[str, Any], int]] = [
    # kind, inputs, output, attributes, MACs worked out by hand
    ("conv", [(1, 3, 9, 9), (8, 3, 3, 3), (8,)], (1, 8, 7, 7), {"out_channels": 8}, 8 * 49 * 27),
    ("conv_transpose", [(1, 4, 5, 5), (4, 2, 3, 3)], (1, 2, 7, 7), {"in_channels": 4}, 100 * 18),
    ("deform_conv", [(1, 3, 9, 9), (8, 3, 3, 3)], (1, 8, 7, 7), {"out_channels": 8}, 8 * 49 * 27),
    ("matmul", [(4, 8), (8, 2)], (4, 2), {"contracted": (1,)}, 64),
    ("matmul", [(3, 4, 8), (4, 8, 2)], (3, 2), {"contracted": (1, 2)}, 6 * 32),
    ("einsum", [(2, 3, 4), (4, 5)], (2, 3, 5), {"terms": ["bld", "de"], "result": "ble"}, 120),
    ("bilinear", [(7, 3), (7, 4), (5, 3, 4)], (7, 5), {}, 7 * 60 + 7 * 5 * 4),
    ("attention", [HEADS, HEADS, HEADS], HEADS, {}, 2 * 4 * 128 * 128 * 64),
    ("attention", [HEADS, HEADS, HEADS], HEADS, {"past": 10}, 2 * 4 * 128 * 138 * 64),
    (
        "lstm",
        [(100, 1, 64), (256, 64), (256, 64)],
        (100, 1, 64),
        {"rows": (0, 1), "matrices": (1, 2), "units": 64},
        100 * 2 * 256 * 64,
    ),
    ("svdf", [(2, 16), (8, 16), (8, 10)], (2, 8), {}, 2 * (128 + 80)),
]


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attrs", "macs"), CASES, ids=lambda value: str(value)[:12]
)
def test_formula_as_printed_computes_the_count(
    kind: str, inputs: list[Shape | None], output: Shape, attrs: dict[str, Any], macs: int
) -> None:
    explanation = sizeup.explain(single(kind, inputs, output, attrs), 0)
    for label in ("MACs", "elementwise"):
        if text := line(explanation, label):
            formula, _, value = text.rpartition(" = ")
            assert evaluated(formula or text) == int((value or text).split()[-1].replace(",", ""))
    text = line(explanation, "MACs")
    assert text.endswith(f"{macs:,}")
    assert "input" in text, "the rule could not be followed"


def evaluated(formula: str) -> int:
    """A printed formula as arithmetic: names dropped, signs as Python writes them."""
    bare = re.sub(r"(input|output)( \d+)?(\[\d+\]| elements)|[a-z_]{2,}", "", formula)
    return int(eval(bare.replace(",", "").replace(" x ", " * ").replace("^", "**")))


def test_elementwise_formula_includes_a_fused_activation() -> None:
    attrs = {"out_channels": 8, "activation": "RELU"}
    explanation = sizeup.explain(single("conv", [(1, 3, 9, 9), (8, 3, 3, 3), (8,)], (1, 8, 7, 7), attrs), 0)
    assert line(explanation, "elementwise") == "output elements 392 + output elements 392 = 784"


def test_bytes_are_shown_tensor_by_tensor() -> None:
    explanation = sizeup.explain(tied_embedding(), 0, precision="fp16")
    assert line(explanation, "read") == (
        "input 0: 32,768 of 256,000 elements, 65,536 B; input 1: 128 elements, 1,024 B"
    )
    assert line(explanation, "written") == "output: 32,768 elements, 65,536 B"


def test_variable_that_is_written_is_named() -> None:
    builder = GraphBuilder()
    handle = builder.input("state", (), dtype("resource"))
    value = builder.input("value", (8,), FLOAT)
    builder.op("assign_variable", [handle, value], [])
    explanation = sizeup.explain(builder.freeze(), 0)
    assert line(explanation, "read") == "input 1: 8 elements, 32 B"
    assert line(explanation, "written") == "input 0: 8 elements, 32 B"


def test_tensor_read_twice_is_named_once() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (8,), FLOAT)
    builder.op("mul", [x, x], [builder.tensor("y", (8,), FLOAT)])
    assert line(sizeup.explain(builder.freeze(), 0), "read") == "input 0: 8 elements, 32 B"


def test_names_that_a_converter_joined_are_cut() -> None:
    builder = GraphBuilder()
    x = builder.input("a" * 100, (8,), FLOAT)
    builder.op("relu", [x], [builder.tensor("y", (8,), FLOAT)])
    assert line(sizeup.explain(builder.freeze(), 0), "input 0") == f"{'a' * 19}...{'a' * 18} 8 float32"


def test_views_move_nothing() -> None:
    explanation = sizeup.explain(single("reshape", [(4, 4)], (16,)), 0)
    assert line(explanation, "read") == "nothing"
    assert line(explanation, "MACs") == "0: no matrix products"


def test_shared_parameters_say_where_they_were_counted() -> None:
    explanation = sizeup.explain(tied_embedding(), 1)
    assert line(explanation, "parameters") == "0: counted at their first use"


def test_unknown_operator_says_how_to_make_it_known() -> None:
    explanation = sizeup.explain(with_unknown(), "mylib.fancy")
    assert line(explanation, "MACs") == "unknown"
    assert line(explanation, "not known") == "no cost rule for mylib.fancy"
    assert "@sizeup.op_rule('mylib.fancy', torch=('mylib.fancy',))" in line(explanation, "cost rule")
    assert "silently give 0" in line(explanation, "other tools")


def test_operator_of_unknown_shape_shows_unknown_not_nothing() -> None:
    explanation = sizeup.explain(with_unknown(), 2)
    assert line(explanation, "written") == "unknown"
    assert line(explanation, "elementwise") == "unknown"


def test_loop_shows_its_body() -> None:
    explanation = sizeup.explain(looping(7), "again")
    assert line(explanation, "body") == "body: 1 op, 64 MACs per run, 7 x"
    assert line(explanation, "MACs") == "448"
    assert (
        line(explanation, "read") == "left: 32 elements, 7 times, 896 B; right: 16 elements, 7 times, 448 B"
    )
    assert "a data-dependent number of times" in line(sizeup.explain(looping(None), 0), "body")


def test_derived_tensor_is_said_to_cost_nothing_in_a_run() -> None:
    builder = GraphBuilder()
    weight = builder.tensor("w", (8,), dtype("float16"), Constant("parameter"))
    wide = builder.tensor("wide", (8,), FLOAT, Constant("derived"))
    builder.op("dequantize", [weight], [wide])
    assert "before the first one" in line(sizeup.explain(builder.freeze(), 0), "counted")


def test_rule_of_a_user_is_followed_too(own_rules: None) -> None:
    @sizeup.op_rule("mylib.fancy", torch=("mylib.fancy",), family="matmul")
    def fancy(call: Call) -> int:
        """Nine taps for each output number."""
        return 9 * call.output.elements

    explanation = sizeup.explain(with_unknown(), 1)
    assert line(explanation, "MACs") == "9 x output elements 32,768 = 294,912"
    assert line(explanation, "cost rule") == "Nine taps for each output number."


@pytest.mark.parametrize(
    "formula",
    [
        lambda call: int(call.output.elements) * 2,
        lambda call: int(call.output.elements * 2.0),
        lambda call: int(str(call.output.elements)) * 2,
        lambda call: 16 if type(call.output.elements) is int else 1 // 0,
    ],
    ids=["cast", "float", "text", "fails when traced"],
)
def test_rule_that_cannot_be_followed_shows_its_number(own_rules: None, formula: Any) -> None:
    register(OpRule("own", "own", "Does as it likes.", formula))
    assert line(sizeup.explain(single("own", [(8,)], (8,)), 0), "MACs") == "16"


def test_attention_says_why_others_miss_it() -> None:
    explanation = sizeup.explain(single("attention", [HEADS, HEADS, HEADS, None], HEADS, format="torch"), 0)
    assert "miss the two products" in line(explanation, "other tools")
    assert line(explanation, "input 3") == "absent"


@pytest.mark.parametrize(
    "wanted", [1, "1", "body.depthwise", "body.depthwise.out", "body.depth*", "*.depthwise"]
)
def test_operator_is_found_by_index_name_tensor_module_and_pattern(wanted: int | str) -> None:
    assert sizeup.explain(three_convolutions(), wanted).indices == (1,)


def test_module_kind_and_shared_tensor_list_their_operators() -> None:
    explanation = sizeup.explain(three_convolutions(), "body")
    assert explanation.indices == (1, 2)
    assert explanation.table is not None
    assert explanation.table.total.macs == 2_392_064
    assert sizeup.explain(three_convolutions(), "aten.conv2d").indices == (0, 1, 2)
    assert sizeup.explain(tied_embedding(), "embedding.weight").indices == (0, 1)


def test_name_that_matches_nothing_gets_the_nearest_ones() -> None:
    with pytest.raises(SizeupError, match=r"nearest: body\.depthwise"):
        sizeup.explain(three_convolutions(), "body.dephtwise")
    with pytest.raises(SizeupError, match=r"operator 3 is out of range \(0 to 2\)"):
        sizeup.explain(three_convolutions(), 3)


def test_report_is_explained_without_reading_again() -> None:
    report = sizeup.analyze(three_convolutions())
    assert sizeup.explain(report, 2).indices == (2,)


def test_text_fits_eighty_columns() -> None:
    for graph in (three_convolutions(), with_unknown(), tied_embedding()):
        for index in range(len(graph.ops)):
            text = str(sizeup.explain(graph, index))
            assert text.startswith(f"operator {index} of")
            assert max(map(len, text.splitlines())) <= 80
    assert "body.depthwise" in str(sizeup.explain(three_convolutions(), "body"))


@pytest.mark.parametrize("format", ["onnx", "tflite"])
def test_onnx_and_tflite_files_get_no_reasons_about_pytorch(format: str) -> None:
    explanation = sizeup.explain(single("attention", [HEADS, HEADS, HEADS, None], HEADS, format=format), 0)
    assert line(explanation, "other tools").startswith("a tool that counts FLOPs shows twice the MACs")
    assert not any(word in line(explanation, "other tools") for word in ("torch", "modules"))
