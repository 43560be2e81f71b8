"""Binds the symbolic dimensions of the inputs to the sizes that the user gives."""

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

_MOST_LISTED = 20
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
    """Write the user's sizes into the graph; raises UnboundDimension if an input dimension has no size.

    Returns the sizes of data-dependent dimensions (those that no input has) by value name.
    """
    values = [value for value in graph.input if value.name not in constants]
    known = _Sizes(values, graph, sizes)
    known.add_shapes(values, inputs)
    of_inputs = {dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim}
    data_dependent = {name: size for name, size in sizes.items() if name not in of_inputs}
    missing = tuple(dim for value in values for dim in known.apply(value))
    if missing:
        raise UnboundDimension(_advice(missing), missing)
    user_dims: dict[str, Dims] = {}
    for value in (*graph.output, *graph.value_info):
        dims = tuple(map(data_dependent.get, (dim.dim_param for dim in value.type.tensor_type.shape.dim)))
        if any(size is not None for size in dims):
            user_dims[value.name] = dims
        known.apply(value)
    return user_dims


class _Sizes:
    """The sizes of dimensions by name, or by `input.axis` if unnamed."""

    def __init__(self, values: list[ValueInfoProto], graph: GraphProto, sizes: Mapping[str, int]) -> None:
        names = {
            dim.dim_param: None
            for value in (*values, *graph.output, *graph.value_info)
            for dim in value.type.tensor_type.shape.dim
            if dim.dim_param
        }
        axes = {f"{value.name}.{axis}": None for value in values for axis in range(_rank(value))}
        # The names in an expression such as 2*batch can be bound too.
        parts = {part: None for name in names for part in names_in(name)}
        for name, size in sizes.items():
            if name not in names and name not in axes and name not in parts:
                raise LoadError(_unknown_name("dimension", name, [*names, *_unnamed_axes(values)]))
            if isinstance(size, bool) or not hasattr(size, "__index__") or size < 0:
                raise LoadError(f"dimension {name!r} cannot have the size {size!r}; give an integer")
        self._sizes = dict(sizes)

    def add_shapes(self, values: list[ValueInfoProto], inputs: Mapping[str, Any]) -> None:
        """Add the sizes in full shapes of inputs."""
        by_name = {value.name: value for value in values}
        for name, shape in inputs.items():
            if name not in by_name:
                raise LoadError(_unknown_name("input", name, by_name))
            self._add_shape(by_name[name], _plain_shape(name, shape))

    def _add_shape(self, value: ValueInfoProto, shape: tuple[int, ...]) -> None:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            tensor.shape.dim.extend(TensorShapeProto.Dimension() for _ in shape)
            tensor.shape.SetInParent()
        if len(tensor.shape.dim) != len(shape):
            raise LoadError(f"input {value.name!r} has {len(tensor.shape.dim)} dimensions, not {len(shape)}")
        for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
            fixed = dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            if fixed is not None and fixed != size:
                raise LoadError(
                    f"axis {axis} of input {value.name!r} is {fixed} in the model, not {size};"
                    " export the model again with that axis as a symbolic dimension"
                )
            if fixed is None:
                self._set(dim.dim_param or f"{value.name}.{axis}", size)

    def _set(self, name: str, size: int) -> None:
        if self._sizes.setdefault(name, size) != size:
            raise LoadError(f"dimension {name!r} has two sizes: {self._sizes[name]} and {size}")

    def apply(self, value: ValueInfoProto) -> list[SymbolicDimension]:
        """Write sizes into the shape of one value; returns the dimensions without a size."""
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and not tensor.HasField("shape"):
            return [SymbolicDimension("", value.name, 0, 0)]
        missing = []
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            label = f"{value.name}.{axis}"
            size = self._sizes.get(label, self._size(dim.dim_param))
            if size is None:
                missing.append(SymbolicDimension(dim.dim_param or label, value.name, axis, _rank(value)))
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
    """Evaluates an expression over dimension names, such as exporters write (2*batch + 1)."""
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")


def names_in(expression: str) -> list[str]:
    """The names in an expression; empty if the text is not an expression."""
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _rank(value: ValueInfoProto) -> int:
    return len(value.type.tensor_type.shape.dim)


def _unnamed_axes(values: Iterable[ValueInfoProto]) -> list[str]:
    return [
        f"{value.name}.{axis}"
        for value in values
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.dim_param and not dim.HasField("dim_value")
    ]


def _plain_shape(name: str, value: Any) -> tuple[int, ...]:
    """The shape of a tensor, or the shape itself, as a tuple of ints."""
    try:
        plain = tuple(operator.index(size) for size in getattr(value, "shape", value))
    except TypeError as error:
        raise LoadError(f"the shape of input {name!r} must be integers, not {value!r}") from error
    if any(size < 0 for size in plain):
        raise LoadError(f"the shape of input {name!r} has a negative size: {plain}")
    return plain


def _unknown_name(noun: str, name: str, known: Iterable[str]) -> str:
    known = list(known)
    if not known:
        return f"the model has no {'symbolic ' * (noun == 'dimension')}{noun}, so {name!r} is unknown"
    similar = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(map(repr, similar))}?"
        if similar
        else f"it has {listed([*map(repr, known)])}"
    )
    return f"the model has no {noun} {name!r}; {hint}"


def _advice(missing: Iterable[SymbolicDimension]) -> str:
    """Lists the unbound dimensions with their axes, and the options that bind them."""
    axes: dict[str, list[str]] = {}
    shapeless = [dim.input for dim in missing if not dim.name]
    for dim in missing:
        if dim.name:
            axes.setdefault(dim.name, []).append(f"{dim.input} axis {dim.axis}")
    lines = [f"{name} ({listed(labels, ', ')})" for name, labels in axes.items()]
    lines += [f"{name} (full shape)" for name in shapeless]
    flags = [f"--bind {shlex.quote(f'{name}=1')}" for name in axes]
    flags += [f"--input {shlex.quote(f'{name}:1x3x224x224')}" for name in shapeless]
    sizes, options = listed(lines, "; "), listed(flags, " ")
    return f"dimensions without a size: {sizes}. Add {options}, with the sizes you need"


def listed(texts: list[str], separator: str = ", ") -> str:
    """The first texts, and how many more there are."""
    more = len(texts) - _MOST_LISTED
    return separator.join(texts[:_MOST_LISTED]) + f"{separator}and {more:,} more" * (more > 0)
