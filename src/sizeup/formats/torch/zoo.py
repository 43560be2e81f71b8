"""Model libraries: importing them without network access, and modules from them without weights."""

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

from sizeup.formats.torch.weightless import TimeLimit


@dataclass(frozen=True)
class Built:
    """A module, ready to be recorded: where its tensors live, and what it is usually run on."""

    module: torch.nn.Module
    name: str
    inputs: Any = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    mode: FakeTensorMode | None = None
    real: Callable[[], torch.nn.Module] | None = (
        None  # the same with random weights, for what asks for numbers
    )
    most_ops: int | None = None  # the longest forward that is recorded, where a file decides how long it is
    limit: TimeLimit | None = None  # and the CPU time in which that is done


_LIBRARIES: list[torch.library.Library] = []


def import_torchvision() -> Any:
    """Import torchvision, or None where it is not installed.

    Where its compiled half does not fit this torch, the operators that its Python half names are
    declared and it is imported again: its networks need no more than that.
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
        _LIBRARIES.append(library)  # an operator lives as long as its library
        for name in [each for each in sys.modules if each.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return importlib.import_module("torchvision")


# Both are read from the environment when their module is imported, so variables set now would come too late.
_SWITCHES = (
    ("huggingface_hub.constants", "HF_HUB_OFFLINE", True),  # every request raises an error instead
    ("transformers.integrations.hub_kernels", "_kernels_enabled", False),  # no kernels are downloaded
)
_LOCK = threading.Lock()
_ENTERED: list[list[tuple[Any, str, Any]]] = []  # what to restore, by whoever entered first


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Requests to the Hub fail in all threads until the last caller has left."""
    with _LOCK:
        _ENTERED.append(_ENTERED[0] if _ENTERED else _switch())
    try:
        yield
    finally:
        with _LOCK:
            before = _ENTERED.pop()
            if not _ENTERED:
                for module, name, value in before:
                    setattr(module, name, value)


def _switch() -> list[tuple[Any, str, Any]]:
    before = []
    for module_name, name, value in _SWITCHES:
        if module_name.partition(".")[0] not in sys.modules:
            continue  # it is not in use, so it asks nothing
        with contextlib.suppress(ImportError):
            module = importlib.import_module(module_name)
            before.append((module, name, getattr(module, name)))
            setattr(module, name, value)
    return before
