"""Indexing as torch does it with plain sizes, for sizes that are free.

Of `x[:, 0]` torch's own code leaves out the slice that takes everything, but not where a size is a symbol:
the graph would then have operators that a fresh load does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import EllipsisType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode_temporarily


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
