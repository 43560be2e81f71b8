"""Find fake tensors that outlive the run they belong to, and the objects that keep them."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import _lru_cache_wrapper, partial
from types import CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from sizeup.errors import StateChanged
from sizeup.formats.torch.isolation import Snapshot, preserve_state
from sizeup.formats.torch.reachable import Layout, layout_of, walk

_MOST_OUTER_OBJECTS = 20_000  # in globals and class attributes
_MOST_LEVELS = 8  # of references between a tensor and its named holder
_ADVICE = (
    "the global state was restored where possible; keep the tensor on the module or pass an object"
    " that keeps it as an argument, or analyze torch.export.export(module, inputs)"
)
_FOLLOWED = frozenset((
    *(dict, OrderedDict, defaultdict, list, set, deque, tuple, threading.local),
    *(FunctionType, MethodType, CellType, partial, torch.Tensor, torch.nn.Parameter),
))  # fmt: skip


@contextmanager
def leave_no_trace(mode: FakeTensorMode | None, name: str, *roots: Any) -> Iterator[None]:
    """Restore what can be reached from `roots` after the block.

    Raises StateChanged if a fake tensor of `mode` is still alive then: something else keeps it, for example a
    global variable, a class attribute or a cache. No local variable may hold one when the block ends.
    """
    if mode is None:
        with preserve_state(*roots):
            yield
        return
    check: Callable[[BaseException | None], None] | None = None
    is_clean = True
    try:
        with _only_new_objects():
            try:
                with preserve_state(*roots) as snapshot:
                    check = partial(_check, mode, snapshot.fakes, name, _OuterState(snapshot.classes))
                    yield
            except BaseException as error:
                is_clean = check is None or _is_clean(mode, snapshot.fakes.keys(), error)
                raise
            is_clean = _is_clean(mode, snapshot.fakes.keys())
    except BaseException as error:
        if check is not None and not is_clean:
            check(error)
        raise
    if not is_clean:
        check(None)


@contextmanager
def _only_new_objects() -> Iterator[None]:
    """Keep the objects that exist out of garbage collections and `gc.get_objects`, for speed."""
    if gc.get_freeze_count():  # by other code, which does not expect unfreezing
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _is_clean(mode: FakeTensorMode, known: AbstractSet[int], error: BaseException | None = None) -> bool:
    """Return whether no fake tensor is alive, except known ones and those in an exception."""
    if not _alive(mode, known):
        return True
    if error is not None:
        known = known | _held_by(error)
    gc.collect()
    return not _alive(mode, known)


def _alive(mode: FakeTensorMode, known: AbstractSet[int]) -> list[FakeTensor]:
    """Return the unknown fake tensors of a mode."""
    return [
        item
        for item in gc.get_objects()
        if type(item) is FakeTensor and item.fake_mode is mode and id(item) not in known
    ]


def _check(
    mode: FakeTensorMode,
    before: Iterable[int],
    name: str,
    outer: _OuterState,
    error: BaseException | None,
) -> None:
    """Raise StateChanged if fake tensors are alive, except those in `before` and in an exception."""
    known = set(before)
    if error is not None:
        known |= _held_by(error)
    gc.collect()
    leaked = _alive(mode, known)
    if leaked and _clear_caches(leaked):
        del leaked
        leaked = _alive(mode, known)
    if not leaked:
        return
    place = _holder(leaked, [] if error is None else _frame_functions(error))
    outer.restore(leaked)
    if error is not None and (not place or "closure variable" in place):
        return  # the traceback of the error holds them, or a function of one of its frames
    place = place or "torch, for example as the gradient of a tensor outside of the module"
    del leaked
    raise StateChanged(f"{name}: forward keeps a fake tensor of the recording in {place}; {_ADVICE}")


def _frame_functions(error: BaseException) -> list[Any]:
    """Return the functions of the frames of an exception: a cleared frame holds its function and closure."""
    return [
        function
        for each in _chain(error)
        for frame, _ in traceback.walk_tb(each.__traceback__)
        for function in gc.get_referents(frame)
        if isinstance(function, FunctionType)
    ]


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception, its causes and contexts."""
    chain: dict[int, BaseException] = {}
    errors: list[BaseException | None] = [error]
    while errors:
        each = errors.pop()
        if each is not None and id(each) not in chain:
            chain[id(each)] = each
            errors += [each.__cause__, each.__context__]
    return list(chain.values())


def _held_by(error: BaseException) -> set[int]:
    """Return the ids of fake tensors that an exception holds, after clearing the variables of its frames.

    A cleared frame still holds the closure of its function.
    """
    fakes: set[int] = set()
    held: list[Any] = []

    def visit(item: Any, layout: Layout, _content: Any) -> Iterable[Any]:
        held.append(item)
        if layout.tensor:
            fakes.add(id(item))
        return ()

    for each in _chain(error):
        traceback.clear_frames(each.__traceback__)
        for frame, _ in traceback.walk_tb(each.__traceback__):
            _ = frame.f_locals  # Python before 3.13: a copy made earlier loses what was cleared
        walk([each.args, each], visit)
    cells = [cell for function in _frame_functions(error) for cell in function.__closure__ or ()]
    walk(cells, visit, accept=lambda cls: issubclass(cls, tuple(_FOLLOWED)))
    return fakes


