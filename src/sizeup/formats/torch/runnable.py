"""Runnable models: with their own or random weights, on random inputs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from sizeup.formats.names import is_code
from sizeup.formats.torch import runnable_source
from sizeup.formats.torch.eager import device_and_dtype, unwrap
from sizeup.formats.torch.exported import with_arguments
from sizeup.formats.torch.inputs import Arguments, module_arguments, prepare
from sizeup.formats.torch.module_scopes import module_scopes
from sizeup.formats.torch.sources import build

_MOST_INDEX = 8  # integer inputs are usually indices, and small ones are usually valid


def write(path: Path, content: Any) -> None:
    """Write a model and its inputs for a worker."""
    # cloudpickle includes classes defined in notebooks, scripts and functions.
    pickle_module = importlib.import_module("cloudpickle" if find_spec("cloudpickle") else "pickle")
    torch.save(content, path, pickle_module=pickle_module)


def read(path: Path) -> Any:
    """Read a file of `write`. It is a pickle: never read one from another source."""
    return torch.load(path, weights_only=False)


class Runnable:
    """A module and its inputs; a call runs it once."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._module, self._args, self._kwargs = module, args, kwargs

    def __call__(self) -> Any:
        """Run one inference and return its outputs."""
        with torch.inference_mode():
            return self._module(*self._args, **self._kwargs)

    @property
    def has_modules(self) -> bool:
        """Whether its submodules are called; an exported program is one function."""
        return not isinstance(self._module, torch.fx.GraphModule)

    def module_scopes(self, enter: Callable[[str], None]) -> AbstractContextManager[None]:
        """Return a context that calls `enter` with the path of each module that starts or resumes."""
        return module_scopes(unwrap(self._module).named_modules(), enter)


def runnable(
    source: Any,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    trusted: bool = False,
) -> Runnable:
    """Return a runnable model of a module, a name or a trusted .pt2 file, with inputs."""
    torch.manual_seed(0)
    if isinstance(source, torch.nn.Module):
        module, call_args = source.eval(), module_arguments(source, inputs, kwargs)
    elif not is_code(os.fspath(source)):
        module, call_args = with_arguments(runnable_source(source, trusted=trusted), inputs, bind or {})
    else:
        built = build(source, bind or {})
        module = built.make_real().eval() if built.make_real is not None else built.module.eval()
        is_default = inputs is None and not kwargs
        call_inputs = (built.inputs, built.kwargs) if is_default else (inputs, kwargs)
        call_args = module_arguments(module, *call_inputs)
    args, named = _randomize(prepare(call_args, *device_and_dtype(module), None))
    return Runnable(module, args, named)


def _randomize(call_args: Arguments) -> Arguments:
    """Replace all-zero tensors by random ones: some kernels are faster on zeros."""
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, _random, call_args)
    return args, kwargs


def _random(tensor: torch.Tensor) -> torch.Tensor:
    if bool(tensor.any()):
        return tensor  # passed by the caller
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return torch.randn_like(tensor)
    return tensor if tensor.dtype is torch.bool else torch.randint_like(tensor, _MOST_INDEX)
