"""Constants of a model: where their values are stored, in the file or outside it, and how to read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import NodeProto, SparseTensorProto, TensorProto, numpy_helper

from sizeup.errors import CorruptModel
from sizeup.formats.external import ModelFolders, check_inside, external_file, external_size
from sizeup.formats.onnx.value_types import MAX_DIMENSIONS, dtype_of
from sizeup.units import quoted

Array: TypeAlias = np.ndarray[Any, Any]

# Maximum number of elements of a constant that may be a shape, axes or a scale.
SMALL = 1024
# A constant with more elements means a corrupt file.
_MAX_ELEMENTS = 2**56


def is_small(dims: Sequence[int]) -> bool:
    """Whether a tensor of these dimensions may be a shape, axes or a scale."""
    return len(dims) <= MAX_DIMENSIONS and math.prod(dims) <= SMALL


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A constant of the file: its type, its shape, and a function that reads its values."""

    name: str
    element: int
    dims: tuple[int, ...]
    read: Callable[[], Array]
    stored_bytes: int | None = None
    written_as_node: bool = False
    declared_role: str = ""  # PARAMETER, BUFFER, ... if the exporter recorded it
    overridable: bool = False  # the default of a graph input, for which a caller may pass another tensor

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.dims)


class RemovedTensors:
    """The tensors removed from a model, by the number in their placeholders."""

    KEY = "sizeup"

    def __init__(self, home: ModelFolders, file: str = "") -> None:
        self.home = home
        self._file = file  # the model's own file, in which stripped weights remain
        self._regions: dict[tuple[str, int], int] = {}
        self._tensors: list[TensorProto | SparseTensorProto] = []

    def placeholder(self, tensor: TensorProto) -> TensorProto:
        """A tensor of the same name, type and shape without values; small tensors are returned unchanged."""
        if tensor.data_location == TensorProto.EXTERNAL or is_small(tensor.dims):
            return tensor
        return self._remove(tensor.name, tensor.dims, tensor.data_type, tensor)

    def sparse_placeholder(self, sparse: SparseTensorProto) -> TensorProto:
        """A dense tensor without values for a sparse one."""
        values = sparse.values
        return self._remove(values.name, sparse.dims, values.data_type, sparse)

    @property
    def external_bytes(self) -> int:
        """The bytes of all constants in other files; shared regions count once."""
        return sum(self._regions.values())

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The other files that cannot be read, of a model with a folder."""
        return tuple(sorted(name for name, size in self._sizes.items() if self.home and size is None))

    def note_region(self, region: Region, size: int) -> None:
        """Record the region of a constant; raises CorruptModel if its file exists and is shorter."""
        if region.location == self._file:
            return
        key = (region.location, region.offset)
        self._regions[key] = max(size, self._regions.get(key, 0))
        if region.location not in self._sizes:
            self._sizes[region.location] = external_size(self.home, region.location)
        available = self._sizes[region.location]
        if available is not None and region.offset + size > available:
            raise CorruptModel(
                f"{region.location!r} has {available:,} bytes; a constant of {size:,} bytes starts at"
                f" {region.offset:,}"
            )

    @cached_property
    def _sizes(self) -> dict[str, int | None]:
        return {}

    def _remove(
        self, name: str, dims: Iterable[int], element: int, tensor: TensorProto | SparseTensorProto
    ) -> TensorProto:
        placeholder = TensorProto(name=name, dims=dims, data_type=element)
        placeholder.data_location = TensorProto.EXTERNAL
        placeholder.external_data.add(key=self.KEY, value=str(len(self._tensors)))
        self._tensors.append(tensor)
        return placeholder

    def of(self, tensor: TensorProto) -> TensorProto | SparseTensorProto:
        """The tensor of a placeholder, or the tensor itself."""
        if tensor.data_location != TensorProto.EXTERNAL or len(tensor.external_data) != 1:
            return tensor
        entry = tensor.external_data[0]
        if entry.key != self.KEY or not entry.value.isdecimal() or int(entry.value) >= len(self._tensors):
            return tensor
        return self._tensors[int(entry.value)]


def stored(tensor: TensorProto, removed: RemovedTensors, role: str = "") -> StoredTensor:
    """The handle of a constant, stored in the model or in an external file."""
    origin = removed.of(tensor)
    if isinstance(origin, SparseTensorProto):
        return stored_sparse(origin, removed)
    name = origin.name
    dims = checked_dims(name, tuple(origin.dims))
    bits = dtype_of(origin.data_type).bits
    needed = (math.prod(dims) * bits + 7) // 8
    if origin.data_location != TensorProto.EXTERNAL:
        if bits and origin.raw_data and len(origin.raw_data) != needed:
            raise _wrong_length(name, dims, needed, len(origin.raw_data))
        return StoredTensor(name, origin.data_type, dims, partial(_from_message, origin), declared_role=role)
    region = region_of(origin, removed.home)
    if region.length is not None and region.length != needed and (bits or region.length < needed):
        raise _wrong_length(name, dims, needed, region.length, f"its region in {region.location!r}")
    removed.note_region(region, needed)
    reader = partial(_from_file, name, origin.data_type, dims, region)
    return StoredTensor(name, origin.data_type, dims, reader, region.length, declared_role=role)


def _wrong_length(
    name: str, dims: tuple[int, ...], needed: int, stored_bytes: int, place: str = "it"
) -> CorruptModel:
    return CorruptModel(
        f"constant {name!r} of shape {list(dims)} needs {needed:,} bytes; {place} has {stored_bytes:,}"
    )


def stored_sparse(sparse: SparseTensorProto, removed: RemovedTensors) -> StoredTensor:
    """The handle of a sparse constant, with its dense shape and the bytes of its sparse form."""
    values = stored(sparse.values, removed)
    indices = stored(sparse.indices, removed)
    dims = checked_dims(values.name, tuple(sparse.dims))
    bits = sum(part.elements * dtype_of(part.element).bits for part in (values, indices))
    reader = partial(_from_sparse, dims, values, indices)
    return StoredTensor(values.name, values.element, dims, reader, (bits + 7) // 8)


def stored_of_node(node: NodeProto, removed: RemovedTensors) -> StoredTensor:
    """The handle of the value of a Constant node."""
    for attribute in node.attribute:
        if attribute.name == "value":
            value = stored(attribute.t, removed)
        elif attribute.name == "sparse_value":
            value = stored_sparse(attribute.sparse_tensor, removed)
        elif attribute.name.startswith("value_"):
            value = _from_attribute(onnx.helper.get_attribute_value(attribute))
        else:
            continue
        name = node.output[0]
        return StoredTensor(
            name, value.element, value.dims, value.read, value.stored_bytes, written_as_node=True
        )
    raise CorruptModel(f"Constant operator {node.name or node.output[0]!r} has no value")


def _from_attribute(value: Any) -> StoredTensor:
    """A number, a string or a list of either; in ONNX, integers have 64 bits and floats 32."""
    items = value if isinstance(value, list) else [value]
    if items and isinstance(items[0], bytes):
        array: Array = np.array(value, dtype=object)
        element: int = TensorProto.STRING
    elif items and isinstance(items[0], float):
        array, element = np.array(value, np.float32), TensorProto.FLOAT
    else:
        array, element = np.array(value, np.int64), TensorProto.INT64
    return StoredTensor("", element, array.shape, lambda: array)


def checked_dims(name: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of a constant; raises CorruptModel if no runtime accepts them."""
    if len(dims) > MAX_DIMENSIONS or any(size < 0 for size in dims) or math.prod(dims) > _MAX_ELEMENTS:
        raise CorruptModel(f"constant {name!r} has the invalid shape {quoted(list(dims))}")
    return dims


