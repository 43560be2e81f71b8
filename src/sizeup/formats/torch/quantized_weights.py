"""Add quantized weights to a graph: their data, scales and zero points, as one parameter and constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from sizeup.errors import SizeupError
from sizeup.formats.torch.operators import dtype_of, shape_of
from sizeup.formats.torch.record import Numbers, Recorder, tensor_values
from sizeup.graph import Constant, Quant, Role

Read: TypeAlias = Callable[[], Numbers] | None

# Stands for scales that are not read: without values, or of blocks.
_UNKNOWN_SCALE = np.zeros(0, np.float32)
_ZERO = np.zeros(1, np.int64)
_MAX_SCALES = 2**20
_SUB_BYTE = (torch.quint4x2, torch.quint2x4)


class QuantizedWeights:
    """The quantized weights of one model; tensors over the same bytes are added once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._identities: dict[tuple[object, ...], int] = {}
        self._counts: Counter[str] = Counter()

    def add(
        self,
        name: str,
        shape: tuple[int, ...],
        tensors: Mapping[str, torch.Tensor],
        role: Role,
        stored_by: str,
        reads: Mapping[str, Read] | None = None,
    ) -> int:
        """Add a weight of this logical shape that is stored as these tensors; return the id of its data.

        The largest tensor is the data, with the bytes of all; the others are constants of the graph.
        `reads` return the values of the tensors, if these are fake.
        """
        reads = {key: read_of(tensor) for key, tensor in tensors.items()} if reads is None else reads
        data_name = max(tensors, key=lambda key: stored_bytes(tensors[key]))
        data = tensors[data_name]
        locations = {key: _location(tensor) for key, tensor in tensors.items()}
        known = self._identities.get(locations[data_name])
        new_bytes = sum(
            stored_bytes(tensor) for key, tensor in tensors.items() if locations[key] not in self._identities
        )
        if known is not None:
            self._recorder.storages.track(data, known, constant=True)
        else:
            logical = int(np.prod(shape, dtype=object))
            scheme = weight_scheme(shape, tensors, data_name)
            content = Constant(
                role,
                reads[data_name],
                stored_bytes=new_bytes,
                elements=None if logical == data.numel() else logical,
                scheme=scheme,
            )
            quant = _quant(shape, tensors, data_name, reads)
            known = self._add_tensor(name, data, content, quant)
            self._identities[locations[data_name]] = known
            self._counts[f"{dtype_of(data.dtype)}{', ' if scheme else ''}{scheme} ({stored_by})"] += 1
        for key, tensor in tensors.items():
            if key == data_name:
                continue
            identity = self._identities.get(locations[key])
            if identity is None:
                content = Constant("constant", reads[key])
                self._identities[locations[key]] = self._add_tensor(f"{name}.{key}", tensor, content)
            else:
                self._recorder.storages.track(tensor, identity, constant=True)
        return known

    def _add_tensor(
        self, name: str, tensor: torch.Tensor, content: Constant, quant: Quant | None = None
    ) -> int:
        recorder = self._recorder
        identity = recorder.builder.tensor(name, shape_of(tensor), dtype_of(tensor.dtype), content, quant)
        recorder.storages.track(tensor, identity, constant=True)
        if recorder.weights is not None:
            recorder.weights.inner.add(id(tensor))
        return identity

    def add_notes(self) -> None:
        """Note how many weights are stored in each scheme."""
        for scheme, count in self._counts.items():
            verb = "1 weight is" if count == 1 else f"{count:,} weights are"
            self._recorder.builder.note(f"{verb} stored as {scheme}")


def stored_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes that a tensor stores; torch reports whole bytes per element for sub-byte dtypes."""
    return tensor.untyped_storage().nbytes() if tensor.dtype in _SUB_BYTE else tensor.nbytes


def weight_scheme(shape: tuple[int, ...], tensors: Mapping[str, torch.Tensor], data_name: str) -> str:
    """Describe how a weight is stored, such as `1 scale and zero point per row`."""
    data, weights = tensors[data_name], int(np.prod(shape, dtype=object))
    parts = []
    if 0 < data.numel() < weights and weights % data.numel() == 0:
        parts.append(f"{weights // data.numel()} weights per element")
    # A tensor that is named after both has a scale and a zero point per group.
    scales = [
        tensor.numel() // (2 if "zero" in key.lower() else 1)
        for key, tensor in tensors.items()
        if key != data_name and "scale" in key.lower()
    ]
    if data.is_quantized and not scales:
        parts.append("1 scale and zero point")
    if scales:
        zero_points = any("zero" in key.lower() for key in tensors)
        label = "1 scale and zero point" if zero_points else "1 scale"
        count = max(scales)
        if count <= 1:
            parts.append(label)
        elif shape and count == shape[0]:
            parts.append(f"{label} per row")
        else:
            parts.append(f"{label} per {weights // count:,} weights")
    return ", ".join(parts)


def _location(tensor: torch.Tensor) -> tuple[object, ...]:
    try:
        storage = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse tensors have no single storage
        return (id(tensor),)
    return (storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())


def read_of(tensor: torch.Tensor) -> Read:
    """Return the function that reads the values of a tensor; None if it has none."""
    has_values = not isinstance(tensor, FakeTensor) and not tensor.is_meta
    return partial(tensor_values, tensor) if has_values else None


def _quant(
    shape: tuple[int, ...], tensors: Mapping[str, torch.Tensor], data_name: str, reads: Mapping[str, Read]
) -> Quant | None:
    """Return the scales and zero points of integer data; unknown scales if they belong to blocks."""
    data = tensors[data_name]
    if data.dtype.is_floating_point:
        return None
    if data.is_quantized and len(tensors) == 1:
        return Quant(np.array([data.q_scale()]), np.array([data.q_zero_point()]))
    keys = [key for key in tensors if key != data_name]
    scale_name = next((key for key in keys if "scale" in key.lower() and "zero" not in key.lower()), "")
    scales = tensors[scale_name].numel() if scale_name else 0
    if not (scales == 1 or (shape and scales == shape[0])) or scales > _MAX_SCALES:
        return Quant(_UNKNOWN_SCALE, _ZERO)
    scale = _values(reads[scale_name])
    zero_point = _values(next((reads[key] for key in keys if "zero" in key.lower()), None))
    if scale is None:
        return Quant(_UNKNOWN_SCALE, _ZERO)
    return Quant(scale, _ZERO if zero_point is None else zero_point, 0 if scales > 1 else None)


def _values(read: Read) -> Numbers | None:
    try:
        return None if read is None else read().reshape(-1)
    except SizeupError:  # the file is gone
        return None
