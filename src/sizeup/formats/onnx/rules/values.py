"""Small tensors that decide shapes, where a dimension is free: arrays whose numbers may be expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto

from sizeup.formats.onnx.blocks import Node
from sizeup.formats.onnx.constants import SMALL, Array
from sizeup.graph import Shape
from sizeup.symbolic import Expression, NotClosed, Number, largest, quotient, smallest

Values: TypeAlias = "Sequence[Array | None]"
_Rule: TypeAlias = Callable[[Node, list[Array]], Array]

_WHOLE = frozenset(
    getattr(TensorProto, name) for name in ("INT64", "INT32", "INT16", "INT8", "UINT8", "UINT32", "UINT64")
)
_REAL = frozenset(getattr(TensorProto, name) for name in ("FLOAT", "DOUBLE", "FLOAT16"))


def is_free(array: Array | None) -> bool:
    """Whether a small tensor holds numbers that depend on a free dimension."""
    return array is not None and array.dtype == object


def plain(array: Array) -> Array:
    """A tensor of Python's own numbers, which expressions can be computed with."""
    found = np.empty(array.shape, object)
    found.ravel()[:] = array.ravel().tolist()
    return found


def of_shape(shape: Shape) -> Array:
    """A shape as the tensor that Shape makes of it."""
    found = np.empty(len(shape), object)
    found[:] = shape
    return found


def settled(array: Array) -> Array:
    """Plain numbers again, where no expression is left."""
    if array.dtype == object and not any(isinstance(each, Expression) for each in array.ravel()):
        return np.array(array.tolist())
    return array


def evaluated(node: Node, inputs: Values, element: int) -> Array | None:
    """What an operator makes of small tensors that hold expressions; None where that is not known."""
    rule = _OF_REALS.get(node.op) if element in _REAL else None
    rule = rule or _RULES.get(node.op)
    given = [each for each, name in zip(inputs, node.inputs, strict=True) if name]
    if rule is None or any(each is None for each in given):
        return None
    try:
        made = rule(node, [plain(each) for each in given if each is not None])
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return settled(made) if made.size <= SMALL else None


def _arithmetic(operation: Callable[[Any, Any], Any]) -> _Rule:
    joined = np.frompyfunc(operation, 2, 1)

    def rule(_node: Node, inputs: list[Array]) -> Array:
        found = inputs[0]
        for each in inputs[1:]:
            found = joined(found, each)
        return _array(found)

    return rule


def _array(value: Any) -> Array:
    """What object functions of numpy give for a single number is that number."""
    if isinstance(value, np.ndarray):
        return value
    found = np.empty((), object)
    found[()] = value
    return found


def _times(left: Any, right: Any) -> Any:
    # Exporters scale sizes by floats: exact where those are whole.
    left, right = _whole_float(left), _whole_float(right)
    kinds = {type(left), type(right)}
    if {float, Expression} <= kinds:
        raise TypeError("a free dimension times a fraction")
    return left * right


def _whole_float(number: Any) -> Any:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _divided(left: Any, right: Any) -> Any:
    right = _whole_float(right)
    if isinstance(left, float) or isinstance(right, float):
        raise TypeError("a quotient of floats")
    if left < 0 or right <= 0:
        raise TypeError("a quotient of negative numbers")
    return quotient(left, right)


def _shared_out(left: Any, right: Any) -> Any:
    """A quotient of floats is not rounded down: a whole number at all sizes, or none that we could write."""
    found = _divided(left, right)
    rest = found * _whole_float(right) - left
    if isinstance(rest, Expression) or rest:
        raise TypeError("a fraction of a free dimension")
    return found


def _chosen(_node: Node, inputs: list[Array]) -> Array:
    return _array(np.frompyfunc(lambda test, a, b: a if test else b, 3, 1)(*inputs))


def _gathered(node: Node, inputs: list[Array]) -> Array:
    return _array(np.take(inputs[0], inputs[1].astype(np.int64), axis=node.integer("axis")))


def _sliced(node: Node, inputs: list[Array]) -> Array:
    data = inputs[0]
    if len(inputs) == 1:
        starts, ends = node.integers("starts"), node.integers("ends")
        axes: Sequence[int] = node.integers("axes") or range(len(starts))
        steps: Sequence[int] = (1,) * len(starts)
    else:
        starts, ends = inputs[1].tolist(), inputs[2].tolist()
        axes = inputs[3].tolist() if len(inputs) > 3 else range(len(starts))
        steps = inputs[4].tolist() if len(inputs) > 4 else (1,) * len(starts)
    places = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if any(isinstance(each, Expression) for each in (start, end, step)):
            raise TypeError("a slice by free dimensions")
        places[axis] = slice(start, end if end >= -(2**31) else None, step)
    return data[tuple(places)]


def _axes(node: Node, inputs: list[Array]) -> tuple[int, ...]:
    return tuple(inputs[1].tolist()) if len(inputs) > 1 else node.integers("axes")