def _from_message(tensor: TensorProto) -> Array:
    try:
        array: Array = numpy_helper.to_array(tensor)
    except Exception as error:  # the library raises various exceptions if values do not match the shape
        raise CorruptModel(f"constant {tensor.name!r} cannot be read: {error}") from error
    return array


def _from_sparse(dims: tuple[int, ...], values: StoredTensor, indices: StoredTensor) -> Array:
    numbers, positions = values.read(), indices.read()
    dense: Array = np.zeros(dims, numbers.dtype)
    try:
        if positions.ndim == 1:
            dense.reshape(-1)[positions] = numbers
        else:
            dense[tuple(positions.T)] = numbers
    except (IndexError, ValueError) as error:
        raise CorruptModel(f"sparse constant {values.name!r} has indices outside its shape") from error
    return dense


@dataclass(frozen=True, slots=True)
class Region:
    """The part of an external file that stores a constant."""

    home: ModelFolders
    location: str
    offset: int
    length: int | None


def region_of(tensor: TensorProto, home: ModelFolders) -> Region:
    """The region of an external constant; raises CorruptModel if it is outside the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        raise CorruptModel(f"constant {tensor.name!r}: an entry of its external data is given twice")
    location = entries.get("location", "")
    try:
        numbers = [entries.get(name) or "0" for name in ("offset", "length")]
        # `int` takes more, as 1_0.
        if not all(number.isascii() and number.removeprefix("-").isdigit() for number in numbers):
            raise ValueError
        offset, length = int(numbers[0]), int(numbers[1]) if "length" in entries else None
    except ValueError as error:
        raise CorruptModel(
            f"constant {tensor.name!r}: its offset or length in {location!r} is not a number"
        ) from error
    is_negative = any(number.startswith("-") for number in numbers)
    if (
        is_negative
        or not location
        or not 0 <= offset <= _MAX_ELEMENTS
        or not 0 <= (length or 0) <= _MAX_ELEMENTS
    ):
        raise CorruptModel(
            f"constant {tensor.name!r} has external data without a valid file, offset and length"
        )
    check_inside(location, f"constant {tensor.name!r}")
    return Region(home, location, offset, length)


def _from_file(name: str, element: int, dims: tuple[int, ...], region: Region) -> Array:
    """The values as a memory map of their file."""
    path = external_file(region.home, region.location, f"constant {name!r}")
    bits = dtype_of(element).bits
    needed = (math.prod(dims) * bits + 7) // 8
    available = region.length if region.length is not None else path.stat().st_size - region.offset
    if bits == 0 or available < needed or region.offset + needed > path.stat().st_size:
        raise CorruptModel(f"{path}: too short for constant {name!r} of shape {list(dims)}")
    if needed == 0:
        return np.zeros(dims, onnx.helper.tensor_dtype_to_np_dtype(element))
    content = np.memmap(path, np.uint8, "r", region.offset, (needed,))
    if bits < 8:
        packed = TensorProto(name=name, dims=dims, data_type=element, raw_data=content.tobytes())
        return _from_message(packed)
    array: Array = content.view(onnx.helper.tensor_dtype_to_np_dtype(element)).reshape(dims)
    return array
