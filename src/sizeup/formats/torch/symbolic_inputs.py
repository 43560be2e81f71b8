"""Symbolic dimensions of modules and programs: map names to axes of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from sizeup.errors import LoadError
from sizeup.formats.torch.eager import RunOptions, device_and_dtype, fake_mode, record_once, unwrap
from sizeup.formats.torch.exported import Program, Symbol, input_symbols, record_program
from sizeup.formats.torch.inputs import Arguments, leaf_test, named_values, plain_shape, retyped
from sizeup.formats.torch.symbolic_tracer import FIRST_EXAMPLE, SymbolicTracer
from sizeup.graph import Graph
from sizeup.symbolic import SymbolicGraph

InputAxis: TypeAlias = tuple[int | str, int]  # (input index or name, axis)
# Axes by name, names with default axes, or True for all default names.
FreeSpec: TypeAlias = Mapping[str, InputAxis | Sequence[InputAxis]] | Sequence[str] | bool


def record_symbolic(
    module: torch.nn.Module,
    call_args: Arguments,
    free: FreeSpec,
    mode: FakeTensorMode,
    name: str,
    load: Callable[[Arguments], Graph],
    *,
    train: bool = False,
    finish: Callable[[Graph], Graph] = lambda graph: graph,
) -> SymbolicGraph:
    """Return the symbolic graph of a module; `load` loads it at fixed sizes, `finish` completes a graph."""
    module = unwrap(module)
    inputs = SymbolicInputs(module, call_args, free)

    def trace(sizes: Mapping[str, Any]) -> Graph:
        options = RunOptions(train=train, symbolic_args=partial(inputs.symbolic, mode, sizes))
        return finish(record_once(module, call_args, name, mode, options))

    tracer = SymbolicTracer(tuple(inputs.sizes), mode, trace, lambda sizes: load(inputs.at(sizes)))
    example = {dimension: max(value, FIRST_EXAMPLE) for dimension, value in inputs.sizes.items()}
    return SymbolicGraph(tuple(inputs.sizes), example, tracer.specialize)


def _resolve_axes(
    free: FreeSpec, leaves: list[tuple[str, Any]]
) -> Mapping[str, InputAxis | Sequence[InputAxis]]:
    """Return the axes of each name, as specified or by default."""
    if isinstance(free, Mapping):
        return free
    defaults = _default_axes(leaves)
    names = list(defaults) if isinstance(free, bool) else list(free)
    for name in names:
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise LoadError(f"{name}: specify its (input, axis); names with a default axis: {known}")
    return {name: defaults[name] for name in names}


def _default_axes(leaves: list[tuple[str, Any]]) -> dict[str, list[InputAxis]]:
    """Return the default axes: batch first, height and width last in images, sequence length second."""
    axes_by_name: dict[str, list[InputAxis]] = {}
    for index, (_, value) in enumerate(leaves):
        shape = plain_shape(value)
        axes = {"batch": 0, "height": -2, "width": -1} if len(shape) > 3 else {"batch": 0, "seq": 1}
        for name, axis in axes.items():
            known_axes = axes_by_name.setdefault(name, [])
            if len(shape) > axis and (not known_axes or shape[axis] == _size_of(leaves, known_axes[0])):
                known_axes.append((index, axis))
    return {name: known_axes for name, known_axes in axes_by_name.items() if known_axes}


def _size_of(leaves: list[tuple[str, Any]], axis: InputAxis) -> int:
    return plain_shape(leaves[int(axis[0])][1])[axis[1]]


class SymbolicInputs:
    """The arguments of a module, and the names of their symbolic axes."""

    def __init__(self, module: torch.nn.Module, call_args: Arguments, free: FreeSpec) -> None:
        self._call_args = call_args
        self._is_leaf = leaf_test(call_args)
        self._device_and_dtype = device_and_dtype(module)
        leaves = list(named_values(module.forward, call_args, self._is_leaf))
        self._names: dict[int, dict[int, str]] = {}  # by leaf index, then by axis
        self.sizes: dict[str, int] = {}
        for name, axes in _resolve_axes(free, leaves).items():
            for axis in axes if isinstance(axes, list) else [axes]:
                self._add_axis(name, axis, leaves)

    def _add_axis(self, name: str, input_axis: Any, leaves: list[tuple[str, Any]]) -> None:
        if not (isinstance(input_axis, tuple) and len(input_axis) == 2 and type(input_axis[1]) is int):
            raise LoadError(f"{name}: a symbolic dimension is specified as (input, axis), not {input_axis!r}")
        requested, axis = input_axis
        labels = [label for label, _ in leaves]
        if requested in labels:
            index = labels.index(requested)
        elif type(requested) is int and 0 <= requested < len(leaves):
            index = requested
        else:
            raise LoadError(f"{name}: no input {requested!r}; the inputs are {', '.join(labels)}")
        shape = plain_shape(leaves[index][1])
        if not -len(shape) <= axis < len(shape):
            raise LoadError(f"{name}: input {labels[index]} has no axis {axis}; it has {len(shape)} axes")
        axis %= len(shape)
        if self.sizes.setdefault(name, shape[axis]) != shape[axis]:
            raise LoadError(
                f"{name}: conflicting sizes {self.sizes[name]} and {shape[axis]}"
                f" (axis {axis} of {labels[index]})"
            )
        self._names.setdefault(index, {})[axis] = name

    def at(self, sizes: Mapping[str, int]) -> Arguments:
        """Return the arguments with these sizes, in the same structure."""

        def resized(value: Any, shape: list[Any]) -> Any:
            if isinstance(value, torch.Tensor):
                return torch.zeros(shape, dtype=value.dtype, device=value.device)
            return retyped(value, tuple(shape))

        return self._replace(resized, sizes)

    def symbolic(self, mode: FakeTensorMode, sizes: Mapping[str, Any]) -> Arguments:
        """Return the arguments as fake tensors whose symbolic dimensions may be torch symbols."""
        device, dtype = self._device_and_dtype

        def empty_like(value: Any, shape: list[Any]) -> Any:
            target_dtype, target_device = dtype, device
            if isinstance(value, torch.Tensor):
                target_dtype, target_device = value.dtype, value.device if device.type != "meta" else device
            elif isinstance(value[1], str):
                target_dtype = getattr(torch, value[1], dtype)
            with mode:
                return torch.empty(shape, dtype=target_dtype, device=target_device)

        return self._replace(empty_like, sizes)

    def _replace(self, replace: Callable[[Any, list[Any]], Any], sizes: Mapping[str, Any]) -> Arguments:
        leaves, tree = pytree.tree_flatten(self._call_args, is_leaf=self._is_leaf)
        leaf_number = 0
        for index, value in enumerate(leaves):
            if not (isinstance(value, torch.Tensor) or self._is_leaf(value)):
                continue
            names = self._names.get(leaf_number)
            leaf_number += 1
            if names:
                shape = list(plain_shape(value))
                for axis, name in names.items():
                    shape[axis] = sizes[name]
                leaves[index] = replace(value, shape)
        args, kwargs = pytree.tree_unflatten(leaves, tree)
        return tuple(args), dict(kwargs)


def record_symbolic_program(
    program: Program,
    free: FreeSpec,
    *,
    inputs: Any = None,
    bind: Mapping[str, int] | None = None,
    name: str = "",
) -> SymbolicGraph:
    """Return the symbolic graph of an exported program; `bind` sets the sizes of other dimensions."""
    symbols = input_symbols(program)
    selected = _select_symbols(free, symbols, bind or {})
    mode = fake_mode()

    example = {
        dimension: max(symbols[symbol].example, FIRST_EXAMPLE) for dimension, symbol in selected.items()
    }

    def load(sizes: Mapping[str, int]) -> Graph:
        by_symbol = {symbol: sizes[dimension] for dimension, symbol in selected.items()}
        return record_program(program, inputs=inputs, bind={**(bind or {}), **by_symbol}, name=name)

    def trace(sizes: Mapping[str, Any]) -> Graph:
        named = {symbol: sizes[dimension] for dimension, symbol in selected.items()}
        by_symbol = {symbol: example[dimension] for dimension, symbol in selected.items()}
        return record_program(
            program, inputs=inputs, bind={**(bind or {}), **by_symbol}, name=name, mode=mode, named=named
        )

    tracer = SymbolicTracer(tuple(selected), mode, trace, load)
    return SymbolicGraph(tuple(selected), example, tracer.specialize)


def _select_symbols(
    free: FreeSpec, symbols: Mapping[str, Symbol], bound: Mapping[str, int]
) -> dict[str, str]:
    """Return the program's symbol for each name, found by symbol name or by axis."""
    if isinstance(free, bool):
        return {symbol_name: symbol_name for symbol_name in symbols if symbol_name not in bound}
    requested = free if isinstance(free, Mapping) else {symbol_name: symbol_name for symbol_name in free}
    selected = {}
    for name, axes in requested.items():
        candidates = axes if isinstance(axes, list) else [axes]
        matches = {
            symbol_name
            for symbol_name, symbol in symbols.items()
            for candidate in candidates
            if candidate in (symbol_name, *symbol.axes)
        }
        if len(matches) != 1:
            known = (
                ", ".join(f"{symbol_name} at {symbol.axes[0]}" for symbol_name, symbol in symbols.items())
                or "none"
            )
            raise LoadError(f"{name}: does not match exactly one symbolic dimension; the program has {known}")
        selected[name] = matches.pop()
    return selected
