"""Noise, divergence and accuracy, against the formulas written out."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sizeup.errors import SizeupError
from sizeup.mixed_precision import Baseline, Layer, Losses, Sensitivity, SensitivityTable, table_from
from sizeup.mixed_precision.losses import OutputInterpretation, losses, losses_from


def softmax(row: list[float]) -> list[float]:
    total = sum(map(math.exp, row))
    return [math.exp(each) / total for each in row]


TRUE = np.array([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0]], np.float32)
FOUND = np.array([[1.5, -1.0, 1.75], [0.5, 2.0, 1.0]], np.float32)
LABELS = np.array([0, 1])


def test_losses_are_those_of_the_formulas() -> None:
    measured = losses(TRUE, FOUND, LABELS, OutputInterpretation())
    signal = 4 + 1 + 0.25 + 0 + 9 + 1
    noise = 0.25 + 1.5625 + 0.25 + 1
    assert measured.sqnr_db == pytest.approx(10 * math.log10(signal / noise))
    assert measured.noise == pytest.approx(noise / signal)
    rows = [(softmax(a), softmax(b)) for a, b in zip(TRUE.tolist(), FOUND.tolist(), strict=True)]
    divergences = [sum(p * math.log(p / q) for p, q in zip(*row, strict=True)) for row in rows]
    assert measured.kl == pytest.approx(sum(divergences) / 2)
    assert measured.accuracy == 0.5  # the first is taken for a 2
    before = -(math.log(rows[0][0][0]) + math.log(rows[1][0][1])) / 2
    after = -(math.log(rows[0][1][0]) + math.log(rows[1][1][1])) / 2
    assert measured.loss == pytest.approx(after - before)


def test_probabilities_are_taken_as_they_are() -> None:
    true, outputs = (np.array([softmax(row) for row in each.tolist()]) for each in (TRUE, FOUND))
    measured = losses(true, outputs, LABELS, OutputInterpretation("probabilities"))
    assert measured.kl == pytest.approx(losses(TRUE, FOUND, LABELS, OutputInterpretation()).kl)
    assert measured.sqnr_db != pytest.approx(losses(TRUE, FOUND, LABELS, OutputInterpretation()).sqnr_db)


def test_classes_may_lie_on_another_axis() -> None:
    turned = losses(TRUE.T[None], FOUND.T[None], LABELS[None], OutputInterpretation(axis=1))
    assert turned == losses(TRUE[None], FOUND[None], LABELS[None], OutputInterpretation())


def test_values_have_no_divergence() -> None:
    assert losses(TRUE, FOUND, None, OutputInterpretation("values")) == Losses(
        losses(TRUE, FOUND, None, OutputInterpretation()).sqnr_db
    )


def test_nothing_lost_is_told_as_that() -> None:
    assert losses(TRUE, TRUE, LABELS, OutputInterpretation()) == Losses(math.inf, 0.0, 1.0, 0.0)
    assert Losses(math.inf).noise == 0


def test_outputs_that_break_down_have_lost_infinitely_much() -> None:
    broken = FOUND.copy()
    broken[0, 1] = np.nan
    measured = losses(TRUE, broken, LABELS, OutputInterpretation())
    assert measured == Losses(-math.inf, math.inf, 0.5, math.inf)
    assert losses_from(json.loads(json.dumps(measured.to_dict(), allow_nan=False))) == measured


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SizeupError, match="do not match outputs"):
        OutputInterpretation().check(TRUE, np.zeros((2, 3)))
    with pytest.raises(SizeupError, match="range from 0 to 3, but there are 3 classes"):
        OutputInterpretation().check(TRUE, np.array([0, 3]))
    with pytest.raises(SizeupError, match="need outputs"):
        OutputInterpretation("values").check(TRUE, LABELS)
    with pytest.raises(SizeupError, match="known: logits"):
        OutputInterpretation("guesses")  # type: ignore[arg-type]


def table() -> SensitivityTable:
    conv = Layer(3, "conv", "conv")
    rows = (
        Sensitivity(conv, "int8", 40.0, 0.01, 0.75, 0.02),
        Sensitivity(conv, "int4", -math.inf, math.inf, 0.5, math.inf),
    )
    return SensitivityTable(
        "net", (conv,), ("fp32", "int8", "int4"), rows, Baseline(0.875, 0.5),
        {"int8": Losses(40.0, 0.01, 0.75, 0.02)}, {"meaning": "logits"}, ("a note",),
    )  # fmt: skip


def test_a_table_gives_losses_to_choose_by() -> None:
    assert table().losses() == {3: {"fp32": 0.0, "int8": 0.01, "int4": math.inf}}
    assert table().losses("accuracy") == {3: {"fp32": 0.0, "int8": 0.125, "int4": 0.375}}
    assert table().losses("noise") == {3: {"fp32": 0.0, "int8": pytest.approx(1e-4), "int4": math.inf}}
    with pytest.raises(SizeupError, match="unknown loss 'joy'"):
        table().losses("joy")  # type: ignore[arg-type]


def test_a_table_survives_json() -> None:
    text = json.dumps(table().to_dict(), allow_nan=False)
    assert table_from(json.loads(text)) == table()
    with pytest.raises(SizeupError, match="not a sensitivity table"):
        table_from({"layers": 3})
