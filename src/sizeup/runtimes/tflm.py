"""TFLite Micro from its PyPI package; imported only in a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tflite_micro import runtime

from sizeup.runtimes.process import Array, Sample, load_samples
from sizeup.runtimes.timing import Kernel

# The arena offered to the interpreter, which uses and reports only what it needs.
_ARENA_BYTES = 1 << 28


def execute(model: str, samples: Sequence[Sample]) -> list[list[Array]]:
    """The outputs per sample; the arena is printed on stderr."""
    content = Path(model).read_bytes()
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=_ARENA_BYTES)
    outputs = []
    for sample in samples:
        for index, array in enumerate(sample):
            interpreter.set_input(array, index)
        interpreter.invoke()
        outputs.append([interpreter.get_output(index).copy() for index in range(_outputs(content))])
    interpreter.print_allocations()
    return outputs


def _outputs(content: bytes) -> int:
    """The number of outputs: the interpreter does not report it, and ends the process for a wrong index."""
    count: int = len(runtime.convert_bytearray_to_object(content).subgraphs[0].outputs)
    return count


def timer(folder: Path, settings: Mapping[str, Any]) -> _Timer:
    """A timer of the model with the reference kernels of the package."""
    return _Timer(folder, settings)


class _Timer:
    version = version("tflite-micro")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        content = Path(settings["model"]).read_bytes()
        self._interpreter = runtime.Interpreter.from_bytes(content, arena_size=_ARENA_BYTES)
        for sample in load_samples(folder / "inputs.npz"):
            for index, array in enumerate(sample):
                self._interpreter.set_input(array, index)

    def invoke(self) -> None:
        self._interpreter.invoke()

    def profile(self, _runs: int) -> list[Kernel]:
        """Empty: its Python package reports no times per op."""
        return []
