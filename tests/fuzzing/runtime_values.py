"""The shapes and dtypes that real runtimes give the values of a model: the oracle for those that are stated.

They run in a subprocess, because a mutant may end the process. Imported, this file asks; run, it answers.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Values: TypeAlias = dict[str, tuple[list[int], str]]
_SECONDS = 10  # of one model
_MEMORY_BYTES = 4 << 30
_MOST_NUMBERS = 1 << 20  # of one input


def values(runtime: str, paths: Sequence[Path]) -> list[Values]:
    """Shapes and dtypes by name for each model; empty if the runtime refuses it or does not survive it.

    Of TFLite files the name is the tensor's index; of exported programs, the operator, which of its calls,
    and which of its results.
    """
    answers: list[Values] = []
    while len(answers) < len(paths):
        answers += _ask(runtime, [str(each) for each in paths[len(answers) :]])
    return answers


def _ask(runtime: str, paths: list[str]) -> list[Values]:
    """As many answers as the runtime lives to give, and one more if it ends early."""
    run = subprocess.run([sys.executable, __file__, runtime, *paths], capture_output=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines() if line.endswith(b"}")]
    return answers if len(answers) == len(paths) else [*answers, {}]


def _ort(path: str) -> Values:
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
    fed = {each.name: _ones(each.shape, _dtype_of(each.type)) for each in session.get_inputs()}
    results = [np.asarray(each) for each in session.run(names, fed)]
    return {name: (list(each.shape), each.dtype.name) for name, each in zip(names, results, strict=True)}


def _dtype_of(kind: str) -> str:
    types = {"float": "float32", "double": "float64"}
    kind = kind.removeprefix("tensor(").removesuffix(")")
    return types.get(kind, kind)


def _ones(shape: Sequence[Any], dtype: Any) -> Any:
    import numpy as np

    if not all(isinstance(side, int | np.integer) for side in shape) or np.prod(shape) > _MOST_NUMBERS:
        raise ValueError("an input without a size, or too large")
    return np.ones(shape, dtype)


def _litert(path: str) -> Values:
    """After a run: shapes that depend on content are those of the file before."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # a delegate's values are no tensors
    interpreter = Interpreter(path, num_threads=1, experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    for each in interpreter.get_input_details():
        interpreter.set_tensor(each["index"], _ones(each["shape"], each["dtype"]))
    interpreter.invoke()
    made = [each["index"] for each in interpreter.get_input_details()]
    made += [index for each in interpreter._get_ops_details() for index in each["outputs"].tolist()]
    found: Values = {}
    for index in made:
        with contextlib.suppress(ValueError):  # numpy has no such type
            details = interpreter._get_tensor_details(index, 0)
            found[str(index)] = details["shape"].tolist(), np.dtype(details["dtype"]).name
    return found


def _torch(path: str) -> Values:
    """Of operators that the program itself calls: programs with control flow are not compared."""
    import torch

    program = torch.export.load(io.BytesIO(_completed(path)))
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert not any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in calls)
    assert not any("from_file" in str(node.target) for node in calls)  # the one that writes files
    stored = {**program.state_dict, **program.constants}
    shown = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    arguments = [
        stored[spec.target] if spec.target in stored else _filled(shown[spec.arg.name])
        for spec in program.graph_signature.input_specs
    ]
    found: Values = {}
    count: Counter[str] = Counter()

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(n.target, torch._ops.OpOverload):
                name = n.target._schema.name.replace("::", ".")
                made = torch.utils._pytree.tree_leaves(result)
                for number, each in enumerate(made):
                    if isinstance(each, torch.Tensor):
                        key = f"{name} {count[name]} {number}"
                        found[key] = list(each.shape), str(each.dtype).removeprefix("torch.")
                count[name] += 1
            return result

    with torch.no_grad(), contextlib.suppress(Exception):  # what ran before is compared
        Recorder(program.graph_module).run(*arguments)
    return found


def _completed(path: str) -> bytes:
    """With the records that torch insists on, and that the seeds are without."""
    buffer = io.BytesIO(Path(path).read_bytes())
    with zipfile.ZipFile(buffer, "a") as archive:
        top = archive.namelist()[0].partition("/")[0]
        for name, content in ((".data/version", b"3\n"), ("data/sample_inputs/model.pt", b"")):
            archive.writestr(f"{top}/{name}", content)
    return buffer.getvalue()


def _filled(value: Any) -> Any:
    """A tensor of ones, or of zeros if its numbers may be indices."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value.node.hint if isinstance(value, torch.SymInt) else value
    sides: list[Any] = [*value.shape]  # integers, or symbols with an example
    shape = [each if isinstance(each, int) else each.node.hint for each in sides]
    fill = torch.ones if value.dtype.is_floating_point else torch.zeros
    return fill(shape, dtype=value.dtype)


_RUN = {"ort": _ort, "litert": _litert, "torch": _torch}


def main() -> None:
    """Answer for every path of the command line, one JSON object per line."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    runtime, *paths = sys.argv[1:]
    for path in paths:
        signal.alarm(_SECONDS)
        try:
            answer = _RUN[runtime](path)
        except Exception:  # the runtimes have no one class for what they refuse
            answer = {}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
