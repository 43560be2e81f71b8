"""TFLite Micro, as its package on PyPI has it; runs in a process of its own only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tflite_micro import runtime

from sizeup.runtimes.process import Array, Sample

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
