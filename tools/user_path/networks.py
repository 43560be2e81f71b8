"""Reports on the networks of the pairs, each recorded once, and a check of their costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import sizeup
from latency.truth.cells import edges
from latency.truth.gpu_networks import CONFIGURATIONS
from user_path.pairs import Network

if TYPE_CHECKING:
    from torch import nn

_TOLERANCE = 0.02  # of MACs and parameters
_ROUNDED = 1e7  # some tables round MACs to 0.01 G
_CELL = "nb201:"
_CONFIGURATION = "hf:"
_CHANNELS = (16, 32, 64)
_CELLS = 5


@lru_cache(maxsize=1)
def recorded(reference: str, shape: tuple[int, ...] | None, models: Path) -> sizeup.Report:
    """The report on a network without a target; only the last one is kept in memory."""
    if reference.endswith(".tflite"):
        return sizeup.analyze(models / reference)
    if reference.startswith(_CONFIGURATION):
        return _language_model(reference.removeprefix(_CONFIGURATION), shape)
    return sizeup.analyze(_source(reference), inputs=(shape,))


def _language_model(name: str, shape: tuple[int, ...] | None) -> sizeup.Report:
    """A language model from its configuration, with attention as it was measured: not fused."""
    inputs = {"input_ids": (shape, "int64")}
    if "bert" in name:  # without a mask, the original adds one
        inputs["attention_mask"] = (shape, "int64")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json"
        path.write_text(json.dumps({**CONFIGURATIONS[name], "_attn_implementation": "eager"}), "utf-8")
        return sizeup.analyze(f"hf:{path}", inputs=inputs)


def agrees(network: Network, result: sizeup.Report) -> bool:
    """Whether MACs and parameters are within 2 % of the table's, as far as it has them."""
    batch = 1 if network.shape is None else network.shape[0]
    macs, params = float(result.cost.total_macs) / batch, float(result.cost.total_params)
    return _is_near(macs, network.macs) and _is_near(params, network.params)


def _is_near(value: float, stated: float | None) -> bool:
    if stated is None:
        return True
    rounding = _ROUNDED / 2 if stated % _ROUNDED == 0 and stated < 1e9 else 0.0
    return abs(value - stated) <= max(_TOLERANCE * stated, rounding)


def _source(reference: str) -> object:
    """A name that sizeup loads, or a module without weights."""
    import torch

    build = _cell_network if reference.startswith(_CELL) else _BUILT.get(reference)
    if build is None:
        return reference
    with torch.device("meta"):
        return build(reference.removeprefix(_CELL)).eval()


def _mobilenet_v2(width: float, classes: int) -> Callable[[str], nn.Module]:
    def build(_: str) -> nn.Module:
        from torchvision import models

        network: nn.Module = models.mobilenet_v2(width_mult=width, num_classes=classes)
        return network

    return build


def _mobilenet_v1(width: float, classes: int) -> Callable[[str], nn.Module]:
    """MobileNet of 2017: pairs of a depthwise and a pointwise convolution."""
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    widths = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)

    def build(_: str) -> nn.Module:
        from torch import nn

        channels = int(32 * width)
        layers = _conv_norm(3, channels, 3, 2)
        for stride, out_channels in zip(strides, widths, strict=True):
            layers += _conv_norm(channels, channels, 3, stride, groups=channels)
            layers += _conv_norm(channels, int(out_channels * width), 1)
            channels = int(out_channels * width)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))

    return build


def _conv_norm(channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    from torch import nn

    conv = nn.Conv2d(channels, out, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(out), nn.ReLU6()]


def _resnet50_v1(_: str) -> nn.Module:
    """ResNet-50 of 2015, which has the strides on the 1x1 convolutions."""
    from torchvision import models

    network = models.resnet50()
    for stage in (network.layer2, network.layer3, network.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    result: nn.Module = network
    return result


_BUILT: dict[str, Callable[[str], nn.Module]] = {
    "resnet50 v1": _resnet50_v1,
    "mobilenet_v2 0.35": _mobilenet_v2(0.35, 1000),
    "mobilenet_v2 0.35 flowers": _mobilenet_v2(0.35, 5),
    "mobilenet_v1 0.25": _mobilenet_v1(0.25, 1000),
    "mobilenet_v1 0.25 flowers": _mobilenet_v1(0.25, 5),
    "mobilenet_v1 0.5": _mobilenet_v1(0.5, 1000),
    "mobilenet_v1 0.5 flowers": _mobilenet_v1(0.5, 5),
}


def _cell_network(arch: str) -> nn.Module:
    """A network of NAS-Bench-201 for 100 classes, as its authors build it in PyTorch."""
    from torch import nn

    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)]
    for stage, channels in enumerate(_CHANNELS):
        if stage:
            layers.append(_module(_reduce, _reduction(channels)))
        layers += [_module(_run_cell(arch), _cell(arch, channels)) for _ in range(_CELLS)]
    head = [nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100)]
    return nn.Sequential(*layers, *head)


def _module(run: Callable[..., object], parts: list[nn.Module]) -> nn.Module:
    """A module that applies a function to its parts and its input."""
    from torch import nn

    class Parts(nn.ModuleList):
        def forward(self, x: object) -> object:
            return run(self, x)

    return Parts(parts)


def _relu_conv_norm(channels: int, out: int, size: int, stride: int = 1) -> nn.Module:
    from torch import nn

    conv = nn.Conv2d(channels, out, size, stride, size // 2, bias=False)
    return nn.Sequential(nn.ReLU(), conv, nn.BatchNorm2d(out))


def _cell(arch: str, channels: int) -> list[nn.Module]:
    from torch import nn

    build: dict[str, Callable[[], nn.Module]] = {
        "nor_conv_3x3": lambda: _relu_conv_norm(channels, channels, 3),
        "nor_conv_1x1": lambda: _relu_conv_norm(channels, channels, 1),
        "avg_pool_3x3": lambda: nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        "skip_connect": nn.Identity,
    }
    return [build[edge.operator]() for edge in edges(arch)]


def _run_cell(arch: str) -> Callable[..., object]:
    def run(parts: nn.ModuleList, x: object) -> object:
        values = [x]
        for node in (1, 2, 3):
            terms = [
                part(values[edge.source])
                for edge, part in zip(edges(arch), parts, strict=True)
                if edge.node == node
            ]
            values.append(sum(terms[1:], terms[0]))
        return values[3]

    return run


def _reduction(channels: int) -> list[nn.Module]:
    from torch import nn

    half = channels // 2
    shortcut = nn.Sequential(nn.AvgPool2d(2, 2), nn.Conv2d(half, channels, 1, bias=False))
    return [_relu_conv_norm(half, channels, 3, 2), _relu_conv_norm(channels, channels, 3), shortcut]


def _reduce(parts: nn.ModuleList, x: object) -> object:
    first, second, shortcut = parts
    return second(first(x)) + shortcut(x)
