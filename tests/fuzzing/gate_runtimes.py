"""What real runtimes make of two files: whether they compute the same, and what that takes.

A process answers for the gate mode. It runs every file in a copy of itself, which the file may end. Imported,
this file asks; run, it answers.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Outputs: TypeAlias = Sequence[Any]
_ARENA_BYTES = 8 << 20
_MEMORY_BYTES = 4 << 30
_SECONDS = 10  # of one file in one runtime
_MOST_NUMBERS = 1 << 20  # of one input
_TOLERANCE = 1e-5
_COUNTED = ("MatMul", "Gemm", "Conv", "ConvTranspose")


@dataclass(frozen=True)
class Outcome:
    """How a file compares with the original in one runtime; `refusal` is the runtime's, or how it ended."""

    is_same: bool = False
    refusal: str = ""
    # Of both files, the original first: multiply-accumulates in ONNX Runtime, the arena in TFLite Micro.
    macs: tuple[int, int] = (0, 0)
    head: tuple[int, int] = (0, 0)
    tail: tuple[int, int] = (0, 0)


@dataclass
class Runtimes:
    """The process that answers, which is started again if it ends."""

    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def outcome(self, runtime: str, original: Path, mutant: Path) -> Outcome:
        """Run both files on the same inputs."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                preexec_fn=_lift_limits,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([runtime, str(original), str(mutant)]) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        fields: dict[str, Any] = {}
        for name, each in answer.items():
            fields[name] = tuple(each) if isinstance(each, list) else each
        return Outcome(**fields)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def _lift_limits() -> None:
    """The limits of the fuzzer's worker are not for runtimes."""
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        most = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (most, most))


RUNTIMES = Runtimes()


def main() -> None:
    """Answer every line of standard input."""
    for line in sys.stdin:
        runtime, *paths = json.loads(line)
        for name in _MODULES[runtime]:  # every copy has them
            importlib.import_module(name)
        original, mutant = (_in_a_copy(_RUN[runtime], path) for path in paths)
        answer: dict[str, Any] = {"refusal": mutant.get("refusal", "")}
        if "outputs" in original and "outputs" in mutant:
            answer["is_same"] = _is_same(original["outputs"], mutant["outputs"])
            for name in ("macs", "head", "tail"):
                answer[name] = (original.get(name, 0), mutant.get(name, 0))
        elif "outputs" not in original:
            answer["refusal"] = f"original: {original.get('refusal')}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _in_a_copy(run: Callable[[str], dict[str, Any]], path: str) -> dict[str, Any]:
    """What a run returns, from a copy of this process."""
    import pickle

    readable, writable = os.pipe()
    identity = os.fork()
    if identity == 0:
        os.close(readable)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        signal.alarm(_SECONDS)
        try:
            answer = run(path)
        except Exception as error:  # the runtimes have no one class for what they refuse
            answer = {"refusal": f"{type(error).__name__}: {error}"[:500]}
        try:
            with os.fdopen(writable, "wb") as file:
                pickle.dump(answer, file)
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as file:
        content = file.read()
    status = os.waitpid(identity, 0)[1]
    answered: dict[str, Any] = pickle.loads(content) if content else {"refusal": f"ended with {status}"}
    return answered


def _is_same(one: Outputs, other: Outputs) -> bool:
    """Whether a file computes all outputs of the original; it may have more."""
    import numpy as np

    return len(one) <= len(other) and all(
        np.shape(a) == np.shape(b)
        and a.dtype == b.dtype
        and np.allclose(a.astype(float), b.astype(float), _TOLERANCE, _TOLERANCE, equal_nan=True)
        for a, b in zip(one, other, strict=False)
    )


def _drawn(shape: Sequence[Any], dtype: Any, number: int) -> Any:
    """Seeded numbers of an input."""
    import numpy as np

    sides = [each if isinstance(each, int) and each > 0 else 1 for each in map(_plain, shape)]
    if math.prod(sides) > _MOST_NUMBERS:
        raise ValueError("a large input")
    random, kind = np.random.default_rng(number), np.dtype(dtype)
    if kind.kind == "f":
        return random.normal(size=sides).astype(kind)
    return random.integers(0, 2 if kind.kind == "b" else 100, size=sides).astype(kind)


def _plain(side: Any) -> Any:
    return side if isinstance(side, str) or side is None else int(side)


def _litert(path: str) -> dict[str, Any]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(path, num_threads=1)
    interpreter.allocate_tensors()
    for number, each in enumerate(interpreter.get_input_details()):
        interpreter.set_tensor(each["index"], _drawn(each["shape"], each["dtype"], number))
    interpreter.invoke()
    return {"outputs": [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]}


def _tflm(path: str) -> dict[str, Any]:
    from ai_edge_litert import schema_py_generated as schema
    from tflite_micro import runtime

    content = Path(path).read_bytes()
    graph = schema.Model.GetRootAs(content).Subgraphs(0)
    with tempfile.TemporaryFile() as report:
        os.dup2(report.fileno(), 2)
        interpreter = runtime.Interpreter.from_bytes(content, arena_size=_ARENA_BYTES)
        interpreter.print_allocations()
        for number in range(graph.InputsLength()):
            details = interpreter.get_input_details(number)
            interpreter.set_input(_drawn(details["shape"], details["dtype"], number), number)
        interpreter.invoke()
        outputs = [interpreter.get_output(number) for number in range(graph.OutputsLength())]
        report.seek(0)
        sizes = dict(re.findall(rb"Arena allocation (head|tail) (\d+) bytes", report.read()))
    return {"outputs": outputs, "head": int(sizes[b"head"]), "tail": int(sizes[b"tail"])}


def _ort(path: str) -> dict[str, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # What cannot be left out: constants are folded, and dead operators and copies removed.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/profile"
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        fed = {
            each.name: _drawn(each.shape, _dtype(each.type), number)
            for number, each in enumerate(session.get_inputs())
        }
        outputs = session.run(None, fed)
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    return {"outputs": outputs, "macs": sum(map(_macs, events))}


def _dtype(kind: str) -> str:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(name, name)


def _macs(event: dict[str, Any]) -> int:
    """Multiply-accumulates of one kernel of a profile, from the shapes that it ran on."""
    arguments = event.get("args", {})
    operator = arguments.get("op_name", "").removeprefix("Fused")
    if operator not in _COUNTED or not event["name"].endswith("_kernel_time"):
        return 0
    read: list[list[int]] = [shape for each in arguments["input_type_shape"] for shape in each.values()]
    made: list[list[int]] = [shape for each in arguments["output_type_shape"] for shape in each.values()]
    if operator == "MatMul":
        return math.prod(made[0]) * read[0][-1]
    if operator == "Gemm":
        return math.prod(read[0]) * made[0][1]
    return math.prod((made if operator == "Conv" else read)[0]) * math.prod(read[1][1:])


_MODULES = {
    "litert": ("numpy", "ai_edge_litert.interpreter"),
    "tflm": ("numpy", "ai_edge_litert.schema_py_generated", "tflite_micro"),
    "ort": ("numpy", "onnxruntime"),
}
_RUN = {"litert": _litert, "tflm": _tflm, "ort": _ort}


if __name__ == "__main__":
    main()