def _unsqueezed(node: Node, inputs: list[Array]) -> Array:
    return np.expand_dims(inputs[0], _axes(node, inputs))


def _squeezed(node: Node, inputs: list[Array]) -> Array:
    return _array(np.squeeze(inputs[0], _axes(node, inputs) or None))


def _reshaped(_node: Node, inputs: list[Array]) -> Array:
    return inputs[0].reshape([int(each) for each in inputs[1].tolist()])


def _filled(node: Node, inputs: list[Array]) -> Array:
    held = next((each.t for each in node.proto.attribute if each.name == "value"), None)
    from onnx import numpy_helper

    value = 0 if held is None else numpy_helper.to_array(held).item()
    found = np.empty([int(each) for each in inputs[0].tolist()], object)
    found[...] = value
    return found


def _spread(_node: Node, inputs: list[Array]) -> Array:
    wanted = [int(each) for each in inputs[1].tolist()]
    return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(wanted)))


def _counted(_node: Node, inputs: list[Array]) -> Array:
    start, limit, step = (each.item() for each in inputs)
    return plain(np.arange(start, limit, step))  # refuses expressions: their number is free


def _cast(node: Node, inputs: list[Array]) -> Array:
    wanted = node.integer("to")
    if wanted in _WHOLE:
        return _array(np.frompyfunc(_cut, 1, 1)(inputs[0]))
    if wanted in _REAL:
        return inputs[0]
    if wanted == TensorProto.BOOL:
        return _array(np.frompyfunc(lambda each: each != 0, 1, 1)(inputs[0]))
    raise TypeError("a number type that is no number")


def _cut(number: Any) -> Any:
    return number if isinstance(number, Expression) else int(number)


def _product(node: Node, inputs: list[Array]) -> Array:
    return _whole_reduction(node, inputs, math.prod)


def _sum(node: Node, inputs: list[Array]) -> Array:
    return _whole_reduction(node, inputs, sum)


def _whole_reduction(node: Node, inputs: list[Array], joined: Callable[[Any], Any]) -> Array:
    if inputs[0].ndim != 1:
        raise TypeError("only lists are reduced")
    found = np.empty((1,) if node.integer("keepdims", 1) else (), object)
    found[...] = joined(inputs[0].tolist())
    return found


def _rounded(_node: Node, inputs: list[Array]) -> Array:
    if any(isinstance(each, float) and not each.is_integer() for each in inputs[0].ravel().tolist()):
        raise TypeError("a fraction beside free dimensions")
    return inputs[0]


_RULES: dict[str, _Rule] = {
    "Identity": lambda _node, inputs: inputs[0],
    "Add": _arithmetic(lambda a, b: a + b),
    "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(_times),
    "Div": _arithmetic(_divided),
    "Mod": _arithmetic(lambda a, b: a - _divided(a, b) * b),
    "Neg": lambda _node, inputs: _array(-inputs[0]),
    "Max": _arithmetic(lambda a, b: largest([a, b])),
    "Min": _arithmetic(lambda a, b: smallest([a, b])),
    "Equal": _arithmetic(lambda a, b: a == b),
    "Less": _arithmetic(lambda a, b: a < b),
    "LessOrEqual": _arithmetic(lambda a, b: a <= b),
    "Greater": _arithmetic(lambda a, b: a > b),
    "GreaterOrEqual": _arithmetic(lambda a, b: a >= b),
    "And": _arithmetic(lambda a, b: a and b),
    "Or": _arithmetic(lambda a, b: a or b),
    "Not": lambda _node, inputs: _array(np.frompyfunc(lambda each: not each, 1, 1)(inputs[0])),
    "Where": _chosen,
    "Gather": _gathered,
    "Slice": _sliced,
    "Unsqueeze": _unsqueezed,
    "Squeeze": _squeezed,
    "Reshape": _reshaped,
    "Transpose": lambda node, inputs: np.transpose(inputs[0], node.integers("perm") or None),
    "Concat": lambda node, inputs: np.concatenate(inputs, axis=node.integer("axis")),
    "ConstantOfShape": _filled,
    "Expand": _spread,
    "Range": _counted,
    "Cast": _cast,
    "ReduceProd": _product,
    "ReduceSum": _sum,
    "Floor": _rounded,
    "Ceil": _rounded,
}


_OF_REALS: dict[str, _Rule] = {"Div": _arithmetic(_shared_out)}


def numbers(array: Array | None, what: str) -> list[Number]:
    """The numbers of a small tensor that decides a shape."""
    if array is None:
        raise NotClosed(f"{what} is not known before the run")
    found = [_whole_float(each) for each in plain(array).ravel()]
    if any(isinstance(each, float) for each in found):
        raise NotClosed(f"{what} is no whole number")
    return [each if isinstance(each, Expression) else int(each) for each in found]
