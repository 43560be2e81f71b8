"""Small image networks by name: torchvision's where it can be imported, otherwise definitions of our own."""

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
    """A network of that many classes, without content in its weights, ready to be recorded.

    `width` scales the channels of MobileNetV2, which are then rounded to multiples of `divisor`. Both ways
    to make a network give the same parameters under the same names, and the same products.
    """
    if name not in NETWORKS:
        near = difflib.get_close_matches(name, NETWORKS, n=3) or NETWORKS
        raise LoadError(f"there is no network {name!r}; did you mean {', '.join(near)}?")
    if name != "mobilenet_v2" and (width, divisor) != (1.0, 8):
        raise LoadError(f"{name} has no width; only that of mobilenet_v2 can be scaled")
    theirs = import_torchvision() if torchvision and name != "small_cnn" else None
    make = _ours(name, classes, width, divisor) if theirs is None else _theirs(name, classes, width, divisor)
    with torch.device("meta"):
        return make().eval()


def _ours(name: str, classes: int, width: float, divisor: int) -> Callable[[], torch.nn.Module]:
    family, _, version = name.rpartition("_")
    if name == "small_cnn":
        return lambda: SmallCNN(classes)
    if name == "mobilenet_v2":
        return lambda: mobile_net_v2(classes, width, divisor)
    if family == "mobilenet_v3":
        return lambda: mobile_net_v3(classes, version)
    return lambda: efficient_net(classes, version)


def _theirs(name: str, classes: int, width: float, divisor: int) -> Callable[[], Any]:
    models = importlib.import_module("torchvision.models")
    if name == "mobilenet_v2":
        return lambda: models.MobileNetV2(classes, width_mult=width, round_nearest=divisor)
    return lambda: models.get_model(name, weights=None, num_classes=classes)
