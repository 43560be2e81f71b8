"""ONNX Runtime on the CPU; imported only in a worker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from sizeup.runtimes.process import Array, Sample, load_samples
from sizeup.runtimes.profiles import kernels_of
from sizeup.runtimes.timing import Kernel

_LEVELS = onnxruntime.GraphOptimizationLevel


def execute(model: str, samples: Sequence[Sample]) -> list[list[Array]]:
    """The outputs per sample, without graph optimizations, which could round two schedules differently."""
    session = _session(model, _LEVELS.ORT_DISABLE_ALL, 1)
    names = [value.name for value in session.get_inputs()]
    return [
        [np.asarray(value) for value in session.run(None, dict(zip(names, sample, strict=True)))]
        for sample in samples
    ]


def timer(folder: Path, settings: Mapping[str, Any]) -> _Timer:
    """A timer of the model with all graph optimizations, ONNX Runtime's default."""
    return _Timer(folder, settings)


class _Timer:
    version = onnxruntime.__version__

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        (sample,) = load_samples(folder / "inputs.npz") or [[]]
        self._session = _session(settings["model"], _LEVELS.ORT_ENABLE_ALL, settings["threads"])
        self._names = [argument.name for argument in self._session.get_inputs()]
        self._feed = dict(zip(self._names, sample, strict=True))

    def invoke(self) -> None:
        self._session.run(None, self._feed)

    def profile(self, runs: int) -> list[Kernel]:
        """The kernels of a run, from a second session because profiling costs time."""
        session = _session(
            self._settings["model"],
            _LEVELS.ORT_ENABLE_ALL,
            self._settings["threads"],
            str(self._folder / "profile"),
        )
        for _ in range(runs + 1):
            session.run(None, self._feed)
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
        return kernels_of(events, skipped_runs=1)


def _session(model: str, level: Any, threads: int, profile: str = "") -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_profiling = bool(profile)
    if profile:
        options.profile_file_prefix = profile
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
