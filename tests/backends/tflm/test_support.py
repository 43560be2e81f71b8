"""The verdict whether TFLite Micro runs a model, compared with emulated boards and with its interpreter."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

import sizeup
from boards import FIRMWARES, VECTORS, build_of, compare, files, graph, measurements
from formats.tflite.factory import File, options
from micro_edges import edges, limits
from micro_interpreter import runs
from micro_kernels import CASES, Case, Value, integers
from micro_mutations import mutations
from micro_sweep import sweep
from sizeup.backends.tflm.kernel import Kernel
from sizeup.backends.tflm.kernels import RESOLVED, arithmetic, data_movement, products
from sizeup.backends.tflm.layout import ARM_FIRMWARE, PYTHON_PACKAGE, Build, Vectors
from sizeup.backends.tflm.subgraphs import subgraphs
from sizeup.backends.tflm.support import RULES, caveats, unsupported_reason
from sizeup.errors import CorruptModel
from sizeup.formats import tflite
from sizeup.graph import Graph

pytestmark = pytest.mark.extras

CMSIS_NN = Build(4, 1, kernels="cmsis-nn", vectors="dsp")
MAX_WRONG_NO = 0.02
# The package is of another day than the commit that ran on the boards and that the rules are read from.
NEWER_IN_PACKAGE = {
    "odd_cast_i8tob": "the package casts to bool, the commit does not",
    "dw_i16_8x8x8_m1_k3_s1_same_btyi32": "the package has no assertions, and reads past its bias",
}
# Outputs that differ from those of the reference kernels, without an explanation in the sources.
UNEXPLAINED = {("net_conv1d_i8_128x3", "m55")}
# Caveats about inputs and states that the boards did not run, and about arenas that are too small.
CONDITIONAL = ("arena is too small", "during inference for inputs", "without state", "tensors as")


@pytest.mark.parametrize(("core", "kernels"), [("x86", "ref"), *FIRMWARES])
def test_the_verdict_is_that_of_the_board(shared: Path, core: str, kernels: str) -> None:
    rows = compare(shared, core, kernels)
    if core == "x86":
        rows = [row for row in rows if row.model not in NEWER_IN_PACKAGE]
    assert len(rows) >= 100
    assert not [(row.model, row.why) for row in rows if row.verdict == "wrong YES"]
    wrong_no = [(row.model, row.refusal) for row in rows if row.verdict == "wrong NO"]
    assert len(wrong_no) <= MAX_WRONG_NO * len(rows), wrong_no


def test_models_that_compute_something_else_have_a_caveat(shared: Path) -> None:
    checked, different = 0, 0
    for row in measurements(shared):
        if row["core"] not in VECTORS or row["runs_ok"] == "0" or (row["model"], row["core"]) in UNEXPLAINED:
            continue
        graphs = subgraphs(graph(files(shared)[row["model"]]))
        texts = caveats(graphs, build_of(row["core"], row["kernels"]))
        is_different = row["outputs_vs_x86_reference"] == "different"
        unconditional = [text for text in texts if not any(part in text for part in CONDITIONAL)]
        assert bool(texts) >= is_different, row["model"]
        assert is_different or not unconditional, (row["model"], unconditional)
        checked, different = checked + 1, different + is_different
    assert checked > 2_900
    assert different == 39  # rows of the tables, without the one that is unexplained


@cache
def _graphs(model: bytes) -> tuple[Graph, ...]:
    """The subgraphs of a model, read once: what judges them is called again for every mutant of the code."""
    return subgraphs(tflite.load(model))


def test_the_verdict_is_that_of_the_interpreter_over_dtypes_ranks_and_scales() -> None:
    cases = sweep()
    models = [case.pack() for case in cases]
    verdicts = runs(models)
    assert len(cases) >= 1_000
    assert min(sum(verdicts), len(verdicts) - sum(verdicts)) >= 400
    wrong = {}
    for case, model, does_run in zip(cases, models, verdicts, strict=True):
        reason = unsupported_reason(_graphs(model), PYTHON_PACKAGE)
        is_newer = case.name == "CAST" and case.outputs[0].kind == "BOOL"  # see NEWER_IN_PACKAGE
        if (reason is None) != does_run and not (is_newer and does_run):
            wrong[case.label] = reason
    assert not wrong


def test_the_verdict_is_that_of_the_interpreter_on_either_side_of_a_limit() -> None:
    cases = limits()
    models = [case.pack() for case in cases]
    verdicts = runs(models)
    reasons = [unsupported_reason(_graphs(model), PYTHON_PACKAGE) for model in models]
    assert [reason is None for reason in reasons] == verdicts
    assert 10 < sum(verdicts) < len(verdicts) - 10


# Changed models that run although their kernels read or write what is not theirs, by operator.
RUN_BY_CHANCE = {
    "ARG_MAX": 4, "ARG_MIN": 4, "AVERAGE_POOL_2D": 4, "BROADCAST_ARGS": 2, "CONCATENATION": 2, "CONV_2D": 6,
    "DEPTHWISE_CONV_2D": 4, "DEPTH_TO_SPACE": 1, "MAX_POOL_2D": 4, "MEAN": 10, "REDUCE_MAX": 2,
    "REDUCE_MIN": 2, "SLICE": 12, "SPACE_TO_DEPTH": 1, "SPLIT": 2, "SPLIT_V": 3, "SUM": 11, "TRANSPOSE": 1,
    "TRANSPOSE_CONV": 9,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [arithmetic.KERNELS, data_movement.KERNELS, products.KERNELS],
    ids=["arithmetic", "data movement", "products"],
)
def test_a_file_whose_shapes_or_indices_do_not_match_is_not_said_to_run(table: tuple[Kernel, ...]) -> None:
    cases = edges([kernel.name for kernel in table])
    models = [case.pack() for case in cases]
    verdicts = runs(models)
    assert min(sum(verdicts), len(verdicts) - sum(verdicts)) >= 200
    wrong_yes, refused, known = [], Counter[str](), 0
    for case, model, does_run in zip(cases, models, verdicts, strict=True):
        try:
            reason = unsupported_reason(_graphs(model), PYTHON_PACKAGE)
        except CorruptModel:  # no kernel is asked
            continue
        if reason is None and not does_run:
            wrong_yes.append(case.label)
        elif reason is not None and does_run and "depends on data" not in reason:
            refused[case.name] += 1
        known += reason is None
    assert not wrong_yes
    assert {name: count for name, count in refused.items() if count > RUN_BY_CHANCE.get(name, 0)} == {}
    assert known >= 150


def test_a_file_with_missing_operands_options_or_scales_is_not_said_to_run() -> None:
    """Some of them run, because division by a scale of 0 is not checked: their outputs are meaningless."""
    cases = mutations()
    models = [case.pack() for case in cases]
    verdicts = runs(models)
    assert len(cases) > 3_000
    assert min(sum(verdicts), len(verdicts) - sum(verdicts)) >= 400
    wrong_yes, wrong_no = [], {}
    for case, model, does_run in zip(cases, models, verdicts, strict=True):
        try:
            reason = unsupported_reason(_graphs(model), PYTHON_PACKAGE)
        except CorruptModel as error:
            reason = str(error)
        if reason is None and not does_run:
            wrong_yes.append(case.label)
        elif reason is not None and does_run:
            wrong_no[case.label] = reason
    assert not wrong_yes
    assert len(wrong_no) <= MAX_WRONG_NO * len(cases), wrong_no


def _reason(case: Case, build: Build = ARM_FIRMWARE) -> str | None:
    return unsupported_reason([sizeup.load(case.pack())], build)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (
            Case(
                "GATHER",
                [Value((5, 9), "INT16"), Value((2,), "INT32", bytes(8))],
                [Value((2, 9), "INT16")],
            ),
            "its GATHER kernel takes float32 and int8, not int16 (operator 'out0')",
        ),
        (
            Case("LOGISTIC", [Value((2, 9), "INT8")], [Value((2, 9), "INT8", scale=1 / 256)]),
            "its LOGISTIC kernel needs an output zero point of -128, not 0 (operator 'out0')",
        ),
        (
            Case("TRANSPOSE", [Value((2, 9)), Value((2,), "INT32")], [Value((9, 2))]),
            "its TRANSPOSE kernel needs constant axes (operator 'out0')",
        ),
        (
            Case("NEG", [Value((2, 9), "INT8")], [Value((2, 9), "INT8")]),
            "its NEG kernel takes float32, not int8 (operator 'out0')",
        ),
        (
            Case("MEAN", [Value((2, 9)), integers(2)], [Value((2,))]),
            "its MEAN kernel takes axes from -2 to 1 (operator 'out0')",
        ),
        (
            Case("SLICE", [Value((2, 9)), integers(0, 1), integers(2, 9)], [Value((2, 9))]),
            "its SLICE kernel takes slices of its data, not 9 from 1 of 9 (operator 'out0')",
        ),
        (
            Case("ADD", [Value((2, 9), "INT8")] * 2, [Value((2, 9), "INT8", scale=2.0**-31)]),
            f"its ADD kernel needs an output scale above {2.0**-30:g}, not {2.0**-31:g} (operator 'out0')",
        ),
        (
            Case("BATCH_MATMUL", [Value((2, 3)), Value((4, 5))], [Value((2, 5))]),
            "its BATCH_MATMUL kernel takes matrices that match, not 3 columns with 4 rows (operator 'out0')",
        ),
        (
            Case(
                "TRANSPOSE_CONV",
                [integers(1, 6, 6, 7), Value((7, 2, 2, 3), "FLOAT32", bytes(336)), Value((1, 1, 3, 3, 3))],
                [Value((1, 6, 6, 7))],
            ),
            "its TRANSPOSE_CONV kernel takes 4 dimensions, not 5 (operator 'out0')",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else "",
)
def test_the_reason_names_the_kernel_and_what_it_takes(case: Case, reason: str) -> None:
    assert _reason(case) == reason


Branch = tuple[int, tuple[int, ...]]  # columns of the input and of the outputs


def _conditional(then: Branch, otherwise: Branch, condition: bool) -> File:
    """4x10 numbers, copied into one of two graphs, which returns constants."""
    file = File()
    chosen = file.main.tensor("chosen", (1,), "BOOL", np.array([condition]))
    data, result = file.main.tensor("data", (4, 10)), file.main.tensor("result", (4, 10))
    choice = options("IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    file.main.op("IF", [chosen, data], [result], choice)
    file.main.ends([data], [result])
    for name, (columns, made) in (("a", then), ("b", otherwise)):
        graph = file.subgraph(name)
        outputs = [graph.tensor(f"out{place}", (4, size)) for place, size in enumerate(made)]
        for output, size in zip(outputs, made, strict=True):
            ones = graph.tensor("ones", (4, size), "FLOAT32", np.ones((4, size), np.float32))
            graph.op("NEG", [ones], [output])
        graph.ends([graph.tensor("in", (4, columns))], outputs)
    return file


CONDITIONS: list[tuple[Branch, Branch, str | None]] = [
    ((10, (10,)), (10, (10,)), None),
    ((10, (10,)), (10, ()), None),
    ((10, ()), (10, (10,)), "needs 1 outputs of the graph 'then', not 0"),
    ((9, (10,)), (10, (10,)), "needs inputs of the graph 'then' of 160 B for 'data', not 144 B"),
    ((10, (10,)), (9, (10,)), "needs inputs of the graph 'else' of 160 B for 'data', not 144 B"),
    ((10, (10,)), (9, ()), "needs inputs of the graph 'else' of 160 B for 'data', not 144 B"),
    ((10, (10,)), (10, (9,)), "needs outputs of the graph 'else' of 160 B for 'result', not 144 B"),
    ((10, (10,)), (10, (10, 10)), "needs 1 outputs of the graph 'else', not 2"),
]


def test_both_graphs_of_a_condition_take_its_inputs_and_return_its_outputs() -> None:
    files = [
        _conditional(then, otherwise, condition)
        for then, otherwise, _ in CONDITIONS
        for condition in (True, False)
    ]
    verdicts = runs([file.pack() for file in files])
    reasons = [unsupported_reason(subgraphs(file.load()), PYTHON_PACKAGE) for file in files]
    assert reasons[::2] == reasons[1::2]  # they do not depend on the condition
    assert [reason is None for reason in reasons[::2]] == [
        *map(all, zip(verdicts[::2], verdicts[1::2], strict=True))
    ]
    texts = [reason and f"its IF kernel {reason} (operator 'result')" for _, _, reason in CONDITIONS]
    assert reasons[::2] == texts


@pytest.mark.parametrize(("letters", "shown"), [(60, "n" * 60), (61, "n" * 60 + "...")])
def test_a_long_name_is_cut(letters: int, shown: str) -> None:
    file = File()
    row = file.main.tensor("in", (2, 9), "INT8")
    result = file.main.tensor("n" * letters, (2, 9), "INT8")
    file.main.op("NEG", [row], [result])
    file.main.ends([row], [result])
    reason = unsupported_reason([sizeup.load(file.pack())], ARM_FIRMWARE)
    assert reason == f"its NEG kernel takes float32, not int8 (operator {shown!r})"


def test_cmsis_nn_needs_a_bias_of_transposed_convolutions_of_16_bits_alone() -> None:
    settings = options("TransposeConvOptions", strideH=2, strideW=2, padding=0)
    for kind, reason in (("INT8", None), ("INT16", "needs a bias with int16 data")):
        weights = Value((7, 2, 2, 3), "INT8", bytes(84))
        inputs = [integers(1, 6, 6, 7), weights, Value((1, 3, 3, 3), kind)]
        case = Case("TRANSPOSE_CONV", inputs, [Value((1, 6, 6, 7), kind)], settings)
        text = _reason(case, CMSIS_NN)
        assert text == (reason and f"its TRANSPOSE_CONV kernel {reason} (operator 'out0')")


@pytest.mark.parametrize("vectors", ["dsp", "mve"])
def test_helium_sums_the_weights_of_an_svdf_before_the_run(vectors: Vectors) -> None:
    case = next(case for case in CASES if case.label == "SVDF-INT8-INT16")
    free = [value and value._replace(content=None) if position == 1 else value
            for position, value in enumerate(case.inputs)]  # fmt: skip
    build = Build(4, 1, kernels="cmsis-nn", vectors=vectors)
    assert _reason(case, build) is None
    text = "its SVDF kernel needs constant weights (operator 'out0')" if vectors == "mve" else None
    assert _reason(case._replace(inputs=free), build) == text


def test_every_kernel_that_is_there_has_rules_or_accepts_everything() -> None:
    """Kernels without a check of dtypes: control flow, variables, logic, decoding and custom operators."""
    unchecked = {
        *("ASSIGN_VARIABLE", "CALL_ONCE", "CIRCULAR_BUFFER", "LOGICAL_AND", "LOGICAL_OR", "READ_VARIABLE"),
        *("TFLM_DECODE", "TFLite_Detection_PostProcess"),
        *(name for name in RESOLVED if name.startswith("Signal")),
    }
    assert {*RULES} | unchecked == RESOLVED
    assert not {*RULES} & unchecked
