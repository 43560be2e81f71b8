"""Walking a user's objects: no code of theirs runs, and any structure is restored."""

from __future__ import annotations

import gc
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

import sizeup
from sizeup.formats.torch.isolation import Snapshot
from sizeup.formats.torch.reachable import walk


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("code of the user ran")


class Hostile:
    """Any use other than by identity fails."""

    __eq__ = __len__ = __iter__ = __bool__ = __reduce_ex__ = __getattr__ = __repr__ = _refuse
    __hash__ = object.__hash__

    @property
    def computed(self) -> NoReturn:
        _refuse()

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        _refuse()


class HostileDict(dict[str, Any]):
    __iter__ = keys = values = items = __getitem__ = copy = __len__ = get = __eq__ = _refuse
    __hash__ = object.__hash__  # type: ignore[assignment]


class HostileList(list[Any]):
    __iter__ = __getitem__ = copy = __len__ = __eq__ = _refuse
    __hash__ = object.__hash__  # type: ignore[assignment]


def test_no_code_of_the_user_runs() -> None:
    hostile, table, items = Hostile(), HostileDict(), HostileList()
    dict.__setitem__(table, "a", 1)
    list.append(items, hostile)
    vars_of = object.__getattribute__(hostile, "__dict__")
    vars_of.update(table=table, items=items)
    snapshot = Snapshot([hostile])
    dict.__setitem__(table, "b", 2)
    list.append(items, 3)
    vars_of["other"] = 4
    snapshot.restore()
    assert list(vars_of) == ["table", "items"]
    assert (dict.__len__(table), list.__len__(items)) == (1, 1)


def test_the_walk_is_linear_and_bounded() -> None:
    visited: list[Any] = []

    def visit(item: Any, *_: Any) -> tuple[()]:
        visited.append(item)
        return ()

    shared: list[Any] = []
    for _ in range(60):  # 2^60 paths
        shared = [shared, shared]
    assert walk([shared], visit)
    assert len(visited) == 61
    endless: list[Any] = []
    endless.append(endless)
    visited.clear()
    assert walk([endless], visit)
    assert len(visited) == 1
    visited.clear()
    assert not walk([[[index] for index in range(1000)]], visit, most=100)
    assert len(visited) == 100


def test_a_long_chain_is_walked_without_recursion() -> None:
    chain: list[Any] = []
    first = chain
    for _ in range(100_000):
        chain.append([])
        chain = chain[0]
    snapshot = Snapshot([first])
    chain.append(1)
    snapshot.restore()
    assert chain == []
    while first:  # freeing it must not recurse either
        first = first.pop()


@dataclass
class Record:
    value: Any


class Slots:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Keeper:
    """A cache with a list and an in-place buffer."""

    def __init__(self) -> None:
        self.items: list[Any] = [torch.zeros(2)]
        self.buffer = torch.zeros(2)
        self.length = 0


_LEAVES = st.builds(lambda: torch.ones(2)) | st.integers() | st.text(max_size=2) | st.builds(Keeper)
_STRUCTURES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(deque)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3).map(OrderedDict)
        | inner.map(Record)
        | inner.map(Slots)
        | inner.map(lambda value: SimpleNamespace(value=value))
    ),
    max_leaves=8,
)


def _objects(structure: Any) -> list[Any]:
    """Return all objects of a structure, by rules of this test and not of the code under test."""
    objects, queue = [], [structure]
    while queue:
        item = queue.pop()
        objects.append(item)
        if isinstance(item, list | tuple | deque):
            queue += item
        elif isinstance(item, dict):
            queue += item.values()
        elif isinstance(item, Slots):
            queue.append(item.value)
        elif isinstance(item, Record | SimpleNamespace | Keeper):
            queue += vars(item).values()
    return objects


def _change(structure: Any, x: Tensor, seed: int) -> None:
    """Change the objects of a structure, some of them depending on a seed."""
    for index, item in enumerate(_objects(structure)):
        if (seed >> index % 16) & 1:
            continue
        if isinstance(item, list | deque):
            item.append(x)
        elif isinstance(item, dict):
            item["new"] = [x]
        elif isinstance(item, Record | Slots | SimpleNamespace):
            item.value = x
        elif isinstance(item, Keeper):
            item.items.append(x)
            item.items[0] = x
            item.buffer.add_(1)
            item.length += 1
            item.buffer = x
        elif isinstance(item, Tensor) and not isinstance(item, FakeTensor):
            item.requires_grad_()
            item.note = x  # type: ignore[attr-defined]


def _fingerprint(structure: Any) -> list[Any]:
    return [
        (id(item), item.tolist(), item.requires_grad, vars(item))
        if isinstance(item, Tensor)
        else (id(item), type(item), item if isinstance(item, int | str) else None)
        for item in _objects(structure)
    ]


class Changing(nn.Module):
    """Changes its arguments and its own structure."""

    def __init__(self, structure: Any, seed: int, outcome: str) -> None:
        super().__init__()
        vars(self)["structure"] = structure
        self.seed, self.outcome = seed, outcome

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        _change((args, kwargs, self.structure), x, self.seed)
        if self.outcome == "fails":
            raise RuntimeError("half way")
        if self.outcome == "reads":
            return x * 2 if float(x.sum()) < 0 else x + 1
        return x * 2


@settings(
    max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(
    _STRUCTURES,
    _STRUCTURES,
    _STRUCTURES,
    st.integers(0, 2**16 - 1),
    st.sampled_from(["succeeds", "fails", "reads"]),
)
def test_random_structures_are_restored(
    argument: Any, keyword: Any, attribute: Any, seed: int, outcome: str
) -> None:
    module = Changing(attribute, seed, outcome)
    before = [_fingerprint(each) for each in (argument, keyword, attribute)]
    try:
        report = sizeup.analyze(module, inputs=(torch.ones(2), argument), kwargs={"state": keyword})
    except sizeup.LoadError:
        assert outcome == "fails"
    else:
        assert any("real data" in note for note in report.notes) == (outcome == "reads")
    assert [_fingerprint(each) for each in (argument, keyword, attribute)] == before
    assert not [item for item in gc.get_objects(0) if type(item) is FakeTensor]


REGISTRY: dict[str, Any] = {}


class Registering(nn.Module):
    """Keeps tensors in globals and class attributes, depending on a seed."""

    kept: dict[str, Any] = {}  # noqa: RUF012 - a mistake that models make

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        holders: list[Any] = [
            lambda: REGISTRY.update(a=y),
            lambda: REGISTRY.setdefault("list", []).append((y, {"deep": [y]})),
            lambda: type(self).kept.update(b=Record(y)),
            lambda: setattr(type(self), "last", [y]),
            lambda: REGISTRY["known"].append(Slots(y)),
        ]
        for index, hold in enumerate(holders):
            if (self.seed >> index) & 1:
                hold()
        return y * 2


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 31))
def test_what_is_kept_in_globals_and_classes_is_an_error_and_restored(seed: int) -> None:
    REGISTRY.clear()
    known = REGISTRY["known"] = [1]
    if seed:
        with pytest.raises(sizeup.StateChanged, match="keeps a fake tensor"):
            sizeup.analyze(Registering(seed), inputs=(torch.ones(2),))
    else:
        sizeup.analyze(Registering(seed), inputs=(torch.ones(2),))
    assert REGISTRY == {"known": [1]}
    assert REGISTRY["known"] is known
    assert Registering.kept == {}
    assert not hasattr(Registering, "last")
