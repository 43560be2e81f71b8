"""Attributes and constants that lie about sizes: none may lower what the rest of a model costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto

from formats.onnx.making import BOOL, INT64, graph, model, node, numbers, value, weight
from formats.onnx.test_operators import ROWS, Row
from sizeup import cost
from sizeup.cli import main
from sizeup.errors import CorruptModel, SizeupError
from sizeup.formats.onnx import load, load_symbolic

EXTREMES = (-(2**63), -64, -1, 0, 2**31, 2**63 - 1)
# A product of 3 rows with 32 x 64 weights, next to the wrong attribute.
MACS, PARAMS, READ, WRITTEN = 3 * 32 * 64, 32 * 64, (3 * 32 + 32 * 64) * 4, 3 * 64 * 4


def with_product(made: onnx.ModelProto) -> onnx.ModelProto:
    made.graph.node.append(node("MatMul", "left right", "product"))
    made.graph.input.append(value("left", (3, 32)))
    made.graph.initializer.append(weight("right", 32, 64))
    made.graph.output.append(onnx.ValueInfoProto(name="product"))
    return made


def assert_the_rest_counts(made: onnx.ModelProto, what: str) -> None:
    """Either the file is refused, or its totals hold at least the product."""
    try:
        counted = cost.count(load(made))
    except SizeupError:
        return
    moved = counted.bytes_at()
    totals = (counted.total_macs, counted.total_params, cost.total(moved.read), cost.total(moved.written))
    assert all(map(int.__ge__, totals, (MACS, PARAMS, READ, WRITTEN))), f"{what}: {totals}"


def changed_attributes(made: onnx.ModelProto) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Copies of a model, each with one whole number of its first operator's attributes changed."""
    for index, attribute in enumerate(made.graph.node[0].attribute):
        listed = attribute.type == AttributeProto.INTS
        places = range(len(attribute.ints)) if listed else [0] * (attribute.type == AttributeProto.INT)
        for place in places:
            for extreme in EXTREMES:
                copy = onnx.ModelProto()
                copy.CopyFrom(made)
                changed = copy.graph.node[0].attribute[index]
                if listed:
                    changed.ints[place] = extreme
                else:
                    changed.i = extreme
                yield f"{attribute.name}[{place}] = {extreme}", copy


@pytest.mark.parametrize("row", [each for each in ROWS if each.attributes], ids=str)
def test_no_attribute_lowers_what_the_other_operators_cost(row: Row) -> None:
    for what, changed in changed_attributes(with_product(row.model())):
        assert_the_rest_counts(changed, f"{row.op} {what}")


def loop(trips: int, op: str = "Loop") -> onnx.NodeProto:
    body = graph(
        [node("MatMul", "state w", "next"), node("Identity", "cond", "go")],
        [value("i", (), INT64), value("cond", (), BOOL), value("state")],
        "go next",
    )
    return node(op, "n - x", "y", body=body)


def scan() -> onnx.NodeProto:
    body = graph([node("MatMul", "state slice", "next")], [value("state"), value("slice")], "next")
    return node("Scan", "x stack", "y", body=body, num_scan_inputs=1, scan_input_axes=[0])


# Operators whose sizes come from a constant `n`, on x (4, 4), w (4, 4) and stack (5, 4, 4).
SIZED: list[tuple[onnx.NodeProto, list[int]]] = [
    (node("Reshape", "x n", "y"), [2, 8]),
    (node("Tile", "x n", "y"), [2, 3]),
    (node("Expand", "x n", "y"), [3, 4, 4]),
    (node("ConstantOfShape", "n", "y"), [2, 3]),
    (node("Slice", "x n n", "y"), [1]),
    (node("Pad", "x n", "y"), [1, 1, 1, 1]),
    (node("Split", "x n", "y z"), [1, 3]),
    (node("TopK", "x n", "y z"), [2]),
    (node("Gather", "x n", "y"), [1, 2]),
    (node("OneHot", "n n pair", "y"), [3]),
    (node("Resize", "x - - n", "y"), [8, 8]),
    (node("Squeeze", "stack n", "y"), [0]),
    (node("ReduceSum", "x n", "y"), [0]),
    (loop(3), [3]),
]


@pytest.mark.parametrize(("made", "sizes"), SIZED, ids=lambda each: getattr(each, "op_type", None))
def test_no_number_in_a_constant_lowers_what_the_other_operators_cost(
    made: onnx.NodeProto, sizes: list[int]
) -> None:
    for place in range(len(sizes)):
        for extreme in EXTREMES:
            changed = [*sizes[:place], extreme, *sizes[place + 1 :]]
            content: Any = changed[0] if made.op_type == "Loop" else changed
            constants = [weight("w", 4, 4), weight("stack", 5, 4, 4), weight("pair", 2)]
            outputs = " ".join(made.output)
            built = model([made], [value("x", (4, 4))], outputs, [*constants, numbers("n", content)])
            assert_the_rest_counts(with_product(built), f"{made.op_type} {changed}")


@pytest.mark.parametrize("count", [-5, 0, 2])
def test_a_scan_over_inputs_that_are_not_there_is_refused(count: int) -> None:
    made = scan()
    next(each for each in made.attribute if each.name == "num_scan_inputs").i = count
    built = model([made], [value("x", (4, 4)), value("stack", (5, 4, 4))], "y")
    if count == 2:  # both are sequences then, and what they are stepped over differs
        assert_the_rest_counts(with_product(built), "Scan")
        return
    with pytest.raises(CorruptModel, match="num_scan_inputs"):
        load(built)


