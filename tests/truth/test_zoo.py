"""A seeded sample of the models of docs/zoo.md: all operators known, MACs as torch's own counter says."""

from __future__ import annotations

import os
import random
import re

import pytest

from conftest import ROOT
from zoo import evaluate, judge, table, verdict
from zoo_models import ZooModel, models

# Warnings of the model libraries about their own code.
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]

PAGE = (ROOT / "docs" / "zoo.md").read_text()
ROWS = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([\d.]+) \|$", PAGE, re.MULTILINE))
SEED = int(os.environ.get("SIZEUP_ZOO_SEED", "0"))
SAMPLE_SIZE = 40
_MOST_SECONDS = 0.6  # of recording one model, so that the sample takes about a minute


def _sample() -> list[ZooModel]:
    quick = [model for model in models() if float(ROWS.get(model.source, "inf")) <= _MOST_SECONDS]
    return random.Random(SEED).sample(quick, SAMPLE_SIZE)


@pytest.mark.parametrize("model", _sample(), ids=lambda model: model.source)
def test_macs_are_those_of_torchs_counter_or_the_reason_is_listed(model: ZooModel) -> None:
    pytest.importorskip(model.library, reason=f"{model.library} is not installed", exc_type=ImportError)
    ours, oracle = evaluate(model), judge(model)
    is_expected, words = verdict(model, ours, oracle)
    assert is_expected, (words, ours, oracle)
    assert (
        f"| `{model.source}` | {ours['macs']:,} | {oracle['macs']:,} | {ours['params']:,} | {words} |" in PAGE
    )


def test_the_page_lists_all_models_of_the_zoo_in_their_order() -> None:
    assert [model.source for model in models()] == list(ROWS)


def test_as_many_models_as_promised() -> None:
    counts = dict.fromkeys(("timm", "torchvision", "transformers", "diffusers"), 0)
    for model in models():
        counts[model.library] += 1
    assert counts["timm"] >= 90
    assert counts["transformers"] >= 70
    assert counts["torchvision"] >= 40
    assert counts["diffusers"] >= 20
    assert sum(counts.values()) >= 250


@pytest.mark.parametrize(
    ("reason", "ours", "oracle", "expected"),
    [
        ("", {"macs": 5, "unknown": []}, {"macs": 5}, True),
        ("", {"macs": 5, "unknown": []}, {"macs": 6}, False),
        ("a reason", {"macs": 5, "unknown": []}, {"macs": 6}, True),
        ("a reason", {"macs": 5, "unknown": []}, {"macs": 5}, False),
        ("a reason", {"macs": 5, "unknown": ["aten.x"]}, {"macs": 6}, False),
        ("a reason", {"error": "LoadError"}, {"macs": 6}, False),
        ("", {"macs": 5, "unknown": []}, {"error": "RuntimeError"}, False),
    ],
)
def test_a_difference_needs_a_reason_and_a_reason_a_difference(
    reason: str, ours: dict[str, object], oracle: dict[str, object], expected: bool
) -> None:
    model = ZooModel("one", "timm", reason=reason)
    is_expected, words = verdict(model, ours, oracle)
    assert is_expected is expected
    assert f"| {words} |" in table([(model, ours, oracle, is_expected, words)])
