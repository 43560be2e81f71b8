"""LiteRT's interpreter with its own kernels; runs in a process of its own only."""

from __future__ import annotations

from collections.abc import Sequence

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from sizeup.runtimes.process import Array, Sample


def execute(model: str, samples: Sequence[Sample]) -> list[list[Array]]:
    """The outputs for each sample, computed by plain kernels.

    Delegates regroup operators, and then round otherwise: two orders of one network would seem to differ.
    """
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_path=model, num_threads=1, experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for sample in samples:
        for detail, each in zip(inputs, sample, strict=True):
            interpreter.set_tensor(detail["index"], each)
        interpreter.invoke()
        found.append([interpreter.get_tensor(detail["index"]).copy() for detail in outputs])
    return found
