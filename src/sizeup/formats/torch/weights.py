"""Add the weights of a model to a graph: plain tensors, tensor subclasses and packed weights."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import torch

from sizeup.formats.torch.packed_weights import PackedWeights
from sizeup.formats.torch.quantized_weights import QuantizedWeights, Read, read_of
from sizeup.formats.torch.record import Recorder
from sizeup.formats.torch.subclasses import add_wrapper, is_wrapper
from sizeup.graph import Role

# The names that torchao.utils.unwrap_tensor_subclass gives to the tensors of a quantized weight.
_UNWRAPPED = re.compile(r"(.*)\.parametrizations\.(\w+)\.original\d+\Z")
_NARROW_BYTES = 1


class Weight(NamedTuple):
    """A named weight; `read` returns its values and `values` is the tensor with them, if it is fake."""

    name: str
    tensor: torch.Tensor
    role: Role
    read: Read = None
    values: torch.Tensor | None = None


def add_module_weights(
    recorder: Recorder, module: torch.nn.Module, paths: Iterable[tuple[str, torch.nn.Module]]
) -> None:
    """Add the parameters, buffers and packed weights of a module."""
    quantized = QuantizedWeights(recorder)
    weights = [Weight(name, tensor, "parameter") for name, tensor in module.named_parameters()]
    weights += [Weight(name, tensor, "buffer") for name, tensor in module.named_buffers()]
    _add(recorder, weights, quantized)
    packed = PackedWeights(recorder, quantized)
    packed.add_modules(paths)
    recorder.unpack = packed.unpack
    quantized.add_notes()


def add_weights(recorder: Recorder, weights: Iterable[Weight]) -> None:
    """Add the weights of an exported program."""
    quantized = QuantizedWeights(recorder)
    _add(recorder, list(weights), quantized)
    quantized.add_notes()


def _add(recorder: Recorder, weights: list[Weight], quantized: QuantizedWeights) -> None:
    """Add weights by name; those over the same bytes are added once."""
    unwrapped = _unwrapped(weights)
    for weight in weights:
        name, tensor, role, read, values = weight
        group = unwrapped.get(name)
        if is_wrapper(tensor):
            add_wrapper(recorder, name, tensor, role, quantized, values)
        elif group is None:
            recorder.add_shared_constant(name, tensor, role, read)
        elif group[0] is weight:
            _add_unwrapped(name, group, quantized)


def _unwrapped(weights: Iterable[Weight]) -> dict[str, list[Weight]]:
    """Return the weights that are parts of one quantized weight, by the name of each."""
    groups: dict[str, list[Weight]] = {}
    for weight in weights:
        match = _UNWRAPPED.match(weight.name) if weight.role == "parameter" else None
        if match is not None and weight.tensor.layout is torch.strided:
            groups.setdefault(".".join(match.groups()), []).append(weight)
    # The parts of other parametrizations, such as weight norm, are trained.
    quantized = [group for group in groups.values() if len(group) > 1 and _is_narrow(_largest(group).tensor)]
    return {weight.name: group for group in quantized for weight in group}


def _largest(group: list[Weight]) -> Weight:
    return max(group, key=lambda weight: weight.tensor.numel())


def _is_narrow(tensor: torch.Tensor) -> bool:
    return not tensor.dtype.is_complex and tensor.dtype.itemsize == _NARROW_BYTES


def _add_unwrapped(name: str, group: list[Weight], quantized: QuantizedWeights) -> None:
    data = _largest(group)
    parts = {"data": data}
    for index, weight in enumerate(group):
        if weight is not data:
            kind = "scale" if weight.tensor.dtype.is_floating_point else "zero_point"
            parts[kind if kind not in parts else f"{kind}_{index}"] = weight
    tensors = {key: weight.tensor for key, weight in parts.items()}
    reads = {key: weight.read or read_of(weight.tensor) for key, weight in parts.items()}
    label = name.replace(".parametrizations.", ".").rpartition(".")[0]
    quantized.add(label, tuple(data.tensor.shape), tensors, data.role, "unwrapped", reads)
