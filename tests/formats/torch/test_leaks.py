"""No fake tensor and no other trace of a recording survives a call."""

from __future__ import annotations

import contextvars
import copy
import functools
import gc
import random
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

import sizeup

SEEN: list[Tensor] = []
TABLE: dict[str, Any] = {"first": torch.ones(2), "nested": {"list": [1]}}
LAST: Tensor | None = None
LOCAL = threading.local()
CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("CONTEXT", default=None)
ELSEWHERE = types.ModuleType("elsewhere")  # not the module of any class
GLOBAL_WEIGHT = torch.ones(4, requires_grad=True)


@pytest.fixture(autouse=True)
def no_survivor() -> Iterator[None]:
    """Check after each test that no fake tensor of it is alive."""
    before = [item for item in gc.get_objects() if type(item) is FakeTensor]
    known = set(map(id, before))
    yield
    vars(ELSEWHERE).pop("kept", None)
    CONTEXT.set(None)
    gc.collect()
    assert not [item for item in gc.get_objects() if type(item) is FakeTensor and id(item) not in known]
    del before


class Call(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def _x() -> Tensor:
    return torch.ones(2, 4)


# --- gradients -------------------------------------------------------------------------------------------


class Adapting(nn.Module):
    """Takes a gradient step's gradients in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        loss = self.layer(x).square().sum()
        loss.backward()
        result: Tensor = self.layer(x)
        return result


def test_gradients_of_a_recording_do_not_reach_the_optimizer() -> None:
    module = Adapting()
    other = copy.deepcopy(module)
    sizeup.analyze(module, inputs=(_x(),))
    assert module.layer.weight.grad is None
    assert module.layer.bias.grad is None
    for each in (module, other):
        optimizer = torch.optim.SGD(each.parameters(), 0.1)
        each(_x())
        optimizer.step()
    assert torch.equal(module.layer.weight, other.layer.weight)
    assert torch.equal(module.layer.bias, other.layer.bias)


def test_gradients_that_exist_keep_their_object_and_values() -> None:
    module, x = Adapting(), _x().requires_grad_()
    module(x)
    grads = [(each.grad, each.grad.clone()) for each in (*module.parameters(), x) if each.grad is not None]
    assert len(grads) == 3
    sizeup.analyze(module, inputs=(x,))
    for parameter, (grad, values) in zip((*module.parameters(), x), grads, strict=True):
        assert parameter.grad is grad
        assert torch.equal(grad, values)


def test_the_gradient_of_a_global_tensor_is_reported_and_removed() -> None:
    def forward(_: nn.Module, x: Tensor) -> Tensor:
        (x * GLOBAL_WEIGHT).sum().backward()  # type: ignore[no-untyped-call]
        return x

    with pytest.raises(sizeup.StateChanged, match="gradient"):
        sizeup.analyze(Call(forward), inputs=(_x(),))
    assert GLOBAL_WEIGHT.grad is None


# --- what is kept elsewhere ------------------------------------------------------------------------------


class Global(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        global LAST
        LAST = x + 1
        return LAST * 2


class Appending(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(x * 2)
        TABLE["nested"]["list"].append({"deep": SEEN[-1]})
        TABLE["new"] = (x, [x])
        return x + 1


class OnTheClass(nn.Module):
    last: Tensor | None = None
    calls: list[Tensor] = []  # noqa: RUF012 - a mistake that models make

    def forward(self, x: Tensor) -> Tensor:
        type(self).last = x + 1
        type(self).other = x  # type: ignore[attr-defined]
        self.calls.append(x)
        return x * 2


class WithDefault(nn.Module):
    def forward(self, x: Tensor, memory: list[Tensor] = []) -> Tensor:  # noqa: B006 - a mistake that models make
        memory.append(x + 1)
        return x * 2


def _in_closure() -> nn.Module:
    kept: list[Tensor] = []

    class Closing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            kept.append(x)
            return x * 2

    module = Closing()
    vars(module)["kept_by_closure"] = weakref.ref(Closing)
    return module


@functools.lru_cache
def _table(length: int) -> Tensor:
    return torch.arange(length) * 2


class Cached(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + _table(x.shape[-1])


class Local(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        LOCAL.kept = x
        return x * 2


class InContext(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        CONTEXT.set(x)
        return x * 2


class Elsewhere(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        ELSEWHERE.kept = [x]  # type: ignore[attr-defined]
        return x * 2


class InAThread(nn.Module):
    """Keeps a tensor that no recorder saw."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: SEEN.append(self.layer(x)))
        thread.start()
        thread.join()
        return x * 2


class Collecting(nn.Module):
    """Moves its objects out of the young generation."""

    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(x + 1)
        gc.collect()
        return x * 2


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(x + 1)
        raise RuntimeError("half way")


KEEPING: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "global": (Global, "the global LAST of module .*test_leaks"),
    "global list": (Appending, "of module .*test_leaks"),
    "class attribute": (OnTheClass, "of class .*test_leaks.OnTheClass"),
    "default argument": (WithDefault, "default argument.* of function .*WithDefault.forward"),
    "closure": (_in_closure, "the closure variable kept.* of function .*forward"),
    "thread-local": (Local, "the global LOCAL.* of module .*test_leaks"),
    "context variable": (InContext, "an object of class"),
    "another module": (Elsewhere, r"the global ELSEWHERE.kept\[0\] of module .*test_leaks"),
    "another thread": (InAThread, "the global SEEN.* of module .*test_leaks"),
    "collected": (Collecting, "the global SEEN.* of module .*test_leaks"),
    "failed": (Failing, "the global SEEN.* of module .*test_leaks"),
}


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("name", KEEPING)
def test_a_fake_tensor_that_is_kept_elsewhere_is_an_error(name: str) -> None:
    make, place = KEEPING[name]
    module, first = make(), TABLE["first"]
    with pytest.raises(sizeup.StateChanged, match=place) as raised:
        sizeup.analyze(module, inputs=(_x(),))
    assert "keeps a fake tensor" in str(raised.value)
    assert SEEN == []
    assert LAST is None
    assert list(TABLE) == ["first", "nested"]
    assert TABLE["first"] is first
    assert TABLE["nested"] == {"list": [1]}
    assert vars(LOCAL) == {}
    assert OnTheClass.last is None
    assert OnTheClass.calls == []
    assert not hasattr(OnTheClass, "other")
    assert WithDefault.forward.__defaults__ == ([],)


