"""Small ONNX models whose counts are plain: one product of a row with a square matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def save_product(path: Path, size: int, *, external: str = "") -> None:
    """A model of size x size MACs and as many parameters, optionally in an external file of that name."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    value = helper.make_tensor_value_info
    x, y = (value(name, TensorProto.FLOAT, (1, size)) for name in "xy")
    weight = numpy_helper.from_array(np.ones((size, size), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    model = helper.make_model(helper.make_graph([node], path.stem, [x], [y], [weight]))
    path.parent.mkdir(parents=True, exist_ok=True)
    if external:
        (path.parent / external).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / external).unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        onnx.save(model, path)


def save_chain(path: Path, size: int) -> None:
    """A model of two products with a ReLU between them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    value = helper.make_tensor_value_info
    x, y = (value(name, TensorProto.FLOAT, (1, size)) for name in "xy")
    weight = numpy_helper.from_array(np.ones((size, size), np.float32), "w")
    kinds = [("MatMul", ["x", "w"], "a"), ("Relu", ["a"], "b"), ("MatMul", ["b", "w"], "y")]
    nodes = [helper.make_node(kind, inputs, [output], name=output) for kind, inputs, output in kinds]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(helper.make_graph(nodes, path.stem, [x], [y], [weight])), path)
