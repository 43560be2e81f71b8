"""Free dimensions of the inputs: which there are, and the sizes that the user gives them."""

from __future__ import annotations

import ast
import difflib
import operator
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onnx import GraphProto, TensorShapeProto, ValueInfoProto

from sizeup.errors import LoadError, SymbolicDimension, UnboundDimension
from sizeup.formats.onnx.value_types import Dims

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def bind(
    graph: GraphProto, inputs: Mapping[str, Any], sizes: Mapping[str, int], constants: set[str]
) -> dict[str, Dims]:
    """Write the user's sizes into the graph, wherever their names occur; every input must end up bound.

    Returns the sizes that the user gives to data-dependent dimensions, by value: those whose name no
    input has.
    """
    values = [each for each in graph.input if each.name not in constants]
    known = _Sizes(values, graph, sizes)
    known.take_shapes(values, inputs)
    of_inputs = {dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim}
    data_dependent = {name: size for name, size in sizes.items() if name not in of_inputs}
    missing = tuple(each for value in values for each in known.apply(value))
    if missing:
        raise UnboundDimension(_advice(missing), missing)
    stated: dict[str, Dims] = {}
    for value in (*graph.output, *graph.value_info):
        dims = tuple(map(data_dependent.get, (dim.dim_param for dim in value.type.tensor_type.shape.dim)))
        if any(size is not None for size in dims):
            stated[value.name] = dims
        known.apply(value)
    return stated


class _Sizes:
    """The sizes of named dimensions, and of those that have only a place (`input.axis`)."""

    def __init__(self, values: list[ValueInfoProto], graph: GraphProto, sizes: Mapping[str, int]) -> None:
        names = {
            dim.dim_param: None
            for value in (*values, *graph.output, *graph.value_info)
            for dim in value.type.tensor_type.shape.dim
            if dim.dim_param
        }
        places = {f"{value.name}.{axis}": None for value in values for axis in range(_rank(value))}
        # Part of an expression such as 2*batch is a name too.
        parts = {part: None for name in names for part in names_in(name)}
        for name, size in sizes.items():
            if name not in names and name not in places and name not in parts:
                raise LoadError(_no_such("dimension", name, [*names, *_open_places(values)]))
            if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
                raise LoadError(f"dimension {name!r} cannot have the size {size!r}; give a whole number")
        self._sizes = dict(sizes)

    def take_shapes(self, values: list[ValueInfoProto], inputs: Mapping[str, Any]) -> None:
        """Learn sizes from whole shapes of inputs."""
        by_name = {value.name: value for value in values}
        for name, given in inputs.items():
            if name not in by_name:
                raise LoadError(_no_such("input", name, by_name))
            self._take(by_name[name], _plain_shape(name, given))

    def _take(self, value: ValueInfoProto, shape: tuple[int, ...]) -> None:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            tensor.shape.dim.extend(TensorShapeProto.Dimension() for _ in shape)
            tensor.shape.SetInParent()
        if len(tensor.shape.dim) != len(shape):
            raise LoadError(
                f"input {value.name!r} has {len(tensor.shape.dim)} dimensions, {len(shape)} were given"
            )
        for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
            fixed = dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            if fixed is not None and fixed != size:
                raise LoadError(
                    f"input {value.name!r} is {fixed} at axis {axis} in the model, {size} was given;"
                    " export the model again with that axis left free"
                )
            if fixed is None:
                self._learn(dim.dim_param or f"{value.name}.{axis}", size)

    def _learn(self, name: str, size: int) -> None:
        if self._sizes.setdefault(name, size) != size:
            raise LoadError(f"dimension {name!r} is given as {self._sizes[name]} and as {size}")

    def apply(self, value: ValueInfoProto) -> list[SymbolicDimension]:
        """Write sizes into one value's shape; the dimensions that still have none."""
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and not tensor.HasField("shape"):
            return [SymbolicDimension("", value.name, 0, 0)]
        missing = []
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            place = f"{value.name}.{axis}"
            size = self._sizes.get(place, self._size(dim.dim_param))
            if size is None:
                missing.append(SymbolicDimension(dim.dim_param or place, value.name, axis, _rank(value)))
            else:
                dim.dim_value = size
        return missing

    def _size(self, name: str) -> int | None:
        if not name or name in self._sizes:
            return self._sizes.get(name)
        try:
            size = _value(ast.parse(name, mode="eval").body, self._sizes)
        except (SyntaxError, ValueError, KeyError, ArithmeticError, RecursionError, MemoryError):
            return None
        return size if size >= 0 else None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    """The size that an expression over names stands for, as exporters write it (2*batch + 1)."""
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")


def names_in(expression: str) -> list[str]:
    """The names that a size is computed from; none if it is no expression."""
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _rank(value: ValueInfoProto) -> int:
    return len(value.type.tensor_type.shape.dim)


def _open_places(values: Iterable[ValueInfoProto]) -> list[str]:
    return [
        f"{value.name}.{axis}"
        for value in values
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.dim_param and not dim.HasField("dim_value")
    ]


def _plain_shape(name: str, given: Any) -> tuple[int, ...]:
    """A shape, or that of a tensor."""
    shape = getattr(given, "shape", given)
    try:
        plain = tuple(operator.index(size) for size in shape)
    except TypeError as error:
        raise LoadError(f"the shape of input {name!r} must be whole numbers, not {given!r}") from error
    if any(size < 0 for size in plain):
        raise LoadError(f"the shape of input {name!r} has a negative size: {plain}")
    return plain


def _no_such(what: str, name: str, known: Iterable[str]) -> str:
    known = list(known)
    if not known:
        return f"the model has no {'free ' * (what == 'dimension')}{what}, but {name!r} was given"
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"there are {', '.join(map(repr, known))}"
    )
    return f"the model has no {what} {name!r}; {hint}"


def _advice(missing: Iterable[SymbolicDimension]) -> str:
    """Every open dimension with its places, and the flags that bind them."""
    places: dict[str, list[str]] = {}
    shapeless = [each.input for each in missing if not each.name]
    for each in missing:
        if each.name:
            places.setdefault(each.name, []).append(f"{each.input} axis {each.axis}")
    lines = [f"{name} ({', '.join(where)})" for name, where in places.items()]
    lines += [f"{name} (all of it)" for name in shapeless]
    flags = [f"--bind {shlex.quote(f'{name}=1')}" for name in places]
    flags += [f"--input {shlex.quote(f'{name}:1x3x224x224')}" for name in shapeless]
    return (
        f"dimensions without a size: {'; '.join(lines)}. Add {' '.join(flags)}, with the sizes that you need"
    )
