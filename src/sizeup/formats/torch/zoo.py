"""Import model libraries without network access."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sizeup.formats.torch.construction import TimeLimit
from sizeup.formats.weight_schemes import StoredWeight


@dataclass(frozen=True)
class BuiltModel:
    """A module that can be recorded, with its default inputs and its fake tensor mode."""

    module: torch.nn.Module
    name: str
    inputs: Any = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    mode: FakeTensorMode | None = None
    make_real: Callable[[], torch.nn.Module] | None = None  # builds it with random weights
    max_ops: int | None = None  # limit on recorded ops, for untrusted files
    time_limit: TimeLimit | None = None
    stored: Mapping[str, StoredWeight] = field(default_factory=dict)  # quantized parameters by name
    fit_notes: tuple[str, ...] = ()
    weights_are_upper_bound: bool = False


_LIBRARIES: list[torch.library.Library] = []


def import_torchvision() -> Any:
    """Import torchvision; None if it is not installed.

    If its compiled extension does not match this torch, the operators that its Python code needs are
    declared and it is imported again.
    """
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return None
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)  # type: ignore[no-untyped-call]
        _LIBRARIES.append(library)  # operators are removed with their library
        for name in [module for module in sys.modules if module.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return importlib.import_module("torchvision")


# Both are read from the environment at import, so setting environment variables has no effect.
_SWITCHES = (
    ("huggingface_hub.constants", "HF_HUB_OFFLINE", True),  # every request raises an error
    ("transformers.integrations.hub_kernels", "_kernels_enabled", False),  # no kernels are downloaded
)
_LOCK = threading.Lock()
_ENTERED: list[list[tuple[Any, str, Any]]] = []  # values to restore, from the first entry


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Make requests to the Hub fail in all threads until the last caller has exited."""
    with _LOCK:
        _ENTERED.append(_ENTERED[0] if _ENTERED else _disable_network())
    try:
        yield
    finally:
        with _LOCK:
            before = _ENTERED.pop()
            if not _ENTERED:
                for module, name, value in before:
                    setattr(module, name, value)


def _disable_network() -> list[tuple[Any, str, Any]]:
    before = []
    for module_name, name, value in _SWITCHES:
        if module_name.partition(".")[0] not in sys.modules:
            continue  # not imported
        with contextlib.suppress(ImportError):
            module = importlib.import_module(module_name)
            before.append((module, name, getattr(module, name)))
            setattr(module, name, value)
    return before
