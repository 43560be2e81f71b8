"""The innermost modules of a model, call by call, in a run for real or without numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from sizeup.formats.torch.eager import home_of
from sizeup.formats.torch.record import untouched

_PASSES = 3


@dataclass(frozen=True, slots=True)
class LayerCall:
    """One call of a module that holds no others; `seconds` is None where nothing was computed."""

    path: str
    classes: tuple[str, ...]  # its class and those that it inherits from
    params: int
    output_elements: int
    element_bytes: int
    seconds: float | None


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put every module into evaluation mode, and back into its own afterwards."""
    were = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for each, training in were:
            each.training = training


def layer_calls(module: torch.nn.Module, shapes: Sequence[Sequence[int]]) -> tuple[LayerCall, ...]:
    """Every call of an innermost module in one pass over random inputs of those shapes.

    A model whose weights are on the meta device is run without numbers. No module keeps a hook.
    """
    device, dtype = home_of(module)
    inputs = [torch.rand(tuple(shape), dtype=dtype, device=device) for shape in shapes]
    timed = device.type != "meta"
    with evaluating(module), untouched(module.modules()), torch.inference_mode():
        passes = [_pass(module, inputs, timed) for _ in range(_PASSES if timed else 1)]
    first = passes[0]
    if not timed:
        return first
    # The least of several: the first pass pays for memory, and another program may take the processor.
    least = [min(each.seconds or 0.0 for each in calls) for calls in zip(*passes, strict=True)]
    return tuple(replace(call, seconds=seconds) for call, seconds in zip(first, least, strict=True))


def _pass(module: torch.nn.Module, inputs: Sequence[torch.Tensor], timed: bool) -> tuple[LayerCall, ...]:
    calls = _Calls(module, timed)
    with calls.watching():
        module(*inputs)
    return tuple(calls.found)


class _Calls:
    def __init__(self, root: torch.nn.Module, timed: bool) -> None:
        self.paths = {id(each): path for path, each in root.named_modules() if not any(each.children())}
        self.timed = timed
        self.found: list[LayerCall] = []
        self.started: list[float] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hooks that end with this block."""
        with ExitStack() as hooks:
            hooks.callback(register_module_forward_pre_hook(self._before).remove)
            hooks.callback(register_module_forward_hook(self._after).remove)
            yield

    def _before(self, module: torch.nn.Module, _args: Any) -> None:
        if id(module) in self.paths:
            self.started.append(time.perf_counter())

    def _after(self, module: torch.nn.Module, _args: Any, result: Any) -> None:
        if id(module) not in self.paths:
            return
        seconds = time.perf_counter() - self.started.pop()
        outputs = [each for each in _flat(result) if isinstance(each, torch.Tensor)]
        classes = tuple(each.__name__ for each in type(module).__mro__)
        self.found.append(
            LayerCall(
                self.paths[id(module)],
                classes,
                sum(each.numel() for each in module.parameters()),
                sum(each.numel() for each in outputs),
                outputs[0].element_size() if outputs else 0,
                seconds if self.timed else None,
            )
        )


def _flat(result: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(result)
