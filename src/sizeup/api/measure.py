"""Measuring latency, utilization from measured latency, and calibrating targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import cost
from sizeup.api.models import Source, counted, load, load_at_precision, refuse_report
from sizeup.errors import TargetError
from sizeup.formats import Inputs

if TYPE_CHECKING:
    from sizeup.calibration import Calibration
    from sizeup.latency import Utilization
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.results.measurement import Measurement
    from sizeup.targets import Device, Target


def utilization(
    source: Source,
    target: str | Target,
    *,
    latency_ms: float,
    bandwidth: float | str | None = None,
    precision: PrecisionSpec = None,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Utilization:
    """The utilization of a target from a latency that was measured on it; nothing is run.

    `bandwidth` is the measured memory bandwidth in bytes per second, or e.g. "8 GB/s"; without it, the bytes
    that the target's kernels read and write are counted. `precision` is the measured precision if not the
    model's own. Raises SizeupError if a value is not positive and finite.
    """
    from sizeup import latency
    from sizeup.targets.device_file import target_or_file

    measurement = latency.measurement(latency_ms, bandwidth)
    resolved = target_or_file(target) if isinstance(target, str) else target
    graph, dtype, _ = load_at_precision(source, inputs, kwargs, bind, precision)
    return latency.utilization(counted(source, graph), resolved, measurement, dtype)


def measure(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    runtime: str | None = None,
    device: str | None = None,
    threads: int = 1,
    seconds: float = 3.0,
    profile: bool = True,
    trusted: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> Measurement:
    """Measure the latency of a model on this machine, in a subprocess.

    `runtime` is `ort`, `litert`, `litert-xnnpack`, `tflm` or `torch-eager`, by default that of the format.
    Inputs are random, and so are weights of code without any. `profile` also measures the runtime's kernels.
    `device` is the catalog name of this machine, to compute utilization. Raises RunFailed if the runtime
    cannot run the model, TargetError if this machine is not the `device`, and NotTrusted for a .pt2 file
    without `trusted`: running it can execute any code it contains.
    """
    from sizeup import runtimes, targets
    from sizeup.formats.torch import require_trust
    from sizeup.results.measurement import Measurement

    refuse_report(source, "measure")
    require_trust(source, trusted=trusted)
    this_device, notes = (None, ()) if device is None else _this_device(device)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    effort = runtimes.TimingOptions(
        seconds=seconds, profiled_runs=runtimes.TimingOptions().profiled_runs * profile
    )
    run_spec = runtimes.RunSpec(source, inputs, kwargs, bind, trusted)
    timing = runtimes.time_source(run_spec, graph, runtime, threads, effort, progress)
    target = None if this_device is None else targets.Target(this_device, targets.runtime(timing.runtime))
    return Measurement(graph.name or "model", graph.format, timing, cost.count(graph), target, notes)


def _this_device(name: str) -> tuple[Device, tuple[str, ...]]:
    """The device of this name, and a note if it cannot be verified that this machine is one."""
    from sizeup import targets
    from sizeup.calibration.host import detect_host, is_device

    device, machine = targets.device(name), detect_host()
    is_same = is_device(machine, device, targets.devices())
    if is_same is False:
        raise TargetError(
            f"this machine is {machine}, not {device.title}; measure on that device, or give the latency"
            f" measured there: --from latency_ms=12.3 -d {device.name} (Python: sizeup.utilization)"
        )
    note = f"cannot verify that this machine, {machine}, is {device.title}"
    return device, () if is_same else (note,)


def calibrate(
    runtime: str = "ort",
    *,
    device: str | None = None,
    csv: str | os.PathLike[str] | None = None,
    profile: str | os.PathLike[str] | None = None,
    model: Source = None,
    bind: Mapping[str, int] | None = None,
    threads: int = 1,
    seconds: float = 0.4,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Calibrate a target with measured latencies, and write it to a file for estimates on `device/runtime`.

    Runs small networks on this machine for `seconds` each, or reads a table of models and latencies (`csv`)
    or a `profile` of `model`. The default `device` is `this-machine`, the default `out` a file in the user's
    folder of targets. Raises SizeupError if there are too few latencies to calibrate.
    """
    from sizeup import calibration

    paths = [None if path is None else Path(path) for path in (csv, profile, out)]
    order = calibration.CalibrationOptions(
        runtime, device, paths[0], paths[1], model, bind, threads, seconds, paths[2]
    )
    return calibration.calibrate(order, progress)
