"""The shapes that ONNX Runtime makes of every value of a model: the oracle for inferred shapes.

It runs in a subprocess, because a mutant may end the process. Imported, this file asks; run, it answers.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SECONDS = 60
_MEMORY_BYTES = 4 << 30
_MOST_NUMBERS = 1 << 20  # of one input


def shapes(paths: Sequence[Path]) -> list[dict[str, list[int]]]:
    """Shapes by name for each model; empty if the runtime refuses the model or does not survive it."""
    answers: list[dict[str, list[int]]] = []
    while len(answers) < len(paths):
        answers += _ask([str(each) for each in paths[len(answers) :]])
    return answers


def _ask(paths: list[str]) -> list[dict[str, list[int]]]:
    """As many answers as the runtime lives to give, and one more if it ends early."""
    command = [sys.executable, __file__, *paths]
    try:
        run = subprocess.run(command, capture_output=True, check=False, timeout=_SECONDS)
        output = run.stdout
    except subprocess.TimeoutExpired as error:
        output = b"" if error.stdout is None else error.stdout
    answers = [json.loads(line) for line in output.splitlines() if line.endswith(b"}")]
    return answers if len(answers) == len(paths) else [*answers, {}]


def _answer(path: str) -> dict[str, list[int]]:
    import numpy as np
    import onnx
    import onnxruntime

    model = onnx.load(path, load_external_data=False)
    listed = {each.name for each in model.graph.output}
    for node in model.graph.node:
        names = [name for name in node.output if name and name not in listed]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_outputs()]
    fed = {each.name: _ones(each) for each in session.get_inputs()}
    results = session.run(names, fed)
    return {name: list(np.shape(each)) for name, each in zip(names, results, strict=True)}


def _ones(value: Any) -> Any:
    import numpy as np

    types = {"float": "float32", "double": "float64"}
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    if not all(isinstance(side, int) for side in value.shape) or np.prod(value.shape) > _MOST_NUMBERS:
        raise ValueError("an input without a size, or too large")
    return np.ones(value.shape, types.get(kind, kind))


def main() -> None:
    """Answer for every path of the command line, one JSON object per line."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    for path in sys.argv[1:]:
        try:
            answer = _answer(path)
        except Exception:  # the runtime has no one class for what it refuses
            answer = {}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
