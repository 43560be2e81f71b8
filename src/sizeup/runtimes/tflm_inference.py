"""One inference in TFLite Micro's interpreter; imported only in a worker, whose start has to be fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tflite_micro import runtime

from sizeup.workers.worker import limit_output

_MAX_OUTPUT_BYTES = 1 << 24  # of the file that receives what the interpreter prints


def infer(model: str, value: int, arena_bytes: int, channel: Any) -> str:
    """Allocate the tensors and run one inference, every input `value`; the error, or an empty text.

    Reports "invoke" when the tensors are allocated.
    """
    limit_output(_MAX_OUTPUT_BYTES)
    content = Path(model).read_bytes()
    try:
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=arena_bytes)
    except RuntimeError as error:
        return str(error)
    channel.report("invoke")
    for index in range(runtime.schema_fb.Model.GetRootAs(content).Subgraphs(0).InputsLength()):
        details = interpreter.get_input_details(index)
        interpreter.set_input(np.full(details["shape"], value, details["dtype"]), index)
    try:
        interpreter.invoke()
    except RuntimeError as error:
        return str(error)
    return ""
