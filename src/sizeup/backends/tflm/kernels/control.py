"""Control flow, variables and custom operators of TFLite Micro."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizeup.backends.tflm.kernel import (
    Call,
    Kernel,
    KernelMemory,
    KernelRequests,
    elements_of,
    require_elements,
    shape_of,
)
from sizeup.backends.tflm.kernel_rules import BOOL, dtype
from sizeup.errors import Incomplete
from sizeup.graph import Graph, Tensor


def _bytes(tensor: Tensor) -> int:
    return elements_of(tensor) * tensor.dtype.bits // 8


def _copies(sources: Sequence[Tensor], targets: Sequence[Tensor], what: str) -> str | None:
    """Tensors are copied into and out of a subgraph, which has to have as many and as large ones."""
    if len(sources) != len(targets):
        return f"needs {len(sources)} {what}, not {len(targets)}"
    for source, target in zip(sources, targets, strict=True):
        if _bytes(source) != _bytes(target):
            return f"needs {what} of {_bytes(source):,} B for {source.name!r}, not {_bytes(target):,} B"
    return None


def _ends(graph: Graph) -> tuple[list[Tensor], list[Tensor]]:
    inputs, outputs = ([graph.tensors[identity] for identity in ids] for ids in (graph.inputs, graph.outputs))
    return inputs, outputs


def _if(call: Call) -> str | None:
    if dtype(call) != BOOL or elements_of(call.input(0)) != 1:
        return f"takes one bool as its condition, not {dtype(call)}"
    data = [call.input(position) for position in range(1, len(call.op.inputs))]
    results = [call.output(position) for position in range(len(call.op.outputs))]
    for body in call.op.bodies:
        inputs, outputs = _ends(body.graph)
        reason = _copies(data, inputs, f"inputs of the graph {body.name!r}")
        # It runs an "else" without outputs, which leaves the results as they are.
        if reason is None and (outputs or body.name != "else"):
            reason = _copies(results, outputs, f"outputs of the graph {body.name!r}")
        if reason:
            return reason
    return None


def _while(call: Call) -> str | None:
    data = [call.input(position) for position in range(len(call.op.inputs))]
    results = [call.output(position) for position in range(len(call.op.outputs))]
    reason = _copies(data, results, "outputs")
    for body in call.op.bodies:
        inputs, outputs = _ends(body.graph)
        reason = reason or _copies(data, inputs, f"inputs of the graph {body.name!r}")
        if body.name != "cond":
            reason = reason or _copies(results, outputs, f"outputs of the graph {body.name!r}")
    return reason


def _rfft(call: Call) -> KernelRequests:
    """The kissfft state for half the length: a header, factors, and complex tables of 1 and 3/2 times it."""
    data = call.input(0)
    length, number = shape_of(call.output())[-1] - 2, 2 * data.dtype.bits // 8
    state = call.size("3p") + call.size("66i") + number * (length // 2 + length // 2 * 3 // 2)
    return KernelRequests((call.size("5ipip"), state), (length * data.dtype.bits // 8,))


def _filter_bank(call: Call) -> KernelRequests:
    """One 64-bit sum per channel, plus one."""
    require_elements(call, elements_of(call.input(3)) - 1)
    return KernelRequests((call.size("i5p2ip"), 8 * (elements_of(call.output()) + 1)))


def _spectral_subtraction(call: Call) -> KernelRequests:
    """One noise estimate per channel."""
    return KernelRequests((call.size("9i2p"), 4 * elements_of(call.input(0))))


def _decode(call: Call) -> KernelRequests:
    """One state pointer per output, and the states, which are known only for lookup tables."""
    persistent = [call.build.pointer_bytes * len(call.op.outputs)]
    for position in range(1, len(call.op.inputs), 2):
        data = call.input(position).data
        if data is None or data.read is None or np.ravel(data.read())[0] != 0:
            raise Incomplete(f"{call.op.source} {call.op.name!r} does not decode with a lookup table")
        persistent.append(call.size("8p3b"))
    return KernelRequests(tuple(persistent))


def _ethos_u(call: Call) -> KernelRequests:
    """A 64-bit address and a size per input and output."""
    tensors = len(call.op.inputs) + len(call.op.outputs)
    return KernelRequests(scratch=(8 * tensors, call.build.pointer_bytes * tensors))


def _command_stream(call: Call) -> Sequence[int]:
    """Prepare loads the first input only."""
    return (0,)


def _variable_name(call: Call) -> str | None:
    return None if call.op.attrs.get("variable") else "needs the name of its variable"


ETHOS_U = "ethos-u"
"""The operator that Vela puts in place of those that it compiles."""


def _signal(name: str, inputs: str, memory: KernelMemory | None) -> Kernel:
    """A kernel of the signal library, which has no checks of dtypes."""
    return Kernel(f"Signal{name}", inputs, memory, (), is_portable=False)


KERNELS = (
    Kernel("IF", "1+", KernelMemory("2i", "2i"), (_if,), outputs=0),
    Kernel("WHILE", "own", KernelMemory("2i", "2i"), (_while,), outputs=0),
    Kernel("CALL_ONCE", "0", KernelMemory("i", "2i"), (), outputs=0, is_portable=False),
    Kernel("VAR_HANDLE", "0", KernelMemory("2p", "i"), (_variable_name,), is_portable=False),
    Kernel("READ_VARIABLE", "1+", KernelMemory(), (), is_portable=False),
    # The variable itself is allocated on its first assignment.
    Kernel("ASSIGN_VARIABLE", "2", KernelMemory("", "|i"), (), outputs=0, is_portable=False),
    _signal("Window", "2", KernelMemory("", "2i")),
    _signal("FftAutoScale", "1", KernelMemory()),
    _signal("Rfft", "1", KernelMemory(prepare=_rfft)),
    _signal("Irfft", "1", None),
    _signal("Energy", "1", KernelMemory("", "2i")),
    _signal("FilterBank", "6", KernelMemory(prepare=_filter_bank)),
    _signal("FilterBankSquareRoot", "2", KernelMemory()),
    _signal("FilterBankSpectralSubtraction", "1", KernelMemory(prepare=_spectral_subtraction)),
    _signal("FilterBankLog", "1", KernelMemory("", "2i")),
    _signal("PCAN", "3", KernelMemory("", "i")),
    *(_signal(name, "1", None) for name in ("Delay", "Framer", "OverlapAdd", "Stacker")),
    Kernel("TFLM_DECODE", "2+", KernelMemory(prepare=_decode), (), is_portable=False),
    Kernel("CIRCULAR_BUFFER", "own", None, (), is_portable=False),
    Kernel("TFLite_Detection_PostProcess", "3", None, (), is_portable=False),
    # tensorflow/lite/micro/kernels/ethos_u/ethosu.cc
    Kernel(
        ETHOS_U,
        "own",
        KernelMemory("", "3i", _ethos_u, tensors=_command_stream),
        (),
        is_portable=False,
        needs_npu=True,
    ),
)
"""Control flow, variables and custom operators."""
