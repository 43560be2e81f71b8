"""TFLite Micro, as its package on PyPI has it; runs in a process of its own only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tflite_micro import runtime

from sizeup.runtimes.process import Array, Sample, load_samples
from sizeup.runtimes.timing import Kernel

# Asked for, not touched: the interpreter takes of it what it needs, and reports that.
_ROOM = 1 << 28


def execute(model: str, samples: Sequence[Sample]) -> list[list[Array]]:
    """The outputs for each sample; what the arena holds is printed to stderr."""
    content = Path(model).read_bytes()
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=_ROOM)
    found = []
    for sample in samples:
        for place, each in enumerate(sample):
            interpreter.set_input(each, place)
        interpreter.invoke()
        found.append([interpreter.get_output(place).copy() for place in range(_outputs(content))])
    interpreter.print_allocations()
    return found


def _outputs(content: bytes) -> int:
    """How many there are: the interpreter itself does not say, and ends the process when asked for more."""
    count: int = len(runtime.convert_bytearray_to_object(content).subgraphs[0].outputs)
    return count


def timer(folder: Path, settings: Mapping[str, Any]) -> _Timer:
    """The model with the reference kernels of the package for this machine."""
    return _Timer(folder, settings)


class _Timer:
    version = version("tflite-micro")

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        content = Path(settings["model"]).read_bytes()
        self._interpreter = runtime.Interpreter.from_bytes(content, arena_size=_ROOM)
        for sample in load_samples(folder / "inputs.npz"):
            for place, each in enumerate(sample):
                self._interpreter.set_input(each, place)

    def invoke(self) -> None:
        self._interpreter.invoke()

    def profile(self, _runs: int) -> list[Kernel]:
        """Nothing: its package for Python gives no times of single operators."""
        return []
