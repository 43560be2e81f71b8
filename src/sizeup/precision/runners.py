"""Who runs a network for a measurement: PyTorch here, or ONNX Runtime in a process of its own."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sizeup import formats
from sizeup.errors import MissingLibrary, RunFailed, SizeupError
from sizeup.formats.rounding import Array, Observed, Roundings
from sizeup.graph import Graph
from sizeup.precision.data import Data


class Runner(Protocol):
    """What a measurement asks of whoever runs the network."""

    title: str
    graph: Graph
    batch: int | None  # how many samples it takes at a time; None where any number

    def fingerprint(self) -> str:
        """A digest of all that decides what the network computes."""

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Along which axis of a weight each output channel has its own numbers."""

    def observe(self, batches: Sequence[Sequence[Array]], wanted: Sequence[int]) -> Observed:
        """Ranges of values over batches, and constants."""

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """What comes out with numbers rounded, batch by batch."""

    def close(self) -> None:
        """End what was started."""


def runner_of(source: Any, data: Data, kwargs: Mapping[str, Any] | None = None, batch: int = 1) -> Runner:
    """The runner for a model, which is read as it runs on this data."""
    if isinstance(source, Graph):
        raise SizeupError("a graph cannot be run; give the model that it was read from")
    if _is_torch(source):
        return _torch_runner(source, data, kwargs, batch)
    return OrtRunner(source, data, batch)


def _is_torch(source: Any) -> bool:
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name.endswith(".tflite"):
            raise SizeupError(f"{name}: sensitivity is measured in PyTorch and ONNX Runtime, not for .tflite")
        return not name.endswith(".onnx")
    package = type(source).__module__.partition(".")[0]
    return package != "onnx" and not isinstance(source, bytes | bytearray | memoryview)


def _torch_runner(source: Any, data: Data, kwargs: Mapping[str, Any] | None, batch: int) -> Runner:
    if importlib.util.find_spec("torch") is None:
        raise MissingLibrary("running PyTorch models", "torch", "torch")
    from sizeup.formats.torch.quantising import TorchRunner, fixed_batch

    size = fixed_batch(source)
    count = min(batch, len(data)) if size is None else size
    shapes = [((count, *each.shape[1:]), _torch_type(each)) for each in data.arrays]
    inputs: Any = dict(zip(data.names, shapes, strict=True)) if data.names else tuple(shapes)
    graph = formats.load(source, inputs=inputs, kwargs=kwargs)
    probe = data.batches(size or 1, padded=True)[0]
    return TorchRunner(source, graph, probe, data.names, kwargs)


def _torch_type(array: Array) -> str:
    """Real numbers come in the module's own type, which for nearly all is this."""
    return "float32" if array.dtype.kind == "f" else array.dtype.name


class OrtRunner:
    """Runs changed copies of an ONNX model in ONNX Runtime, with its rewriting switched off."""

    title = "ONNX Runtime"

    def __init__(self, source: Any, data: Data, batch: int) -> None:
        if importlib.util.find_spec("onnx") is None:
            raise MissingLibrary("running ONNX models", "onnx", "onnx")
        from sizeup.formats.onnx.quantising import OnnxModel, fixed_batch, input_types, whole
        from sizeup.runtimes.serving import Server

        model = whole(source)
        types = input_types(model)
        names = data.names or tuple(types)
        if set(names) != set(types) or len(names) != len(data.arrays):
            raise RunFailed(f"the data is for {', '.join(names)}, and the model takes {', '.join(types)}")
        # The graph and the runtime know the inputs in the model's order.
        self._order = [names.index(each) for each in types]
        self._types = list(types.values())
        shapes = {
            name: (min(batch, len(data)), *each.shape[1:])
            for name, each in zip(names, data.arrays, strict=True)
        }
        self.batch = fixed_batch(model)
        if self.batch is not None:
            shapes = {name: (self.batch, *shape[1:]) for name, shape in shapes.items()}
        self.graph = formats.load(source, inputs=shapes)
        self._model = OnnxModel(model, self.graph)
        self._server = Server("ort")
        self._kept: dict[int, tuple[Any, str]] = {}

    def fingerprint(self) -> str:
        """The file says it all; no run is needed."""
        return self._model.fingerprint()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """As the operator's definition has it."""
        return self._model.channel_axis(op, identity)

    def observe(self, batches: Sequence[Sequence[Array]], wanted: Sequence[int]) -> Observed:
        """By a copy of the model that tells them as outputs."""
        runs = self._server.run(self._model.observing(wanted, len(batches)), self._samples(batches))
        return self._model.observed(wanted, runs)

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """By a copy of the model that rounds."""
        return self._server.run(self._model.rounded(roundings), self._samples(batches))

    def close(self) -> None:
        """End the process."""
        self._server.close()

    def _samples(self, batches: Sequence[Sequence[Array]]) -> str:
        """The same batches are handed over once."""
        if id(batches) not in self._kept:
            samples = [
                [np.asarray(batch[place], kind) for place, kind in zip(self._order, self._types, strict=True)]
                for batch in batches
            ]
            self._kept[id(batches)] = (batches, self._server.keep(samples))
        return self._kept[id(batches)][1]
