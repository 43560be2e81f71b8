"""`sizeup optimize` as its users meet it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sizeup
from cli.running import run_command

pytestmark = pytest.mark.extras


def optimize(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command("optimize", *arguments)


def test_sizes_changes_and_proof_are_shown(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_vww96_int8.tflite", tmp_path / "out.tflite"
    done = optimize(source, "-o", out)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "arena, reference 100,672 B 82,240 B -18.3 %" in lines
    assert "arena, cmsis-nn, Helium 100,784 B 82,352 B -18.3 %" in lines
    assert "arena used, 64-bit 103,680 B 85,248 B -17.8 %" in lines
    assert "arena head 73,728 B 55,296 B -25.0 %" in lines
    text = " ".join(lines)
    assert "used by unchanged firmware" in text
    assert "outputs equal on 6 random inputs in TFLite Micro" in text
    assert out.exists()
    assert max(map(len, done.stdout.splitlines())) <= 80 + len(str(out))


def test_json_stands_alone_and_says_the_same(shared: Path, tmp_path: Path) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    done = optimize(source, "-o", out, "--cluster", "16", "--pack", "--no-reorder", "--no-plan", "--json")
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result == {
        **sizeup.optimize(source, out, cluster=16, pack=True, reorder=False, plan=False).to_dict(),
        "output": str(out),
    }
    assert (result["before"]["arena_bytes"], result["before"]["arena_used_bytes_64"]) == (22_784, 24_272)
    assert result["before"]["file_bytes"] == 53_936
    assert result["after"]["file_bytes"] == out.stat().st_size < 51_000
    assert result["cluster"] == {"weights": 10, "values": 16}
    assert result["verification"]["equal"] is False


def test_what_cannot_be_written_is_one_line_and_code_2(shared: Path, tmp_path: Path) -> None:
    source = shared / "models/tflm_hello_int8.tflite"
    for out in (tmp_path / "out.onnx", tmp_path / "nowhere" / "out.tflite", source):
        done = optimize(source, "-o", out)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
    assert optimize(source).returncode == 2


def test_a_limit_of_macs_without_strips_is_an_error(tmp_path: Path) -> None:
    done = optimize("model.tflite", "-o", tmp_path / "out.tflite", "--max-extra-macs", "5%")
    assert done.returncode == 2
    assert "needs --split" in done.stderr


def test_a_weak_test_is_called_so(shared: Path, tmp_path: Path) -> None:
    done = optimize(shared / "models/tflm_keyword_scrambled_8bit.tflite", "-o", tmp_path / "out.tflite")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "with the same output each time, which is weak evidence" in text
    assert "a copy of the original: no change that was tried makes it smaller" in text


BAR = """
import time
from sizeup.cli import terminal
with terminal.searching("reading it", 10.0) as show:
    print("printed on the way")
    if show is not None:
        show("order", 1000, 2000)
        time.sleep(0.3)
        show("plan", 3000, 4000)
        time.sleep(0.3)
print("result")
"""


def test_bounds_of_a_search_are_shown_on_a_terminal_only() -> None:
    pty = pytest.importorskip("pty", reason="this system has no terminals to try it on")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    command = [sys.executable, "-c", BAR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as shown:
        assert shown.stdout is not None
        out = shown.stdout.read()
    os.close(theirs)
    screen = b""
    try:
        while piece := os.read(ours, 4096):
            screen += piece
    except OSError:
        pass  # how a terminal ends whose other side is closed
    os.close(ours)
    assert out == b"result\n"
    assert b"order: lower bound 1,000 B, best 2,000 B" in screen
    assert b"plan: lower bound 3,000 B, best 4,000 B" in screen
    silent = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert silent.stdout == b"result\n"
    assert silent.stderr == b"printed on the way\n"
