"""Packages whose names are in modules that are imported when a name is first used.

A check of a small file runs a third of what its packages hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, from its modules and the names in each.

    No name may be that of a module of the package: Python sets that one when it imports the module.
    """
    modules_by_name = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in modules_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules_by_name[name]}"), name)

    return find
