"""Runners of a network for measurements: PyTorch in this process, ONNX Runtime or LiteRT in a subprocess."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sizeup import formats, units
from sizeup.errors import MissingLibrary, RunFailed, SizeupError
from sizeup.formats.simulated_rounding import (
    Array,
    CalibrationStatistics,
    Roundings,
    TensorStatistics,
    merge_statistics,
    sample_stride,
)
from sizeup.graph import Graph
from sizeup.memory import tensor_bytes
from sizeup.mixed_precision.table import Data

if TYPE_CHECKING:
    from sizeup.runtimes.process import Server

_CHUNK = 1 << 26  # bytes of activations fetched from a runtime at once


class Runner(Protocol):
    """Runs a network for a measurement."""

    title: str
    graph: Graph
    batch: int | None  # samples per run; None if any number

    def fingerprint(self) -> str:
        """Returns a digest of everything that decides the network's outputs."""

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Returns the axis of a weight along which output channels have separate values."""

    def observe(self, batches: Sequence[Sequence[Array]], tensors: Sequence[int]) -> CalibrationStatistics:
        """Returns the ranges of tensors over batches, and constants."""

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """Returns the outputs with values rounded, batch by batch."""

    def close(self) -> None:
        """Releases the runner's resources."""


def runner_of(source: Any, data: Data, kwargs: Mapping[str, Any] | None = None, batch: int = 1) -> Runner:
    """Returns the runner for a model, loaded for the shapes of this data."""
    if isinstance(source, Graph):
        raise SizeupError("a graph cannot be run; give the model it was loaded from")
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
    from sizeup.formats.torch.simulated_quantization import TorchRunner, fixed_batch

    size = fixed_batch(source)
    count = min(batch, len(data)) if size is None else size
    shapes = [((count, *array.shape[1:]), _torch_dtype(array)) for array in data.arrays]
    inputs: Any = dict(zip(data.names, shapes, strict=True)) if data.names else tuple(shapes)
    graph = formats.load(source, inputs=inputs, kwargs=kwargs)
    probe = data.batches(size or 1, padded=True)[0]
    return TorchRunner(source, graph, probe, data.names, kwargs)


def _torch_dtype(array: Array) -> str:
    """Returns the dtype to load an input with: float32 for real numbers, as nearly all modules use it."""
    return "float32" if array.dtype.kind == "f" else array.dtype.name


class OrtRunner:
    """Runs modified copies of an ONNX model in ONNX Runtime, with graph optimizations off."""

    title = "ONNX Runtime"

    def __init__(self, source: Any, data: Data, batch: int) -> None:
        if importlib.util.find_spec("onnx") is None:
            raise MissingLibrary("running ONNX models", "onnx", "onnx")
        from sizeup.formats.onnx.simulated_quantization import (
            OnnxModel,
            fixed_batch,
            input_types,
            load_with_weights,
        )
        from sizeup.runtimes.process import Server

        model = load_with_weights(source)
        types = input_types(model)
        names = data.names or tuple(types)
        order = _order(data, tuple(types))
        shapes = {
            name: (min(batch, len(data)), *array.shape[1:])
            for name, array in zip(names, data.arrays, strict=True)
        }
        self.batch = fixed_batch(model)
        if self.batch is not None:
            shapes = {name: (self.batch, *shape[1:]) for name, shape in shapes.items()}
        self.graph = formats.load(source, inputs=shapes)
        self._model = OnnxModel(model, self.graph)
        self._server = Server("ort")
        self._samples = _Samples(self._server, order, list(types.values()))

    def fingerprint(self) -> str:
        """Returns a digest of the file."""
        return self._model.digest()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Returns the axis that the op's definition gives."""
        return self._model.channel_axis(op, identity)

    def observe(self, batches: Sequence[Sequence[Array]], tensors: Sequence[int]) -> CalibrationStatistics:
        """Runs a copy of the model that outputs the tensors' ranges."""
        runs = self._server.run(
            self._model.with_statistics_outputs(tensors, len(batches)), self._samples.key_of(batches)
        )
        return self._model.statistics(tensors, runs)

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """Runs a copy of the model that rounds."""
        return self._server.run(self._model.with_rounding(roundings), self._samples.key_of(batches))

    def close(self) -> None:
        """Ends the subprocess."""
        self._server.close()


