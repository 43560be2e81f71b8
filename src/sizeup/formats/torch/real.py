"""A model to run for real: with weights of its own or random ones, on random inputs."""

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
from sizeup.formats.torch.eager import home_of, unwrapped
from sizeup.formats.torch.exported import with_arguments
from sizeup.formats.torch.inputs import Arguments, arguments, prepare
from sizeup.formats.torch.record import module_scopes
from sizeup.formats.torch.sources import build

_MOST_INDEX = 8  # integers are indices of something: small ones are valid more often


def write(path: Path, what: Any) -> None:
    """Leave a model and its inputs for a process that we start ourselves."""
    # cloudpickle takes along the classes that notebooks, scripts and functions define.
    carrier = importlib.import_module("cloudpickle" if find_spec("cloudpickle") else "pickle")
    torch.save(what, path, pickle_module=carrier)


def read(path: Path) -> Any:
    """What `write` left. It is a pickle: never read one that came from elsewhere."""
    return torch.load(path, weights_only=False)


class Runnable:
    """A module and its inputs; a call runs it once."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._module, self._args, self._kwargs = module, args, kwargs

    def __call__(self) -> Any:
        """Its outputs."""
        with torch.inference_mode():
            return self._module(*self._args, **self._kwargs)

    @property
    def has_modules(self) -> bool:
        """Whether its modules are called one by one; a program that was exported is one function."""
        return not isinstance(self._module, torch.fx.GraphModule)

    def telling_modules(self, enter: Callable[[str], None]) -> AbstractContextManager[None]:
        """While this lasts, `enter` is called with the path of each module that starts or goes on."""
        return module_scopes(unwrapped(self._module).named_modules(), enter)


def runnable(
    source: Any,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    trusted: bool = False,
) -> Runnable:
    """A module, a name or a trusted .pt2 file that can be called; its inputs are made here, once."""
    torch.manual_seed(0)
    if isinstance(source, torch.nn.Module):
        module, given = source.eval(), arguments(inputs, kwargs)
    elif not is_code(os.fspath(source)):
        module, given = with_arguments(runnable_source(source, trusted=trusted), inputs, bind or {})
    else:
        built = build(source, bind or {})
        module = built.real().eval() if built.real is not None else built.module.eval()
        usual = inputs is None and not kwargs
        given = arguments(built.inputs, built.kwargs) if usual else arguments(inputs, kwargs)
    args, named = _filled(prepare(given, *home_of(module), None))
    return Runnable(module, args, named)


def _filled(given: Arguments) -> Arguments:
    """Random numbers where there are zeros: some kernels are faster on those."""
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, _random, given)
    return args, kwargs


def _random(tensor: torch.Tensor) -> torch.Tensor:
    if bool(tensor.any()):
        return tensor  # the caller's own
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return torch.randn_like(tensor)
    return tensor if tensor.dtype is torch.bool else torch.randint_like(tensor, _MOST_INDEX)
