"""Budgets of a mixed-precision assignment that makes a model fit, worked out on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from networks import three_convolutions
from sizeup import targets
from sizeup.checks import Limit, Needs, Subject
from sizeup.checks.evaluate import LimitSpec, evaluate_limits
from sizeup.checks.precision_remedies import _first_budgets, _offered, _Search, _typed, precision_remedies
from sizeup.checks.remedy_case import Case, Origin, Remedy
from sizeup.cost import count
from sizeup.dtypes import dtype, precision_name
from sizeup.errors import NoAssignment
from sizeup.graph import Constant, Graph, GraphBuilder, Shape
from sizeup.mixed_precision.figures import Budgets

_WEIGHTS = 12_800  # bytes at fp32
_LAYERS = "stem.conv, body.depthwise, body.pointwise"


def _weights(shape: Shape) -> Constant:
    values = np.random.default_rng(0).normal(size=shape)
    return Constant("parameter", lambda: values)


def _network() -> Graph:
    """Three convolutions of 864, 288 and 2,048 weights, all with values."""
    graph = three_convolutions()
    tensors = (
        each if each.data is None else replace(each, data=_weights(each.shape or ()))
        for each in graph.tensors
    )
    return replace(graph, tensors=tuple(tensors))


def _subject() -> Subject:
    return Subject(Needs(_network(), count(_network())))


def _remedy_within(most: int) -> Remedy:
    """The only remedy for a limit of the weights in bytes."""
    spec = LimitSpec({"weights": most})
    subject = _subject()
    limits = evaluate_limits(subject, spec)
    case = Case(subject, limits, Origin("net"), lambda changed: evaluate_limits(changed, spec))
    (remedy,) = precision_remedies(case)
    return remedy


def _case(*limits: Limit) -> Case:
    return Case(_subject(), limits, Origin("net"), lambda subject: limits)


def test_a_budget_is_the_limit_less_all_other_needs() -> None:
    case = _case(
        Limit("macs", "count", 1, 2, 2),
        Limit("flash", "bytes", None, 13_000, 13_300),
        Limit("flash", "bytes", 9_000, 13_000, 13_300),  # 500 B besides weights
        Limit("weights", "bytes", 10_000, _WEIGHTS, _WEIGHTS),
        Limit("arena", "bytes", 300_000, 1, 400_000),  # 6,784 B besides activations of 128 KiB and 256 KiB
        Limit("latency", "seconds", 1.0, 0.5, 2.0, 1.5),
        Limit("energy", "joules", 3.0, 6.0, None),
        Limit("energy", "joules", 9.0, None, None),
    )
    assert _first_budgets(case) == Budgets(
        activation_bytes=293_216, weight_bytes=8_500, seconds=0.75, joules=3.0
    )


def test_other_needs_than_activations_are_those_in_file_order() -> None:
    """Both tensors of 400 B are live at once: with 4 B more, 804 B; in another order it would be 408 B."""
    builder = GraphBuilder("branches")
    x = builder.input("x", (1,), dtype("float32"))
    wide = [builder.tensor(name, (100,), dtype("float32")) for name in "ab"]
    narrow = [builder.tensor(name, (1,), dtype("float32")) for name in "cd"]
    for output in wide:
        builder.op("expand", [x], [output])
    for data, output in zip(wide, narrow, strict=True):
        builder.op("mean", [data], [output])
    y = builder.tensor("y", (1,), dtype("float32"))
    builder.op("add", narrow, [y])
    builder.outputs.append(y)
    graph, limits = builder.freeze(), (Limit("arena", "bytes", 1_000, 1_004, 1_004),)
    case = Case(Subject(Needs(graph, count(graph))), limits, Origin("net"), lambda subject: limits)
    assert _first_budgets(case) == Budgets(activation_bytes=800)


def test_without_anything_left_for_weights_there_is_no_assignment() -> None:
    with pytest.raises(NoAssignment, match="weight_bytes"):
        _first_budgets(_case(Limit("flash", "bytes", 500, 13_300, 13_300)))


def test_budgets_are_reduced_by_what_exceeds_the_limits() -> None:
    case = _case(
        Limit("macs", "count", 1, 2, 2),
        Limit("ram", "bytes", 1_000, 1_000, 1_000),  # fits
        Limit("weights", "bytes", 1_000, 1_500, 1_500.5),
        Limit("latency", "seconds", 1.0, 4.0, None),
    )
    search = _Search(case, Budgets(activation_bytes=500, weight_bytes=900, seconds=0.5))
    assert search.tighten(case.subject)
    assert search.budgets == Budgets(activation_bytes=500, weight_bytes=399, seconds=0.125)
    assert not search.tighten(case.subject)  # 399 B less 501 B
    assert not _Search(case, Budgets()).tighten(case.subject)


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (None, ["fp32", "int8"]),
        ("stm32f746/tflm", ["fp32", "int8"]),
        ("rpi5/ort", ["fp32", "fp16", "int8"]),
        ("rpi5/litert", ["fp32", "int8"]),
    ],
)
def test_precisions_are_those_of_the_runtime(target: str | None, names: list[str]) -> None:
    subject = replace(_subject(), target=None if target is None else targets.target(target))
    offered = _offered(Case(subject, (), Origin("net"), lambda each: ()))
    assert list(map(precision_name, offered)) == names


def test_amounts_are_typed_in_whole_bytes_nanoseconds_and_nanojoules() -> None:
    assert _typed("weight_bytes", 8_500) == "8500"
    assert _typed("seconds", 0.5) == "500000000ns"
    assert _typed("joules", 0.25) == "250000000nJ"


@pytest.mark.parametrize(("named", "text"), [(2, "stem.conv, body.depthwise and 1 more"), (3, _LAYERS)])
def test_the_layers_that_are_not_named_are_counted(
    named: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sizeup.checks.precision_remedies._MOST_NAMED", named)
    assert _remedy_within(3_200).description == f"store 3 layers at int8; int8: {text}"


@pytest.mark.parametrize(
    ("most", "description", "weights"),
    [
        # 4 x (864 + 288) B and 2,048 B; the other layers alone would leave 9,344 B.
        (8_000, "store 2 layers at fp32, 1 layer at int8; int8: body.pointwise", 6_656),
        # Nothing fits: the least that is possible, in place of a mixture.
        (3_199, "convert all layers to int8", 3_200),
        (3_200, "store 3 layers at int8; int8: " + _LAYERS, 3_200),
    ],
)
def test_the_fewest_layers_are_stored_in_fewer_bits(most: int, description: str, weights: int) -> None:
    remedy = _remedy_within(most)
    assert (remedy.description, remedy.fits) == (description, weights <= most)
    command = f"sizeup precision net --weights {most} --precisions fp32,int8 -o mixed.json"
    assert remedy.command == (command if remedy.fits else "sizeup analyze net --precision int8")
    assert any("--recipe recipe.json" in note for note in remedy.notes) is not remedy.fits
    (change,) = remedy.changes
    assert (change.before, change.after) == (_WEIGHTS, weights)
