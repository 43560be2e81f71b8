"""Files made to pass a check that they should not pass: nothing that a runtime runs may go uncounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import sizeup
from formats.tflite.factory import File, Subgraph, options, quantized
from sizeup.cost import count
from sizeup.errors import CorruptModel, Incomplete
from sizeup.render.console.check import reasons

_CONV = options("Conv2DOptions", strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1, padding=0)


def _answer(file: File, folder: Path, **limits: Any) -> bool | None:
    path = folder / "model.tflite"
    path.write_bytes(file.pack())
    return sizeup.check(path, strict=True, remedies=False, **limits).fits


# Parameters


def _sharing(first: tuple[int, ...], second: tuple[int, ...], numbers: int) -> File:
    """Two tensors of those shapes in one buffer of that many numbers."""
    file = File()
    main = file.main
    buffer = file.buffer(np.zeros(numbers, np.float32))
    for place, shape in enumerate((first, second)):
        constant = main.tensor(f"c{place}", shape, buffer=buffer)
        main.op("RELU", [constant], [main.tensor(f"y{place}", shape)])
    main.ends([], [1, 3])
    return file


@pytest.mark.parametrize(
    "shapes", [((1,), (256, 256)), ((256, 256), (1,))], ids=["small first", "large first"]
)
def test_a_small_tensor_does_not_hide_the_weights_that_share_its_buffer(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], tmp_path: Path
) -> None:
    file = _sharing(*shapes, 256 * 256)
    assert count(file.load()).total_params == 256 * 256 + 1
    assert _answer(file, tmp_path, params=1000) is False


def test_weights_that_truly_share_a_buffer_count_once() -> None:
    assert count(_sharing((8, 4), (8, 4), 32).load()).total_params == 32


def test_every_tensor_of_a_shared_buffer_must_fit_into_it() -> None:
    with pytest.raises(CorruptModel, match="'c1' needs 4000 bytes, its buffer has 4"):
        _sharing((1,), (1000,), 1).load()


def _prepared(steps: list[tuple[str, Any, list[list[int]]]]) -> File:
    """Integer weights (16, 16) that those operators, with those further inputs, make ready for a layer."""
    file = File()
    main = file.main
    weights = main.tensor("w", (16, 16), "INT16", np.ones((16, 16), np.int16))
    for place, (name, settings, others) in enumerate(steps):
        kind = "FLOAT32" if "CAST" in [step[0] for step in steps[: place + 1]] else "INT16"
        computed = main.tensor(f"p{place}", (16, 16), kind)
        further = [main.tensor("", (len(each),), "INT32", np.array(each, np.int32)) for each in others]
        main.op(name, [weights, *further], [computed], settings)
        weights = computed
    data, out = main.tensor("x", (1, 16)), main.tensor("y", (1, 16))
    main.op("FULLY_CONNECTED", [data, weights, -1], [out], options("FullyConnectedOptions"))
    main.ends([data], [out])
    return file


_CAST: tuple[str, Any, list[list[int]]] = ("CAST", options("CastOptions"), [])
_TRANSPOSE: tuple[str, Any, list[list[int]]] = ("TRANSPOSE", None, [[1, 0]])
_RESHAPE: tuple[str, Any, list[list[int]]] = ("RESHAPE", None, [[16, 16]])
_STEPS = [[_CAST], [_TRANSPOSE, _CAST], [_CAST, _RESHAPE, _TRANSPOSE], [("ABS", None, []), _CAST]]


@pytest.mark.parametrize("steps", _STEPS, ids=lambda steps: "-".join(step[0] for step in steps))
def test_integers_that_become_weights_are_parameters(steps: Any, tmp_path: Path) -> None:
    file = _prepared(steps)
    assert count(file.load()).total_params == 256  # the weights, but no permutation and no shape
    assert _answer(file, tmp_path, params=255) is False


# Multiply-accumulates


def _on_constants(side: int) -> File:
    """A convolution of a constant image, added to a small input."""
    file = File()
    main = file.main
    image = main.tensor("image", (1, side, side, 8), data=np.ones((1, side, side, 8), np.float32))
    weights = main.tensor("w", (8, 3, 3, 8), data=np.ones((8, 3, 3, 8), np.float32))
    bias = main.tensor("b", (8,), data=np.zeros(8, np.float32))
    computed, data, out = (
        main.tensor("conv", (1, side, side, 8)),
        main.tensor("x", (1,)),
        main.tensor("y", (1, side, side, 8)),
    )
    main.op("CONV_2D", [image, weights, bias], [computed], _CONV)
    main.op("ADD", [computed, data], [out], options("AddOptions"))
    main.ends([data], [out])
    return file


def test_a_layer_on_constants_counts(tmp_path: Path) -> None:
    file = _on_constants(16)
    cost = count(file.load())
    # 16 x 16 places, 8 channels out, 3 x 3 x 8 products each.
    assert cost.total_macs == 16 * 16 * 8 * 3 * 3 * 8
    assert _answer(file, tmp_path, macs=1000) is False


def test_litert_runs_a_layer_on_constants_every_time() -> None:
    """Its result is erased after a run: the next one must have made it anew."""
    interpreter = Interpreter(
        model_content=_on_constants(16).pack(),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    interpreter.invoke()
    computed = next(each["index"] for each in interpreter.get_tensor_details() if each["name"] == "conv")
    assert interpreter.get_tensor(computed).max() == 3 * 3 * 8
    interpreter.tensor(computed)()[:] = 0
    interpreter.invoke()
    assert interpreter.get_tensor(computed).max() == 3 * 3 * 8


@pytest.mark.parametrize("name", ["EXP", "SOFTMAX"])
def test_functions_of_constants_count(name: str) -> None:
    file = File()
    main = file.main
    constant = main.tensor("c", (1, 64), data=np.ones((1, 64), np.float32))
    out = main.tensor("y", (1, 64))
    main.op(name, [constant], [out], options("SoftmaxOptions") if name == "SOFTMAX" else None)
    main.ends([], [out])
    assert count(file.load()).total_elementwise >= 64


# Loops


def _loop(step: int, limit: int, **cheat: Any) -> File:
    """While counter < limit and rounds < 20: counter += step, rounds += 1, x = x @ w (4 x 4).

    `types` has the dtypes of the counter's tensors that are not int32.
    """
    types = cheat.get("types", {})
    file = File()
    main, condition, body = file.main, file.subgraph("cond"), file.subgraph("body")
    fields = {"quantization": cheat["quantization"]} if "quantization" in cheat else {}

    def number(graph: Subgraph, value: int | None, role: str = "", **fields: Any) -> int:
        dtype = types.get(role, types.get("all", "INT32") if role else "INT32")
        data = None if value is None else np.array([value], dtype.lower())
        return graph.tensor("", (1,), dtype, data, **fields)

    counter, rounds, data = (
        number(condition, None, "tested", **fields),
        number(condition, None),
        condition.tensor("", (4, 4)),
    )
    left, right, both = (condition.tensor("", (1,), "BOOL") for _ in range(3))
    condition.op(
        "LESS", [counter, number(condition, limit, "limit", **fields)], [left], options("LessOptions")
    )
    condition.op("LESS", [rounds, number(condition, 20)], [right], options("LessOptions"))
    condition.op("LOGICAL_AND", [left, right], [both], options("LogicalAndOptions"))
    condition.ends([counter, rounds, data], [both])

    counter, rounds, data = number(body, None, "read", **fields), number(body, None), body.tensor("", (4, 4))
    grown, next_round, product = (
        number(body, None, "grown", **fields),
        number(body, None),
        body.tensor("", (4, 4)),
    )
    weights = body.tensor("", (4, 4), data=np.eye(4, dtype=np.float32))
    activation = options("AddOptions", fusedActivationFunction=cheat.get("activation", 0))
    body.op("ADD", [counter, number(body, step, "step", **fields)], [grown], activation)
    body.op("ADD", [rounds, number(body, 1)], [next_round], options("AddOptions"))
    body.op("FULLY_CONNECTED", [data, weights, -1], [product], options("FullyConnectedOptions"))
    body.ends([counter, rounds, data], [grown, next_round, product])

    data = main.tensor("x", (4, 4))
    computed = [number(main, None, "result", **fields), number(main, None), main.tensor("y", (4, 4))]
    ends = options("WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    main.op("WHILE", [number(main, 0, "start", **fields), number(main, 0), data], computed, ends)
    main.ends([data], computed)
    return file


def _rounds_in_litert(file: File) -> int:
    interpreter = Interpreter(model_content=file.pack(), num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones((4, 4), np.float32))
    interpreter.invoke()
    return int(interpreter.get_tensor(interpreter.get_output_details()[1]["index"])[0])


def test_an_honest_counter_ends_the_loop() -> None:
    file = _loop(step=2, limit=7)
    assert _rounds_in_litert(file) == 4
    assert count(file.load()).total_macs == 4 * 4 * 4 * 4


_CHEATS: list[dict[str, Any]] = [
    {"step": 100, "limit": 7, "activation": schema.ActivationFunctionType.RELU6},  # stays at 6
    {"step": 2**30, "limit": 2**31 - 1},  # wraps around below zero
]


@pytest.mark.parametrize("cheat", _CHEATS, ids=["activation", "overflow"])
def test_a_counter_that_falls_back_leaves_the_rounds_unknown(cheat: dict[str, Any], tmp_path: Path) -> None:
    file = _loop(**cheat)
    assert _rounds_in_litert(file) == 20
    assert _answer(file, tmp_path, macs=4 * 4 * 4 * 3) is not True


@pytest.mark.parametrize("dtype", ["INT16", "INT64"])
def test_a_counter_of_other_integers_ends_the_loop(dtype: str) -> None:
    file = _loop(step=2, limit=7, types={"all": dtype})
    assert _rounds_in_litert(file) == 4
    assert count(file.load()).total_macs == 4 * 4 * 4 * 4


@pytest.mark.parametrize("role", ["start", "tested", "limit", "step", "result"])
def test_a_counter_of_two_dtypes_that_the_runtime_refuses_is_not_counted(role: str, tmp_path: Path) -> None:
    file = _loop(step=2, limit=7, types={role: "INT64"})
    with pytest.raises(RuntimeError):
        _rounds_in_litert(file)
    assert _answer(file, tmp_path, macs=4 * 4 * 4 * 4) is not True


@pytest.mark.parametrize("role", ["read", "grown"])
def test_a_counter_of_another_dtype_than_declared_is_not_counted(role: str, tmp_path: Path) -> None:
    """The runtime ignores these dtypes, so that the counter wraps around."""
    file = _loop(step=2**30, limit=2**31 - 1, types={role: "INT64"})
    assert _rounds_in_litert(file) == 20
    assert _answer(file, tmp_path, macs=4 * 4 * 4 * 4) is not True


@pytest.mark.parametrize("dtype", ["INT8", "UINT8", "UINT16", "UINT32", "UINT64"])
def test_a_counter_that_no_kernel_adds_is_not_counted(dtype: str, tmp_path: Path) -> None:
    """LiteRT refuses the last three, and ends the process for the first two."""
    file = _loop(step=2, limit=7, types={"all": dtype})
    assert _answer(file, tmp_path, macs=4 * 4 * 4 * 4) is not True


def test_a_quantized_counter_leaves_the_rounds_unknown(tmp_path: Path) -> None:
    file = _loop(step=2, limit=7, quantization=quantized([0.5]))
    assert _answer(file, tmp_path, macs=4 * 4 * 4 * 4) is not True


# Signatures


def _signed(*subgraphs: int) -> File:
    """A main graph without any layer and one with a layer, and a signature for each of those."""
    file = File()
    for graph in (file.main, file.subgraph("heavy")):
        data, out = graph.tensor("x", (1, 16)), graph.tensor("y", (1, 16))
        if graph is file.main:
            graph.op("RELU", [data], [out])
        else:
            weights = graph.tensor("w", (16, 16), data=np.ones((16, 16), np.float32))
            graph.op("FULLY_CONNECTED", [data, weights, -1], [out], options("FullyConnectedOptions"))
        graph.ends([data], [out])
    file.model.signatureDefs = [_signature(f"run{index}", index) for index in subgraphs]
    return file


def _signature(key: str, subgraph: int) -> Any:
    computed = schema.SignatureDefT()
    computed.signatureKey, computed.subgraphIndex = key, subgraph
    computed.inputs, computed.outputs = [schema.TensorMapT()], [schema.TensorMapT()]
    for entry, name, index in ((computed.inputs[0], "x", 0), (computed.outputs[0], "y", 1)):
        entry.name, entry.tensorIndex = name, index
    return computed


@pytest.mark.parametrize("subgraphs", [(1,), (0, 1)], ids=["only", "second"])
def test_a_signature_of_another_graph_leaves_a_strict_check_open(
    subgraphs: tuple[int, ...], tmp_path: Path
) -> None:
    file = _signed(*subgraphs)
    runner = Interpreter(model_content=file.pack()).get_signature_runner("run1")
    assert runner(x=np.ones((1, 16), np.float32))["y"].max() == 16  # the layer, not the main graph
    assert _answer(file, tmp_path, macs=10) is None
    path = tmp_path / "model.tflite"
    result = sizeup.check(path, strict=True, remedies=False, macs=10)
    assert result.other_entries == ("run1",)
    assert "other entries of the file are not counted: 'run1', which --strict does not allow" in [
        each.text for each in reasons(result)
    ]
    with pytest.raises(Incomplete, match="other entries of the file are not counted: 'run1'"):
        sizeup.analyze(path, strict=True)


def test_signatures_of_the_main_graph_leave_a_strict_check_as_it_is(tmp_path: Path) -> None:
    assert _answer(_signed(0), tmp_path, macs=10) is True
