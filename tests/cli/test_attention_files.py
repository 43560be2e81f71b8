"""Attention as Keras exports it with a free batch: shapes are values, and the file has placeholders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter

from cli.running import Run
from formats.tflite.factory import File, options

pytestmark = pytest.mark.extras

LENGTH, WIDTH, HEADS = 10, 16, 2
SIZE = WIDTH // HEADS
# Four dense layers, and two products per head.
MACS = 4 * LENGTH * WIDTH * WIDTH + 2 * HEADS * LENGTH * LENGTH * SIZE


class Attention(File):
    """Multi-head self-attention on (batch, 10, 16); the converter records 1 for unknown sizes."""

    def __init__(self) -> None:
        super().__init__()
        data = self.main.tensor("x", (1, LENGTH, WIDTH), shapeSignature=[-1, LENGTH, WIDTH])
        query, key, value = (self.heads(data, name) for name in ("query", "key", "value"))
        scores = self.forgotten("scores", 4)
        self.main.op("BATCH_MATMUL", [query, key], [scores], options("BatchMatMulOptions", adjY=True))
        weights = self.forgotten("weights", 4)
        self.main.op("SOFTMAX", [scores], [weights], options("SoftmaxOptions", beta=1.0))
        context = self.forgotten("context", 4)
        self.main.op("BATCH_MATMUL", [weights, value], [context], options("BatchMatMulOptions"))
        result = self.dense(self.transposed(context, "back"), "output", 1)
        self.main.ends([data], [self.reshaped(data, result, "y", (LENGTH, WIDTH))])

    def constant(self, name: str, *numbers: int, is_scalar: bool = False) -> int:
        return self.main.tensor(
            name, () if is_scalar else (len(numbers),), "INT32", np.array(numbers, np.int32)
        )

    def forgotten(self, name: str, rank: int) -> int:
        return self.main.tensor(name, (1,) * rank, shapeSignature=[-1] * rank)

    def heads(self, data: int, name: str) -> int:
        flat = self.dense(data, name, LENGTH)
        return self.transposed(self.reshaped(data, flat, f"{name}/heads", (LENGTH, HEADS, SIZE)), name)

    def dense(self, data: int, name: str, rows: int) -> int:
        flat, result = (
            self.main.tensor(f"{name}/{part}", (rows, WIDTH), shapeSignature=[-1, WIDTH])
            for part in ("flat", "product")
        )
        matrix = self.main.tensor(f"{name}/w", (WIDTH, WIDTH), data=np.ones((WIDTH, WIDTH), np.float32))
        self.main.op("RESHAPE", [data, self.constant(f"{name}/rows", -1, WIDTH)], [flat])
        self.main.op("FULLY_CONNECTED", [flat, matrix, -1], [result], options("FullyConnectedOptions"))
        return result

    def reshaped(self, data: int, values: int, name: str, sizes: tuple[int, ...]) -> int:
        """To (batch of `data`, *sizes): SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
        shape, batch, target = (
            self.main.tensor(f"{name}/{part}", dimensions, "INT32")
            for part, dimensions in (("shape", (3,)), ("batch", ()), ("target", (len(sizes) + 1,)))
        )
        self.main.op("SHAPE", [data], [shape], options("ShapeOptions", outType=2))
        bounds = [
            self.constant(f"{name}/{part}", number) for part, number in zip("bes", (0, 1, 1), strict=True)
        ]
        self.main.op(
            "STRIDED_SLICE", [shape, *bounds], [batch], options("StridedSliceOptions", shrinkAxisMask=1)
        )
        others = [self.constant(f"{name}/{axis}", size, is_scalar=True) for axis, size in enumerate(sizes)]
        pack = options("PackOptions", valuesCount=len(sizes) + 1)
        self.main.op("PACK", [batch, *others], [target], pack)
        result = self.forgotten(name, len(sizes) + 1)
        self.main.op("RESHAPE", [values, target], [result])
        return result

    def transposed(self, data: int, name: str) -> int:
        result = self.forgotten(f"{name}/transposed", 4)
        self.main.op("TRANSPOSE", [data, self.constant(f"{name}/axes", 0, 2, 1, 3)], [result])
        return result


@pytest.fixture
def attention(tmp_path: Path) -> Path:
    path = tmp_path / "attention.tflite"
    path.write_bytes(Attention().pack())
    return path


def test_attention_with_a_free_batch_is_counted_at_batch_1(run: Run, attention: Path) -> None:
    interpreter = Interpreter(str(attention))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones((1, LENGTH, WIDTH), np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).shape == (1, LENGTH, WIDTH)
    ended = run("analyze", attention, "--strict")
    assert ended.code == 0
    assert f"({MACS:,}) multiply-accumulates" in ended.out
    assert "y 1x10x16 float32" in ended.out


def test_tflite_micro_does_not_infer_its_shapes(run: Run, attention: Path) -> None:
    pytest.importorskip("tflite_micro")
    from micro_interpreter import runs

    assert runs([attention.read_bytes()]) == [False]
    ended = run("check", attention, "-d", "stm32f746/tflm")
    assert ended.code == 1
    words = " ".join(ended.out.split())
    assert "'query/heads' is 1x10x2x8, and the file has 1x1x1x1 because its batch is not fixed" in words
