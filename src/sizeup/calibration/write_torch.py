"""Build a sketch as a PyTorch module."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sizeup.calibration.network_spec import FUSED_ATTENTION, Layer, NetworkSpec


def torch_module(sketch: NetworkSpec, seed: int = 0) -> nn.Module:
    """Return the network with random weights, deterministic per seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SpecModule(sketch).eval()


def input_shape(sketch: NetworkSpec) -> tuple[int, ...]:
    """Return the input shape in PyTorch's layout: channels first for images."""
    shape = sketch.shape
    return (1, shape[2], shape[0], shape[1]) if sketch.is_image(0) else (1, *shape)


class SpecModule(nn.Module):
    """Runs the layers of a sketch in order."""

    def __init__(self, sketch: NetworkSpec) -> None:
        super().__init__()
        self.sketch = sketch
        self.parts = nn.ModuleDict()
        for index, layer in enumerate(sketch.layers):
            part = _part(sketch, layer)
            if part is not None:
                self.parts[str(index)] = part

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last layer."""
        values = [x]
        for index, layer in enumerate(self.sketch.layers):
            inputs = [values[value] for value in layer.inputs]
            name = str(index)
            output = (
                _first_output(self.parts[name], inputs[0])
                if name in self.parts
                else _apply_weightless(layer, inputs)
            )
            act = layer.settings.get("act")
            values.append(_activate(act, output) if act else output)
        return values[-1]


def _part(sketch: NetworkSpec, layer: Layer) -> nn.Module | None:
    """Return the module of a layer with weights, or None."""
    length, size = sketch.shape_of(layer.inputs[0])[-1], layer.shape[-1]
    if layer.kind == "conv":
        kernel, stride, groups = (layer.settings[key] for key in ("kernel", "stride", "groups"))
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


def _first_output(part: nn.Module, value: Tensor) -> Tensor:
    output = part(value)
    first: Tensor = output[0] if isinstance(output, tuple) else output
    return first


def _activate(name: str, value: Tensor) -> Tensor:
    activated: Tensor = getattr(functional, name)(value)
    return activated


def _apply_weightless(layer: Layer, inputs: list[Tensor]) -> Tensor:
    """Apply a layer without weights."""
    x, *others = inputs
    layer_kind, settings, axis = layer.kind, layer.settings, 1 if layer.is_image else -1
    if layer_kind == "matmul":
        return torch.matmul(x, others[0])
    if layer_kind == FUSED_ATTENTION:
        return functional.scaled_dot_product_attention(x, others[0], others[1])
    if layer_kind in ("add", "mul"):
        return x + others[0] if layer_kind == "add" else x * others[0]
    if layer_kind == "act":
        return _activate(settings["name"], x)
    if layer_kind == "times":
        return x * float(settings["factor"])
    if layer_kind == "concat":
        return torch.cat([x, others[0]], dim=axis)
    if layer_kind == "part":
        return x.narrow(axis, settings["begin"], layer.shape[-1]).contiguous()
    return _apply_rearranging(layer, x)


def _apply_rearranging(layer: Layer, x: Tensor) -> Tensor:
    layer_kind, settings = layer.kind, layer.settings
    if layer_kind == "softmax":
        return torch.softmax(x, dim=-1)
    if layer_kind == "pool":
        pool = functional.max_pool2d if settings["mode"] == "max" else functional.avg_pool2d
        return pool(x, settings["kernel"], settings["stride"])
    if layer_kind == "mean":
        return x.mean(dim=(2, 3) if layer.is_image else tuple(range(1, x.dim() - 1)), keepdim=True)
    if layer_kind == "transpose":
        return x.permute(0, *(1 + axis for axis in settings["order"])).contiguous()
    if layer_kind == "tokens":
        return x.flatten(2).transpose(1, 2)
    if layer_kind == "resize":
        return functional.interpolate(x, size=layer.shape[:2], mode="bilinear")
    return x.reshape(1, *layer.shape)
