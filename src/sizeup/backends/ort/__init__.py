"""Whether ONNX Runtime's CPU kernels run an .onnx file, by its own lists of operators and kernels."""

from __future__ import annotations

from collections.abc import Iterable

from sizeup.backends.backend import Support
from sizeup.backends.needs import Needs
from sizeup.backends.system import System
from sizeup.graph import OperatorUse

_MOST_NAMED = 3


class Ort(System):
    """ONNX Runtime on a CPU."""

    def support(self, needs: Needs) -> Support:
        """The support of an .onnx file; empty for other models.

        At another precision, operators have other dtypes than in the file: only their names and opsets count.
        """
        return _support(needs)


BACKEND = Ort


def _support(needs: Needs) -> Support:
    required = needs.graph.requirements
    if required is None:
        return Support()
    from sizeup.formats.onnx import kernels

    title = f"ONNX Runtime {kernels.version()}"
    if required.violations:
        return Support(f"{title} refuses this file: {'; '.join(required.violations)}")
    without = [
        _label(use)
        for use in required.operators
        if kernels.standing(use, with_dtypes=not needs.is_converted) == "no kernel"
    ]
    if without:
        return Support(f"{title} has no kernel for {_listed(without)}")
    newest = kernels.newest_ir_version()
    if required.ir_version > newest:
        return _open(f"{title} reads IR version {newest}; the file has {required.ir_version}")
    unknown = [use.label for use in required.operators if kernels.standing(use) == "not known"]
    if not unknown:
        return Support()
    reason = f"{title} does not know {_listed(unknown)}: a newer version or a library of operators may"
    return _open(reason, tuple(dict.fromkeys(unknown)))


def _open(reason: str, unknown: tuple[str, ...] = ()) -> Support:
    return Support(gaps=(("operators", reason),), missing_operators=unknown)


def _label(use: OperatorUse) -> str:
    dtypes = ", ".join(dict.fromkeys(filter(None, (*use.inputs, *use.outputs))))
    return f"{use.label} of opset {use.opset}" + (f" with {dtypes}" if dtypes else "")


def _listed(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
