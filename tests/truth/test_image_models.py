"""Published answers of image classifiers at 1x3x224x224, to the digit."""

from __future__ import annotations

import pytest

import sizeup

pytestmark = pytest.mark.extras

# MACs and parameters. The first six are exact; the others are given in millions with two digits.
EXACT = {
    "mobilenet_v2": (300_774_272, 3_504_872),
    "resnet50": (4_089_184_256, 25_557_032),
    "efficientnet_b0": (385_814_752, 5_288_548),
    "mobilenet_v3_small": (56_510_400, 2_542_856),
    # 12 layers of 197 tokens: projections and MLP 12 x 768^2 each, two products of 197^2 x 768; the
    # patches 196 x 768 x 768; the head 768 x 1000.
    "vit_b_16": (
        12 * (197 * 12 * 768**2 + 2 * 197**2 * 768) + 196 * 768 * 768 + 768 * 1000,
        86_567_656,
    ),
    "densenet121": (2_834_161_664, 7_978_856),
}
MILLIONS = {
    "alexnet": 714.19,
    "densenet201": 4291.37,
    "resnet18": 1814.07,
    "mobilenet_v3_large": 216.59,
    "vgg11": 7609.09,
    "vgg16": 15470.26,
    "vgg19": 19632.06,
    "vit_b_16": 17563.83,
}


@pytest.mark.parametrize("name", EXACT)
def test_macs_and_params_are_exact(name: str) -> None:
    cost = sizeup.count(f"torchvision:{name}")
    assert (cost.total_macs, cost.total_params) == EXACT[name]
    assert cost.known.all()


@pytest.mark.parametrize("name", MILLIONS)
def test_macs_agree_to_the_digits_given(name: str) -> None:
    assert round(sizeup.count(f"torchvision:{name}").total_macs / 1e6, 2) == MILLIONS[name]


def test_attention_of_vit_is_what_others_miss() -> None:
    report = sizeup.analyze("torchvision:vit_b_16")
    layers = [row for row in report.ops if row.op_kind == "attention_layer"]
    products, projections = 12 * 2 * 197**2 * 768, 12 * 197 * 4 * 768**2
    assert (products, projections) == (715_327_488, 5_577_375_744)
    assert sum(row.macs or 0 for row in layers) == products + projections
