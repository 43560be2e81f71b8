"""Whether ONNX Runtime's CPU kernels run an .onnx file, by its own lists of operators and kernels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sizeup.checks.needs import Needs
from sizeup.graph import OperatorUse
from sizeup.targets import Target

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class OnnxSupport:
    """Why the runtime refuses a file, and why it is not known whether it runs it; empty if it does."""

    refusal: str | None = None
    undetermined_reason: str = ""
    unknown_operators: tuple[str, ...] = ()


def onnx_support(needs: Needs, target: Target) -> OnnxSupport:
    """The support of an .onnx file by ONNX Runtime; empty for other models and runtimes.

    At another precision, operators have other dtypes than in the file: only their names and opsets count.
    """
    required = needs.graph.requirements
    if target.runtime.name != "ort" or required is None:
        return OnnxSupport()
    from sizeup.formats.onnx import kernels

    title = f"ONNX Runtime {kernels.version()}"
    if required.violations:
        return OnnxSupport(f"{title} refuses this file: {'; '.join(required.violations)}")
    without = [
        _label(use)
        for use in required.operators
        if kernels.standing(use, with_dtypes=not needs.is_converted) == "no kernel"
    ]
    if without:
        return OnnxSupport(f"{title} has no kernel for {_listed(without)}")
    newest = kernels.newest_ir_version()
    if required.ir_version > newest:
        return OnnxSupport(None, f"{title} reads IR version {newest}; the file has {required.ir_version}")
    unknown = [use.label for use in required.operators if kernels.standing(use) == "not known"]
    if not unknown:
        return OnnxSupport()
    reason = f"{title} does not know {_listed(unknown)}: a newer version or a library of operators may"
    return OnnxSupport(None, reason, tuple(dict.fromkeys(unknown)))


def _label(use: OperatorUse) -> str:
    dtypes = ", ".join(dict.fromkeys(filter(None, (*use.inputs, *use.outputs))))
    return f"{use.label} of opset {use.opset}" + (f" with {dtypes}" if dtypes else "")


def _listed(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
