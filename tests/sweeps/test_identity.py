"""The identity of a model: its file and its external weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sizeup
from sizeup.sweeps.models import Model
from sweeps.tables import rows_of

SPEC: dict[str, Any] = {"models": ["net.onnx"], "targets": ["rpi5/ort"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A product with 64 x 32 weights in `net.bin`, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, np.zeros((64, 32), np.float32))
    return tmp_path


def write(folder: Path, weights: Any) -> None:
    (folder / "net.bin").unlink(missing_ok=True)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32])]
    constants = [numpy_helper.from_array(weights, "w")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "net", inputs, outputs, constants))
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="net.bin")


def test_a_model_whose_weights_beside_it_change_is_another(folder: Path) -> None:
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 1
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 0
    own = (folder / "net.onnx").read_bytes()
    write(folder, np.ones((64, 32), np.float32))
    assert (folder / "net.onnx").read_bytes() == own
    assert sizeup.sweep(SPEC, folder / "out", in_process=True).rows == 1
    assert {row["macs"] for row in rows_of(folder / "out")} == {64 * 32}
    assert len({row["model_hash"] for row in rows_of(folder / "out")}) == 2


def test_missing_weights_break_no_sweep_and_are_seen_when_they_come(folder: Path) -> None:
    weights = (folder / "net.bin").read_bytes()
    (folder / "net.bin").unlink()
    spec = {**SPEC, "precisions": ["stored", "int8"]}
    before = Model("net.onnx", str(folder / "net.onnx")).identity()
    sizeup.sweep(spec, folder / "out")
    first = rows_of(folder / "out")
    assert [(row["status"], row["macs"]) for row in first] == [("ok", 64 * 32)] * 2  # shapes suffice
    assert sizeup.sweep(spec, folder / "out").rows == 0
    (folder / "net.bin").write_bytes(weights)
    assert Model("net.onnx", str(folder / "net.onnx")).identity() != before
    assert sizeup.sweep(spec, folder / "out").rows == 2
    newer = [row for row in rows_of(folder / "out") if row not in first]
    assert [(row["status"], row["macs"]) for row in newer] == [("ok", 64 * 32)] * 2
