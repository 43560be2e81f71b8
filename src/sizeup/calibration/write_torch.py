"""A sketch as a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from sizeup.calibration.sketch import Layer, Sketch

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": functional.hardswish,
    "silu": functional.silu,
    "gelu": functional.gelu,
}


def module_of(sketch: Sketch, seed: int = 0) -> nn.Module:
    """The network with random weights, the same ones for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Sketched(sketch).eval()


def input_shape(sketch: Sketch) -> tuple[int, ...]:
    """The shape of the input as PyTorch has it: channels of pictures come first."""
    shape = sketch.shape
    return (1, shape[2], shape[0], shape[1]) if sketch.is_picture(0) else (1, *shape)


class Sketched(nn.Module):
    """Runs the layers of a sketch one after the other."""

    def __init__(self, sketch: Sketch) -> None:
        super().__init__()
        self.sketch = sketch
        self.parts = nn.ModuleDict()
        for index, layer in enumerate(sketch.layers):
            part = _part(sketch, layer)
            if part is not None:
                self.parts[str(index)] = part

    def forward(self, x: Tensor) -> Tensor:
        """The last value."""
        values = [x]
        for index, layer in enumerate(self.sketch.layers):
            inputs = [values[each] for each in layer.inputs]
            name = str(index)
            made = _called(self.parts[name], inputs[0]) if name in self.parts else _plain(layer, inputs)
            act = layer.settings.get("act")
            values.append(_ACTIVATIONS[act](made) if act else made)
        return values[-1]


def _part(sketch: Sketch, layer: Layer) -> nn.Module | None:
    """The module that holds a layer's weights."""
    length, size = sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
    if layer.kind == "conv":
        kernel, stride, groups = (layer.settings[each] for each in ("kernel", "stride", "groups"))
        padding = 0 if stride == kernel else kernel // 2
        return nn.Conv2d(length, size, kernel, stride, padding, groups=groups)
    if layer.kind == "linear":
        return nn.Linear(length, size)
    if layer.kind == "scale":
        return nn.BatchNorm2d(size)
    if layer.kind == "layer_norm":
        return nn.LayerNorm(size)
    if layer.kind == "recurrent":
        cell = nn.LSTM if layer.settings["cell"] == "lstm" else nn.GRU
        return cell(length, size, batch_first=True)
    return None


def _called(part: nn.Module, value: Tensor) -> Tensor:
    made = part(value)
    first: Tensor = made[0] if isinstance(made, tuple) else made
    return first


def _plain(layer: Layer, inputs: list[Tensor]) -> Tensor:
    """A layer without weights."""
    x, *more = inputs
    kind, settings, axis = layer.kind, layer.settings, 1 if layer.is_picture else -1
    if kind == "matmul":
        return torch.matmul(x, more[0])
    if kind in ("add", "mul"):
        return x + more[0] if kind == "add" else x * more[0]
    if kind == "act":
        return _ACTIVATIONS[settings["name"]](x)
    if kind == "times":
        return x * float(settings["factor"])
    if kind == "concat":
        return torch.cat([x, more[0]], dim=axis)
    if kind == "part":
        return x.narrow(axis, settings["begin"], layer.shape[-1]).contiguous()
    return _moved(layer, x)


def _moved(layer: Layer, x: Tensor) -> Tensor:
    kind, settings = layer.kind, layer.settings
    if kind == "softmax":
        return torch.softmax(x, dim=-1)
    if kind == "pool":
        pool = functional.max_pool2d if settings["how"] == "max" else functional.avg_pool2d
        return pool(x, settings["kernel"], settings["stride"])
    if kind == "mean":
        return x.mean(dim=(2, 3) if layer.is_picture else tuple(range(1, x.dim() - 1)), keepdim=True)
    if kind == "transpose":
        return x.permute(0, *(1 + axis for axis in settings["order"])).contiguous()
    if kind == "tokens":
        return x.flatten(2).transpose(1, 2)
    if kind == "resize":
        return functional.interpolate(x, size=layer.shape[:2], mode="bilinear")
    return x.reshape(1, *layer.shape)
