"""ONNX Runtime on the CPU, the graph run as it is written; runs in a process of its own only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime

from sizeup.runtimes.process import Array, Sample


def execute(model: str, samples: Sequence[Sample]) -> list[list[Array]]:
    """The outputs for each sample, without rewriting that could round two orders differently."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return [
        [np.asarray(each) for each in session.run(None, dict(zip(names, sample, strict=True)))]
        for sample in samples
    ]
