"""Record the calls of leaf modules in a real run, or in a run on the meta device."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from sizeup.formats.torch.eager import device_and_dtype
from sizeup.formats.torch.isolation import preserve_state
from sizeup.formats.torch.modes import run_mode

_RUNS = 3


@dataclass(frozen=True, slots=True)
class LayerCall:
    """One call of a leaf module; `seconds` is None on the meta device."""

    path: str
    classes: tuple[str, ...]  # its class and base classes
    params: int
    output_elements: int
    element_bytes: int
    seconds: float | None


def layer_calls(module: torch.nn.Module, shapes: Sequence[Sequence[int]]) -> tuple[LayerCall, ...]:
    """Return every call of a leaf module in one inference on random inputs of these shapes.

    No module keeps a hook.
    """
    device, dtype = device_and_dtype(module)
    inputs = [torch.rand(tuple(shape), dtype=dtype, device=device) for shape in shapes]
    is_timed = device.type != "meta"
    with preserve_state(module, values=True), run_mode(module), torch.inference_mode():
        runs = [_run_once(module, inputs, is_timed) for _ in range(_RUNS if is_timed else 1)]
    first = runs[0]
    if not is_timed:
        return first
    # Minimum of several runs: the first allocates memory, and other processes may interfere.
    fastest = [min(call.seconds or 0.0 for call in calls) for calls in zip(*runs, strict=True)]
    return tuple(replace(call, seconds=seconds) for call, seconds in zip(first, fastest, strict=True))


def _run_once(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], is_timed: bool
) -> tuple[LayerCall, ...]:
    calls = _CallRecorder(module, is_timed)
    with calls.hooks():
        module(*inputs)
    return tuple(calls.calls)


class _CallRecorder:
    def __init__(self, root: torch.nn.Module, is_timed: bool) -> None:
        self.paths = {id(module): path for path, module in root.named_modules() if not any(module.children())}
        self.is_timed = is_timed
        self.calls: list[LayerCall] = []
        self.started: list[float] = []

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Register hooks for the duration of the block."""
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
        outputs = [leaf for leaf in _flat(result) if isinstance(leaf, torch.Tensor)]
        classes = tuple(base.__name__ for base in type(module).__mro__)
        self.calls.append(
            LayerCall(
                self.paths[id(module)],
                classes,
                sum(parameter.numel() for parameter in module.parameters()),
                sum(output.numel() for output in outputs),
                outputs[0].element_size() if outputs else 0,
                seconds if self.is_timed else None,
            )
        )


def _flat(result: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(result)
