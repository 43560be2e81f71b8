"""Construct models with fake weights, within a CPU time limit."""

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
from torch.overrides import TorchFunctionMode

from sizeup.errors import LoadError, SizeupError
from sizeup.formats.torch.failures import reason_of
from sizeup.formats.torch.storages import StorageTracker

MOST_PARTS = 150_000  # Switch-C, with 2,048 experts in each of 15 layers, has 124,000 modules and parameters


def construct(
    make: Callable[[], torch.nn.Module], mode: FakeTensorMode, source: str, clock: Clock | None = None
) -> torch.nn.Module:
    """Call a constructor on the meta device and convert the result to fake CPU tensors.

    On the meta device, constructors can still compute with real data if they request the CPU. A model's
    forward expects its tensors on the CPU.
    """
    try:
        with torch.device("meta"), _limit_construction(source, clock):
            module = _construct_on_meta(make)
    except SizeupError:
        raise
    except Exception as error:
        raise LoadError(f"{source}: building it failed: {reason_of(error)}") from error
    _move(module, mode, clock)
    return module.eval()


def _construct_on_meta(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """Call a constructor on the meta device, again with ranges on the CPU if it reads values."""
    try:
        return make()
    except (NotImplementedError, RuntimeError) as error:
        if "meta tensor" not in str(error):
            raise
    with _TablesOnCpu():
        return make()


class _TablesOnCpu(TorchFunctionMode):
    """Creates ranges and literal tensors on the CPU, because some constructors compute widths from them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _TABLES and "device" not in kwargs:
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


_TABLES = frozenset(
    (torch.arange, torch.linspace, torch.logspace, torch.tensor, torch.as_tensor, torch.scalar_tensor)
)


@contextmanager
def _limit_construction(source: str, clock: Clock | None) -> Iterator[None]:
    """Raise LoadError if a constructor creates more than MOST_PARTS parts, or exceeds the time limit."""
    thread, parts = threading.get_ident(), 0

    def count(*_: Any) -> None:
        nonlocal parts
        if threading.get_ident() != thread:
            return
        parts += 1
        if clock is not None:
            clock.check()
        if parts > MOST_PARTS:
            raise LoadError(f"{source}: more than {MOST_PARTS:,} modules and parameters")

    registrations = (
        hooks.register_module_module_registration_hook(count),
        hooks.register_module_parameter_registration_hook(count),
    )
    try:
        yield
    finally:
        for hook in registrations:
            hook.remove()


def _move(module: torch.nn.Module, mode: FakeTensorMode, clock: Clock | None) -> None:
    moved: dict[
        int, tuple[torch.Tensor, torch.Tensor]
    ] = {}  # keeps the tensors alive, so their ids stay unique

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        """Return one fake tensor per tensor, so that tied weights stay tied."""
        if id(tensor) not in moved:
            fake_tensor = FakeTensor(mode, tensor.detach(), torch.device("cpu"))
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            moved_tensor = (
                torch.nn.Parameter(fake_tensor, requires_grad=False) if is_parameter else fake_tensor
            )
            moved[id(tensor)] = (tensor, moved_tensor)
        return moved[id(tensor)][1]

    def on_meta(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "meta"

    for submodule in module.modules():
        if clock is not None:
            clock.check()
        tables: list[dict[str, Any]] = [submodule._parameters, submodule._buffers, vars(submodule)]
        for table in tables:
            for name, value in list(table.items()):
                if on_meta(value):
                    table[name] = fake(value)
                elif isinstance(value, list) and any(map(on_meta, value)):
                    table[name] = [fake(item) if on_meta(item) else item for item in value]


VARIABLE = "SIZEUP_HF_SECONDS"
# The largest known configurations take 12 s on a server.
_DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A limit on the CPU time of one thread for building and recording `source`."""

    source: str
    seconds: float
    remaining_seconds: float

    def start(self) -> Clock:
        """Start a clock."""
        return Clock(self)


class Clock:
    """Measures the CPU time of this thread since its creation against a limit."""

    def __init__(self, limit: TimeLimit) -> None:
        self._limit = limit
        self._started = time.thread_time()

    def check(self) -> None:
        """Raise LoadError if the limit is exceeded."""
        limit = self._limit
        if time.thread_time() - self._started > limit.remaining_seconds:
            raise LoadError(
                f"{limit.source}: building the model takes more than {limit.seconds:g} s of CPU time;"
                f" if you trust the file, set {VARIABLE}={math.ceil(20 * limit.seconds)} to allow more"
            )

    def remaining(self) -> TimeLimit:
        """Return the limit minus the elapsed time."""
        spent = time.thread_time() - self._started
        return replace(self._limit, remaining_seconds=self._limit.remaining_seconds - spent)


def time_limit(source: str) -> TimeLimit:
    """Return the limit set by the environment variable, or the default."""
    text = os.environ.get(VARIABLE, "")
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise LoadError(f"{VARIABLE} is {text!r}; set it to a positive number of seconds, such as 60")
    return TimeLimit(source, seconds, seconds)


_WEIGHT_TYPES = (torch.Tensor, torch.nn.Parameter)


class FakeWeights:
    """Replaces weights among operator arguments by fake tensors.

    torch caches results of fake tensor operators, which takes a third of the time, but only if all tensor
    arguments are fake already.
    """

    def __init__(self, mode: FakeTensorMode, storages: StorageTracker) -> None:
        self._mode = mode
        self._storages = storages
        self._fakes: dict[int, tuple[torch.Tensor, FakeTensor]] = {}  # by the id of the weight
        self._weights: dict[int, torch.Tensor] = {}  # by the id of the fake tensor
        self.inner: set[int] = set()  # ids of tensors inside subclasses: they are always replaced

    def replace_in(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments; unchanged if none is fake, because torch then computes with real data."""
        if not any(type(arg) is FakeTensor or id(arg) in self.inner for arg in args):
            return args
        return tuple(self._fake(arg) if type(arg) in _WEIGHT_TYPES else arg for arg in args)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        entry = self._fakes.get(id(tensor))
        if entry is not None:
            return entry[1]
        if not self._storages.is_constant(tensor):
            return tensor
        fake = self._mode.fake_tensor_converter.from_real_tensor(self._mode, tensor)
        self._fakes[id(tensor)] = (tensor, fake)
        self._weights[id(fake)] = tensor
        return fake

    def weight_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the weight that a fake tensor replaces; None for any other tensor."""
        return self._weights.get(id(tensor))
