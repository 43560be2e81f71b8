"""Sweeps on Ray: a real cluster on loopback, whose workers, nodes and drivers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sizeup
from full_size import size
from sizeup.sweeps import Store, read_spec
from sizeup.sweeps.expand import models_of
from sweeps.cluster import Served, cluster_at
from sweeps.generated import POISONED, write_models, write_poison
from sweeps.tables import rows_of, table_of, unfinished

pytestmark = pytest.mark.slow

MODELS = size(2000, ci=400)
SWEEP = [sys.executable, "-m", "sizeup", "sweep", "sweep.toml", "-o", "out", "--engine", "ray"]
TARGETS = """targets = ["rpi5/ort", "rpi5/litert-xnnpack", "stm32f746/tflm", "rtx4090", "a100", "esp32-s3",
    "jetson-orin-nano", "apple-a17-pro", "pixel-8", "nrf52840"]
precisions = ["stored", "int8", "fp16"]
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A folder with a short name: Ray's sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="su-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def cluster(home: Path) -> Iterator[Served]:
    with cluster_at(home) as served:
        yield served


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """Generated and real models, and a sweep over them."""
    folder = tmp_path_factory.mktemp("registry")
    real = sorted((shared / "models").glob("*.tflite"))
    write_models(folder / "nets", MODELS - len(real))
    (folder / "real").symlink_to(shared / "models")
    (folder / "sweep.toml").write_text(f'models = ["nets/*", "real/*.tflite"]\n{TARGETS}')
    return folder


def driver_of(registry: Path, out: Path, cluster: Served) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sizeup", "sweep", "sweep.toml", "-o", str(out)]
    return subprocess.Popen(
        [*command, "--engine", "ray", "--address", cluster.address],
        cwd=registry,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def wait_for(shards: int, out: Path, driver: subprocess.Popen[bytes]) -> None:
    """Wait until `shards` shards exist while the driver still works."""
    while len(Store(out).shards()) < shards:
        assert driver.poll() is None, driver.stderr and driver.stderr.read().decode()
        time.sleep(0.1)


@pytest.mark.long
def test_deaths_of_a_worker_a_node_and_the_driver_leave_no_trace(
    registry: Path, cluster: Served, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    driver = driver_of(registry, out, cluster)
    wait_for(MODELS // 20, out, driver)
    assert cluster.order("worker")["killed"] > 0
    wait_for(3 * MODELS // 20, out, driver)
    assert cluster.order("node")["killed"] > 0
    wait_for(9 * MODELS // 40, out, driver)
    assert cluster.order("add")["added"] > 0
    wait_for(2 * MODELS // 5, out, driver)
    while driver.poll() is None and not unfinished(out):  # in the middle of a write
        time.sleep(0.0005)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    before = len(Store(out).shards())
    assert 2 * MODELS // 5 <= before < MODELS

    last = driver_of(registry, out, cluster)
    _, output = last.communicate()
    assert last.returncode == 0, output.decode()
    assert unfinished(out) == []
    spec = read_spec(registry / "sweep.toml")
    planned = {key for model in models_of(spec) for key in spec.point_set.keys(model.identity().digest)}
    table = table_of(out)
    assert set(table["key"].to_pylist()) == planned
    assert len(table) == len(planned)

    calm = sizeup.sweep(registry / "sweep.toml", tmp_path / "calm")
    assert calm.models == MODELS
    assert table_of(tmp_path / "calm") == table


def test_poison_on_ray_becomes_rows_and_nothing_else_is_lost(cluster: Served, tmp_path: Path) -> None:
    write_models(tmp_path / "nets", 12)
    write_poison(tmp_path)
    (tmp_path / "sweep.toml").write_text(
        'models = ["nets/*", "truncated.tflite", "no.onnx"]\ngenerate = "poison:all"\n'
        'targets = ["rpi5/ort"]\n[limits]\nseconds = 20\nmemory = "1 GiB"\n'
    )
    done = subprocess.run(
        [*SWEEP, "--address", cluster.address, "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 17
    assert {row["model"]: row["error_kind"] for row in rows if row["status"] == "error"} == POISONED
    lines = done.stdout.splitlines()
    assert lines[0].startswith("17 models at 1 point each, on Ray, in ")
    assert len(lines) == 2 + 4 + 2  # four kinds of errors, advice, and no output of Ray


def test_without_an_address_ray_is_started_and_ended(tmp_path: Path) -> None:
    write_models(tmp_path / "nets", 4)
    (tmp_path / "sweep.toml").write_text('models = ["nets/*"]\ntargets = ["rpi5/ort"]\n')
    own = tmp_path / "home"
    own.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sizeup",
            "sweep",
            "sweep.toml",
            "-o",
            "out",
            "--engine",
            "ray",
            "--workers",
            "1",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(own)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 models at 1 point each, on Ray, in ")
    assert len(rows_of(tmp_path / "out")) == 4
    assert list(own.iterdir()) == []  # Ray leaves a token in the home folder, unless it is given another


AT_HOME = """
import os
from pathlib import Path


def network():
    return (Path(os.environ["HOME"]) / "net.tflite").read_bytes()


def all():
    yield "at home", network
"""
TWICE = """
import sizeup

for out in ("one", "two"):
    done = sizeup.sweep({"generate": "at_home:all", "targets": ["rpi5/ort"]}, out, engine="ray", workers=1)
    print(done.rows, done.errors, done.error_examples)
"""


def test_code_on_ray_has_the_home_of_its_user_and_sweeps_follow_each_other(tmp_path: Path) -> None:
    write_models(tmp_path / "nets", 1)
    own = tmp_path / "home"
    own.mkdir()
    (tmp_path / "nets" / "00000.tflite").rename(own / "net.tflite")
    (tmp_path / "at_home.py").write_text(AT_HOME)
    done = subprocess.run(
        [sys.executable, "-c", TWICE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(own)},
    )
    assert done.stdout == "1 0 {}\n" * 2, done.stdout + done.stderr


def test_a_limit_that_no_worker_can_keep_is_reported_in_one_line(cluster: Served, tmp_path: Path) -> None:
    write_models(tmp_path / "nets", 1)
    (tmp_path / "sweep.toml").write_text('models = ["nets/*"]\ntargets = ["rpi5/ort"]\n')
    done = subprocess.run(
        [*SWEEP, "--address", cluster.address, "--memory", "20MiB"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "a worker with 20.0 MiB of memory does not start" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_cluster_is_reported(tmp_path: Path) -> None:
    write_models(tmp_path / "nets", 1)
    (tmp_path / "sweep.toml").write_text('models = ["nets/*"]\ntargets = ["rpi5/ort"]\n')
    done = subprocess.run(
        [*SWEEP, "--address", "127.0.0.2:1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no Ray cluster answers at 127.0.0.2:1" in done.stderr
    assert len(done.stderr.splitlines()) == 1
