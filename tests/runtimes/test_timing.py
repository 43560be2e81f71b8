"""Latencies in real runtimes, measured in a worker with a timeout."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import sizeup
from formats.onnx import making
from runtimes.sleeping import Sleeps
from sizeup.errors import NotTrusted, RunFailed
from sizeup.runtimes import TIMED_RUNTIMES, TimingOptions, time_model
from sizeup.runtimes.profiles import kernels_of

pytestmark = pytest.mark.extras

SHORT = TimingOptions(seconds=0.05, warm_up=1, least_runs=3, profiled_runs=2)


def chain_of(layers: int, width: int = 64) -> onnx.ModelProto:
    nodes, weights = [], []
    generator = np.random.default_rng(0)
    for place in range(layers):
        nodes += [
            making.node("MatMul", f"h{place} w{place}", f"m{place}", name=f"product{place}"),
            making.node("Relu", f"m{place}", f"h{place + 1}", name=f"relu{place}"),
        ]
        weights.append(making.numbers(f"w{place}", generator.normal(size=(width, width)), np.float32))
    inputs, outputs = [making.value("h0", (1, width))], [making.value(f"h{layers}", (1, width))]
    return making.model(nodes, inputs, outputs, weights)


def test_a_known_time_is_measured() -> None:
    measurement = sizeup.measure(Sleeps(), [(1, 4)], seconds=0.2)
    assert 0.05 <= measurement.timing.minimum <= measurement.timing.median < 0.5
    assert min(measurement.timing.cpu_seconds) < 0.05  # asleep, not at work
    assert len(measurement.timing.seconds) >= 4
    assert measurement.ms == pytest.approx(1e3 * min(measurement.timing.seconds))


@pytest.mark.parametrize("runtime", [name for name in TIMED_RUNTIMES if name not in ("ort", "torch-eager")])
def test_tflite_files_are_timed_in_each_of_their_runtimes(shared: Path, runtime: str) -> None:
    measurement = sizeup.measure(shared / "models/mlperf_kws_int8.tflite", runtime=runtime, seconds=0.05)
    assert measurement.timing.runtime == runtime
    assert 0 < measurement.timing.minimum <= measurement.timing.median <= max(measurement.timing.seconds)
    assert measurement.macs_per_second == pytest.approx(2_656_768 / measurement.timing.minimum)
    assert measurement.timing.version


def test_the_delegate_is_really_in_use(shared: Path) -> None:
    path = shared / "models/mlperf_resnet8_fp32.tflite"
    plain, fast = (sizeup.measure(path, runtime=name, seconds=0.3) for name in ("litert", "litert-xnnpack"))
    assert fast.timing.minimum < plain.timing.minimum


def test_more_work_takes_longer() -> None:
    small, large = (sizeup.measure(chain_of(layers, 256), seconds=0.2, profile=False) for layers in (2, 40))
    assert large.timing.minimum > 4 * small.timing.minimum


def test_the_profile_lists_the_kernels_that_onnx_runtime_made(tmp_path: Path) -> None:
    """Against the nodes of the file that ONNX Runtime itself writes after its rewriting."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "rewritten.onnx")
    options.log_severity_level = 3
    content = chain_of(6).SerializeToString()
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    rewritten = onnx.load(tmp_path / "rewritten.onnx")
    measurement = sizeup.measure(content, seconds=0.05)
    assert sorted(each.name for each in measurement.timing.kernels) == sorted(
        node.name for node in rewritten.graph.node
    )
    assert {each.op_kind for each in measurement.timing.kernels} == {
        node.op_type for node in rewritten.graph.node
    }
    assert 0 < sum(each.seconds for each in measurement.timing.kernels) < max(measurement.timing.seconds) * 5


def test_a_profile_takes_the_fastest_of_its_runs() -> None:
    rows = [("first", 9), ("second", 5), ("first", 3), ("second", 7), ("first", 4), ("second", 6)]
    events = [
        {"cat": "Node", "name": f"{name}_kernel_time", "dur": dur, "args": {"op_name": name.upper()}}
        for name, dur in rows
    ] + [
        {"cat": "Session", "name": "model_run", "dur": 99},
        {"cat": "Node", "name": "first_fence_before", "dur": 1},
    ]
    assert [(k.name, k.op_kind, round(k.seconds * 1e6)) for k in kernels_of(events, skipped_runs=1)] == [
        ("first", "FIRST", 3),
        ("second", "SECOND", 6),
    ]


