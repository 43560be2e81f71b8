"""Evaluation of small tensors that determine shapes: arrays whose elements may be symbolic expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import SMALL, Array
from sizeup.graph import Shape
from sizeup.ops.handlers import Handlers
from sizeup.symbolic import Expression, NoClosedForm, Number, largest, quotient, smallest

Values: TypeAlias = "Sequence[Array | None]"
_Rule: TypeAlias = Callable[[Node, list[Array]], Array]

_INTEGERS = frozenset(
    getattr(TensorProto, name) for name in ("INT64", "INT32", "INT16", "INT8", "UINT8", "UINT32", "UINT64")
)
_FLOATS = frozenset(getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "FLOAT16"))


_RULES = Handlers[_Rule]()


def is_symbolic(array: Array | None) -> bool:
    """Whether a small tensor depends on a symbolic dimension."""
    return array is not None and array.dtype == object


def plain(array: Array) -> Array:
    """The array with Python numbers as elements, for arithmetic with expressions."""
    numbers = np.empty(array.shape, object)
    numbers.ravel()[:] = array.ravel().tolist()
    return numbers


def of_shape(shape: Shape) -> Array:
    """The shape as the output of a Shape node."""
    array = np.empty(len(shape), object)
    array[:] = shape
    return array


def settled(array: Array) -> Array:
    """The array with a numeric dtype if it contains no expression."""
    if array.dtype == object and not any(isinstance(number, Expression) for number in array.ravel()):
        return np.array(array.tolist())
    return array


def evaluated(node: Node, inputs: Values, element: int) -> Array | None:
    """The output of a node for small tensors that may contain expressions; None if not supported."""
    rule = _FLOAT_RULES.get(node.op) if element in _FLOATS else None
    rule = rule or _RULES.get(node.op)
    present = [array for array, name in zip(inputs, node.inputs, strict=True) if name]
    if rule is None or any(array is None for array in present):
        return None
    try:
        result = rule(node, [plain(array) for array in present if array is not None])
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return settled(result) if result.size <= SMALL else None


def _arithmetic(operation: Callable[[Any, Any], Any]) -> _Rule:
    combine = np.frompyfunc(operation, 2, 1)

    def rule(_node: Node, inputs: list[Array]) -> Array:
        result = inputs[0]
        for array in inputs[1:]:
            result = combine(result, array)
        return _array(result)

    return rule


def _array(value: Any) -> Array:
    """The value as an array: numpy's object functions return scalars for 0-d arrays."""
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


def _multiply(left: Any, right: Any) -> Any:
    # Exporters scale sizes by floats, which is exact for integral floats.
    left, right = _to_integer(left), _to_integer(right)
    types = {type(left), type(right)}
    if {float, Expression} <= types:
        raise TypeError("a symbolic dimension times a fraction")
    return left * right


