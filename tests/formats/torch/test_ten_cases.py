"""The ten hand-computed networks, loaded as modules and as exported programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import sizeup
from cases import BY_NAME, CASES, WITHOUT_CUSTOM, Case
from sizeup.ops import Call, temporary_cost_rules

# torch.export warns that nn.LSTM has a list of its weights.
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attribute:UserWarning")

# Figures of counts.md; the formulas in cases.py must give the same.
PUBLISHED = {
    "conv": (3_276_800, 3_200),
    "conv_functional": (3_276_800, 3_200),
    "linear_3d": (8_388_608, 65_536),
    "mha_module": (41_943_040, 262_144),
    "attn_sdpa": (41_943_040, 262_144),
    "attn_matmul": (41_943_040, 262_144),
    "lstm_100": (3_276_800, 32_768),
    "einsum": (8_388_608, 65_536),
    "custom_op": (8_388_608, 65_536),
    "tied_embed": (32_768_000, 256_000),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_hand_work_gives_the_published_answer(case: Case) -> None:
    assert (case.macs, case.params) == PUBLISHED[case.name]


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("case", WITHOUT_CUSTOM, ids=lambda case: case.name)
def test_eager_run_counts_exactly(case: Case, training: bool) -> None:
    cost = sizeup.count(sizeup.load(case.make().train(training), inputs=case.inputs()))
    assert (cost.total_macs, cost.total_params) == (case.macs, case.params)
    assert cost.known.all()


@pytest.mark.parametrize("case", WITHOUT_CUSTOM, ids=lambda case: case.name)
def test_exported_program_counts_exactly(case: Case) -> None:
    cost = sizeup.count(sizeup.load(torch.export.export(case.make().eval(), case.inputs())))
    assert (cost.total_macs, cost.total_params) == (case.macs, case.params)
    assert cost.known.all()


@pytest.mark.parametrize("case", WITHOUT_CUSTOM, ids=lambda case: case.name)
def test_exported_file_counts_exactly(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(case.make().eval(), case.inputs()), path)
    cost = sizeup.count(sizeup.load(path))
    assert (cost.total_macs, cost.total_params) == (case.macs, case.params)


@pytest.fixture
def own_rule() -> Iterator[None]:
    """A user's cost rule for the custom operator, removed after the test."""
    with temporary_cost_rules():

        @sizeup.op_rule("product", torch=["sizeup_tests.product"], weight=1)
        def product(call: Call) -> int:
            """Each output number sums over the last axis of the left operand."""
            return call.output.elements * call.input(0).shape[-1]

        yield


def test_custom_operator_is_reported_not_free() -> None:
    case = BY_NAME["custom_op"]
    report = sizeup.analyze(case.make(), inputs=case.inputs())
    assert report.coverage < 1
    assert not report.to_dict()["ops"][0]["known"]
    assert report.to_dict()["ops"][0]["macs"] is None


def test_strict_refuses_a_custom_operator() -> None:
    case = BY_NAME["custom_op"]
    with pytest.raises(sizeup.Incomplete, match=r"sizeup_tests\.product"):
        sizeup.analyze(case.make(), inputs=case.inputs(), strict=True)


@pytest.mark.usefixtures("own_rule")
def test_custom_operator_with_a_users_rule_counts_exactly() -> None:
    case = BY_NAME["custom_op"]
    for source in (case.make(), torch.export.export(case.make(), case.inputs())):
        inputs = case.inputs() if isinstance(source, torch.nn.Module) else None
        cost = sizeup.count(sizeup.load(source, inputs=inputs))
        assert cost.total_macs == case.macs
        assert cost.known.all()
