"""Rewrites model files to need less memory: schedule, memory plan, strips, weight clustering."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sizeup.backends import backend_of
from sizeup.errors import WriteError
from sizeup.formats.files import check_output_path
from sizeup.memory.schedule import Progress
from sizeup.rewrite.result import (
    Deviation,
    Footprint,
    KernelArena,
    LatencyChange,
    Optimization,
    OptimizeOptions,
    StripExecution,
    Verification,
)
from sizeup.rewrite.split import StripSegment
from sizeup.targets import Target

__all__ = [
    "Deviation",
    "Footprint",
    "KernelArena",
    "LatencyChange",
    "Optimization",
    "OptimizeOptions",
    "Progress",
    "StripExecution",
    "StripSegment",
    "Verification",
    "optimize",
]


def optimize(
    source: Path, out: Path, options: OptimizeOptions, bind: Mapping[str, int] | None = None
) -> Optimization:
    """Write an optimized file, or a copy of the original if nothing is gained."""
    check_output_path(source, out)
    if options.cluster is not None and options.cluster < 2:
        raise WriteError(f"--cluster {options.cluster}: at least 2 values are needed (16 values take 4 bits)")
    if options.overlap and not options.plan:
        raise WriteError("--overlap needs --plan: overlaps are part of the memory plan in the file")
    suffix = source.suffix.lower()
    if options.split and suffix != ".tflite":
        raise WriteError("--split supports .tflite files only")
    if options.max_extra_macs < 0:
        raise WriteError(f"--max-extra-macs {options.max_extra_macs:g}: must not be negative")
    if options.target is not None:
        _check_target(options.target, suffix.removeprefix("."), overlap=options.overlap)
        if backend_of(options.target).compiles_models:
            from sizeup.rewrite import npu

            return npu.optimize(source, out, options, options.target)
    if suffix == ".tflite":
        from sizeup.rewrite import tflite

        return tflite.optimize(source, out, options)
    if suffix == ".onnx":
        from sizeup.rewrite import onnx

        return onnx.optimize(source, out, options, bind)
    raise WriteError(f"{source}: only .tflite and .onnx files can be rewritten")


def _check_target(target: Target, format: str, *, overlap: bool) -> None:
    """Raise WriteError if the runtime of a target does not read the format or does not allow overlaps."""
    runtime = target.runtime
    if runtime.formats is not None and format not in runtime.formats:
        raise WriteError(f"{target.name}: {runtime.name} does not run .{format} files")
    if overlap:
        backend_of(target).check_overlap()
