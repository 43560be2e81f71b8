"""One inference in TFLite Micro's interpreter; imported only in a worker, whose start has to be fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from tflite_micro import runtime

from sizeup.workers.worker import limit_output

_MAX_OUTPUT_BYTES = 1 << 24  # of the file that receives what the interpreter prints
_PLAN = b"OfflineMemoryAllocation"
_SAMPLES = 4
_MOST = 4  # of random integers of 32 bits and more, which may be indices

Array: TypeAlias = np.ndarray[Any, Any]


def infer(model: str, value: int, arena_bytes: int, channel: Any) -> str:
    """Allocate the tensors and run one inference, every input `value`; the error, or an empty text.

    Reports "invoke" when the tensors are allocated, and "differs" if the file has a memory plan and computes
    other outputs without it.
    """
    limit_output(_MAX_OUTPUT_BYTES)
    content = Path(model).read_bytes()
    try:
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=arena_bytes)
    except RuntimeError as error:
        return str(error)
    channel.report("invoke")
    graph = runtime.schema_fb.Model.GetRootAs(content).Subgraphs(0)
    for index in range(graph.InputsLength()):
        details = interpreter.get_input_details(index)
        interpreter.set_input(np.full(details["shape"], value, details["dtype"]), index)
    try:
        interpreter.invoke()
    except RuntimeError as error:
        return str(error)
    if _PLAN in content:
        del interpreter
        plain = content.replace(_PLAN, _PLAN.lower())  # of equal length, and not the name of a plan
        ends = graph.InputsLength(), graph.OutputsLength()
        if _outputs(content, *ends, arena_bytes) != _outputs(plain, *ends, arena_bytes):
            channel.report("differs")
    return ""


def _outputs(content: bytes, inputs: int, outputs: int, arena_bytes: int) -> list[bytes] | str:
    """The outputs for a sequence of random inputs, or the error: variables are kept from one to the next."""
    random = np.random.default_rng(0)
    results = []
    try:
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=arena_bytes)
        for _ in range(_SAMPLES):
            for index in range(inputs):
                details = interpreter.get_input_details(index)
                interpreter.set_input(_random(random, details["shape"], np.dtype(details["dtype"])), index)
            interpreter.invoke()
            results += [interpreter.get_output(index).tobytes() for index in range(outputs)]
    except RuntimeError as error:
        return str(error)
    return results


def _random(random: np.random.Generator, shape: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "f":
        return random.normal(size=shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    is_small = dtype.itemsize < np.dtype(np.int32).itemsize
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if is_small else (0, _MOST)
    return random.integers(low, high, shape, dtype=dtype, endpoint=True)
