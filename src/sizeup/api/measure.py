"""Running a model for real, and targets from what was measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup import cost
from sizeup.api.models import Source, load
from sizeup.errors import TargetError
from sizeup.formats import Inputs

if TYPE_CHECKING:
    from sizeup.calibration import Calibration
    from sizeup.latency import Utilization
    from sizeup.mixed_precision.mixing import Wish
    from sizeup.results.measurement import Measurement
    from sizeup.targets import Device, Target


def utilization(
    source: Source,
    target: str | Target,
    *,
    latency_ms: float,
    bandwidth: float | str | None = None,
    precision: Wish = None,
    inputs: Inputs = None,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Utilization:
    """The utilization of a target by an inference whose latency was measured there; nothing is run.

    `bandwidth` is the memory bandwidth that was measured, in bytes per second or as "8 GB/s"; without it the
    bytes that the target's kernels read and write are counted. `precision` is what the model was measured
    at, if not its own. Raises SizeupError if a value is not positive and finite.
    """
    from sizeup import latency, targets
    from sizeup.mixed_precision.mixing import as_wished

    given = latency.measurement(latency_ms, bandwidth)
    named = targets.target(target) if isinstance(target, str) else target
    graph, asked = as_wished(load(source, inputs=inputs, kwargs=kwargs, bind=bind), precision)
    return latency.utilization(cost.count(graph), named, given, asked)


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
    """Run a model on this machine, in a process of its own, and say how long it takes.

    The runtime is `ort`, `litert`, `litert-xnnpack`, `tflm` or `torch-eager`; by default the usual one of
    the format. Random inputs, random weights where code is named without any. `profile` asks the runtime for
    the times of its kernels. `device` says what this machine is, so that shares of its rates can be told.
    Raises RunFailed where it does not run the model, TargetError if this machine is not the `device`, and
    NotTrusted for a .pt2 file that is not `trusted`: loading one to run it can run any code that it holds.
    """
    from sizeup import runtimes, targets
    from sizeup.formats.torch import refuse_untrusted
    from sizeup.results.measurement import Measurement

    refuse_untrusted(source, trusted=trusted)
    here, notes = (None, ()) if device is None else _this_device(device)
    graph = load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    effort = runtimes.Effort(seconds=seconds, profiled_runs=runtimes.Effort().profiled_runs * profile)
    given = runtimes.RunSpec(source, inputs, kwargs, bind, trusted)
    timing = runtimes.time_source(given, graph, runtime, threads, effort, progress)
    target = None if here is None else targets.Target(here, targets.runtime(timing.runtime))
    return Measurement(graph.name or "model", graph.format, timing, cost.count(graph), target, notes)


def _this_device(name: str) -> tuple[Device, tuple[str, ...]]:
    """The device that this machine is said to be, and a note if that cannot be verified."""
    from sizeup import targets
    from sizeup.calibration.machine import is_device, this_machine

    device, machine = targets.device(name), this_machine()
    answer = is_device(machine, device, targets.devices())
    if answer is False:
        raise TargetError(
            f"this machine is {machine}, not {device.title}; run it there, or give the latency that you"
            f" measured there: --from latency_ms=12.3 -d {device.name} (Python: sizeup.utilization)"
        )
    verified = f"it could not be verified that this machine, {machine}, is {device.title}"
    return device, () if answer else (verified,)


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
    """Fit a target to times and keep it in a file, so that estimates for `device/runtime` rest on them.

    Small networks are run here, each for so many `seconds`; or `csv` names a table of models and latencies,
    or `profile` a profile of `model`. Without `device` it is `this-machine`, without `out` the file is in the
    user's folder of targets. Raises SizeupError where there are too few times to learn from.
    """
    from sizeup import calibration

    paths = [None if each is None else Path(each) for each in (csv, profile, out)]
    order = calibration.Order(runtime, device, paths[0], paths[1], model, bind, threads, seconds, paths[2])
    return calibration.calibrate(order, progress)
