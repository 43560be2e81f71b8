"""LiteRT's interpreter; imported only in a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from sizeup.runtimes.process import Array, Sample, load_samples
from sizeup.runtimes.timing import Kernel


def execute(model: str, samples: Sequence[Sample]) -> list[list[Array]]:
    """The outputs per sample, without delegates.

    Delegates fuse ops and then round differently: two schedules of one network would seem to differ.
    """
    interpreter = _interpreter(model, threads=1, delegate=False)
    results = []
    for sample in samples:
        _set(interpreter, sample)
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        results.append([interpreter.get_tensor(detail["index"]).copy() for detail in outputs])
    return results


def timer(folder: Path, settings: Mapping[str, Any]) -> _Timer:
    """A timer of the model, with or without the XNNPACK delegate."""
    return _Timer(folder, settings)


class _Timer:
    version = version("ai-edge-litert")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._interpreter = _interpreter(settings["model"], settings["threads"], settings["delegate"])
        for sample in load_samples(folder / "inputs.npz"):
            self._resize(sample)
            _set(self._interpreter, sample)

    def _resize(self, sample: Sample) -> None:
        """Set the sizes of symbolic dimensions to those of the sample."""
        details = self._interpreter.get_input_details()
        changed = [
            (detail["index"], array.shape)
            for detail, array in zip(details, sample, strict=True)
            if tuple(detail["shape"]) != array.shape
        ]
        for index, shape in changed:
            self._interpreter.resize_tensor_input(index, shape)
        if changed:
            self._interpreter.allocate_tensors()

    def invoke(self) -> None:
        self._interpreter.invoke()

    def profile(self, _runs: int) -> list[Kernel]:
        """Empty: its Python package reports no times per op."""
        return []


def _interpreter(model: str, threads: int, delegate: bool) -> Any:
    resolver = OpResolverType.AUTO if delegate else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_path=model, num_threads=threads, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter


def _set(interpreter: Any, sample: Sample) -> None:
    for detail, array in zip(interpreter.get_input_details(), sample, strict=True):
        interpreter.set_tensor(detail["index"], array)