def test_a_loop_that_never_ends_is_unknown_and_one_without_rounds_costs_nothing() -> None:
    for trips, macs, known in ((-5, 0, True), (3, 3 * 64, True), (2**62, 0, False)):
        built = model([loop(3)], [value("x", (4, 4))], "y", [weight("w", 4, 4), numbers("n", trips)])
        counted = cost.count(load(built))
        assert (counted.total_macs, bool(counted.known.all())) == (macs, known), trips


REFUSED = [
    # ONNX Runtime's own operators, whose shapes no checker of ONNX looks at
    ("com.microsoft::MatMulNBits", {"N": -48}, "attribute N is -48; it must be at least 1"),
    ("com.microsoft::MatMulNBits", {"N": 1}, "N=1 and K=64 need 32 bytes of weights; it has 1,536"),
    ("com.microsoft::MatMulNBits", {"K": 16}, "need 384 bytes of weights"),
    ("com.microsoft::MatMulNBits", {"block_size": 0}, "block_size is 0"),
    ("com.microsoft::MatMulNBits", {"bits": 64}, "bits is 64"),
    ("com.microsoft::MatMulBnb4", {"N": -1}, "attribute N is -1"),
    ("com.microsoft::MatMulBnb4", {"K": 1}, "K=1"),
    ("LSTM", {"hidden_size": -1000}, "hidden_size is -1000; it must be at least 1"),
    ("GRU", {"hidden_size": 1}, "hidden_size is not .*, the size of its recurrent weights"),
    ("MaxPool", {"kernel_shape": [-2, 3]}, "each entry must be at least 1"),
    ("MaxPool", {"strides": [-2, 2]}, "strides"),
    ("AveragePool", {"pads": [-1, 1, 1, 1]}, "padding must not be negative"),
    ("Conv", {"kernel_shape": [8, 8]}, r"kernel_shape is \(8, 8\)"),
    ("LRN", {"size": -9}, "size is -9"),
    ("RoiAlign", {"sampling_ratio": -1}, "sampling_ratio is -1"),
    ("com.microsoft::GroupQueryAttention", {"kv_num_heads": 10**6}, "query heads are not a multiple of"),
    ("com.microsoft::Attention", {"num_heads": -4}, "num_heads is -4"),
    ("com.microsoft::Attention", {"qkv_hidden_sizes": [1, 1, 1]}, "do not match the"),
    ("Split", {"num_outputs": 1}, "num_outputs is 1, but it has 2 outputs"),
]


def lying(op: str, attributes: dict[str, Any]) -> onnx.ModelProto:
    """The first of the hand-counted operators of that name that has these attributes, with others."""
    rows = [each for each in ROWS if each.op == op]
    row = next((each for each in rows if attributes.keys() <= each.attributes.keys()), rows[0])
    made = with_product(row.model())
    kept = [each for each in made.graph.node[0].attribute if each.name not in attributes]
    del made.graph.node[0].attribute[:]
    lies = [onnx.helper.make_attribute(name, each) for name, each in attributes.items()]
    made.graph.node[0].attribute.extend([*kept, *lies])
    return made


@pytest.mark.parametrize(("op", "attributes", "message"), REFUSED, ids=str)
def test_an_attribute_that_lies_is_refused_by_name(op: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptModel, match=message):
        load(lying(op, attributes))


@pytest.mark.parametrize(("op", "attributes", "_message"), REFUSED, ids=str)
def test_a_gate_never_says_yes_to_an_attribute_that_lies(
    op: str, attributes: dict[str, Any], _message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(lying(op, attributes), path)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path), "--macs", "1k", "--strict"])
    assert ended.value.code not in (0, None)
    assert "YES" not in capsys.readouterr().out


def test_heads_that_do_not_divide_their_columns_make_an_unknown_row() -> None:
    """A head of 32 // 2**40 columns would multiply nothing."""
    counted = cost.count(load(lying("com.microsoft::MultiHeadAttention", {"num_heads": 2**40})))
    assert "the 32 columns of input 0 are not a multiple of 1099511627776 heads" in counted.reasons.values()


def test_weights_beside_a_model_take_at_least_their_elements() -> None:
    made = model([node("MatMul", "x w", "y")], [value("x", (1, 512))], "y", [weight("w", 512, 64)])
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", "w.bin"), ("offset", "0"), ("length", "1")):
        tensor.external_data.add(key=key, value=text)
    with pytest.raises(CorruptModel, match=r"needs 131,072 bytes; its region in 'w\.bin' has 1"):
        load(made)


def test_a_product_whose_operands_do_not_fit_is_unknown() -> None:
    """One column instead of 64 would count a 64th of the work."""
    for op in ("MatMul", "com.microsoft::FusedMatMul"):
        counted = cost.count(
            load(model([node(op, "x w", "y")], [value("x", (1, 1))], "y", [weight("w", 64, 64)]))
        )
        assert not counted.known.any()


def test_the_numbers_of_a_packed_table_are_those_of_its_bytes() -> None:
    table = np.zeros((4, 16), np.uint8)
    for bits in (-4, 3, 16):
        made = node("com.microsoft::GatherBlockQuantized", "t i s", "y", bits=bits, block_size=16)
        constants = [numbers("t", table, np.uint8), numbers("i", [0]), weight("s", 4, 2)]
        with pytest.raises(CorruptModel, match=f"bits is {bits}"):
            load(model([made], [value("x", (1,))], "y", constants))


def test_what_ends_onnx_itself_is_refused_with_free_dimensions_too() -> None:
    made = model([node("Split", "x", "y z", num_outputs=1)], [value("x", ("batch", 6))], "y z")
    with pytest.raises(CorruptModel, match="num_outputs is 1, but it has 2 outputs"):
        load_symbolic(made, True)
