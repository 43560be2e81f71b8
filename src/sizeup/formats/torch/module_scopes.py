"""Watch which module runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


@contextmanager
def module_scopes(
    modules: Iterable[tuple[str, torch.nn.Module]], enter: Callable[[str], None]
) -> Iterator[None]:
    """Call `enter` with the path of the running module, using hooks that are removed after the block."""
    paths = {id(module): path for path, module in modules}
    stack = [""]

    def before(module: torch.nn.Module, _args: Any) -> None:
        path = paths.get(id(module))
        if path is None:  # created during the run
            path = f"{stack[-1]}.{type(module).__name__}".lstrip(".")
        stack.append(path)
        enter(path)

    def after(_module: torch.nn.Module, _args: Any, _result: Any) -> None:
        if len(stack) > 1:  # torch also calls it if `before` failed
            stack.pop()
        enter(stack[-1])

    with ExitStack() as hooks:
        hooks.callback(register_module_forward_pre_hook(before).remove)
        hooks.callback(register_module_forward_hook(after, always_call=True).remove)
        yield
