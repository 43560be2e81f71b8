"""The page of known answers holds what we count."""

from __future__ import annotations

import re

import pytest

import sizeup
from cases import CASES
from conftest import ROOT

PAGE = (ROOT / "docs" / "counting.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \|.* ([\d,]{4,}) \| ([\d,]{4,}) \|$", re.MULTILINE)
ANSWERS = {
    name: (int(macs.replace(",", "")), int(params.replace(",", "")))
    for name, macs, params in ROW.findall(PAGE)
}
BY_HAND = {case.name: (case.macs, case.params) for case in CASES}


def test_the_small_networks_stand_as_worked_out_by_hand() -> None:
    assert {name: ANSWERS.get(name) for name in BY_HAND} == BY_HAND


@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - BY_HAND.keys()))
def test_an_image_model_counts_as_the_page_says(name: str) -> None:
    cost = sizeup.count(f"torchvision:{name}")
    assert (cost.total_macs, cost.total_params) == ANSWERS[name]


def test_the_page_lists_image_models() -> None:
    assert {"resnet50", "vit_b_16", "mobilenet_v2"} <= ANSWERS.keys()
