"""Small image networks by name: from torchvision if it can be imported, otherwise from `definitions`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any

import torch

from sizeup.errors import LoadError
from sizeup.formats.torch.networks.definitions import SmallCNN, efficient_net, mobile_net_v2, mobile_net_v3
from sizeup.formats.torch.zoo import import_torchvision

__all__ = ["NETWORKS", "SmallCNN", "build"]

_VERSIONS = tuple(f"efficientnet_b{number}" for number in range(8))
NETWORKS = ("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", *_VERSIONS, "small_cnn")


def build(
    name: str, *, classes: int, width: float = 1.0, divisor: int = 8, torchvision: bool = True
) -> torch.nn.Module:
    """Build a network with this number of classes on the meta device.

    `width` scales the channels of MobileNetV2, rounded to multiples of `divisor`. Both sources give the same
    parameters under the same names, and the same MACs.
    """
    if name not in NETWORKS:
        near = difflib.get_close_matches(name, NETWORKS, n=3) or NETWORKS
        raise LoadError(f"no network {name!r}; did you mean {', '.join(near)}?")
    if name != "mobilenet_v2" and (width, divisor) != (1.0, 8):
        raise LoadError(f"{name} has no width option; only mobilenet_v2 can be scaled")
    library = import_torchvision() if torchvision and name != "small_cnn" else None
    factory = _local_factory if library is None else _torchvision_factory
    make = factory(name, classes, width, divisor)
    with torch.device("meta"):
        return make().eval()


def _local_factory(name: str, classes: int, width: float, divisor: int) -> Callable[[], torch.nn.Module]:
    family, _, version = name.rpartition("_")
    if name == "small_cnn":
        return lambda: SmallCNN(classes)
    if name == "mobilenet_v2":
        return lambda: mobile_net_v2(classes, width, divisor)
    if family == "mobilenet_v3":
        return lambda: mobile_net_v3(classes, version)
    return lambda: efficient_net(classes, version)


def _torchvision_factory(name: str, classes: int, width: float, divisor: int) -> Callable[[], Any]:
    models = importlib.import_module("torchvision.models")
    if name == "mobilenet_v2":
        return lambda: models.MobileNetV2(classes, width_mult=width, round_nearest=divisor)
    return lambda: models.get_model(name, weights=None, num_classes=classes)
