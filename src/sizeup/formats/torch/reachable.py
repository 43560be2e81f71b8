"""Walk everything mutable that objects refer to, without running their code.

Attributes are read through the descriptors that Python created, and containers through the methods of the
built-in types, so that no property, `__getattr__`, `__iter__` or `__eq__` of a class is called. Every object
is visited once: the walk is linear in the number of references, and stops after MOST_OBJECTS objects.
"""

from __future__ import annotations

import logging
import random
import threading
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

MOST_OBJECTS = 1_000_000

# Not followed: immutable, shared by the whole process, or without references that Python can see.
_ATOMIC = frozenset((
    *(bool, int, float, complex, str, bytes, range, slice, type(None), type(Ellipsis), type(NotImplemented)),
    *(BuiltinFunctionType, CodeType, GetSetDescriptorType, MemberDescriptorType),
    *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, torch.SymInt),
))  # fmt: skip
_ATOMIC_BASES = (
    *(type, ModuleType, weakref.ref, logging.Logger, threading.Thread, np.generic, FakeTensorMode),
    torch.jit.ScriptModule,  # compiled modules do not set Python attributes
)  # fmt: skip
_CONTAINERS = (OrderedDict, dict, list, set, deque, tuple, frozenset)
# Mutable without attributes or elements that are objects.
OTHERS = frozenset((
    *(CellType, np.ndarray, bytearray, array, torch.Generator),
    *(random.Random, np.random.Generator, np.random.RandomState),
))  # fmt: skip


class Layout:
    """Where the instances of a class keep their references."""

    __slots__ = ("attributes", "base", "empty", "plain", "slots", "tensor")

    def __init__(self, cls: type) -> None:
        self.base: type | None = None
        self.tensor = False
        self.slots: tuple[Any, ...] = ()
        self.plain = True  # only elements and attributes are references
        self.attributes: Callable[[Any], Any] | None = None
        self.empty = cls in _ATOMIC or issubclass(cls, _ATOMIC_BASES)
        if self.empty:
            return
        self.base = next((base for base in _CONTAINERS if issubclass(cls, base)), None)
        self.tensor = issubclass(cls, torch.Tensor)
        # The attributes of a fake tensor are its mode and what belongs to that.
        self.attributes = None if issubclass(cls, FakeTensor) else _attributes_reader(cls)
        self.slots = _slots(cls)
        self.plain = not self.slots and cls is not CellType and cls not in _REFERENTS
        is_known = cls in OTHERS or cls in _REFERENTS
        self.empty = not (self.base or self.tensor or self.attributes or self.slots or is_known)


def _attributes_reader(cls: type) -> Callable[[Any], Any] | None:
    """Return a function that returns the `__dict__` of an instance."""
    if cls is threading.local:
        return lambda item: threading.local.__getattribute__(item, "__dict__")
    for base in cls.__mro__:
        descriptor = vars(base).get("__dict__")
        if descriptor is not None:
            if type(descriptor) in (GetSetDescriptorType, MemberDescriptorType):
                return descriptor.__get__  # type: ignore[no-any-return]
            return None  # the class computes it
    return None


def _slots(cls: type) -> tuple[Any, ...]:
    return tuple(
        descriptor
        for base in cls.__mro__
        if "__slots__" in vars(base)
        for name, descriptor in vars(base).items()
        if type(descriptor) is MemberDescriptorType and name != "__dict__"
    )


def _function_referents(function: FunctionType) -> list[Any]:
    return [function.__closure__, function.__defaults__, function.__kwdefaults__]


# The references of built-in types that are neither attributes nor elements.
_REFERENTS: dict[type, Callable[[Any], list[Any]]] = {
    FunctionType: _function_referents,
    MethodType: lambda method: [method.__self__, method.__func__],
    partial: lambda function: [function.func, function.args, function.keywords],
}

_layouts: weakref.WeakKeyDictionary[type, Layout] = weakref.WeakKeyDictionary()


def layout_of(cls: type) -> Layout:
    """Return the layout of a class."""
    layout = _layouts.get(cls)
    if layout is None:
        layout = _layouts[cls] = Layout(cls)
    return layout


def elements(base: type, container: Any) -> Any:
    """Return a shallow copy of a container's content, as a dict, list or tuple of elements."""
    if base is dict and type(container).__iter__ is dict.__iter__:  # otherwise `copy` calls it
        return dict.copy(container)
    if base is dict:
        return dict(dict.items(container))
    if base is OrderedDict:  # its order is not that of the underlying dict
        return dict(OrderedDict.items(container))
    if base is list:
        return list.copy(container)
    return tuple(base.__iter__(container))  # type: ignore[attr-defined]


def slot_value(descriptor: Any, item: Any) -> Any:
    """Return the value of a slot; NotImplemented if it is unset."""
    try:
        return descriptor.__get__(item)
    except AttributeError:
        return NotImplemented


def cell_value(cell: CellType) -> Any:
    """Return the content of a cell; NotImplemented if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return NotImplemented


def walk(
    roots: Iterable[Any],
    visit: Callable[[Any, Layout, Any], Iterable[Any]],
    most: int = MOST_OBJECTS,
    accept: Callable[[type], bool] = lambda _: True,
) -> bool:
    """Call `visit` once per reachable object with its layout and elements; return False above `most` objects.

    The elements are those of a container, otherwise None. `visit` returns further objects to follow.
    Instances of classes that `accept` rejects are not followed. The caller keeps the objects alive, so that
    their ids stay unique.
    """
    atomic, layouts = _ATOMIC, dict[type, Layout]()
    stack = list(roots)
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        cls = type(item)
        if cls in atomic or id(item) in seen:
            continue
        layout = layouts.get(cls)
        if layout is None:
            layout = layouts[cls] = layout_of(cls if accept(cls) else int)
        if layout.empty:
            continue
        seen.add(id(item))
        if len(seen) > most:
            return False
        content = None
        if layout.base is not None:
            content = elements(layout.base, item)
            if type(content) is dict:
                stack += [value for value in content.values() if type(value) not in atomic]
            stack += [value for value in content if type(value) not in atomic]
        if not layout.plain:
            stack += _references(item, layout)
        elif layout.attributes is not None:
            stack.append(layout.attributes(item))
        stack += visit(item, layout, content)
    return True


def _references(item: Any, layout: Layout) -> list[Any]:
    """Return the objects that an item refers to, other than its elements."""
    references = [slot_value(descriptor, item) for descriptor in layout.slots]
    if layout.attributes is not None:
        references.append(layout.attributes(item))
    if type(item) is CellType:
        references.append(cell_value(item))
    elif type(item) in _REFERENTS:
        references += _REFERENTS[type(item)](item)
    return references