class _OuterState:
    """Globals and class attributes of the code of some classes."""

    def __init__(self, classes: Iterable[type]) -> None:
        bases = {base for cls in classes for base in cls.__mro__}
        modules = {base: vars(base).get("__module__") for base in bases}
        modules = {base: name for base, name in modules.items() if _is_user_code(name)}
        self._classes = [(base, dict(vars(base))) for base in modules]
        names = {name for name in modules.values() if name in sys.modules}

        def is_followed(cls: type) -> bool:
            return cls in _FOLLOWED or vars(cls).get("__module__") in names

        roots: list[Any] = [vars(sys.modules[name]) for name in sorted(names)]
        roots += [attributes for _, attributes in self._classes]
        self._snapshot = Snapshot(roots, most=_MOST_OUTER_OBJECTS, accept=is_followed)

    def restore(self, leaked: list[FakeTensor]) -> None:
        """Restore the entries that hold one of these tensors."""
        ids = set(map(id, leaked))

        def holds(value: Any) -> bool:
            return _holds(value, ids)

        self._snapshot.restore_holders(holds)
        for cls, saved in self._classes:
            for name, value in dict(vars(cls)).items():
                before = saved.get(name, NotImplemented)
                if before is not value and holds(value):
                    if before is NotImplemented:
                        type.__delattr__(cls, name)
                    else:
                        type.__setattr__(cls, name, before)


def _is_user_code(module: Any) -> bool:
    return isinstance(module, str) and not _is_library(module)


def _is_library(module: str) -> bool:
    """Return whether a module belongs to Python, torch, or a library that torch computes shapes with."""
    package = module.partition(".")[0]
    return package in sys.stdlib_module_names or package in ("torch", "numpy", "sympy", "builtins")


def _holds(value: Any, ids: set[int]) -> bool:
    is_holder = False
    held: list[Any] = []

    def visit(item: Any, layout: Layout, _content: Any) -> Iterable[Any]:
        nonlocal is_holder
        held.append(item)
        if id(item) in ids:
            is_holder = True
        return ()

    walk([value], visit, _MOST_OUTER_OBJECTS)
    return is_holder


def _clear_caches(leaked: list[FakeTensor]) -> bool:
    """Clear the lru_caches that hold tensors; return whether there were any.

    The caches of torch and sympy have many thousands of entries and keep no tensor.
    """
    ids = set(map(id, leaked))
    caches = [item for item in gc.get_objects() if type(item) is _lru_cache_wrapper]
    caches = [cache for cache in caches if not _is_library(getattr(cache, "__module__", None) or "")]
    holding = [cache for cache in caches if any(_holds(entry, ids) for entry in gc.get_referents(cache))]
    for cache in holding:
        cache.cache_clear()
    return bool(holding)


def _holder(leaked: list[FakeTensor], ignored: list[Any]) -> str:
    """Return a description of the nearest named object that keeps one of the tensors alive.

    If there are `ignored` holders, an object without a name does not count; it may belong to one of them.
    """
    # A module may replace its entry by any object.
    entries: list[Any] = list(sys.modules.values())
    modules = [module for module in entries if isinstance(module, ModuleType)]
    owners = {id(vars(module)): module.__name__ for module in modules}
    level: dict[int, tuple[Any, str]] = {id(tensor): (tensor, "") for tensor in leaked}
    ours = {id(leaked), id(ignored), *level, *map(id, ignored)}
    nearest = ""
    for _ in range(_MOST_LEVELS):
        items = [item for item, _ in level.values()]
        above: dict[int, tuple[Any, str]] = {}
        ours |= {id(items), *map(id, level.values())}
        for holder in gc.get_referrers(*items):
            if id(holder) in ours or isinstance(holder, FrameType):
                continue
            ours.add(id(holder))
            item, path = next(level[id(held)] for held in gc.get_referents(holder) if id(held) in level)
            place = _place(holder, item, path, owners)
            if place:
                return place
            if not nearest and not ignored and type(holder) is not dict:
                nearest = f"an object of class {_qualified_name(type(holder))}"
            above[id(holder)] = (holder, _accessor(holder, item) + path)
        level = above
    return nearest


def _place(holder: Any, item: Any, path: str, owners: Mapping[int, str]) -> str:
    """Return a description of a holder that has a name; otherwise an empty string."""
    if id(holder) in owners:
        return f"the global {_key(holder, item)}{path} of module {owners[id(holder)]}"
    if isinstance(holder, type):
        return f"the attribute {path.removeprefix('.')} of class {_qualified_name(holder)}"
    if isinstance(holder, FunctionType):
        return f"{_variable(holder, item)}{path} of function {_qualified_name(holder)}"
    return ""


def _qualified_name(item: Any) -> str:
    return f"{item.__module__}.{item.__qualname__}".removeprefix("builtins.")


def _key(holder: dict[Any, Any], item: Any) -> str:
    return next((str(key) for key, value in holder.items() if value is item), "")


def _accessor(holder: Any, item: Any) -> str:
    """Return how to get from a holder to an item that it refers to, as source code."""
    if type(holder) is dict:
        key = _key(holder, item)
        return f".{key}" if key.isidentifier() else f"[{key!r}]"
    if isinstance(holder, list | tuple | deque):
        return next((f"[{index}]" for index, value in enumerate(holder) if value is item), "")
    layout = layout_of(type(holder))
    if layout.attributes is not None:
        key = _key(layout.attributes(holder), item)
        return f".{key}" if key else ""
    return ""


def _variable(function: FunctionType, item: Any) -> str:
    """Return the variable of a function whose cell, closure or default is an item."""
    cells = function.__closure__ or ()
    if item is cells and len(cells) == 1:
        return f"the closure variable {function.__code__.co_freevars[0]}"
    return "a closure variable" if item is cells else "a default argument or attribute"