class _Samples:
    """Batches as a runtime needs them: in the model's input order and dtypes, sent once."""

    def __init__(self, server: Server, order: Sequence[int], types: Sequence[np.dtype[Any]]) -> None:
        self._server, self._order, self._types = server, order, types
        self._keys: dict[int, tuple[Any, str]] = {}

    def of(self, batch: Sequence[Array]) -> list[Array]:
        """Returns one batch."""
        return [np.asarray(batch[i], dtype) for i, dtype in zip(self._order, self._types, strict=True)]

    def key_of(self, batches: Sequence[Sequence[Array]]) -> str:
        """Returns the key of batches in the subprocess; the first call sends them."""
        if id(batches) not in self._keys:
            self._keys[id(batches)] = (
                batches,
                self._server.store_samples([self.of(batch) for batch in batches]),
            )
        return self._keys[id(batches)][1]


def _order(data: Data, inputs: Sequence[str]) -> list[int]:
    """Returns the array index of each input; data without names is in the order of the inputs."""
    names = data.names or tuple(inputs)
    if set(names) != set(inputs) or len(names) != len(data.arrays):
        raise RunFailed(f"the data has the inputs {', '.join(names)}, but the model has {', '.join(inputs)}")
    return [names.index(name) for name in inputs]


class LiteRtRunner:
    """Runs modified copies of a .tflite file in LiteRT, with its built-in kernels only."""

    title = "LiteRT"

    def __init__(self, source: str | os.PathLike[str], data: Data) -> None:
        from sizeup.formats.tflite.rounded_model import TfliteModel
        from sizeup.runtimes.process import Server

        self.graph = formats.load(source)
        inputs = [self.graph.tensors[i] for i in self.graph.inputs]
        order = _order(data, [tensor.name for tensor in inputs])
        for tensor, index in zip(inputs, order, strict=True):
            shape = data.arrays[index].shape
            if tensor.dtype.name not in np.sctypeDict:
                raise RunFailed(f"input {tensor.name!r} is {tensor.dtype}, which is not a NumPy dtype")
            if tensor.shape is None or shape[1:] != tensor.shape[1:]:
                raise RunFailed(
                    f"samples have the shape {units.shape(shape[1:])}, but input {tensor.name!r} is"
                    f" {units.shape(tensor.shape)}, batch first"
                )
        self.batch: int | None = inputs[0].shape[0] if inputs[0].shape else 1
        self._model = TfliteModel(Path(source).read_bytes(), self.graph)
        self._server = Server("litert")
        self._samples = _Samples(self._server, order, [np.dtype(tensor.dtype.name) for tensor in inputs])

    def fingerprint(self) -> str:
        """Returns a digest of the file."""
        return self._model.fingerprint()

    def channel_axis(self, op: int, identity: int) -> int | None:
        """Returns the axis that the op's definition gives."""
        return self._model.channel_axis(op, identity)

    def observe(self, batches: Sequence[Sequence[Array]], tensors: Sequence[int]) -> CalibrationStatistics:
        """Runs a copy of the file with these tensors as outputs, in chunks that fit memory."""
        inside = [i for i in tensors if i not in self.graph.inputs]
        model = self._model.with_outputs(inside)
        values: dict[int, TensorStatistics] = {}
        for chunk in self._chunks(batches, inside):
            runs = self._server.run(model, self._server.store_samples(chunk)) if inside else [[]] * len(chunk)
            for sample, outputs in zip(chunk, runs, strict=True):
                arrays = {
                    **dict(zip(self.graph.inputs, sample, strict=True)),
                    **dict(zip(inside, outputs, strict=True)),
                }
                for identity in tensors:
                    values[identity] = merge_statistics(
                        values.get(identity), _range_of(arrays[identity], len(batches))
                    )
        return CalibrationStatistics(values, self._model.constants())

    def outputs(self, batches: Sequence[Sequence[Array]], roundings: Roundings) -> list[list[Array]]:
        """Runs a copy of the file that rounds."""
        return self._server.run(self._model.with_rounding(roundings), self._samples.key_of(batches))

    def close(self) -> None:
        """Ends the subprocess."""
        self._server.close()

    def _chunks(
        self, batches: Sequence[Sequence[Array]], inside: Sequence[int]
    ) -> Iterator[list[list[Array]]]:
        size = sum(tensor_bytes(self.graph.tensors[i]) for i in inside)
        step = max(1, _CHUNK // max(size, 1))
        for start in range(0, len(batches), step):
            yield [self._samples.of(batch) for batch in batches[start : start + step]]


def _range_of(numbers: Array, batches: int) -> TensorStatistics:
    flat = np.asarray(numbers, np.float32).ravel()
    return TensorStatistics(float(flat.min()), float(flat.max()), flat[:: sample_stride(flat.size, batches)])
