"""Trace code with symbolic dimensions around an example, keeping as many symbolic as it can run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import EllipsisType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily

from sizeup.errors import StateChanged
from sizeup.formats.torch.failures import reason_of
from sizeup.formats.torch.shape_env import NamedShapeEnv, unguarded_conv_backend
from sizeup.graph import Graph
from sizeup.symbolic import Guard, Specialization, bind, first_difference, size

# Size 1 is a poor example: it changes broadcasting and contiguity.
FIRST_EXAMPLE = 2
_LONGEST = 20.0  # CPU seconds for the closed forms of one model


class SymbolicTracer:
    """Runs code on symbolic dimensions (`trace`), or at fixed sizes (`load`) if it needs values."""

    def __init__(
        self,
        names: tuple[str, ...],
        mode: FakeTensorMode,
        trace: Callable[[Mapping[str, Any]], Graph],
        load: Callable[[Mapping[str, int]], Graph],
    ) -> None:
        self._mode, self._trace, self._load = mode, trace, load
        self._symbolic = names  # not known to need values
        self._reasons: dict[str, str] = {}  # why the others need values

    def specialize(self, example: Mapping[str, int]) -> Specialization:
        """Return the specialization around an example."""
        # An error at fixed sizes is not caused by symbolic dimensions, so it is raised.
        graph = self._load_at(example)
        specialization = self._specialize(example, self._symbolic, graph) if self._symbolic else ""
        if isinstance(specialization, Specialization):
            return specialization
        names, self._symbolic = self._symbolic, ()
        best: Specialization | None = None
        for name in names:
            outcome = self._specialize(example, (*self._symbolic, name), graph)
            if isinstance(outcome, Specialization):
                self._symbolic, best = (*self._symbolic, name), outcome
            else:
                self._reasons[name] = outcome
        fixed = self._fixed_guards(example, self._symbolic)
        if best is not None:
            return replace(best, guard_sources={**best.guard_sources, **fixed})
        return Specialization(graph, example, fixed, "; ".join(dict.fromkeys(fixed.values())))

    def _specialize(
        self, example: Mapping[str, int], names: tuple[str, ...], at_example: Graph
    ) -> Specialization | str:
        """Return the specialization with these dimensions symbolic, or the reason that there is none."""
        # Expressions grow without bound in models with many decisions on sizes.
        seconds = _LONGEST if names == tuple(example) else _LONGEST / 4
        sizes = self._mode.shape_env = NamedShapeEnv({name: example[name] for name in names}, seconds)
        try:
            with unguarded_conv_backend(), _without_cache(self._mode), plain_indexing():
                graph = self._trace({**example, **sizes.by_name})
            guards = sizes.named_guards()
        except StateChanged:
            raise
        # A model's code may raise anything on a symbolic size.
        except Exception as error:
            return f"{sizes.location} needs a fixed size: {reason_of(error)}"
        # torch may choose another path on symbolic sizes; that trace is not valid for this model.
        mismatch = first_difference(bind(graph, example), at_example)
        if mismatch is not None:
            return f"{mismatch} runs differently on symbolic sizes"
        return Specialization(graph, example, {**self._fixed_guards(example, names), **guards})

    def _load_at(self, example: Mapping[str, int]) -> Graph:
        self._mode.shape_env = ShapeEnv()
        return self._load(example)

    def _fixed_guards(self, example: Mapping[str, int], names: tuple[str, ...]) -> dict[Guard, str]:
        others = [name for name in example if name not in names]
        return {Guard("==", size(name) - example[name]): self._reasons.get(name, "") for name in others}


@contextmanager
def _without_cache(mode: FakeTensorMode) -> Iterator[None]:
    """Disable the fake tensor cache, which adds guards that the calls do not need."""
    before = mode.cache_enabled
    mode.cache_enabled = False
    try:
        yield
    finally:
        mode.cache_enabled = before


class _PlainIndexing(TorchFunctionMode):
    """Splits an index tuple of plain items into one op per dimension."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.__getitem__ and _is_plain(args[1]) and _has_symbols(args[0]):
            return _index(*args)
        return function(*args, **(kwargs or {}))


@contextmanager
def plain_indexing() -> Iterator[None]:
    """Index tensors of symbolic shape like tensors of fixed shape.

    `Tensor.__getitem__` must not be replaced: Python then permanently treats tensors as sequences, and torch
    can no longer create one from a list of scalars.
    """
    overrides: Any = torch.overrides
    original = overrides.has_torch_function

    def has_torch_function(arguments: Any) -> bool:
        """Hide this mode from modules, which would otherwise avoid their fast path."""
        ours = _get_current_function_mode() is mode  # type: ignore[no-untyped-call]
        with _pop_mode_temporarily() if ours else nullcontext():
            return bool(original(arguments))

    with _PlainIndexing() as mode:
        overrides.has_torch_function = has_torch_function
        try:
            yield
        finally:
            overrides.has_torch_function = original


def _is_plain(index: Any) -> bool:
    """Return whether an index is a tuple of numbers, slices, None and at most one ellipsis."""
    if not isinstance(index, tuple) or sum(item is Ellipsis for item in index) > 1:
        return False
    plain_types = (int, torch.SymInt, slice, EllipsisType, type(None))
    return all(isinstance(item, plain_types) and not isinstance(item, bool) for item in index)


def _has_symbols(tensor: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


def _index(tensor: torch.Tensor, index: tuple[Any, ...]) -> torch.Tensor:
    indexed = sum(item is not None and item is not Ellipsis for item in index)
    result, axis = tensor, 0
    for item in index:
        if item is None:
            result = result.unsqueeze(axis)
            axis += 1
        elif item is Ellipsis:
            axis += tensor.dim() - indexed
        elif isinstance(item, slice):
            result = _slice(result, axis, item)
            axis += 1
        else:
            result = result.select(axis, item)
    return torch.ops.aten.alias.default(result) if result is tensor else result


def _slice(tensor: torch.Tensor, axis: int, part: slice) -> torch.Tensor:
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    size = tensor.shape[axis]
    if step == 1 and start == 0 and (part.stop is None or part.stop >= size):
        return tensor
    stop = 2**63 - 1 if part.stop is None else part.stop
    return torch.ops.aten.slice.Tensor(tensor, axis, start, stop, step)  # type: ignore[no-any-return]
