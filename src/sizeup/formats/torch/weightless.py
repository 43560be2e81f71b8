"""Building a model without its weights, on content-free tensors, within a limit of CPU time."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules import module as hooks

from sizeup.errors import LoadError, SizeupError
from sizeup.formats.torch.holders import Holders

MOST_PARTS = 150_000  # Switch-C, with 2,048 experts in each of 15 layers, has 124,000 modules and parameters


def construct(
    make: Callable[[], torch.nn.Module], mode: FakeTensorMode, what: str, clock: Clock | None = None
) -> torch.nn.Module:
    """Call a constructor on the meta device and move the result to content-free tensors on the CPU.

    The meta device lets constructors compute small things for real when they ask for the CPU; the
    CPU is what a model's forward expects to find its tensors on.
    """
    try:
        with torch.device("meta"), _bounded(what, clock):
            module = make()
    except SizeupError:
        raise
    except Exception as error:
        summary = str(error).strip().partition("\n")[0]
        raise LoadError(f"{what}: building it failed: {type(error).__name__}: {summary}") from error
    _move(module, mode, clock)
    return module.eval()


@contextmanager
def _bounded(what: str, clock: Clock | None) -> Iterator[None]:
    """Stop a constructor that makes more modules and parameters than a real model has, or takes too long."""
    thread, parts = threading.get_ident(), 0

    def count(*_: Any) -> None:
        nonlocal parts
        if threading.get_ident() != thread:
            return
        parts += 1
        if clock is not None:
            clock.check()
        if parts > MOST_PARTS:
            raise LoadError(f"{what}: more than {MOST_PARTS:,} modules and parameters")

    registrations = (
        hooks.register_module_module_registration_hook(count),
        hooks.register_module_parameter_registration_hook(count),
    )
    try:
        yield
    finally:
        for each in registrations:
            each.remove()


def _move(module: torch.nn.Module, mode: FakeTensorMode, clock: Clock | None) -> None:
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # an id is unique while its object lives

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        """One content-free tensor for each tensor, so that tied weights stay tied."""
        if id(tensor) not in moved:
            bare = FakeTensor(mode, tensor.detach(), torch.device("cpu"))
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            made = torch.nn.Parameter(bare, requires_grad=False) if is_parameter else bare
            moved[id(tensor)] = (tensor, made)
        return moved[id(tensor)][1]

    def on_meta(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "meta"

    for each in module.modules():
        if clock is not None:
            clock.check()
        tables: list[dict[str, Any]] = [each._parameters, each._buffers, vars(each)]
        for table in tables:
            for name, value in list(table.items()):
                if on_meta(value):
                    table[name] = fake(value)
                elif isinstance(value, list) and any(map(on_meta, value)):
                    table[name] = [fake(item) if on_meta(item) else item for item in value]


VARIABLE = "SIZEUP_HF_SECONDS"
# The largest known configurations take 12 s on a server, and longer elsewhere.
_DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """CPU seconds of one thread in which `where` has to be built and recorded."""

    where: str
    total: float
    left: float

    def start(self) -> Clock:
        """A clock that runs from now on."""
        return Clock(self)


class Clock:
    """The CPU time of this thread since it was made, compared with a limit each time that it is asked."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._started = time.thread_time()

    def check(self) -> None:
        """Raise LoadError if the time is up."""
        limit = self._limit
        if time.thread_time() - self._started > limit.left:
            raise LoadError(
                f"{limit.where}: building the model takes more than {limit.total:g} s of CPU time;"
                f" if you trust the file, set {VARIABLE}={math.ceil(20 * limit.total)} to allow more"
            )

    def rest(self) -> TimeLimit:
        """The limit without the time that has passed, for the next step."""
        spent = time.thread_time() - self._started
        return replace(self._limit, left=self._limit.left - spent)


def time_limit(where: str) -> TimeLimit:
    """The limit that the environment variable sets, or the default."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise LoadError(f"{VARIABLE} is {text!r}; set it to a positive number of seconds, such as 60")
    return TimeLimit(where, seconds, seconds)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


class FakeWeights:
    """Replaces the weights among the arguments of an operator by what torch itself would make of them.

    Torch looks up the result of an operator that it has seen before, which takes a third of the time of
    computing it, but only if all tensors among the arguments are content-free already.
    """

    def __init__(self, mode: FakeTensorMode, holders: Holders) -> None:
        self._mode = mode
        self._holders = holders
        self._made: dict[int, tuple[torch.Tensor, FakeTensor]] = {}  # by the id of the weight

    def within(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, unchanged if none is content-free: torch computes small constants with numbers."""
        if not any(type(each) is FakeTensor for each in args):
            return args
        return tuple(self._fake(each) if type(each) in _PLAIN else each for each in args)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        made = self._made.get(id(tensor))
        if made is not None:
            return made[1]
        if not self._holders.is_fixed(tensor):
            return tensor
        fake = self._mode.fake_tensor_converter.from_real_tensor(self._mode, tensor)
        self._made[id(tensor)] = (tensor, fake)
        return fake
