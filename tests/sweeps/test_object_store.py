"""A store at an address of S3: a server of moto on loopback, spoken to as any other by s3fs."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.errors import SizeupError
from sizeup.sweeps import Store, compact
from sweeps.generated import write_models
from sweeps.tables import rows_of, table_of

s3fs = pytest.importorskip("s3fs")
pytest.importorskip("moto.server")

MODELS = 12
SPEC = 'models = ["nets/*"]\ntargets = ["rpi5/ort", "stm32f746/tflm"]\nprecisions = ["stored", "int8"]\n'
SWEEP = [sys.executable, "-m", "sizeup", "sweep", "sweep.toml", "-o", "s3://bucket/nightly"]


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a server that lives as long as these tests."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def system(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """An empty bucket, a spec and its models in the current folder, and the address where libraries look."""
    known = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.chdir(tmp_path)
    write_models(tmp_path / "nets", MODELS)
    (tmp_path / "sweep.toml").write_text(SPEC)
    s3fs.S3FileSystem.clear_instance_cache()
    opened = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    opened.mkdir("bucket")
    yield opened
    opened.rm("bucket", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SWEEP, *words], capture_output=True, text=True, check=False)


def test_a_sweep_that_was_killed_resumes_and_is_queried(system: Any, tmp_path: Path) -> None:
    driver = subprocess.Popen(SWEEP, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(system.find("bucket/nightly/shards")) < 3:
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    killed = len(Store("s3://bucket/nightly").shards())
    assert 3 <= killed < MODELS
    last = run()
    assert last.returncode == 0, last.stderr
    assert f"\n{killed} models already had all rows\n" in last.stdout

    sizeup.sweep("sweep.toml", tmp_path / "here", in_process=True)
    there, here = Store("s3://bucket/nightly"), table_of(tmp_path / "here")
    assert table_of("s3://bucket/nightly") == here
    assert compact(there) == len(here)
    assert table_of("s3://bucket/nightly") == here
    queries: list[dict[str, Any]] = [
        {},
        {"view": "fastest"},
        {"sql": "SELECT count(*), sum(macs) FROM points"},
    ]
    for options in queries:
        expected = sizeup.query(tmp_path / "here", **options).rows
        assert sizeup.query(there.storage.address, **options).rows == expected


def test_shards_that_were_cut_off_or_are_not_planned_are_seen_there_too(system: Any, tmp_path: Path) -> None:
    address = "s3://bucket/nightly"
    sizeup.sweep("sweep.toml", address, in_process=True)
    whole = table_of(address)
    shard = Store(address).shards()[1]
    content = system.cat_file(f"bucket/nightly/{shard}")
    for left in (b"", b"PAR1", content[:-1]):
        system.pipe_file(f"bucket/nightly/{shard}", left)
        with pytest.raises(SizeupError, match=": damaged"):
            sizeup.query(address)
        assert sizeup.sweep("sweep.toml", address, in_process=True).corrupt_shards == 1
        assert table_of(address) == whole
    (tmp_path / "nets" / "00000.tflite").write_bytes((tmp_path / "nets" / "00002.tflite").read_bytes())
    system.pipe_file("bucket/nightly/notes.txt", b"mine")
    done = sizeup.sweep("sweep.toml", address, in_process=True, prune=True)
    assert done.pruned is not None
    assert (done.rows, done.pruned.rows) == (4, 4)
    assert len(rows_of(address)) == 4 * MODELS
    assert system.cat_file("bucket/nightly/notes.txt") == b"mine"


def test_a_missing_bucket_or_server_is_reported_in_one_line(
    system: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in (
        lambda: sizeup.sweep("sweep.toml", "s3://absent/x", in_process=True),
        lambda: sizeup.query("s3://absent/x"),
    ):
        with pytest.raises(SizeupError, match="s3://absent/x: The specified bucket does not exist"):
            verb()
    assert [each.rstrip("/") for each in system.ls("")] == ["bucket"]  # a slip of the pen made none
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    done = run("--in-process")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "s3://bucket/nightly: Could not connect to the endpoint" in done.stderr


@pytest.mark.slow
def test_ray_writes_there(system: Any, tmp_path: Path) -> None:
    done = run("--engine", "ray", "--workers", "2")
    assert done.returncode == 0, done.stderr
    sizeup.sweep("sweep.toml", tmp_path / "here", in_process=True)
    assert table_of("s3://bucket/nightly") == table_of(tmp_path / "here")
