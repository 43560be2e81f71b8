"""This machine, calibrated with the networks that come along, on twelve that the fit has never seen.

Calibration networks and judged ones take turns in the same minutes, and each counts with its least time: what
else the machine does then disturbs both alike. `python tests/calibration/test_this_machine.py` prints all.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sizeup import formats
from sizeup.calibration import fitted
from sizeup.calibration.fitting import point
from sizeup.calibration.machine import this_machine
from sizeup.calibration.measuring import made_for, seconds_of
from sizeup.calibration.networks import BODIES
from sizeup.cost import count
from sizeup.latency import executed, seconds
from sizeup.runtimes import random_samples, time_series
from sizeup.targets import runtime as runtime_of

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.alone]

BAR = 0.12
# What is kept to even where others use the machine at the same time.
LIMITS = {"ort": 0.20, "litert-xnnpack": 0.30}


@dataclass(frozen=True, slots=True)
class Row:
    """A judged network: seconds estimated, least and median seconds measured."""

    name: str
    estimated: float
    least: float
    median: float


def judge(runtime: str, networks: dict[str, bytes]) -> list[Row]:
    fuses = runtime_of(runtime).fuses
    made, graphs = made_for(runtime), {name: formats.load(data) for name, data in networks.items()}
    models = [(each.content, each.samples) for each in made]
    models += [(data, tuple(random_samples(graphs[name], 1))) for name, data in networks.items()]
    found = time_series(runtime, models)
    points = [
        point(
            each.sketch.name,
            each.cost,
            seconds_of(turns, 1),
            fuses,
            family=each.sketch.family,
            is_probe=each.sketch.family not in BODIES,
        )
        for each, turns in zip(made, found, strict=False)
        if not turns.failure
    ]
    rates = fitted(points, float(this_machine().cache_bytes or 0)).rates
    rows = []
    for (name, graph), turns in zip(graphs.items(), found[len(made) :], strict=True):
        assert not turns.failure, turns.failure
        work = executed(count(graph), None, fuses or ()).work
        estimated = float(seconds(rates, work)[0])
        rows.append(Row(name, estimated, seconds_of(turns, 1), statistics.median(turns.cpu)))
    return rows


def mean_error(rows: list[Row], which: str) -> float:
    return statistics.fmean(abs(row.estimated / getattr(row, which) - 1) for row in rows)


def show(runtime: str, rows: list[Row]) -> str:
    least, median = (100 * mean_error(rows, which) for which in ("least", "median"))
    lines = [f"{runtime}: {least:.1f} % off the least time on average, {median:.1f} % off the median"]
    for row in rows:
        off = 100 * (row.estimated / row.least - 1)
        lines.append(f"  {row.name:28} {1e3 * row.least:9.3f} ms {1e3 * row.estimated:9.3f} ms {off:+6.1f} %")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def judged(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    from calibration import unseen

    return {
        "ort": judge("ort", unseen.onnx_networks(tmp_path_factory.mktemp("onnx"))),
        "litert-xnnpack": judge("litert-xnnpack", unseen.tflite_networks(shared)),
    }


@pytest.mark.parametrize("runtime", LIMITS)
def test_networks_that_the_fit_has_not_seen(judged: dict[str, list[Row]], runtime: str) -> None:
    rows = judged[runtime]
    assert len(rows) == 12
    assert mean_error(rows, "least") <= LIMITS[runtime], show(runtime, rows)


@pytest.mark.xfail(strict=False, reason="14.7 and 20.1 % on a busy machine: see docs/calibrating.md")
@pytest.mark.parametrize("runtime", LIMITS)
def test_the_mean_error_is_within_its_bar(judged: dict[str, list[Row]], runtime: str) -> None:
    assert mean_error(judged[runtime], "least") <= BAR, show(runtime, judged[runtime])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from calibration import unseen as networks

    home = Path(sys.argv[1])
    if "ort" in sys.argv[2:]:
        print(show("ort", judge("ort", networks.onnx_networks(home))))  # noqa: T201
    if "litert-xnnpack" in sys.argv[2:]:
        print(show("litert-xnnpack", judge("litert-xnnpack", networks.tflite_networks(home))))  # noqa: T201