def test_a_memoized_function_is_cleared_and_no_error() -> None:
    """As the coordinates of DINOv3: a function of sizes whose results are tensors."""
    module, x = Cached(), torch.ones(2, 4)
    expected = module(x)
    _table.cache_clear()
    sizeup.analyze(module, inputs=(_x(),))
    assert _table.cache_info().currsize == 0
    assert type(module(x)) is torch.Tensor
    assert torch.equal(module(x), expected)


def test_a_kept_tensor_with_symbolic_dimensions_is_an_error_too() -> None:
    with pytest.raises(sizeup.StateChanged, match="SEEN"):
        sizeup.count(Appending(), inputs=(_x(),), free={"batch": (0, 0)}).at(batch=3)
    assert SEEN == []


class OnlySymbolic(nn.Module):
    """Keeps a tensor only if its size is symbolic."""

    def forward(self, x: Tensor) -> Tensor:
        size: Any = x.shape[0]
        if isinstance(size, torch.SymInt):
            SEEN.append(x)
        return x * 2


def test_a_tensor_kept_only_with_symbolic_dimensions_is_an_error() -> None:
    with pytest.raises(sizeup.StateChanged, match="SEEN"):
        sizeup.count(OnlySymbolic(), inputs=(_x(),), free={"batch": (0, 0)}).at(batch=3)
    assert SEEN == []


# --- what can be reached from the module and its arguments -----------------------------------------------


@dataclass
class State:
    """A user's object with attributes."""

    tensor: Tensor
    steps: list[Tensor] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)
    count: int = 0


class Slotted:
    __slots__ = ("__weakref__", "tensor", "unset")
    unset: Tensor

    def __init__(self) -> None:
        self.tensor = torch.ones(2, 4)


