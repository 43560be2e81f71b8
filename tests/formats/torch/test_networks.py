"""Built-in networks equal torchvision's and have the published parameter counts."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import sizeup
from sizeup.errors import LoadError
from sizeup.formats.torch.networks import NETWORKS, SmallCNN, build, definitions
from sizeup.formats.torch.zoo import import_torchvision

# From the pages of torchvision's models, for 1,000 classes.
PUBLISHED = {
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_small": 2_542_856,
    "mobilenet_v3_large": 5_483_032,
    "efficientnet_b0": 5_288_548,
    "efficientnet_b1": 7_794_184,
    "efficientnet_b2": 9_109_994,
    "efficientnet_b3": 12_233_232,
    "efficientnet_b4": 19_341_616,
    "efficientnet_b5": 30_389_784,
    "efficientnet_b6": 43_040_704,
    "efficientnet_b7": 66_347_960,
}
WIDTHS = [("mobilenet_v2", 0.5, 8), ("mobilenet_v2", 0.5, 1), ("mobilenet_v2", 1.4, 8)]


def weights(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(each.shape) for name, each in module.state_dict().items()}


def layers(module: torch.nn.Module) -> dict[str, str]:
    """Kernels, strides, paddings, groups and settings of norms as the modules print them."""
    kinds = (torch.nn.Conv2d, torch.nn.Linear, torch.nn.BatchNorm2d)
    return {name: str(each) for name, each in module.named_modules() if isinstance(each, kinds)}


@pytest.mark.parametrize(("name", "width", "divisor"), [*((name, 1.0, 8) for name in PUBLISHED), *WIDTHS])
def test_ours_and_torchvisions_are_the_same_network(name: str, width: float, divisor: int) -> None:
    assert import_torchvision() is not None
    ours = build(name, classes=100, width=width, divisor=divisor, torchvision=False)
    theirs = build(name, classes=100, width=width, divisor=divisor)
    assert type(theirs).__module__.startswith("torchvision")
    assert type(ours).__module__ == definitions.__name__
    assert weights(ours) == weights(theirs)
    assert layers(ours) == layers(theirs)


@pytest.mark.parametrize("name", PUBLISHED)
def test_ours_have_the_published_parameters(name: str) -> None:
    module = build(name, classes=1000, torchvision=False)
    assert sum(each.numel() for each in module.parameters()) == PUBLISHED[name]


def test_every_network_is_among_those_tested() -> None:
    assert set(NETWORKS) == {*PUBLISHED, "small_cnn"}


@pytest.mark.parametrize("name", ["mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0"])
def test_both_have_the_same_macs_by_layer(name: str) -> None:
    macs_by_layer = []
    for torchvision in (True, False):
        cost = sizeup.count(build(name, classes=100, torchvision=torchvision), inputs=((1, 3, 96, 96),))
        scopes = (op.scope for op in cost.graph.ops)
        macs_by_layer.append(
            {scope: macs for scope, macs in zip(scopes, cost.macs.tolist(), strict=True) if macs}
        )
    assert macs_by_layer[0] == macs_by_layer[1]
    with FlopCounterMode(display=False) as counter:
        build(name, classes=100, torchvision=False)(torch.empty(1, 3, 96, 96, device="meta"))
    assert sum(macs_by_layer[1].values()) == counter.get_total_flops() // 2


@pytest.mark.parametrize("name", ["mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0"])
def test_both_compute_the_same_from_the_same_weights(name: str) -> None:
    torch.manual_seed(0)
    ours, theirs = (build(name, classes=7, torchvision=own).to_empty(device="cpu") for own in (False, True))
    for tensor in theirs.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.05, 0.15)  # scales and variances above zero
    ours.load_state_dict(theirs.state_dict())
    images = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images))


def test_the_small_network_takes_images_of_28_pixels() -> None:
    assert SmallCNN()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    module = build("small_cnn", classes=10)
    assert sum(each.numel() for each in module.parameters()) == (640 + 18560 + 62760) // 4


def test_unknown_names_and_widths_are_refused() -> None:
    with pytest.raises(LoadError, match=r"no network 'mobilenet_v4'; did you mean mobilenet_v"):
        build("mobilenet_v4", classes=10)
    with pytest.raises(LoadError, match="efficientnet_b0 has no width"):
        build("efficientnet_b0", classes=10, width=0.5)
