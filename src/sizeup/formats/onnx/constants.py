"""Constants of a model: where their numbers are kept, in the file or outside it, and how to fetch them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import NodeProto, SparseTensorProto, TensorProto, numpy_helper

from sizeup.errors import CorruptModel
from sizeup.formats.external import Home, check_inside, external_file
from sizeup.formats.onnx.value_types import MOST_DIMENSIONS, dtype_of
from sizeup.units import quoted

Array: TypeAlias = np.ndarray[Any, Any]

# Shapes, axes and scales are this small; weights that matter are not.
SMALL = 1024
# More numbers than this in one constant can only be a broken file.
_MOST = 2**56


def is_small(dims: Sequence[int]) -> bool:
    """Whether a tensor of these dimensions may be a shape, axes or a scale."""
    return len(dims) <= MOST_DIMENSIONS and math.prod(dims) <= SMALL


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant of the file: its type, its shape, and a reader that fetches its numbers when asked."""

    name: str
    element: int
    dims: tuple[int, ...]
    read: Callable[[], Array]
    stored_bytes: int | None = None
    written_as_node: bool = False
    declared_role: str = ""  # PARAMETER, BUFFER, ... where the exporter wrote it down
    overridable: bool = False  # the default of a graph input, for which a caller may pass another tensor

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.dims)


class Origins:
    """The weights taken out of a model, by the number that their stand-ins carry."""

    KEY = "sizeup"

    def __init__(self, home: Home) -> None:
        self.home = home
        self._tensors: list[TensorProto | SparseTensorProto] = []

    def stand_in(self, tensor: TensorProto) -> TensorProto:
        """A tensor of the same name, type and shape without the numbers; small ones stay as they are."""
        if tensor.data_location == TensorProto.EXTERNAL or is_small(tensor.dims):
            return tensor
        return self._light(tensor.name, tensor.dims, tensor.data_type, tensor)

    def stand_in_for_sparse(self, sparse: SparseTensorProto) -> TensorProto:
        """A dense tensor without numbers in the place of a sparse one."""
        values = sparse.values
        return self._light(values.name, sparse.dims, values.data_type, sparse)

    def _light(
        self, name: str, dims: Iterable[int], element: int, origin: TensorProto | SparseTensorProto
    ) -> TensorProto:
        light = TensorProto(name=name, dims=dims, data_type=element)
        light.data_location = TensorProto.EXTERNAL
        light.external_data.add(key=self.KEY, value=str(len(self._tensors)))
        self._tensors.append(origin)
        return light

    def of(self, tensor: TensorProto) -> TensorProto | SparseTensorProto:
        """The tensor for which this one stands in, or itself."""
        if tensor.data_location != TensorProto.EXTERNAL or len(tensor.external_data) != 1:
            return tensor
        entry = tensor.external_data[0]
        if entry.key != self.KEY or not entry.value.isdecimal() or int(entry.value) >= len(self._tensors):
            return tensor
        return self._tensors[int(entry.value)]


def stored(tensor: TensorProto, origins: Origins, role: str = "") -> Stored:
    """The handle of a constant, in the model itself or in a file beside it."""
    origin = origins.of(tensor)
    if isinstance(origin, SparseTensorProto):
        return stored_sparse(origin, origins)
    name = origin.name
    dims = _checked_dims(name, tuple(origin.dims))
    if origin.data_location != TensorProto.EXTERNAL:
        return Stored(name, origin.data_type, dims, partial(_from_message, origin), declared_role=role)
    region = region_of(origin, origins.home)
    needed = (math.prod(dims) * dtype_of(origin.data_type).bits + 7) // 8
    if region.length is not None and region.length < needed:
        raise CorruptModel(
            f"constant {name!r} of the shape {list(dims)} needs {needed:,} bytes; its place in"
            f" {region.location!r} has {region.length:,}"
        )
    reader = partial(_from_file, name, origin.data_type, dims, region)
    return Stored(name, origin.data_type, dims, reader, region.length, declared_role=role)


