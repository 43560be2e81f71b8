"""Code size of TFLite Micro by the operators of a model, from the sizes of builds in code_sizes.toml."""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from typing import Any

from sizeup.backends.memory_need import MemoryPart
from sizeup.backends.needs import Needs
from sizeup.targets import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def _sizes() -> dict[str, Any]:
    return tomllib.loads((files("sizeup.backends.tflm") / "code_sizes.toml").read_text("utf-8"))


def code_part(needs: Needs, target: Target) -> MemoryPart | None:
    """The code size for the operators of a model; None if it is known only as the range of the runtime."""
    tables, graph = _sizes(), needs.graph
    kernels = tables.get(target.runtime.micro)
    known = tuple(tables["architectures"])
    is_known = bool(target.architectures) and all(core.startswith(known) for core in target.architectures)
    # A conversion may add operators, such as QUANTIZE.
    if kernels is None or not is_known or graph.format != "tflite" or needs.is_converted:
        return None
    names = {op.source for each in (graph, *(graph.other_graphs or ())) for op in each.ops}
    sizes = [kernels["operators"].get(name) for name in names]
    if not sizes or None in sizes:
        return None
    base = kernels["interpreter"]
    basis = f"{tables['build']}: interpreter and {len(sizes)} kinds of operators, which share code"
    return MemoryPart("code", base + max(sizes), base + sum(sizes), basis)


def range_basis(target: Target) -> str:
    """Why the code size is the range of the runtime."""
    name = target.runtime.name
    return f"of {name}: a range for any set of operators, as sizes for these or this core are not known"
