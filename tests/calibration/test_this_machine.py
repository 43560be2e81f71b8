"""Calibrate this machine and predict sixteen networks that are not in the calibration.

Calibration and test networks are timed alternately, and each counts with its minimum latency, so that other
load affects both. `python tests/calibration/test_this_machine.py` prints all rows.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from full_size import full_size_only
from sizeup import formats
from sizeup.calibration import fit_calibration
from sizeup.calibration.host import detect_host
from sizeup.calibration.measurement import calibration_models, min_latency
from sizeup.calibration.networks import REFERENCE_FAMILIES
from sizeup.calibration.regression import network_measurement
from sizeup.cost import count
from sizeup.latency import execution_of, seconds
from sizeup.runtimes import random_samples, time_series
from sizeup.targets import runtime as runtime_of

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.long, full_size_only]

BARS = {"ort": 0.08, "litert-xnnpack": 0.10, "torch-eager": 0.08}
# Also met while other processes use the machine.
LIMITS = {"ort": 0.20, "litert-xnnpack": 0.30, "torch-eager": 0.30}


@dataclass(frozen=True, slots=True)
class Row:
    """A test network: predicted seconds, minimum and median of the measured seconds."""

    name: str
    estimated: float
    least: float
    median: float


def judge(runtime: str, networks: dict[str, Any], home: Path) -> list[Row]:
    fuses = runtime_of(runtime).fusions
    calibration = calibration_models(runtime)
    models = [(each.content, each.samples) for each in calibration]
    if runtime == "torch-eager":
        from sizeup.formats.torch.runnable import write

        graphs = {name: formats.load(source, inputs=inputs) for name, (source, inputs) in networks.items()}
        for source, inputs in networks.values():
            write(home / "module.pt", (source, inputs, None, None))
            models.append(((home / "module.pt").read_bytes(), ()))
    else:
        graphs = {name: formats.load(data) for name, data in networks.items()}
        models += [(data, tuple(random_samples(graphs[name], 1))) for name, data in networks.items()]
    series = time_series(runtime, models)
    points = [
        network_measurement(
            each.spec.name,
            each.cost,
            min_latency(turns, 1),
            fuses,
            family=each.spec.family,
            is_probe=each.spec.family not in REFERENCE_FAMILIES,
        )
        for each, turns in zip(calibration, series, strict=False)
        if not turns.failure
    ]
    rates = fit_calibration(points, float(detect_host().cache_bytes or 0)).rates
    rows = []
    for (name, graph), turns in zip(graphs.items(), series[len(calibration) :], strict=True):
        assert not turns.failure, turns.failure
        work = execution_of(count(graph), None, fuses or ()).work
        estimated = float(seconds(rates, work)[0])
        rows.append(Row(name, estimated, min_latency(turns, 1), statistics.median(turns.cpu)))
    return rows


def mean_error(rows: list[Row], which: str) -> float:
    return statistics.fmean(abs(row.estimated / getattr(row, which) - 1) for row in rows)


def show(runtime: str, rows: list[Row]) -> str:
    least, median = (100 * mean_error(rows, which) for which in ("least", "median"))
    lines = [f"{runtime}: MAPE {least:.1f} % against the minimum, {median:.1f} % against the median"]
    for row in rows:
        off = 100 * (row.estimated / row.least - 1)
        lines.append(f"  {row.name:28} {1e3 * row.least:9.3f} ms {1e3 * row.estimated:9.3f} ms {off:+6.1f} %")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def judged(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    from calibration import unseen

    home = tmp_path_factory.mktemp("networks")
    return {
        "ort": judge("ort", unseen.onnx_networks(home), home),
        "litert-xnnpack": judge("litert-xnnpack", unseen.tflite_networks(shared), home),
        "torch-eager": judge("torch-eager", unseen.torch_networks(home), home),
    }


@pytest.mark.parametrize("runtime", LIMITS)
def test_networks_that_the_fit_has_not_seen(judged: dict[str, list[Row]], runtime: str) -> None:
    rows = judged[runtime]
    assert len(rows) == 16
    assert mean_error(rows, "least") <= LIMITS[runtime], show(runtime, rows)


@pytest.mark.xfail(strict=False, reason="not reached on a busy machine: see docs/calibrating.md")
@pytest.mark.parametrize("runtime", LIMITS)
def test_the_mean_error_is_within_its_bar(judged: dict[str, list[Row]], runtime: str) -> None:
    assert mean_error(judged[runtime], "least") <= BARS[runtime], show(runtime, judged[runtime])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from calibration import unseen as networks

    home = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        makers: dict[str, Callable[[], dict[str, Any]]] = {
            "ort": lambda: networks.onnx_networks(folder),
            "litert-xnnpack": lambda: networks.tflite_networks(home),
            "torch-eager": lambda: networks.torch_networks(folder),
        }
        for runtime in sys.argv[2:]:
            print(show(runtime, judge(runtime, makers[runtime](), folder)))  # noqa: T201
