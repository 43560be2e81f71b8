"""Small models with attributes drawn at random: what to build them from, and the list of what there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from formats.onnx.making import MICROSOFT, Array

# The operator sets that ONNX Runtime runs and that files in use have.
OPSETS = range(7, 22)


class Case:
    """A model under construction, with the numbers that it will be fed, and the chance that shapes it."""

    def __init__(self, seed: int | str, opset: int | None = None) -> None:
        self.random = Random(seed)
        self.opset = opset or self.random.choice(OPSETS)
        self.nodes: list[onnx.NodeProto] = []
        self.feeds: dict[str, Array] = {}
        self.constants: list[onnx.TensorProto] = []
        self.outputs: list[str] = []
        # Multiply-accumulates counted by loops once the runtime has computed all shapes; None: not checked.
        self.macs: Callable[[dict[str, tuple[int, ...]]], int] | None = None
        # Whether some shape is known only after the run.
        self.is_open = False

    def sides(self, rank: int, most: int = 7, least: int = 1) -> tuple[int, ...]:
        """A shape."""
        return tuple(self.random.randint(least, most) for _ in range(rank))

    def maybe(self, chance: float = 0.5) -> bool:
        """Whether to do something."""
        return self.random.random() < chance

    def model_input(self, shape: Sequence[int], dtype: Any = np.float32, content: Any = None) -> str:
        """An input of the model; its numbers are ones unless they matter."""
        name = f"x{len(self.feeds)}"
        held = np.ones(shape, dtype) if content is None else np.array(content, dtype)
        self.feeds[name] = held
        return name

    def fixed(self, content: Any, dtype: Any = np.int64) -> str:
        """A constant of the model."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(content, dtype), name))
        return name

    def shape_constant(self, content: Any, dtype: Any = np.int64) -> str:
        """Numbers that decide a shape: a constant, or made by an operator from constants."""
        made = self.fixed(content, dtype)
        return self.op("Identity", made) if self.maybe(0.2) else made

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operator with one output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """An operator with several outputs."""
        domain, _, name = kind.rpartition("::")
        made = [f"y{len(self.nodes)}_{index}" for index in range(count)]
        read = list(inputs)
        while read and not read[-1]:
            read.pop()
        held = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(name, read, made, domain=domain, **held))
        self.outputs.extend(made)
        return made

    def names(self) -> tuple[dict[str, Sequence[int | str]], dict[str, int]]:
        """Shapes of inputs in which some sizes have names instead, and those sizes."""
        shapes: dict[str, Sequence[int | str]] = {}
        sizes: dict[str, int] = {}
        for name, held in self.feeds.items():
            sides: list[int | str] = list(held.shape)
            for axis, side in enumerate(held.shape):
                if self.maybe(0.6):
                    sides[axis] = f"{name}_{axis}"
                    sizes[f"{name}_{axis}"] = side
            shapes[name] = sides
        return shapes, sizes

    def model(self, shapes: dict[str, Sequence[int | str]] | None = None) -> onnx.ModelProto:
        """The model; `shapes` replaces those of inputs, by names for instance."""
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(held.dtype), (shapes or {}).get(name, held.shape)
            )
            for name, held in self.feeds.items()
        ]
        outputs = [onnx.ValueInfoProto(name=each) for each in self.outputs if each]
        graph = helper.make_graph(self.nodes, "drawn", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


Draw: TypeAlias = Callable[[Case], None]
DRAWS: dict[str, Draw] = {}


def drawn(function: Draw) -> Draw:
    """Register a function that puts operators into a case."""
    DRAWS[function.__name__] = function
    return function
