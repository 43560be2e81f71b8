"""Leave no trace of a recording: save what a model can reach before a run, and restore it afterwards."""

from __future__ import annotations

import random
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from operator import is_
from types import CellType
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules import module as module_hooks

from sizeup.errors import StateChanged
from sizeup.formats.torch.reachable import (
    MOST_OBJECTS,
    OTHERS,
    Layout,
    cell_value,
    elements,
    slot_value,
    walk,
)

_MOST_ARRAY_BYTES = 64 << 20  # of NumPy arrays whose values are saved
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_Restore = Callable[[], None]


class Snapshot:
    """The state of everything mutable that can be reached from some objects.

    It has one shallow copy per object: containers, attributes, slots, cells of closures, and of tensors the
    memory they use, their gradients, hooks and flags. `values` also copies the values of tensors that are not
    parameters, for runs with real data on the caller's own tensors.
    """

    def __init__(
        self,
        roots: Iterable[Any],
        *,
        values: bool = False,
        most: int = MOST_OBJECTS,
        accept: Callable[[type], bool] = lambda _: True,
    ) -> None:
        self.fakes: dict[int, torch.Tensor] = {}  # by id
        self._values = values
        self._array_bytes = 0
        self._containers: list[tuple[Any, type, Any]] = []
        self._classes: list[tuple[Any, type]] = []
        self._slots: list[tuple[Any, Any, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._tensors: list[_TensorState] = []
        self._others: list[_Restore] = []
        self._held: list[Any] = []  # immutable containers, kept so that their ids stay unique
        self.complete = walk(roots, self._visit, most, accept)

    def _visit(self, item: Any, layout: Layout, content: Any) -> Iterable[Any]:
        if content is not None:
            if layout.base is tuple or layout.base is frozenset:
                self._held.append(item)
            else:
                self._containers.append((item, layout.base or dict, content))
        if layout.attributes is not None:
            self._classes.append((item, type(item)))
        if layout.slots:
            self._slots += [(item, slot, slot_value(slot, item)) for slot in layout.slots]
        if layout.tensor:
            if isinstance(item, FakeTensor):
                self.fakes[id(item)] = item
            state = _TensorState(item, self._values)
            self._tensors.append(state)
            return state.references
        if type(item) in OTHERS:
            self._visit_other(item)
        return ()

    def _visit_other(self, item: Any) -> None:
        cls = type(item)
        self._held.append(item)
        if cls is CellType:
            self._cells.append((item, cell_value(item)))
        elif cls is random.Random:
            self._others.append(_partial_state(item.getstate(), item.setstate))
        elif cls is torch.Generator:
            self._others.append(_partial_state(item.get_state().clone(), item.set_state))
        elif cls is np.random.RandomState:
            self._others.append(_partial_state(item.get_state(), item.set_state))
        elif cls is np.random.Generator:
            bits, state = item.bit_generator, item.bit_generator.state
            self._others.append(lambda: setattr(bits, "state", state))
        elif cls is bytearray or cls is array:
            saved = item[:]
            self._others.append(lambda: item.__setitem__(slice(None), saved))
        elif cls is np.ndarray and item.flags.writeable and not item.dtype.hasobject:
            self._array_bytes += item.nbytes
            if self._array_bytes <= _MOST_ARRAY_BYTES:
                values = item.copy()
                self._others.append(lambda: np.copyto(item, values))

    @property
    def classes(self) -> set[type]:
        """The classes of all objects with attributes."""
        return {cls for _, cls in self._classes}

    def restore_holders(self, holds: Callable[[Any], bool]) -> None:
        """Restore only entries whose current values hold certain objects."""
        for item, base, content in self._containers:
            if base is dict or base is OrderedDict:
                for key, value in elements(base, item).items():
                    saved = content.get(key, NotImplemented)
                    if saved is not value and holds(value):
                        base.__delitem__(item, key) if saved is NotImplemented else base.__setitem__(
                            item, key, saved
                        )
            else:
                known = set(map(id, content))
                if any(id(value) not in known and holds(value) for value in elements(base, item)):
                    _restore_container(item, base, content)
        self._restore_references(holds)
        for tensor in self._tensors:
            tensor.restore()

    def restore(self) -> None:
        """Restore whatever differs from the snapshot."""
        for item, cls in self._classes:
            if type(item) is not cls:
                object.__setattr__(item, "__class__", cls)
        for item, base, content in self._containers:
            _restore_container(item, base, content)
        self._restore_references(lambda _: True)
        for tensor in self._tensors:
            tensor.restore()
        for restore in self._others:
            restore()

    def _restore_references(self, holds: Callable[[Any], bool]) -> None:
        for item, slot, value in self._slots:
            current = slot_value(slot, item)
            if current is not value and holds(current):
                slot.__delete__(item) if value is NotImplemented else slot.__set__(item, value)
        for cell, value in self._cells:
            current = cell_value(cell)
            if current is not value and holds(current):
                if value is NotImplemented:
                    del cell.cell_contents
                else:
                    cell.cell_contents = value

    def require_unwritten(self) -> None:
        """Raise StateChanged if a tensor whose values are not saved was written in place."""
        for state in self._tensors:
            if state.is_written:
                shape = "x".join(map(str, state.tensor.shape)) or "scalar"
                raise StateChanged(
                    f"a run with real data wrote into a tensor of the model ({shape}, {state.tensor.dtype})"
                    " although it ran on a copy; the model refers to itself from a function or a global,"
                    " so pass copy.deepcopy(module) of a module without such references"
                )


def _partial_state(state: Any, set_state: Callable[[Any], Any]) -> _Restore:
    return lambda: set_state(state)


class _TensorState:
    """The state of one tensor object apart from its Python attributes."""

    __slots__ = ("_alias", "_flag", "_grad", "_hooks", "_is_changed", "_saved", "_version", "tensor")

    def __init__(self, tensor: torch.Tensor, values: bool) -> None:
        self.tensor = tensor
        self._is_changed = False
        self._alias = self._saved = self._version = self._grad = None
        if type(tensor) in _PLAIN_TENSORS and tensor.layout is torch.strided:
            self._alias = tensor.detach()
            self._version = None if tensor.is_inference() else tensor._version
            if values and type(tensor) is not torch.nn.Parameter and not tensor.is_meta:
                self._saved = tensor.detach().clone()
        with torch._C.DisableTorchFunctionSubclass():
            self._flag = tensor.requires_grad if tensor.is_leaf else None
            if self._flag is not None:
                self._grad = tensor.grad
            self._hooks = tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)

    @property
    def references(self) -> list[Any]:
        """The objects that the tensor refers to."""
        return [item for item in (self._grad, *self._hooks) if item is not None]

    @property
    def is_written(self) -> bool:
        """Whether its memory was written in place since the snapshot, and is not restored."""
        if self._alias is None or self._version is None or self._saved is not None:
            return False
        return self._is_changed or self._alias._version != self._version

    def restore(self) -> None:
        tensor = self.tensor
        with torch._C.DisableTorchFunctionSubclass():
            if self._alias is not None:
                if type(tensor) not in _PLAIN_TENSORS or not _use_same_memory(tensor, self._alias):
                    tensor.data = self._alias
                if self._saved is not None and (self._version is None or tensor._version != self._version):
                    with torch.no_grad() if self._version is not None else torch.inference_mode():
                        tensor.copy_(self._saved)
            if self._version is not None and tensor._version != self._version:
                # A backward that is still to come compares it.
                self._is_changed = self._saved is None
                torch._C._autograd._unsafe_set_version_counter((tensor,), (self._version,))
            if self._flag is None:
                return
            if tensor.grad is not self._grad:
                tensor.grad = self._grad
            if tensor.requires_grad != self._flag:
                tensor.requires_grad_(self._flag)

            hooks, after_hooks = self._hooks
            if tensor._backward_hooks is not hooks:
                tensor._backward_hooks = hooks
            if getattr(tensor, "_post_accumulate_grad_hooks", None) is not after_hooks:
                tensor._post_accumulate_grad_hooks = after_hooks  # type: ignore[assignment]


def _use_same_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.is_meta == right.is_meta is False:
        return left.is_set_to(right)
    same_storage = left.untyped_storage()._cdata == right.untyped_storage()._cdata
    return same_storage and (left.shape, left.stride()) == (right.shape, right.stride())


def _restore_container(current: Any, base: Any, saved: Any) -> None:
    """Restore the elements of a container by the methods of its built-in type."""
    if base is dict or base is OrderedDict:
        length = dict.__len__(current)
        if length == len(saved):
            keys = base.__iter__(current)
            if all(map(is_, keys, saved)) and all(map(is_, base.values(current), saved.values())):
                return
        base.clear(current)
        for key, value in saved.items():
            base.__setitem__(current, key, value)
    elif base.__len__(current) != len(saved) or not all(map(is_, base.__iter__(current), saved)):
        base.clear(current)
        (set.update if base is set else base.extend)(current, saved)


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore the states of the global random number generators, and torch's default dtype."""
    python, numpy_state = random.getstate(), np.random.get_state()
    cpu, dtype = torch.random.get_rng_state(), torch.get_default_dtype()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy_state)
        torch.random.set_rng_state(cpu)
        torch.set_default_dtype(dtype)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


# The hooks of all modules.
_GLOBAL_HOOKS = [value for name, value in vars(module_hooks).items() if name.startswith("_global_")]


@contextmanager
def preserve_state(*roots: Any, values: bool = False) -> Iterator[Snapshot]:
    """Restore everything mutable that can be reached from `roots` after the block.

    Modules, containers, caches and other objects are restored in place; see `Snapshot`.
    """
    snapshot = Snapshot((*roots, *_GLOBAL_HOOKS), values=values)
    with preserve_random_state():
        try:
            yield snapshot
        finally:
            snapshot.restore()


def copy_with_state(content: Any) -> Any:
    """Return a deep copy for a run with real data; tensors of an autograd graph are copied without it."""
    memo: dict[int, Any] = {}
    held: list[Any] = []

    def visit(item: Any, layout: Layout, _content: Any) -> Iterable[Any]:
        held.append(item)
        if layout.tensor and type(item) is torch.Tensor and not item.is_leaf:
            memo[id(item)] = item.detach().clone().requires_grad_(item.requires_grad)
        return ()

    walk([content], visit)
    return deepcopy(content, memo)
