"""Model files for Model Explorer, and what that makes of them, in an environment of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "explorer_graphs.py"


def explored(*paths: Path) -> dict[str, Any]:
    """What Model Explorer makes of files, by path."""
    python = os.environ.get("SIZEUP_MODEL_EXPLORER_PYTHON")
    if python is None:
        pytest.skip("SIZEUP_MODEL_EXPLORER_PYTHON names no interpreter that has ai-edge-model-explorer")
    without = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, SCRIPT, *paths], capture_output=True, text=True, env=without, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def onnx_files(folder: Path) -> list[Path]:
    """Files whose nodes have names, have none, share them, call functions and carry graphs."""
    for name, content in _onnx_models().items():
        (folder / f"{name}.onnx").write_bytes(content)
    return [folder / f"{name}.onnx" for name in _onnx_models()]


@functools.cache
def _onnx_models() -> dict[str, bytes]:
    import onnx
    import torch
    from torch import nn

    from formats.onnx.exporting import by_export, by_tracing
    from formats.onnx.making import branches, graph, model, node, numbers, value

    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))
    example = (torch.zeros(1, 3, 8, 8),)
    same = branches()
    for each in same.graph.node:
        each.name = "same" if each.op_type == "MatMul" else ""
    twice = onnx.helper.make_function(
        "own", "Twice", ["a"], ["b"],
        [node("Add", "a a", "inner"), node("Relu", "inner", "b")],
        [onnx.helper.make_opsetid("", 21)],
    )  # fmt: skip
    calling = model(
        [
            node("Relu", "x", "r"),
            node("own::Twice", "r", "t"),
            node("own::Twice", "t", "u"),
            node("Add", "u r", "y"),
        ],
        [value("x", (1, 25))], [value("y", (1, 25))], functions=[twice],
    )  # fmt: skip
    inner = graph(
        [node("Add", "s x", "s1"), node("Relu", "s1", "s2"), node("Identity", "c", "c2")],
        [value("i", (), onnx.TensorProto.INT64), value("c", (), onnx.TensorProto.BOOL), value("s", (1, 25))],
        [value("c2", (), onnx.TensorProto.BOOL), value("s2", (1, 25))],
    )
    looping = model(
        [node("Relu", "x", "r"), node("Loop", "n - r", "t", body=inner), node("Relu", "t", "y")],
        [value("x", (1, 25))], [value("y", (1, 25))], [numbers("n", 3)],
    )  # fmt: skip
    looping.graph.ClearField("name")
    calling.graph.name = ""
    models = {
        "traced": by_tracing(network, example),
        "exported": by_export(network, example),
        "nameless": branches(),
        "same": same,
        "calling": calling,
        "looping": looping,
    }
    return {name: each.SerializeToString() for name, each in models.items()}
