"""Random networks of int8 products and sums: every order and plan that is found computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from hypothesis import given, settings
from hypothesis import strategies as st
from tflite_micro import runtime

from formats.tflite.factory import File, options, quantized
from sizeup.backends.tflm import arena
from sizeup.formats import tflite
from sizeup.formats.tflite.write import rewrite
from sizeup.memory.schedule import peak_bytes, with_schedule
from sizeup.rewrite.candidates import plan_of, search
from sizeup.rewrite.result import OptimizeOptions

pytestmark = pytest.mark.extras

WIDTHS = st.sampled_from([3, 16, 50, 200, 1000])


@st.composite
def networks(draw: st.DrawFn) -> bytes:
    """Up to ten operators in a random order; tensors that are never read are outputs."""
    file = File()
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    scale = quantized([0.05])
    width = draw(WIDTHS)
    widths = {file.main.tensor("input", (1, width), "INT8", quantization=scale): width}
    unread = set(widths)
    for number in range(draw(st.integers(2, 10))):
        read = draw(st.sampled_from(sorted(widths)))
        partners = sorted(each for each in widths if widths[each] == widths[read] and each != read)
        joined = bool(partners) and bool(draw(st.integers(0, 1)))
        if joined:
            partner = draw(st.sampled_from(partners))
            output = file.main.tensor(f"sum{number}", (1, widths[read]), "INT8", quantization=scale)
            widths[output] = widths[read]
            file.main.op("ADD", [read, partner], [output], options("AddOptions"))
            unread.discard(partner)
        else:
            width = draw(WIDTHS)
            output = file.main.tensor(f"product{number}", (1, width), "INT8", quantization=scale)
            numbers = generator.integers(-90, 91, (width, widths[read])).astype(np.int8)
            step = quantized([1 / (50 * widths[read] ** 0.5)])
            weights = file.main.tensor(f"weights{number}", numbers.shape, "INT8", numbers, quantization=step)
            file.main.op("FULLY_CONNECTED", [read, weights, -1], [output], options("FullyConnectedOptions"))
            widths[output] = width
        unread.discard(read)
        unread.add(output)
    file.main.ends([0], sorted(unread))
    return file.pack()


def in_litert(content: bytes, data: Any) -> list[Any]:
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=plain)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]).tolist() for each in interpreter.get_output_details()]


def in_micro(content: bytes, data: Any, outputs: int) -> list[Any]:
    interpreter = runtime.Interpreter.from_bytes(content, arena_size=1 << 20)
    interpreter.set_input(data, 0)
    interpreter.invoke()
    return [interpreter.get_output(place).tolist() for place in range(outputs)]


@given(networks(), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_every_candidate_computes_the_same(content: bytes, seed: int) -> None:
    graph = tflite.load(content)
    data = np.random.default_rng(seed).integers(-128, 128, graph.tensors[0].shape or ()).astype(np.int8)
    result = search(graph, OptimizeOptions(time_limit=5.0))
    expected = in_litert(content, data)
    in_small = in_micro(content, data, len(graph.outputs))
    for candidate in result.candidates:
        ordered = with_schedule(graph, candidate.schedule)
        # Also where the interpreter finds a place as good by itself.
        offsets = candidate.offsets or plan_of(ordered, OptimizeOptions(time_limit=5.0))[0]
        written = rewrite(content, schedule=candidate.schedule, offline_offsets=offsets)
        again = tflite.load(written)
        assert [op.outputs for op in again.ops] == [op.outputs for op in ordered.ops]
        assert in_litert(written, data) == expected
        assert in_micro(written, data, len(graph.outputs)) == in_small
        assert arena(again, offsets=offsets).head_bytes <= candidate.expected.head_bytes
    assert result.best_schedule is not None
    best = peak_bytes(with_schedule(graph, result.best_schedule.ops))
    assert result.best_schedule.lower_bound_bytes <= best <= peak_bytes(graph)
