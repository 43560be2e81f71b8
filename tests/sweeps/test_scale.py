"""The overhead of a sweep: memory of the driver, time per task, time of writing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from full_size import full_size_only, size
from sizeup.calibration.write_tflite import tflite_file
from sizeup.sweeps import Point, Store, point_set_of
from sizeup.sweeps.schema import FIELDS, batch_of
from sweeps.generated import sketch
from timing import undisturbed

MILLION = 1_000_000
CHUNK = 16_384


@pytest.mark.alone
def test_a_million_points_are_written_in_ten_seconds(tmp_path: Path) -> None:
    """Keys that are all different, floats that are, and counts of as many values as a grid gives."""
    random = np.random.default_rng(0)
    values = {
        "int": random.integers(0, 10**12, MILLION),
        "float": random.random(MILLION),
        "bool": random.random(MILLION) < 0.5,
        "text": np.array([f"word {index % 50}" for index in range(MILLION)], object),
    }
    columns = {field.name: values[field.type] for field in FIELDS}
    columns["key"] = np.array([f"{index:032x}" for index in range(MILLION)], object)
    store = Store(tmp_path)
    parts = (
        {name: column[place : place + CHUNK] for name, column in columns.items()}
        for place in range(0, MILLION, CHUNK)
    )
    with undisturbed() as taken:
        rows = store.write(
            store.shard("ab" * 16, "0" * 16), (batch_of(part, len(part["key"])) for part in parts)
        )
    assert rows == MILLION
    assert taken.seconds < 10


def test_keys_of_a_million_points_take_seconds() -> None:
    """Planning must not be what a sweep waits for."""
    point_set = point_set_of(Point("rpi5/ort", "stored", batch) for batch in range(1, 20_001))
    with undisturbed() as taken:
        keys = point_set.keys("ab" * 16)
    assert len(set(keys)) == 20_000
    assert taken.seconds < 1  # of fifty such shares


DRIVER = """
import json, resource, sys
from pathlib import Path
import sizeup

spec = {"generate": "many:models", "targets": ["rpi5/ort"], "batch": list(range(1, 1001))}
done = sizeup.sweep(spec, "out", engine=sys.argv[1], workers=1)
print(json.dumps([done.rows, done.errors, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""
# A thousand points each: nothing of a model is loaded, so that only the sweep itself is weighed.
MANY = """
def refuses():
    raise ValueError("no model")


def models():
    for index in range({count}):
        yield f"model {{index}}", refuses
"""


def driver_memory(folder: Path, engine: str, models: int) -> float:
    """The peak memory of a driver in MB, for a thousand points of `models` models."""
    folder.mkdir()
    (folder / "many.py").write_text(MANY.format(count=models))
    command = [sys.executable, "-c", DRIVER, engine]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    rows, errors, most = json.loads(done.stdout)
    assert rows == errors == 1000 * models
    return float(most) / 1000


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_the_memory_of_the_driver_does_not_grow_with_the_sweep(tmp_path: Path, engine: str) -> None:
    """From ten thousand points to a million, at most 100 bytes for each."""
    models = size(1000, ci=200)
    few, many = driver_memory(tmp_path / "few", engine, 10), driver_memory(tmp_path / "many", engine, models)
    assert many - few < models / 10, (few, many)


SPIN = """
import time


def spin():
    end = time.process_time() + 1.0
    while time.process_time() < end:
        pass
    return {content!r}


def models():
    for index in range({count}):
        yield f"model {{index}}", spin
"""
PAIR = "from spin import spin; [spin() for _ in range({each})]"
TIMED = """
import json, sys
import sizeup

spec = {"generate": "spin:models", "targets": ["rpi5/ort"]}
times = []
sizeup.sweep(spec, "out", engine=sys.argv[1], workers=2, progress=lambda each: times.append(each.seconds))
print(json.dumps(times))
"""
# All tasks, enough that the last ones matter little, and those that wait for processes to start.
TASKS, WARM = 54, 4


@pytest.fixture(scope="module", params=["local", "ray"])
def overhead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """What tasks of a second take beyond the bare work: two workers once they are at work, against two
    processes that do nothing else."""
    engine, folder = request.param, tmp_path_factory.mktemp("tasks")
    content = tflite_file(sketch(3, "int8"), 3)
    (folder / "spin.py").write_text(SPIN.format(content=content, count=TASKS))
    seconds: list[float] = []
    while len(seconds) < 4 and min(seconds, default=1.0) > 0.03:  # other work can only slow one down
        shutil.rmtree(folder / "out", ignore_errors=True)
        command = [sys.executable, "-c", TIMED, engine]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        times = json.loads(done.stdout)
        bare = seconds_of_two(folder, (TASKS - WARM) // 2)
        seconds.append((times[-1] - times[WARM - 1]) / bare - 1)
    return engine, min(seconds)


@full_size_only
@pytest.mark.long
@pytest.mark.slow
def test_a_task_of_a_second_costs_three_percent_more_at_most(overhead: tuple[str, float]) -> None:
    assert overhead[1] <= 0.03, overhead


def seconds_of_two(folder: Path, each: int) -> float:
    """The seconds that two processes take for `each` tasks, after they have started."""
    code = f"import time; start = time.monotonic(); {PAIR.format(each=each)}; print(time.monotonic() - start)"
    pair = [
        subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    return max(float(process.communicate()[0]) for process in pair)
