"""Model files for the pages on the first five minutes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from documentation.links import ROOT

_CHANNELS = (64, 64, 128, 128, 256, 256, 512, 512)  # every second convolution halves the picture


def tflite(folder: Path) -> None:
    """Write the sample of `sizeup demo` as model.tflite."""
    shutil.copyfile(ROOT / "src" / "sizeup" / "cli" / "sample.tflite", folder / "model.tflite")


def onnx(folder: Path) -> None:
    """Write a convolutional network with a symbolic batch dimension as model.onnx."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    generator = np.random.default_rng(0)
    nodes, weights, value, channels = [], [], "image", 3
    for index, width in enumerate(_CHANNELS):
        shape = (width, channels, 3, 3)
        weights.append(numpy_helper.from_array(generator.standard_normal(shape, np.float32), f"w{index}"))
        stride = 2 if index % 2 == 0 else 1
        attributes: dict[str, Any] = {"strides": [stride] * 2, "pads": [1] * 4, "kernel_shape": [3, 3]}
        nodes.append(
            helper.make_node("Conv", [value, f"w{index}"], [f"c{index}"], f"conv{index}", **attributes)
        )
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"], f"relu{index}"))
        value, channels = f"r{index}", width
    weights.append(numpy_helper.from_array(generator.standard_normal((1000, 512), np.float32), "classes"))
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["pooled"], "pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["features"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["features", "classes"], ["scores"], "classifier", transB=1))
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 1000])],
        weights,
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "model.onnx",
    )


def registry(folder: Path) -> None:
    """Write two models, and the budgets of the page for owners of a registry."""
    tflite(folder)
    onnx(folder)
    page = (ROOT / "docs" / "start" / "registry.md").read_text("utf-8")
    (folder / "budgets.toml").write_text(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0], "utf-8")


# What the commands of each page need.
FILES = {
    "docs/start/embedded.md": tflite,
    "docs/start/inference.md": onnx,
    "docs/start/registry.md": registry,
}