class Everything:
    """Has all containers that Python has, and refers to itself."""

    def __init__(self) -> None:
        self.state = State(torch.ones(2, 4))
        self.slotted = Slotted()
        self.queue: deque[Tensor] = deque([torch.ones(1)], maxlen=3)
        self.ordered = OrderedDict(a=1, b=2)
        self.names = {"a", "b"}
        self.pair = ([torch.ones(1)], {"k": [torch.ones(1)]})
        self.array = np.arange(4.0)
        self.bytes = bytearray(b"abc")
        self.random = random.Random(3)
        self.generator = torch.Generator().manual_seed(5)
        self.numpy_generator = np.random.default_rng(7)
        self.me = self


def _change(holder: Everything, x: Tensor) -> None:
    holder.state.tensor = x
    holder.state.steps.append(x)
    holder.state.table["x"] = x
    holder.state.count += 1
    holder.state.new = x  # type: ignore[attr-defined]
    holder.slotted.tensor = x
    holder.slotted.unset = x
    holder.queue.extend([x, x, x])
    holder.ordered.move_to_end("a")
    holder.ordered["c"] = 3
    holder.names.add("c")
    holder.pair[0].append(x)
    holder.pair[1]["k"][0] = x
    holder.array += 1
    holder.bytes[0] = 0
    holder.random.random()
    holder.generator.manual_seed(6)
    holder.numpy_generator.random()
    vars(holder)["other"] = x


def _observed(holder: Everything) -> list[Any]:
    state, slotted = holder.state, holder.slotted
    return [
        *(
            id(state),
            id(state.tensor),
            [*map(id, state.steps)],
            dict(state.table),
            state.count,
            [*vars(state)],
        ),
        *(id(slotted.tensor), hasattr(slotted, "unset"), [*map(id, holder.queue)], holder.queue.maxlen),
        *(list(holder.ordered.items()), set(holder.names)),
        *([*map(id, holder.pair[0])], id(holder.pair[1]["k"][0])),
        *(holder.array.tolist(), bytes(holder.bytes), holder.random.getstate()),
        *(holder.generator.get_state().tolist(), holder.numpy_generator.bit_generator.state, [*vars(holder)]),
    ]


@pytest.mark.parametrize("real", [False, True], ids=["fake", "real"])
@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
@pytest.mark.parametrize("place", ["argument", "keyword", "attribute", "list", "hook"])
def test_all_that_can_be_reached_is_restored(place: str, fails: bool, real: bool) -> None:
    holder = Everything()

    def forward(module: Any, x: Tensor, *args: Any, **named: Any) -> Tensor:
        places: dict[str, Any] = {"argument": args, "list": args and args[0], "keyword": [*named.values()]}
        _change(places.get(place, [holder])[0], x)
        if real and float(x.sum()) < 0:
            return x
        if fails:
            raise RuntimeError("half way")
        return x * 2

    module = Call(forward)
    if place == "attribute":
        vars(module)["holder"] = holder
    if place == "hook":
        module.layer.register_forward_hook(lambda *_: _change(holder, _x()))
    more: dict[str, list[Any]] = {"argument": [holder], "list": [[holder]]}
    args = (_x(), *more.get(place, ()))
    kwargs = {"holder": holder} if place == "keyword" else {}
    before = _observed(holder)
    if fails:
        with pytest.raises(sizeup.LoadError, match="half way"):
            sizeup.analyze(module, inputs=args, kwargs=kwargs)
    else:
        report = sizeup.analyze(module, inputs=args, kwargs=kwargs)
        assert any("real data" in note for note in report.notes) == real
    assert _observed(holder) == before


class Averaging(nn.Module):
    """Writes into a buffer that a backward of an earlier run reads."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.scale.mul_(0.9)
        result: Tensor = self.layer(x) * self.scale
        return result


def test_a_backward_that_is_still_to_come_works() -> None:
    module = Averaging()
    loss = module(torch.ones(3, 4)).sum()
    sizeup.analyze(module, inputs=((3, 4),))
    loss.backward()
    assert module.layer.weight.grad is not None


def test_lazy_modules_are_refused_with_what_to_do() -> None:
    with pytest.raises(sizeup.LoadError, match="call the module once on real data first"):
        sizeup.analyze(nn.Sequential(nn.LazyLinear(7)), inputs=((2, 4),))
