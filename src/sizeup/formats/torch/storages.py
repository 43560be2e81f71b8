"""Track the storages of live tensor objects during a run, and the op after which each is freed."""

from __future__ import annotations

import weakref
from collections.abc import Sized
from itertools import pairwise
from typing import Any

import torch

from sizeup.graph import RecordedRun

_CONSTANT = -1  # the storage of all constants: a run neither allocates nor frees it


class _TensorRef(weakref.ref[torch.Tensor]):
    """A weak reference to a tensor object, with the graph value it represents."""

    __slots__ = ("identity", "key", "storage")

    identity: int
    key: int
    storage: int


class StorageTracker:
    """Maps live tensor objects to graph values, and storages to the op after which they were freed.

    Python reuses object ids and the allocator reuses addresses. The entry of an object is removed when the
    object is freed, and that of a storage with its last tracked tensor.
    """

    def __init__(self, ops: Sized) -> None:
        self._ops = ops  # recorded so far
        self._refs: dict[int, _TensorRef] = {}
        self._storage_at: dict[int, int] = {}  # the storage at an address
        self._constant_storages: list[Any] = []  # kept alive so that their addresses are not reused
        self._storage_of: dict[int, int] = {}
        self._last_value: dict[int, int] = {}  # by storage, without constants
        self._layouts: dict[int, str] = {}
        # Indexed by storage.
        self._address: list[int | None] = []
        self._ref_counts: list[int] = []
        self._freed: list[int | None] = []

    def value(self, tensor: torch.Tensor) -> int | None:
        """Return the value of a tensor object; None if it is untracked or its storage was replaced."""
        ref = self._refs.get(id(tensor))
        if ref is None or (ref.storage != _CONSTANT and self._address[ref.storage] != _address(tensor)):
            return None
        return ref.identity

    def is_constant(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor object uses the storage of a constant."""
        ref = self._refs.get(id(tensor))
        return ref is not None and ref.storage == _CONSTANT

    def value_in_storage(self, tensor: torch.Tensor) -> int | None:
        """Return the last value tracked in the storage of an untracked tensor object."""
        address = _address(tensor)
        storage = None if address is None else self._storage_at.get(address)
        return None if storage is None else self._last_value.get(storage)

    def track(self, tensor: torch.Tensor, identity: int, *, constant: bool = False) -> None:
        """Map a tensor object to a value for the rest of the object's life."""
        key = id(tensor)
        storage = self._acquire(tensor, constant)
        ref = self._refs.get(key)
        if ref is None:
            ref = self._refs[key] = _TensorRef(tensor, self._on_free)
            ref.key = key
        else:  # written in place: the same object, usually the same storage
            self._release(ref.storage)
        ref.identity, ref.storage = identity, storage
        self._storage_of[identity] = storage
        if storage != _CONSTANT:
            self._last_value[storage] = identity

    def note_layout(self, tensor: torch.Tensor | None, identity: int) -> None:
        """Record the memory format of a non-contiguous value; some kernels copy it first."""
        try:
            if tensor is None or tensor.is_contiguous():
                return
            is_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        except (NotImplementedError, RuntimeError):  # sparse and wrapped tensors
            return
        self._layouts[identity] = "channels_last" if is_last else "other"

    def note_operand(self, tensor: torch.Tensor | None, identity: int, matrices: int) -> None:
        """Record that torch copies a matmul operand because its batch dimensions cannot be collapsed.

        `matrices` is the number of trailing dimensions that are not batch dimensions.
        """
        if tensor is None or tensor.layout is not torch.strided or identity in self._layouts:
            return
        if not _is_collapsible(tuple(tensor.shape), tensor.stride(), tensor.dim() - matrices):
            self._layouts[identity] = "apart"

    def run(self, values: int, device: str = "cpu", *, deaths: bool = True) -> RecordedRun:
        """Return the storages of the run, and end the tracking; without `deaths`, no free times."""
        end = max(len(self._ops) - 1, 0)
        freed = tuple(end if op_index is None else op_index for op_index in self._freed) if deaths else ()
        storage = tuple(self._storage_of.get(identity, _CONSTANT) for identity in range(values))
        self._refs.clear()  # break reference cycles
        self._constant_storages.clear()
        return RecordedRun(storage, freed, device, torch.get_num_threads(), _vector_lanes(), self._layouts)

    def _acquire(self, tensor: torch.Tensor, constant: bool) -> int:
        address = _address(tensor)
        if address is None:
            return self._new_storage(None)
        storage = self._storage_at.get(address)
        if storage is None:
            if constant:
                self._constant_storages.append(tensor.untyped_storage())
                storage = _CONSTANT
            else:
                storage = self._new_storage(address)
            self._storage_at[address] = storage
        elif storage != _CONSTANT:
            self._ref_counts[storage] += 1
        return storage

    def _new_storage(self, address: int | None) -> int:
        self._address.append(address)
        self._ref_counts.append(1)
        self._freed.append(None)
        return len(self._ref_counts) - 1

    def _on_free(self, ref: _TensorRef) -> None:
        """Weakref callback: runs while the object is freed, before its id can be reused."""
        self._refs.pop(ref.key, None)
        self._release(ref.storage)

    def _release(self, storage: int) -> None:
        if storage == _CONSTANT:
            return
        self._ref_counts[storage] -= 1
        if not self._ref_counts[storage]:
            self._freed[storage] = len(self._ops) - 1
            address = self._address[storage]
            if address is not None:
                del self._storage_at[address]


def _address(tensor: torch.Tensor) -> int | None:
    try:
        address: int = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and wrapped tensors have no single storage
        return None
    return address


def _vector_lanes() -> int:
    if not torch._C._has_mkldnn or not torch._C._get_mkldnn_enabled():
        return 0
    return 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8


def _is_collapsible(shape: tuple[int, ...], stride: tuple[int, ...], leading: int) -> bool:
    """Return whether the leading dimensions collapse into one and the rest is a strided matrix."""
    if leading > 0 and 1 not in stride[leading:]:
        return False
    # The batch (axis 0) is checked even at size 1, because it may be larger in another run.
    axes = [axis for axis in range(leading) if shape[axis] != 1 or axis == 0]
    return all(stride[a] == shape[b] * stride[b] for a, b in pairwise(axes))
