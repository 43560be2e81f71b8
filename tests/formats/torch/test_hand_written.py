"""Hand-written modules: MACs, parameters and weight bytes equal the hand counts."""

from __future__ import annotations

from typing import Any

import pytest

import sizeup
from hand_written import algebra, attention, convolutions, programs, recurrent, vision, weights
from hand_written.case import Case

FAMILIES: dict[str, Any] = {
    "algebra": algebra,
    "attention": attention,
    "convolutions": convolutions,
    "programs": programs,
    "recurrent": recurrent,
    "vision": vision,
    "weights": weights,
}
CASES = [(f"{family}: {each.name}", each) for family, module in FAMILIES.items() for each in module.CASES]

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns about layouts in beta


@pytest.mark.parametrize("case", [each for _, each in CASES], ids=[name for name, _ in CASES])
def test_module_has_its_hand_count(case: Case) -> None:
    cost = sizeup.count(case.make(), inputs=case.inputs)
    unknown = frozenset(cost.graph.ops[index].source for index in cost.reasons)
    assert (cost.total_macs, cost.total_params, unknown) == (case.macs, case.params, case.unknown)
    assert cost.bytes_at().weights == case.weight_bytes


def test_there_are_a_hundred() -> None:
    assert len({name for name, _ in CASES}) == len(CASES) >= 100
