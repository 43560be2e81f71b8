"""One inference of a checked file on the host: evidence that TFLite Micro's interpreter runs it.

The interpreter has the reference kernels. What it refuses cannot run on a target, unless the rules of
`backends.tflm.support` know that the target's kernels accept it.
"""

from __future__ import annotations

from pathlib import Path

from sizeup.backends.backend import HostRun, interpreter, not_run
from sizeup.backends.needs import Needs
from sizeup.backends.tflm.layout import PYTHON_PACKAGE
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.backends.tflm.support import may_fail_by_value, unsupported_reason
from sizeup.errors import Incomplete
from sizeup.runtimes import Inference, infer_once


def require_interpreter() -> None:
    """Raise MissingLibrary if no interpreter is installed."""
    interpreter().check_installed("running")


def run_on_host(needs: Needs, kernels: str, file: Path | None, run: bool | None) -> HostRun | None:
    """Run one inference of a .tflite file for a target with these kernels.

    If `run` is None, the result is None if no inference is possible.
    """
    if file is None or needs.graph.format != "tflite":
        return not_run(run, "only .tflite files at their own shapes run on the host")
    if needs.is_converted:
        return not_run(run, "the file has another precision")
    if run is None and not interpreter().is_installed:
        return None
    interpreter().check_installed("running")
    return _host_run_of(infer_once(file), needs, kernels)


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
        return HostRun("undetermined", f"{interpreter().title} {reason} on the host")
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
