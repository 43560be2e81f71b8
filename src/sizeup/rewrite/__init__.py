"""Making a model file that needs less: another order, a plan for its memory, fewer values in its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sizeup.errors import WriteError
from sizeup.formats.files import check_target
from sizeup.memory.schedule import Progress
from sizeup.rewrite.result import Deviation, Footprint, Optimization, OptimizeOptions, Verification

__all__ = [
    "Deviation",
    "Footprint",
    "Optimization",
    "OptimizeOptions",
    "Progress",
    "Verification",
    "optimize",
]


def optimize(
    source: Path, out: Path, wishes: OptimizeOptions, bind: Mapping[str, int] | None = None
) -> Optimization:
    """Write a file that needs less, or the original where nothing is gained."""
    check_target(source, out)
    if wishes.cluster is not None and wishes.cluster < 2:
        raise WriteError(f"{wishes.cluster} values are too few for a weight; 16 take 4 bits each")
    if wishes.overlap and not wishes.plan:
        raise WriteError("outputs overlap inputs by a plan in the file: --overlap needs --plan")
    suffix = source.suffix.lower()
    if suffix == ".tflite":
        from sizeup.rewrite import tflite

        return tflite.optimize(source, out, wishes)
    if suffix == ".onnx":
        from sizeup.rewrite import onnx

        return onnx.optimize(source, out, wishes, bind)
    raise WriteError(f"{source}: only .tflite and .onnx files can be rewritten")
