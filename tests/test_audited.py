"""Loading a hostile .onnx or .tflite file makes Python do nothing but read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.extras
TESTS = Path(__file__).parent
NAMES = ("os.system", "antigravity", "__import__('os')", "$(touch ran)", "../../ran", "/etc/passwd")


def _onnx_files(folder: Path) -> Iterator[Path]:
    """A benign model, then models whose names, domains, functions and external data lead elsewhere."""
    onnx = pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    values = [helper.make_tensor_value_info(name, float32, [2, 3]) for name in "xy"]

    def model(op: str, domain: str = "", **attributes: Any) -> Any:
        node = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
        graph = helper.make_graph([node], "g", values[:1], values[1:])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(each, 1) for each in ("", domain)])

    def saved(content: Any, name: str) -> Path:
        path = folder / f"{name}.onnx"
        path.write_bytes(content.SerializeToString())
        return path

    yield saved(model("Relu"), "benign")
    for number, name in enumerate(NAMES):
        yield saved(model(name, "evil"), f"operator_{number}")
        yield saved(model("PyOp", name, module=name, compute="run"), f"domain_{number}")
        outside = model("Relu")
        weight = outside.graph.initializer.add(name="w", data_type=float32, dims=[2, 3])
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=name)
        yield saved(outside, f"external_{number}")


def _tflite_files(folder: Path) -> Iterator[Path]:
    """A benign model, then models with custom operators and metadata of such names."""
    factory = pytest.importorskip("formats.tflite.factory")
    for number, name in enumerate((None, *NAMES)):
        file = factory.File()
        x, y = (file.main.tensor(each, (2, 3)) for each in "xy")
        file.main.op("RELU" if name is None else name, [x], [y])
        file.main.ends([x], [y])
        path = folder / f"{number}.tflite"
        path.write_bytes(file.pack())
        yield path


@pytest.mark.parametrize("files", [_onnx_files, _tflite_files], ids=["onnx", "tflite"])
def test_no_file_makes_python_do_anything_but_read(files: Any, tmp_path: Path) -> None:
    benign, *hostile = files(tmp_path)
    run = subprocess.run(
        [sys.executable, TESTS / "audited.py", benign, *hostile],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(rows) == len(hostile) >= len(NAMES)
    assert {row["file"]: row["events"] for row in rows if row["events"]} == {}
    assert not (tmp_path / "ran").exists()