def test_the_profile_of_a_module_has_its_operators() -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4)
    )
    measurement = sizeup.measure(module, [(1, 3, 8, 8)], seconds=0.05)
    assert [each.op_kind for each in measurement.timing.kernels] == [
        "aten.conv2d",
        "aten.relu",
        "aten.linear",
    ]
    assert all(each.seconds > 0 for each in measurement.timing.kernels)


def test_exported_programs_and_named_code_are_run_for_real(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(8, 4), (torch.zeros(2, 8),))
    torch.export.save(program, tmp_path / "linear.pt2")
    with pytest.raises(NotTrusted, match="--trust"):
        sizeup.measure(tmp_path / "linear.pt2", seconds=0.02)
    measurement = sizeup.measure(tmp_path / "linear.pt2", seconds=0.02, trusted=True)
    assert [each.op_kind for each in measurement.timing.kernels] == ["aten.linear"]
    named = sizeup.measure("torch.nn:ReLU", [(1, 8)], seconds=0.02)
    assert [each.op_kind for each in named.timing.kernels] == ["aten.relu"]


def test_a_crash_is_reported_and_not_fatal(shared: Path) -> None:
    with pytest.raises(RunFailed, match=r"LiteRT with XNNPACK crashed \(SIG"):
        sizeup.measure(shared / "models/tflm_keyword_scrambled_8bit.tflite")


def test_what_never_ends_is_ended(shared: Path) -> None:
    started = time.monotonic()
    with pytest.raises(RunFailed, match="took longer than 2 s"):
        time_model(
            "tflm", shared / "models/mlperf_kws_int8.tflite", effort=TimingOptions(seconds=600), timeout=2
        )
    assert time.monotonic() - started < 30


def test_an_unsuitable_runtime_is_reported_with_alternatives(shared: Path) -> None:
    path = shared / "models/mlperf_kws_int8.tflite"
    with pytest.raises(
        RunFailed, match="ONNX Runtime cannot run tflite models; use litert or litert-xnnpack or tflm"
    ):
        sizeup.measure(path, runtime="ort")
    with pytest.raises(RunFailed, match="unknown runtime 'tpu'; known: ort, litert"):
        sizeup.measure(path, runtime="tpu")


def test_a_class_of_a_script_travels_with_its_module() -> None:
    class Local(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x)

    measurement = sizeup.measure(Local(), [(1, 2)], seconds=0.02)
    assert [each.op_kind for each in measurement.timing.kernels] == ["aten.tanh"]


def test_a_module_that_cannot_travel_says_what_to_do() -> None:
    module = torch.nn.ReLU()
    module.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(RunFailed, match=r"cannot be pickled for a worker .*package\.module:factory"):
        sizeup.measure(module, [(1, 2)])


def test_nothing_stays_behind_when_the_caller_gives_up(shared: Path) -> None:
    code = f"""
        import os, subprocess, sizeup
        def children():
            command = ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "args="]
            listed = subprocess.run(command, capture_output=True, text=True).stdout
            return sum("sizeup.workers.worker" in line for line in listed.splitlines())
        def stop(runs, least):
            print(children())
            raise KeyboardInterrupt
        try:
            sizeup.measure({str(shared / "models/mlperf_kws_int8.tflite")!r}, seconds=600, progress=stop)
        except KeyboardInterrupt:
            print(children())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["1", "0"]


def test_short_efforts_run_as_often_as_requested() -> None:
    content = chain_of(1).SerializeToString()
    samples = [[np.zeros((1, 64), np.float32)]]
    measurement = time_model("ort", content, samples, effort=SHORT)
    assert len(measurement.seconds) >= 3
    assert len(measurement.warm_up_seconds) == 1
    most = time_model(
        "ort", content, samples, effort=TimingOptions(seconds=9, warm_up=0, most_runs=5, profiled_runs=0)
    )
    assert (len(most.seconds), len(most.warm_up_seconds), most.kernels) == (5, 0, ())
