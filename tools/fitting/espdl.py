"""Networks of ESP-DL's model zoo: the kernels in their .espdl files.

    PYTHONPATH=src:tests:tools python -m fitting.espdl ESP_DL_FOLDER    # write esp_dl.csv from a checkout

A .espdl file is a header of 16 bytes and a FlatBuffer with the tables of ONNX (esp-dl/fbs_loader/espdl.fbs).
"""

from __future__ import annotations

import csv
import math
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sizeup.formats.tflite.flatbuffer import Table, Vector, read_unsigned

PATH = Path(__file__).with_name("esp_dl.csv")
COLUMNS = ("chip", "network", "macs", "activations", "weights", "count")
_HEADER = 16
_MAGIC = b"EDL2"
# Fields of the tables in the schema.
_GRAPH, _NODE, _INITIALIZER, _VALUES = 7, 0, 2, (4, 5, 6)
# Operators that sizeup fuses for ESP-DL, or that only change the layout.
_FUSED = ("Swish", "PRelu", "LUT", "Gelu", "HardSigmoid", "Sigmoid", "HardSwish", "Relu", "Clip")
_FUSED_ROUNDING = ("RequantizeLinear", "QuantizeLinear", "DequantizeLinear")
_VIEWS = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
_NO_KERNEL = frozenset((*_FUSED, *_FUSED_ROUNDING, *_VIEWS))
Kernel = tuple[int, int, int]  # MACs, elements of activations read and written, bytes of weights


def _texts(vector: Vector) -> list[str]:
    positions = [vector.target(index) for index in range(vector.length)]
    content = vector.content
    return [content[at + 4 : at + 4 + read_unsigned(content, at, 4)].decode() for at in positions]


def _integers(vector: Vector) -> list[int]:
    return list(struct.unpack_from(f"<{vector.length}q", vector.content, vector.first))


def _child(table: Table, number: int) -> Table | None:
    target = table.target(number)
    return None if target is None else Table(table.content, target)


def _shape(value: Table) -> tuple[int, ...]:
    """The shape of a value; empty for a scalar."""
    shape: Table | None = value
    for number in (1, 1, 1):  # its type, the tensor of the union, the shape
        shape = None if shape is None else _child(shape, number)
    if shape is None:
        return ()
    sizes = [_child(dimension, 0) for dimension in shape.vector(0).tables()]
    return tuple(0 if size is None else size.number(1, 8) for size in sizes)


def kernels(content: bytes) -> Iterator[Kernel]:
    """The kernels of a file."""
    assert content[:4] == _MAGIC, "no .espdl file"
    tables = content[_HEADER:]
    graph = _child(Table(tables, read_unsigned(tables, 0, 4)), _GRAPH)
    assert graph is not None
    weights = {
        each.text(6).decode(): tuple(_integers(each.vector(0)))
        for each in graph.vector(_INITIALIZER).tables()
    }
    shapes = {
        value.text(0).decode(): _shape(value) for part in _VALUES for value in graph.vector(part).tables()
    }
    for node in graph.vector(_NODE).tables():
        kind, inputs, outputs = node.text(3).decode(), _texts(node.vector(0)), _texts(node.vector(1))
        if kind in _NO_KERNEL:
            continue
        active = [name for name in (*inputs, *outputs) if name in shapes and name not in weights]
        moved = sum(math.prod(shapes[name]) for name in active)
        constant = sum(math.prod(weights[name]) for name in inputs if name in weights)
        yield _macs(kind, inputs, outputs[0], shapes, weights), moved, constant


def _macs(
    kind: str,
    inputs: list[str],
    output: str,
    shapes: dict[str, tuple[int, ...]],
    weights: dict[str, tuple[int, ...]],
) -> int:
    if kind in ("Conv", "ConvTranspose"):
        # Filters are stored by height, width and channels; one position of the grid uses all of them once.
        grid = shapes[output if kind == "Conv" else inputs[0]]
        return math.prod(weights[inputs[1]]) * math.prod(grid) // grid[-1]
    if kind in ("Gemm", "MatMul"):
        left = shapes.get(inputs[0]) or weights[inputs[0]]
        return math.prod(shapes[output]) * left[-1]
    return 0


def main(folder: Path) -> None:
    """Writes the distinct kernels of all networks of the zoo."""
    with PATH.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for path in sorted(folder.glob("models/*/models/*/*.espdl")):
            counts = Counter(kernels(path.read_bytes()))
            writer.writerows((path.parent.name, path.stem, *key, counts[key]) for key in sorted(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
