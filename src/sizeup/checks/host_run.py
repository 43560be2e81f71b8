"""One inference of a checked file on the host: evidence that TFLite Micro's interpreter runs it.

The interpreter has the reference kernels. What it refuses cannot run on a target, unless the rules of
`backends.tflm.support` know that the target's kernels accept it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.backends.tflm.support import may_fail_by_value, unsupported_reason
from sizeup.checks.needs import Needs
from sizeup.errors import Incomplete
from sizeup.runtimes import RUNTIMES, Inference, infer_once
from sizeup.targets import Target

_LIBRARY = RUNTIMES["tflm"]


@dataclass(frozen=True, slots=True)
class HostRun:
    """The outcome of one inference on the host; `reason` is why it did not run."""

    outcome: Literal["ran", "differs", "refused", "undetermined", "not run"]
    reason: str = ""
    caveat: str = ""  # what follows for the target, unless the verdict does

    @property
    def runtime(self) -> str:
        """The display name of the interpreter and its kernels."""
        return f"{_LIBRARY.title}, reference kernels"

    @property
    def unsupported_reason(self) -> str | None:
        """Why the target cannot run the model; None if that does not follow."""
        if self.outcome == "differs":
            return "its outputs on the host differ from those without the memory plan stored in the file"
        if self.outcome != "refused" or self.caveat:
            return None
        return f"{_LIBRARY.title}'s interpreter refuses this file on the host: {self.reason}"


def require_interpreter(target: Target | None) -> None:
    """Raise MissingLibrary if models of the target could run on the host, but no interpreter is installed."""
    if _has_interpreter(target):
        _LIBRARY.check_installed("running")


def run_on_host(
    needs: Needs,
    target: Target | None,
    file: Path | None,
    run: bool | None,
    *,
    is_over: bool,
    is_unsupported: bool,
) -> HostRun | None:
    """Run one inference of a .tflite file; None if `run` is False.

    If `run` is None, the result is None if no inference is possible, or `is_over`: the verdict is no anyway.
    `is_unsupported`: the rules refuse the file for the target, so its kernels do not take it either.
    """
    if run is False or (run is None and is_over):
        return None
    reason = _skip_reason(needs, target, file)
    if reason or file is None or target is None or (run is None and not _LIBRARY.is_installed):
        return HostRun("not run", reason) if run else None
    _LIBRARY.check_installed("running")
    kernels = "reference" if is_unsupported else target.runtime.micro
    return _host_run_of(infer_once(file), needs, kernels)


def _has_interpreter(target: Target | None) -> bool:
    """Whether models of the target run in TFLite Micro with kernels that the host has too."""
    # Output of Vela is one custom operator, which only the Ethos-U runtime has.
    return target is not None and target.runtime.micro not in ("", "ethos-u")


def _skip_reason(needs: Needs, target: Target | None, file: Path | None) -> str:
    """Why no inference runs on the host; empty if one can."""
    if not _has_interpreter(target):
        return f"only for targets of {_LIBRARY.title}"
    if file is None or needs.graph.format != "tflite":
        return "only .tflite files at their own shapes run on the host"
    return "the file has another precision" if needs.is_converted else ""


def _host_run_of(inference: Inference, needs: Needs, kernels: str) -> HostRun:
    reason = inference.reason
    if inference.outcome == "differs":
        return HostRun("differs")
    if inference.outcome == "ran":
        caveat = f"inference fails with inputs of 0, not of 1: {reason}" if reason else ""
        return HostRun("ran", caveat=caveat)
    if kernels != "reference" and _is_known_difference(needs, inference.operator):
        caveat = f"the reference kernels on the host refuse this file, {kernels} kernels take it: {reason}"
        return HostRun("refused", reason, caveat)
    if inference.outcome == "undetermined":
        return HostRun("undetermined", f"{_LIBRARY.title} {reason} on the host")
    if inference.is_allocated and _depends_on_values(needs, inference.operator):
        return HostRun("undetermined", f"inference fails with inputs of 0 and of 1: {reason}")
    return HostRun("refused", reason)


def _depends_on_values(needs: Needs, operator: str) -> bool:
    try:
        return may_fail_by_value(subgraphs(needs.graph), operator)
    except Incomplete:
        return True


def _is_known_difference(needs: Needs, operator: str) -> bool:
    """Whether the rules refuse the model for the reference kernels, in this operator if it is known."""
    try:
        reason = unsupported_reason(subgraphs(needs.graph), PYTHON_PACKAGE)
    except Incomplete:
        return False
    return reason is not None and reason.startswith(f"its {operator} kernel " if operator else "its ")
