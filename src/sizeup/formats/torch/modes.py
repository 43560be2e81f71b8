"""Training and eval mode: which one a module is run in, and whether that matters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch

EVAL_NOTE = (
    "the module was in training mode and was recorded in eval mode;"
    " pass train=True (--train) to record what a training forward runs"
)
TRAIN_NOTE = "recorded in training mode: one forward, without the backward pass"
_SETTERS = ("__init__", "train", "eval")


@contextmanager
def run_mode(module: torch.nn.Module, *, train: bool = False) -> Iterator[None]:
    """Run a module in eval mode, or in training mode, and restore the flags of all its modules afterwards.

    If the module is in training mode already, `train` leaves the flags of its submodules as they are: some
    may be frozen. The flags are set without calling `train()`, which some classes override to change weights.
    """
    flags = [(submodule, submodule.training) for submodule in module.modules()]
    changed = [] if train and module.training else [each for each, flag in flags if flag != train]
    for submodule in changed:
        submodule.training = train
    try:
        yield
    finally:
        for submodule, flag in flags:
            if submodule.training != flag:
                submodule.training = flag


def mode_note(module: torch.nn.Module, *, train: bool) -> str:
    """Return the note on the mode that a report needs; empty if the mode makes no difference."""
    if train:
        return TRAIN_NOTE
    is_different = any(submodule.training and _depends_on_mode(submodule) for submodule in module.modules())
    return EVAL_NOTE if is_different else ""


def _depends_on_mode(module: torch.nn.Module) -> bool:
    """Return whether code of the module's class reads its mode."""
    if isinstance(module, torch.nn.RNNBase | torch.nn.MultiheadAttention) and not module.dropout:
        return False
    return any(
        _reads_mode(function.__code__)
        for cls in type(module).__mro__
        if cls is not torch.nn.Module
        for name, value in vars(cls).items()
        if name not in _SETTERS
        for function in _functions(value)
    )


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield a function, and those that it wraps as a decorator."""
    while isinstance(value, FunctionType):
        yield value
        value = vars(value).get("__wrapped__")


def _reads_mode(code: CodeType) -> bool:
    nested = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return "training" in code.co_names or any(map(_reads_mode, nested))
