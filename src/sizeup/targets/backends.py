"""Finds the backend of a target: the folder of `sizeup.backends` that its runtime names, or an installed one.

Packages add backends by an entry point of the group `sizeup.backends`, whose value is a subclass of
`sizeup.backends.backend.Backend`. A file of runtimes can only name a backend that is installed.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from sizeup.targets.runtime import Target

GROUP = "sizeup.backends"
_ON_MICROCONTROLLERS, _ON_SYSTEMS = "micro_unknown", "system"


def find_backend(target: Target) -> Any:
    """The backend of a target; without a name, that of all runtimes on such a device.

    Callers state which of its answers they know: `latency.backend` for latencies, `backends.backend` for all.
    """
    name = target.runtime.backend
    if not name:
        is_bare = target.device.device_class == "microcontroller"
        name = _ON_MICROCONTROLLERS if is_bare else _ON_SYSTEMS
    return _class_of(name)(target)


def is_backend(name: str) -> bool:
    """Whether a runtime may have this name as its backend."""
    return name in own_backends() or bool(entry_points(group=GROUP, name=name))


@cache
def own_backends() -> tuple[str, ...]:
    """The names of the backends of sizeup itself."""
    path = import_module(GROUP).__path__
    return tuple(sorted(module.name for module in pkgutil.iter_modules(path) if module.ispkg))


@cache
def _class_of(name: str) -> Any:
    if name in own_backends():
        own: Any = import_module(f"{GROUP}.{name}").BACKEND
        return own
    (point,) = entry_points(group=GROUP, name=name)
    installed: Any = point.load()
    return installed
