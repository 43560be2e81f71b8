"""Unpack the weights of torch's quantized modules (quantize_dynamic, convert, convert_fx)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from sizeup.formats.torch.operators import Operator
from sizeup.formats.torch.quantized_lowering import UnpackedCell, UnpackedWeight
from sizeup.formats.torch.quantized_weights import QuantizedWeights
from sizeup.formats.torch.record import Recorder

_CLASSES = "__torch__.torch.classes."
# Attributes of quantized modules that hold all their weights, so that names do not mention them.
_HOLDERS = ("_packed_params", "_packed_weight", "param")
_STORED_BY = "packed by torch"


class PackedWeights:
    """The packed weights of a model by object, added to the graph as parameters."""

    def __init__(self, recorder: Recorder, weights: QuantizedWeights) -> None:
        self._recorder = recorder
        self._weights = weights
        # The objects are kept alive: their hash is their address.
        self._unpacked: dict[int, tuple[Any, UnpackedWeight | UnpackedCell | None]] = {}

    def add_modules(self, paths: Iterable[tuple[str, torch.nn.Module]]) -> None:
        """Add the packed weights that are attributes of modules."""
        for path, module in paths:
            attributes = {} if isinstance(module, torch.jit.ScriptModule) else vars(module)
            for name, value in list(attributes.items()):
                if isinstance(value, torch.ScriptObject):
                    parts = [part for part in (*path.split("."), name) if part and part not in _HOLDERS]
                    is_cell = name.startswith("_packed_weight_")
                    dtype = getattr(module, "weight_dtype" if is_cell else "dtype", None)
                    sizes = getattr(module, "kernel_size", None)
                    is_flat = isinstance(sizes, tuple) and len(sizes) == 1
                    self._add(value, ".".join(parts), is_half=dtype is torch.float16, is_flat=is_flat)
            if "_packed_weight_ih" in attributes:  # a recurrent cell
                for name in ("bias_ih", "bias_hh"):
                    if isinstance(attributes.get(name), torch.Tensor):
                        self._recorder.add_shared_constant(f"{path}.{name}", attributes[name], "parameter")

    def unpack(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of an operator with unpacked weights instead of packed ones."""
        is_half = "fp16" in operator.name

        def one(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [one(item) for item in value]
            if not isinstance(value, torch.ScriptObject):
                return value
            return self._add(value, self._recorder.scope or operator.name, is_half=is_half) or value

        return tuple(map(one, args)), {name: one(value) for name, value in kwargs.items()}

    def _add(
        self, packed: Any, name: str, *, is_half: bool = False, is_flat: bool = False
    ) -> UnpackedWeight | UnpackedCell | None:
        key = hash(packed)
        if key not in self._unpacked:
            unpacked = None
            try:
                with _disable_current_modes(), torch.no_grad():
                    unpacked = self._unpack(packed, name, is_half, is_flat)
            except Exception as error:  # torch may raise anything for an object of another engine
                summary = f"{type(error).__name__}: {error}".partition("\n")[0]
                self._recorder.builder.note(f"{name}: its packed weight cannot be read: {summary}")
            self._unpacked[key] = (packed, unpacked)
        return self._unpacked[key][1]

    def _unpack(
        self, packed: Any, name: str, is_half: bool, is_flat: bool
    ) -> UnpackedWeight | UnpackedCell | None:
        class_name = str(packed._type()).removeprefix(_CLASSES)
        if class_name == "rnn.CellParamsBase":
            return self._unpack_cell(packed, name)
        if class_name == "quantized.EmbeddingPackedParamsBase":
            return self._weight(torch.ops.quantized.embedding_bag_unpack(packed), None, name, is_half)
        if not class_name.startswith("quantized."):
            return None
        weight, bias = packed.unpack()
        if is_flat:  # torch packs a 1-d convolution as a 2-d one
            weight = weight.squeeze(-2)
        if name.rpartition(".")[2] in ("_packed_weight_ih", "_packed_weight_hh"):
            bias = None  # a recurrent cell has it as an attribute, too
        groups = packed.groups() if class_name.startswith("quantized.Conv") else 1
        return self._weight(weight, bias, name, is_half, groups)

    def _unpack_cell(self, packed: Any, name: str) -> UnpackedCell:
        state = packed.__getstate__()
        cell_type, tensors, _, _, matrices = state[0]
        is_half = "fp16" in cell_type
        unpacked = []
        biases = [tensor for tensor in tensors if tensor is not None]
        for matrix, label in zip(matrices, ("weight_ih", "weight_hh"), strict=False):
            weight, bias = matrix.unpack()
            unpacked.append(self._weight(weight, None, f"{name}.{label}", is_half))
            if is_half and bias is not None:
                biases.append(bias)
        for bias, label in zip(biases, ("bias_ih", "bias_hh"), strict=False):
            self._recorder.add_shared_constant(f"{name}.{label}", bias, "parameter")
        return UnpackedCell(tuple(unpacked), tuple(biases))

    def _weight(
        self, weight: torch.Tensor, bias: torch.Tensor | None, name: str, is_half: bool, groups: int = 1
    ) -> UnpackedWeight:
        """Add a weight with its scales and zero points, and a bias."""
        if is_half:  # torch unpacks half-precision weights to float32
            weight = weight.half()
        is_single = weight.is_quantized or weight.dtype is torch.float16
        label = f"{name}.weight" if "weight" not in name.rpartition(".")[2] else name
        tensors = {"data": weight}
        if weight.is_quantized and "channel" in str(weight.qscheme()):
            tensors["scale"] = weight.q_per_channel_scales()
            tensors["zero_point"] = weight.q_per_channel_zero_points()
        if is_single:
            self._weights.add(label, tuple(weight.shape), tensors, "parameter", _STORED_BY)
        else:
            self._recorder.add_shared_constant(label, weight, "parameter")
        if bias is not None:
            self._recorder.add_shared_constant(f"{name}.bias", bias, "parameter")
        scales = tuple(tensor for key, tensor in tensors.items() if key != "data")
        return UnpackedWeight(weight, bias, scales, groups)
