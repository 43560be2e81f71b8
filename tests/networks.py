"""Small graphs made by hand, whose counts were worked out on paper."""

from __future__ import annotations

from sizeup.dtypes import dtype
from sizeup.graph import Body, Constant, Graph, GraphBuilder, Shape

FLOAT = dtype("float32")


def _parameter(builder: GraphBuilder, name: str, shape: Shape) -> int:
    return builder.tensor(name, shape, FLOAT, Constant("parameter"))


def _conv(builder: GraphBuilder, data: int, name: str, filter_: Shape, output: Shape) -> int:
    weight = _parameter(builder, f"{name}.weight", filter_)
    made = builder.tensor(f"{name}.out", output, FLOAT)
    attrs = {"out_channels": filter_[0]}
    builder.op("conv", [data, weight], [made], attrs, source="aten.conv2d", scope=name)
    return made


def three_convolutions() -> Graph:
    """3->32 3x3 stride 2, depthwise 32 3x3, 32->64 1x1, on 1x3x64x64: 3,276,800 MACs, 3,200 parameters.

    1,024 positions x (32 x 27 + 32 x 9 + 64 x 32) MACs; 864 + 288 + 2,048 parameters.
    """
    builder = GraphBuilder("three_convolutions", "torch")
    x = builder.input("x", (1, 3, 64, 64), FLOAT)
    x = _conv(builder, x, "stem.conv", (32, 3, 3, 3), (1, 32, 32, 32))
    x = _conv(builder, x, "body.depthwise", (32, 1, 3, 3), (1, 32, 32, 32))
    x = _conv(builder, x, "body.pointwise", (64, 32, 1, 1), (1, 64, 32, 32))
    builder.outputs.append(x)
    return builder.freeze()


def with_unknown() -> Graph:
    """A convolution of 864 x 1,024 MACs, an operator without a rule, a spare parameter of 10 numbers."""
    builder = GraphBuilder("with_unknown", "torch")
    x = builder.input("x", (1, 3, 64, 64), FLOAT)
    x = _conv(builder, x, "stem.conv", (32, 3, 3, 3), (1, 32, 32, 32))
    y = builder.tensor("y", (1, 32, 32, 32), FLOAT)
    builder.op("mylib.fancy", [x], [y], source="mylib.fancy", scope="body")
    z = builder.tensor("z", None, FLOAT)
    builder.op("relu", [y], [z], source="aten.relu", scope="body")
    _parameter(builder, "spare", (10,))
    builder.outputs.append(z)
    builder.note("batch was taken as 1")
    return builder.freeze()


def tied_embedding() -> Graph:
    """A 1,000 x 256 table that also is the output matrix: 128 x 256 x 1,000 MACs, 256,000 parameters."""
    builder = GraphBuilder("tied_embedding", "torch")
    ids = builder.input("ids", (1, 128), dtype("int64"))
    table = _parameter(builder, "embedding.weight", (1000, 256))
    hidden = builder.tensor("hidden", (1, 128, 256), FLOAT)
    builder.op("embedding", [table, ids], [hidden], source="aten.embedding", scope="embedding")
    logits = builder.tensor("logits", (1, 128, 1000), FLOAT)
    builder.op("matmul", [hidden, table], [logits], {"contracted": (2,)}, source="aten.linear", scope="head")
    builder.outputs.append(logits)
    return builder.freeze()


def looping(runs: int | None) -> Graph:
    """A loop around a 4x8 by 8x2 product: 64 MACs a run."""
    inner = GraphBuilder("body")
    left = inner.input("left", (4, 8), FLOAT)
    right = _parameter(inner, "right", (8, 2))
    product = inner.tensor("product", (4, 2), FLOAT)
    inner.op("matmul", [left, right], [product], {"contracted": (1,)}, source="MatMul")
    inner.outputs.append(product)
    builder = GraphBuilder("looping", "onnx")
    x = builder.input("x", (4, 8), FLOAT)
    y = builder.tensor("y", (4, 2), FLOAT)
    builder.op("loop", [x], [y], source="Loop", name="again", bodies=(Body("body", inner.freeze(), runs),))
    builder.outputs.append(y)
    return builder.freeze()


def chain(length: int) -> Graph:
    """So many activations in a row on 10 numbers, ten to a module."""
    builder = GraphBuilder(f"chain of {length}", "torch")
    x = builder.input("x", (10,), FLOAT)
    for index in range(length):
        y = builder.tensor(f"y{index}", (10,), FLOAT)
        builder.op("relu", [x], [y], source="aten.relu", scope=f"block.{index // 10}.act")
        x = y
    builder.outputs.append(x)
    return builder.freeze()
