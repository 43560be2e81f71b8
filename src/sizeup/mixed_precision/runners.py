"""Who runs a network for a measurement: PyTorch here, ONNX Runtime or LiteRT in a subprocess."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sizeup import formats, units
from sizeup.errors import MissingLibrary, RunFailed, SizeupError
from sizeup.formats.rounding import Array, Observed, Roundings, Seen, merged, sample_step
from sizeup.graph import Graph
from sizeup.memory import tensor_bytes
from sizeup.mixed_precision.table import Data

if TYPE_CHECKING:
    from sizeup.runtimes.process import Server

_CHUNK = 1 << 26  # bytes of values that are fetched from a runtime at once


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
    if _is_tflite(source):
        return LiteRtRunner(source, data)
    if _is_torch(source):
        return _torch_runner(source, data, kwargs, batch)
    return OrtRunner(source, data, batch)


def _is_tflite(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(".tflite")


def _is_torch(source: Any) -> bool:
    if isinstance(source, str | os.PathLike):
        return not os.fspath(source).endswith(".onnx")
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
        from sizeup.runtimes.process import Server

        model = whole(source)
        types = input_types(model)
        names = data.names or tuple(types)
        order = _order(data, tuple(types))
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
        self._samples = _Samples(self._server, order, list(types.values()))

    def fingerprint(self) -> str:
        """The file says it all; no run is needed."""
        return self._model.fingerprint()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """As the operator's definition has it."""
        return self._model.channel_axis(op, identity)

    def observe(self, batches: Sequence[Sequence[Array]], wanted: Sequence[int]) -> Observed:
        """By a copy of the model that tells them as outputs."""
        runs = self._server.run(self._model.observing(wanted, len(batches)), self._samples.kept(batches))
        return self._model.observed(wanted, runs)

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """By a copy of the model that rounds."""
        return self._server.run(self._model.rounded(roundings), self._samples.kept(batches))

    def close(self) -> None:
        """End the process."""
        self._server.close()


class _Samples:
    """Batches as a runtime takes them: in the model's order of inputs, at its types, handed over once."""

    def __init__(self, server: Server, order: Sequence[int], types: Sequence[np.dtype[Any]]) -> None:
        self._server, self._order, self._types = server, order, types
        self._kept: dict[int, tuple[Any, str]] = {}

    def of(self, batch: Sequence[Array]) -> list[Array]:
        """One batch."""
        return [np.asarray(batch[place], kind) for place, kind in zip(self._order, self._types, strict=True)]

    def kept(self, batches: Sequence[Sequence[Array]]) -> str:
        """The word that stands for batches, which are handed over the first time."""
        if id(batches) not in self._kept:
            self._kept[id(batches)] = (batches, self._server.keep([self.of(each) for each in batches]))
        return self._kept[id(batches)][1]


def _order(data: Data, inputs: Sequence[str]) -> list[int]:
    """Where the array of each input is; data without names comes in the order of the inputs."""
    names = data.names or tuple(inputs)
    if set(names) != set(inputs) or len(names) != len(data.arrays):
        raise RunFailed(f"the data is for {', '.join(names)}, and the model takes {', '.join(inputs)}")
    return [names.index(each) for each in inputs]


class LiteRtRunner:
    """Runs changed copies of a .tflite file in LiteRT, with its own kernels alone."""

    title = "LiteRT"

    def __init__(self, source: str | os.PathLike[str], data: Data) -> None:
        from sizeup.formats.tflite.quantising import TfliteModel
        from sizeup.runtimes.process import Server

        self.graph = formats.load(source)
        inputs = [self.graph.tensors[each] for each in self.graph.inputs]
        order = _order(data, [each.name for each in inputs])
        for tensor, place in zip(inputs, order, strict=True):
            shape = data.arrays[place].shape
            if tensor.dtype.name not in np.sctypeDict:
                raise RunFailed(
                    f"the model's input {tensor.name!r} is {tensor.dtype}, which samples cannot be"
                )
            if tensor.shape is None or shape[1:] != tensor.shape[1:]:
                raise RunFailed(
                    f"samples of shape {units.shape(shape[1:])} are not the model's input"
                    f" {tensor.name!r} of {units.shape(tensor.shape)}, batch first"
                )
        self.batch: int | None = inputs[0].shape[0] if inputs[0].shape else 1
        self._model = TfliteModel(Path(source).read_bytes(), self.graph)
        self._server = Server("litert")
        self._samples = _Samples(self._server, order, [np.dtype(each.dtype.name) for each in inputs])

    def fingerprint(self) -> str:
        """The file says it all; no run is needed."""
        return self._model.fingerprint()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """As the operator's definition has it."""
        return self._model.channel_axis(op, identity)

    def observe(self, batches: Sequence[Sequence[Array]], wanted: Sequence[int]) -> Observed:
        """By a copy of the file whose outputs they are; so many batches at once as memory has room for."""
        inside = [each for each in wanted if each not in self.graph.inputs]
        model = self._model.observing(inside)
        values: dict[int, Seen] = {}
        for some in self._chunks(batches, inside):
            runs = self._server.run(model, self._server.keep(some)) if inside else [[]] * len(some)
            for sample, outputs in zip(some, runs, strict=True):
                seen = {
                    **dict(zip(self.graph.inputs, sample, strict=True)),
                    **dict(zip(inside, outputs, strict=True)),
                }
                for identity in wanted:
                    values[identity] = merged(values.get(identity), _seen(seen[identity], len(batches)))
        return Observed(values, self._model.constants())

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """By a copy of the file that rounds."""
        return self._server.run(self._model.rounded(roundings), self._samples.kept(batches))

    def close(self) -> None:
        """End the process."""
        self._server.close()

    def _chunks(
        self, batches: Sequence[Sequence[Array]], inside: Sequence[int]
    ) -> Iterator[list[list[Array]]]:
        size = sum(tensor_bytes(self.graph.tensors[each]) for each in inside)
        step = max(1, _CHUNK // max(size, 1))
        for start in range(0, len(batches), step):
            yield [self._samples.of(each) for each in batches[start : start + step]]


def _seen(numbers: Array, batches: int) -> Seen:
    flat = np.asarray(numbers, np.float32).ravel()
    return Seen(float(flat.min()), float(flat.max()), flat[:: sample_step(flat.size, batches)])