def _to_integer(number: Any) -> Any:
    """An integral float as an int; other numbers unchanged."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _divide(left: Any, right: Any) -> Any:
    right = _to_integer(right)
    if isinstance(left, float) or isinstance(right, float):
        raise TypeError("a quotient of floats")
    if left < 0 or right <= 0:
        raise TypeError("a quotient of negative numbers")
    return quotient(left, right)


def _divide_exactly(left: Any, right: Any) -> Any:
    """Division of floats, which is not rounded: supported only if exact at all sizes."""
    result = _divide(left, right)
    rest = result * _to_integer(right) - left
    if isinstance(rest, Expression) or rest:
        raise TypeError("a fraction of a symbolic dimension")
    return result


@_RULES("Where")
def _where(_node: Node, inputs: list[Array]) -> Array:
    return _array(np.frompyfunc(lambda test, a, b: a if test else b, 3, 1)(*inputs))


@_RULES("Gather")
def _gather(node: Node, inputs: list[Array]) -> Array:
    return _array(np.take(inputs[0], inputs[1].astype(np.int64), axis=node.integer("axis")))


@_RULES("Slice")
def _slice(node: Node, inputs: list[Array]) -> Array:
    data = inputs[0]
    if len(inputs) == 1:
        starts, ends = node.integers("starts"), node.integers("ends")
        axes: Sequence[int] = node.integers("axes") or range(len(starts))
        steps: Sequence[int] = (1,) * len(starts)
    else:
        starts, ends = inputs[1].tolist(), inputs[2].tolist()
        axes = inputs[3].tolist() if len(inputs) > 3 else range(len(starts))
        steps = inputs[4].tolist() if len(inputs) > 4 else (1,) * len(starts)
    slices = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if any(isinstance(bound, Expression) for bound in (start, end, step)):
            raise TypeError("a slice by symbolic dimensions")
        slices[axis] = slice(start, end if end >= -(2**31) else None, step)
    return data[tuple(slices)]


def _axes(node: Node, inputs: list[Array]) -> tuple[int, ...]:
    return tuple(inputs[1].tolist()) if len(inputs) > 1 else node.integers("axes")


@_RULES("Unsqueeze")
def _unsqueeze(node: Node, inputs: list[Array]) -> Array:
    return np.expand_dims(inputs[0], _axes(node, inputs))


@_RULES("Squeeze")
def _squeeze(node: Node, inputs: list[Array]) -> Array:
    return _array(np.squeeze(inputs[0], _axes(node, inputs) or None))


@_RULES("Reshape")
def _reshape(_node: Node, inputs: list[Array]) -> Array:
    return inputs[0].reshape([int(size) for size in inputs[1].tolist()])


@_RULES("ConstantOfShape")
def _fill(node: Node, inputs: list[Array]) -> Array:
    tensor = next((attribute.t for attribute in node.proto.attribute if attribute.name == "value"), None)
    from onnx import numpy_helper

    value = 0 if tensor is None else numpy_helper.to_array(tensor).item()
    array = np.empty([int(size) for size in inputs[0].tolist()], object)
    array[...] = value
    return array


@_RULES("Expand")
def _expand(_node: Node, inputs: list[Array]) -> Array:
    shape = tuple(int(size) for size in inputs[1].tolist())
    return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, shape))


@_RULES("Range")
def _range(_node: Node, inputs: list[Array]) -> Array:
    start, limit, step = (array.item() for array in inputs)
    return plain(np.arange(start, limit, step))  # raises TypeError for expressions


@_RULES("Cast")
def _cast(node: Node, inputs: list[Array]) -> Array:
    element = node.integer("to")
    if element in _INTEGERS:
        return _array(np.frompyfunc(_truncate, 1, 1)(inputs[0]))
    if element in _FLOATS:
        return inputs[0]
    if element == TensorProto.BOOL:
        return _array(np.frompyfunc(lambda number: number != 0, 1, 1)(inputs[0]))
    raise TypeError("a dtype that is not numeric")


def _truncate(number: Any) -> Any:
    return number if isinstance(number, Expression) else int(number)


@_RULES("ReduceProd")
def _product(node: Node, inputs: list[Array]) -> Array:
    return _reduce(node, inputs, math.prod)


@_RULES("ReduceSum")
def _sum(node: Node, inputs: list[Array]) -> Array:
    return _reduce(node, inputs, sum)


def _reduce(node: Node, inputs: list[Array], function: Callable[[Any], Any]) -> Array:
    if inputs[0].ndim != 1:
        raise TypeError("only 1-d arrays are reduced")
    array = np.empty((1,) if node.integer("keepdims", 1) else (), object)
    array[...] = function(inputs[0].tolist())
    return array


@_RULES("Floor", "Ceil")
def _round(_node: Node, inputs: list[Array]) -> Array:
    if any(isinstance(number, float) and not number.is_integer() for number in inputs[0].ravel().tolist()):
        raise TypeError("a fraction next to symbolic dimensions")
    return inputs[0]


_RULES("Identity")(lambda _node, inputs: inputs[0])
_RULES("Add")(_arithmetic(lambda a, b: a + b))
_RULES("Sub")(_arithmetic(lambda a, b: a - b))
_RULES("Mul")(_arithmetic(_multiply))
_RULES("Div")(_arithmetic(_divide))
_RULES("Mod")(_arithmetic(lambda a, b: a - _divide(a, b) * b))
_RULES("Neg")(lambda _node, inputs: _array(-inputs[0]))
_RULES("Max")(_arithmetic(lambda a, b: largest([a, b])))
_RULES("Min")(_arithmetic(lambda a, b: smallest([a, b])))
_RULES("Equal")(_arithmetic(lambda a, b: a == b))
_RULES("Less")(_arithmetic(lambda a, b: a < b))
_RULES("LessOrEqual")(_arithmetic(lambda a, b: a <= b))
_RULES("Greater")(_arithmetic(lambda a, b: a > b))
_RULES("GreaterOrEqual")(_arithmetic(lambda a, b: a >= b))
_RULES("And")(_arithmetic(lambda a, b: a and b))
_RULES("Or")(_arithmetic(lambda a, b: a or b))
_RULES("Not")(lambda _node, inputs: _array(np.frompyfunc(lambda a: not a, 1, 1)(inputs[0])))
_RULES("Transpose")(lambda node, inputs: np.transpose(inputs[0], node.integers("perm") or None))
_RULES("Concat")(lambda node, inputs: np.concatenate(inputs, axis=node.integer("axis")))
_FLOAT_RULES: dict[str, _Rule] = {"Div": _arithmetic(_divide_exactly)}


def numbers(array: Array | None, label: str) -> list[Number]:
    """Elements of a small tensor that determines a shape; raises NoClosedForm unless they are integers."""
    if array is None:
        raise NoClosedForm(f"{label} is unknown before the run")
    if array.dtype.kind == "i":
        integers: list[Number] = array.ravel().tolist()
        return integers
    elements = [_to_integer(number) for number in plain(array).ravel()]
    if any(isinstance(number, float) for number in elements):
        raise NoClosedForm(f"{label} is not an integer")
    return [number if isinstance(number, Expression) else int(number) for number in elements]
