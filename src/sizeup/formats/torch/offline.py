"""Model libraries without the Hugging Face Hub: while a model is built, no request leaves."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

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
