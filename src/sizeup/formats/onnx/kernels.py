"""Which operators ONNX Runtime registers and has kernels for, from its own lists in kernels.json.

`tools/onnx_kernels.py` writes the file. Nothing here imports onnx.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from sizeup.graph import OperatorUse

# By operator: the opsets that define it, its inputs and outputs, the dtypes of each kernel, and those that
# it is defined for, if by other operators.
_DOMAINS = "operators"
Standing = Literal["runs", "no kernel", "not known"]


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads((files(__package__) / "kernels.json").read_text("utf-8"))
    return table


def version() -> str:
    """The version of ONNX Runtime that the kernels are those of."""
    return str(_table()["version"])


def newest_ir_version() -> int:
    """The newest version of the file format that it reads."""
    return int(_table()["ir_version"])


def is_registered(domain: str, name: str) -> bool:
    """Whether it defines an operator of this name, in any opset."""
    return name in _table()[_DOMAINS].get(domain, ())


def standing(use: OperatorUse, *, with_dtypes: bool = True) -> Standing:
    """Whether it has a kernel for a use of an operator; without dtypes, for any.

    It is not known for an operator of a newer opset, for one of a domain in which applications or newer
    versions may register it, and for one that other operators define.
    """
    table = _table()
    newest = table["opsets"].get(use.domain)
    if newest is not None and use.opset > newest:
        return "not known"
    operators = table[_DOMAINS].get(use.domain, {})
    if use.name not in operators:
        return "not known" if newest is None else "no kernel"
    definitions = {opset: rest for opsets, *rest in operators[use.name] for opset in opsets}
    since = max((opset for opset in definitions if opset <= use.opset), default=None)
    if since is None:
        return "no kernel"
    inputs, outputs, kernels, defined = definitions[since]
    slots = [*_slots(inputs, use.inputs), *_slots(outputs, use.outputs)] if with_dtypes else []
    if any(_takes(kernel, slots) for kernel in kernels):
        return "runs"
    # It may compute the operator with those of its definition.
    return "not known" if any(_takes(types, slots) for types in defined) else "no kernel"


def _slots(declared: Sequence[str], dtypes: Sequence[str]) -> list[tuple[str, str]]:
    """The type variables of the values whose dtype is known, with that dtype; the last one may repeat."""
    return [
        (declared[min(index, len(declared) - 1)], dtype)
        for index, dtype in enumerate(dtypes)
        if dtype and declared and (index < len(declared) or "*" in declared[-1])
    ]


def _takes(kernel: Mapping[str, int], slots: Iterable[tuple[str, str]]) -> bool:
    """Whether a kernel takes these dtypes: values of one type variable have the same one."""
    chosen: dict[str, str] = {}
    for slot, dtype in slots:
        variable = slot.rstrip("*?")
        if variable in kernel and dtype not in _table()["dtypes"][kernel[variable]].split():
            return False
        if not slot.endswith("?") and chosen.setdefault(variable, dtype) != dtype:
            return False
    return True
