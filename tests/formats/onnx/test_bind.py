"""Free dimensions: what is asked for, and how it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from formats.onnx.making import count, model, node, shapes, value, weight
from sizeup.errors import LoadError, UnboundDimension
from sizeup.formats.onnx import load


def free() -> onnx.ModelProto:
    """(batch, sequence, 3) @ (3, 4), and a second input with the same batch and an axis without a name."""
    return model(
        [node("MatMul", "x w", "y"), node("Relu", "z", "z2")],
        [value("x", ("batch", "sequence", 3)), value("z", ("batch", None))],
        [value("y", ("batch", "sequence", 4)), value("z2", ("batch", None))],
        [weight("w", 3, 4)],
    )


def test_every_open_dimension_is_named_with_the_flag_that_binds_it() -> None:
    with pytest.raises(UnboundDimension) as caught:
        load(free())
    text = str(caught.value)
    assert "batch (x axis 0, z axis 0)" in text
    assert "sequence (x axis 1)" in text
    assert "--bind batch=1 --bind sequence=1 --bind z.1=1" in text


@pytest.mark.parametrize(
    "options",
    [
        {"bind": {"batch": 2, "sequence": 5, "z.1": 7}},
        {"bind": {"x.0": 2, "x.1": 5, "z.0": 2, "z.1": 7}},
        {"inputs": {"x": (2, 5, 3), "z": (2, 7)}},
        {"inputs": {"x": np.zeros((2, 5, 3)), "z": [2, 7]}},
        {"inputs": {"x": (2, 5, 3)}, "bind": {"z.1": 7}},
        {"bind": {"batch": np.int64(2), "sequence": 5, "z.1": 7}},
    ],
)
def test_dimensions_are_bound_by_name_by_place_and_by_shape(options: dict[str, Any]) -> None:
    cost = count(free(), **options)
    assert shapes(cost.graph)["y"] == (2, 5, 4)
    assert shapes(cost.graph)["z2"] == (2, 7)
    assert cost.total_macs == 2 * 5 * 4 * 3


def test_partly_bound_asks_for_the_rest_only() -> None:
    with pytest.raises(UnboundDimension) as caught:
        load(free(), bind={"batch": 1, "z.1": 1})
    assert "--bind sequence=1" in str(caught.value)
    assert "--bind batch" not in str(caught.value)


def test_name_with_a_space_is_quoted_for_the_shell() -> None:
    with pytest.raises(UnboundDimension, match="--bind 'batch size=1'"):
        load(model([node("Relu", "x", "y")], [value("x", ("batch size",))]))


def test_misspelled_dimension_names_the_nearest() -> None:
    with pytest.raises(LoadError, match=r"no dimension 'bach'; did you mean 'batch'"):
        load(free(), bind={"bach": 1, "sequence": 1, "z.1": 1})
    with pytest.raises(LoadError, match=r"it has 'batch', 'sequence', 'z\.1'"):
        load(free(), bind={"qqqqqq": 1})


def test_misspelled_input_names_the_nearest() -> None:
    made = model([node("Relu", "tokens", "y")], [value("tokens", ("n",))])
    with pytest.raises(LoadError, match=r"no input 'token'; did you mean 'tokens'"):
        load(made, inputs={"token": (3,)})


def test_model_without_free_dimensions_refuses_a_name() -> None:
    with pytest.raises(LoadError, match="no symbolic dimension"):
        load(model([node("Relu", "x", "y")], [value("x", (2,))]), bind={"batch": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": {"x": (2, 5, 3)}, "bind": {"batch": 3, "z.1": 1}}, "'batch' has two sizes: 3 and 2"),
        ({"inputs": {"x": (2, 5, 3), "z": (3, 1)}}, "'batch' has two sizes: 2 and 3"),
        ({"inputs": {"x": (2, 5, 9), "z": (2, 1)}}, "axis 2 of input 'x' is 3 in the model, not 9"),
        ({"inputs": {"x": (2, 5)}}, "has 3 dimensions, not 2"),
        ({"inputs": {"x": (2, -5, 3)}}, "negative size"),
        ({"inputs": {"x": ("a", 5, 3)}}, "must be integers"),
        ({"bind": {"batch": -1}}, "cannot have the size -1"),
        ({"bind": {"batch": 1.5}}, "cannot have the size 1.5"),
        ({"bind": {"batch": True}}, "cannot have the size True"),
    ],
)
def test_sizes_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        load(free(), **options)


def test_size_may_be_zero() -> None:
    assert count(free(), bind={"batch": 0, "sequence": 5, "z.1": 1}).total_macs == 0


def test_input_without_a_shape_is_asked_for_whole() -> None:
    made = model([node("Relu", "x", "y")], [value("x")])
    with pytest.raises(UnboundDimension, match=r"x \(full shape\).*--input x:"):
        load(made)
    assert shapes(load(made, inputs={"x": (2, 3)}))["y"] == (2, 3)


def test_minus_one_means_open() -> None:
    made = model([node("Relu", "x", "y")], [value("x", (-1, 3))])
    with pytest.raises(UnboundDimension, match=r"--bind x\.0=1"):
        load(made)
    assert shapes(load(made, bind={"x.0": 4}))["y"] == (4, 3)


def test_names_of_data_dependent_dimensions_can_be_bound_too() -> None:
    made = model(
        [node("NonZero", "x", "i"), node("Relu", "x", "y")],
        [value("x", (4, 4))],
        [value("i", (2, "found"), 7)],
    )
    assert shapes(load(made))["i"] is None
    assert shapes(load(made, bind={"found": 5}))["i"] == (2, 5)


def test_expression_over_a_bound_name_is_worked_out() -> None:
    made = model([node("mine::Fancy", "x", "h"), node("Relu", "h", "y")], [value("x", ("batch", 3))])
    made.graph.value_info.append(value("h", ("2*batch + 1", 3)))
    assert shapes(load(made, bind={"batch": 4}))["y"] == (9, 3)


def test_expression_that_is_code_is_not_run() -> None:
    made = model([node("Relu", "x", "y")], [value("x", ("__import__('os').getpid()",))])
    with pytest.raises(UnboundDimension):
        load(made)


def test_name_of_the_file_is_in_the_message(tmp_path: Any) -> None:
    onnx.save(free(), tmp_path / "net.onnx")
    with pytest.raises(UnboundDimension, match=r"net\.onnx: dimensions without a size"):
        load(tmp_path / "net.onnx")
