"""Who holds what while a model runs: living tensor objects, their storages, and when the last one let go."""

from __future__ import annotations

import weakref
from collections.abc import Sized
from itertools import pairwise
from typing import Any

import torch

from sizeup.graph import Run

_CONSTANT = -1  # the storage of all that is fixed: no memory that a run takes or frees


class _Seen(weakref.ref[torch.Tensor]):
    """A tensor object that stands for a value of the graph, without being kept alive by that."""

    __slots__ = ("identity", "key", "storage")

    identity: int
    key: int
    storage: int


class Holders:
    """Which value each living tensor object stands for, and after which operator each storage was freed.

    Python gives the id of a dead object to a new one, and so does the allocator with addresses: an entry
    goes with its object, and that of a storage with the last known tensor that holds it.
    """

    def __init__(self, ops: Sized) -> None:
        self._ops = ops  # those that have run so far
        self._seen: dict[int, _Seen] = {}
        self._at: dict[int, int] = {}  # the storage at an address
        self._fixed: list[Any] = []  # storages of constants, kept so that nothing else gets their addresses
        self._of_value: dict[int, int] = {}
        self._last_value: dict[int, int] = {}  # of a storage that is no constant's
        self._layouts: dict[int, str] = {}
        # One entry a storage.
        self._address: list[int | None] = []
        self._holders: list[int] = []
        self._freed: list[int | None] = []

    def value(self, tensor: torch.Tensor) -> int | None:
        """The value that a tensor object stands for, if it was ever named and still holds the same bytes."""
        seen = self._seen.get(id(tensor))
        if seen is None or (seen.storage != _CONSTANT and self._address[seen.storage] != _address(tensor)):
            return None
        return seen.identity

    def is_fixed(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor object lies in the memory of a constant."""
        seen = self._seen.get(id(tensor))
        return seen is not None and seen.storage == _CONSTANT

    def value_beneath(self, tensor: torch.Tensor) -> int | None:
        """The last value that was named of the storage in which an unknown tensor object lies."""
        address = _address(tensor)
        storage = None if address is None else self._at.get(address)
        return None if storage is None else self._last_value.get(storage)

    def name(self, tensor: torch.Tensor, identity: int, *, fixed: bool = False) -> None:
        """Let a tensor object stand for a value from now on, as long as the object lives."""
        key = id(tensor)
        storage = self._hold(tensor, fixed)
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(tensor, self._forget)
            seen.key = key
        else:  # written into: the same object, most often over the same bytes
            self._let_go(seen.storage)
        seen.identity, seen.storage = identity, storage
        self._of_value[identity] = storage
        if storage != _CONSTANT:
            self._last_value[storage] = identity

    def note_layout(self, tensor: torch.Tensor | None, identity: int) -> None:
        """Remember that a value does not lie row by row, which some kernels change on a copy."""
        try:
            if tensor is None or tensor.is_contiguous():
                return
            is_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        except (NotImplementedError, RuntimeError):  # sparse and wrapped tensors
            return
        self._layouts[identity] = "channels_last" if is_last else "other"

    def note_operand(self, tensor: torch.Tensor | None, identity: int, matrices: int) -> None:
        """Remember that torch copies an operand of a product before: its leading dimensions, all but the last
        one or two, do not lie in memory as one."""
        if tensor is None or tensor.layout is not torch.strided or identity in self._layouts:
            return
        if not _is_one_batch(tuple(tensor.shape), tensor.stride(), tensor.dim() - matrices):
            self._layouts[identity] = "apart"

    def run(self, values: int, device: str = "cpu", *, deaths: bool = True) -> Run:
        """What was seen of a run, without deaths where those tell nothing; then the end."""
        end = max(len(self._ops) - 1, 0)
        freed = tuple(end if each is None else each for each in self._freed) if deaths else ()
        storage = tuple(self._of_value.get(identity, _CONSTANT) for identity in range(values))
        self._seen.clear()  # they point back here
        self._fixed.clear()
        return Run(storage, freed, device, torch.get_num_threads(), _lanes(), self._layouts)

    def _hold(self, tensor: torch.Tensor, fixed: bool) -> int:
        address = _address(tensor)
        if address is None:
            return self._open(None)
        storage = self._at.get(address)
        if storage is None:
            if fixed:
                self._fixed.append(tensor.untyped_storage())
                storage = _CONSTANT
            else:
                storage = self._open(address)
            self._at[address] = storage
        elif storage != _CONSTANT:
            self._holders[storage] += 1
        return storage

    def _open(self, address: int | None) -> int:
        self._address.append(address)
        self._holders.append(1)
        self._freed.append(None)
        return len(self._holders) - 1

    def _forget(self, seen: _Seen) -> None:
        """Python calls this while the object is being freed, before its id can be another's."""
        self._seen.pop(seen.key, None)
        self._let_go(seen.storage)

    def _let_go(self, storage: int) -> None:
        if storage == _CONSTANT:
            return
        self._holders[storage] -= 1
        if not self._holders[storage]:
            self._freed[storage] = len(self._ops) - 1
            address = self._address[storage]
            if address is not None:
                del self._at[address]


def _address(tensor: torch.Tensor) -> int | None:
    try:
        found: int = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and wrapped tensors have no one storage
        return None
    return found


def _lanes() -> int:
    if not torch._C._has_mkldnn or not torch._C._get_mkldnn_enabled():
        return 0
    return 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8


def _is_one_batch(shape: tuple[int, ...], stride: tuple[int, ...], leading: int) -> bool:
    """Whether the leading dimensions can be seen as one, and the rest as rows or columns of numbers."""
    if leading > 0 and 1 not in stride[leading:]:
        return False
    # The first is the batch: of whatever size it was here, it may be more.
    places = [place for place in range(leading) if shape[place] != 1 or place == 0]
    return all(stride[a] == shape[b] * stride[b] for a, b in pairwise(places))