def stored_sparse(sparse: SparseTensorProto, origins: Origins) -> Stored:
    """The handle of a sparse constant; its shape is the dense one, its bytes those of the file."""
    values = stored(sparse.values, origins)
    indices = stored(sparse.indices, origins)
    dims = _checked_dims(values.name, tuple(sparse.dims))
    held = sum(each.elements * dtype_of(each.element).bits for each in (values, indices))
    reader = partial(_from_sparse, dims, values, indices)
    return Stored(values.name, values.element, dims, reader, (held + 7) // 8)


def stored_in_node(node: NodeProto, origins: Origins) -> Stored:
    """The handle of what a Constant operator holds."""
    for attribute in node.attribute:
        if attribute.name == "value":
            found = stored(attribute.t, origins)
        elif attribute.name == "sparse_value":
            found = stored_sparse(attribute.sparse_tensor, origins)
        elif attribute.name.startswith("value_"):
            found = _from_attribute(onnx.helper.get_attribute_value(attribute))
        else:
            continue
        name = node.output[0]
        return Stored(name, found.element, found.dims, found.read, found.stored_bytes, written_as_node=True)
    raise CorruptModel(f"Constant operator {node.name or node.output[0]!r} holds no value")


def _from_attribute(value: Any) -> Stored:
    """A number, a string or a list of either; ONNX fixes integers at 64 bits and floats at 32."""
    items = value if isinstance(value, list) else [value]
    if items and isinstance(items[0], bytes):
        array: Array = np.array(value, dtype=object)
        element: int = TensorProto.STRING
    elif items and isinstance(items[0], float):
        array, element = np.array(value, np.float32), TensorProto.FLOAT
    else:
        array, element = np.array(value, np.int64), TensorProto.INT64
    return Stored("", element, array.shape, lambda: array)


def _checked_dims(name: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    if len(dims) > MOST_DIMENSIONS or any(size < 0 for size in dims) or math.prod(dims) > _MOST:
        raise CorruptModel(f"constant {name!r} has the impossible shape {quoted(list(dims))}")
    return dims


def _from_message(tensor: TensorProto) -> Array:
    try:
        array: Array = numpy_helper.to_array(tensor)
    except Exception as error:  # whatever the library makes of numbers that do not fit their shape
        raise CorruptModel(f"constant {tensor.name!r} cannot be read: {error}") from error
    return array


def _from_sparse(dims: tuple[int, ...], values: Stored, indices: Stored) -> Array:
    numbers, places = values.read(), indices.read()
    dense: Array = np.zeros(dims, numbers.dtype)
    try:
        if places.ndim == 1:
            dense.reshape(-1)[places] = numbers
        else:
            dense[tuple(places.T)] = numbers
    except (IndexError, ValueError) as error:
        raise CorruptModel(f"sparse constant {values.name!r} has indices outside its shape") from error
    return dense


@dataclass(frozen=True, slots=True)
class Region:
    """Where in which file the numbers of an external constant are."""

    home: Home
    location: str
    offset: int
    length: int | None


def region_of(tensor: TensorProto, home: Home) -> Region:
    """Where an external constant says that its numbers are; only places beside the model are accepted."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    try:
        offset, length = (
            int(entries.get("offset") or 0),
            int(entries["length"]) if "length" in entries else None,
        )
    except ValueError as error:
        raise CorruptModel(f"constant {tensor.name!r}: its place in {location!r} is not a number") from error
    if not location or not 0 <= offset <= _MOST or not 0 <= (length or 0) <= _MOST:
        raise CorruptModel(f"constant {tensor.name!r} does not say where in which file its numbers are")
    check_inside(location, f"constant {tensor.name!r}")
    return Region(home, location, offset, length)


def _from_file(name: str, element: int, dims: tuple[int, ...], region: Region) -> Array:
    """The numbers mapped from their file: only what is touched is read."""
    path = external_file(region.home, region.location, f"constant {name!r}")
    bits = dtype_of(element).bits
    needed = (math.prod(dims) * bits + 7) // 8
    held = region.length if region.length is not None else path.stat().st_size - region.offset
    if bits == 0 or held < needed or region.offset + needed > path.stat().st_size:
        raise CorruptModel(f"{path}: holds fewer numbers than constant {name!r} of shape {list(dims)} needs")
    if needed == 0:
        return np.zeros(dims, onnx.helper.tensor_dtype_to_np_dtype(element))
    content = np.memmap(path, np.uint8, "r", region.offset, (needed,))
    if bits < 8:
        packed = TensorProto(name=name, dims=dims, data_type=element, raw_data=content.tobytes())
        return _from_message(packed)
    array: Array = content.view(onnx.helper.tensor_dtype_to_np_dtype(element)).reshape(dims)
    return array


# Field numbers of onnx.proto: in which message which fields hold which messages.
_KEY, _VALUE = 1, 2
