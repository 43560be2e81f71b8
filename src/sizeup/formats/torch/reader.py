"""Reading code with free dimensions: around an example, with as many of them free as it can be run with."""

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

from sizeup.formats.torch.eager import summary
from sizeup.formats.torch.symbolic import NamedSizes, any_kernel
from sizeup.graph import Graph
from sizeup.symbolic import Guard, Specialization, bound, difference, size

# At a size of 1 much is decided otherwise (what is broadcast, what is contiguous): no good example.
FIRST_EXAMPLE = 2
_LONGEST = 20.0  # CPU seconds, to look for closed forms of one model


class Reader:
    """Runs code on sizes that have names (`trace`), or at a point (`load`) where it needs values."""

    def __init__(
        self,
        names: tuple[str, ...],
        mode: FakeTensorMode,
        trace: Callable[[Mapping[str, Any]], Graph],
        load: Callable[[Mapping[str, int]], Graph],
    ) -> None:
        self._mode, self._trace, self._load = mode, trace, load
        self._free = names  # those that no reading has failed with
        self._reasons: dict[str, str] = {}  # why the others have to have values

    def read(self, example: Mapping[str, int]) -> Specialization:
        """The specialization around an example."""
        # What the model refuses at a point says nothing of free dimensions: it ends here.
        graph = self._at(example)
        found = self._closed(example, self._free, graph) if self._free else ""
        if isinstance(found, Specialization):
            return found
        names, self._free = self._free, ()
        best: Specialization | None = None
        for each in names:
            one_more = self._closed(example, (*self._free, each), graph)
            if isinstance(one_more, Specialization):
                self._free, best = (*self._free, each), one_more
            else:
                self._reasons[each] = one_more
        fixed = self._fixed(example, self._free)
        if best is not None:
            return replace(best, origins={**best.origins, **fixed})
        return Specialization(graph, example, fixed, "; ".join(dict.fromkeys(fixed.values())))

    def _closed(
        self, example: Mapping[str, int], names: tuple[str, ...], at_example: Graph
    ) -> Specialization | str:
        """The specialization around an example with these dimensions free, or why there is none."""
        # Of models that decide much by their sizes, expressions grow without end.
        seconds = _LONGEST if names == tuple(example) else _LONGEST / 4
        sizes = self._mode.shape_env = NamedSizes({name: example[name] for name in names}, seconds)
        try:
            with any_kernel(), _uncached(self._mode), plain_indexing():
                graph = self._trace({**example, **sizes.by_name})
            asked = sizes.conditions()
        # A model's code may take offence at a size without a value in any way it likes.
        except Exception as error:
            return f"{sizes.where} needs a size that has a value: {summary(error)}"
        # Torch may take another way where a size has no value: then it is no form of this model.
        other = difference(bound(graph, example), at_example)
        if other is not None:
            return f"{other} runs otherwise where a size has no value"
        return Specialization(graph, example, {**self._fixed(example, names), **asked})

    def _at(self, example: Mapping[str, int]) -> Graph:
        self._mode.shape_env = ShapeEnv()
        return self._load(example)

    def _fixed(self, example: Mapping[str, int], names: tuple[str, ...]) -> dict[Guard, str]:
        others = [name for name in example if name not in names]
        return {Guard("==", size(name) - example[name]): self._reasons.get(name, "") for name in others}


@contextmanager
def _uncached(mode: FakeTensorMode) -> Iterator[None]:
    """Torch's memory of earlier calls asks for more of the sizes than the calls themselves."""
    before = mode.cache_enabled
    mode.cache_enabled = False
    try:
        yield
    finally:
        mode.cache_enabled = before


class _PlainIndexing(TorchFunctionMode):
    """Takes indices of several plain parts apart, one dimension after the other."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.__getitem__ and _is_plain(args[1]) and _has_symbols(args[0]):
            return _taken(*args)
        return function(*args, **(kwargs or {}))


@contextmanager
def plain_indexing() -> Iterator[None]:
    """Index in the block as with plain sizes.

    `Tensor.__getitem__` itself must not be replaced: from then on, and for good, Python takes tensors for
    sequences, and torch can no longer make one of a list of scalars.
    """
    overrides: Any = torch.overrides
    before = overrides.has_torch_function

    def told(arguments: Any) -> bool:
        """What modules ask before they take their fast way, which this mode does not stand in."""
        ours = _get_current_function_mode() is mode  # type: ignore[no-untyped-call]
        with _pop_mode_temporarily() if ours else nullcontext():
            return bool(before(arguments))

    with _PlainIndexing() as mode:
        overrides.has_torch_function = told
        try:
            yield
        finally:
            overrides.has_torch_function = before


def _is_plain(index: Any) -> bool:
    """Whether it is a tuple of numbers, slices, None and at most one ellipsis."""
    if not isinstance(index, tuple) or sum(each is Ellipsis for each in index) > 1:
        return False
    kinds = (int, torch.SymInt, slice, EllipsisType, type(None))
    return all(isinstance(each, kinds) and not isinstance(each, bool) for each in index)


def _has_symbols(tensor: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


def _taken(tensor: torch.Tensor, index: tuple[Any, ...]) -> torch.Tensor:
    named = sum(each is not None and each is not Ellipsis for each in index)
    result, axis = tensor, 0
    for each in index:
        if each is None:
            result = result.unsqueeze(axis)
            axis += 1
        elif each is Ellipsis:
            axis += tensor.dim() - named
        elif isinstance(each, slice):
            result = _sliced(result, axis, each)
            axis += 1
        else:
            result = result.select(axis, each)
    return torch.ops.aten.alias.default(result) if result is tensor else result


def _sliced(tensor: torch.Tensor, axis: int, part: slice) -> torch.Tensor:
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    size = tensor.shape[axis]
    if step == 1 and start == 0 and (part.stop is None or part.stop >= size):
        return tensor
    stop = 2**63 - 1 if part.stop is None else part.stop
    return torch.ops.aten.slice.Tensor(tensor, axis, start, stop, step)  # type: ignore[no-any-return]
