"""The type of a value: its dtype and the known part of its shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from onnx import TensorProto, TypeProto

from sizeup.dtypes import DTYPES, DType
from sizeup.errors import CorruptModel
from sizeup.graph import Shape

MAX_DIMENSIONS = 1024
"""More than any runtime accepts. The product of a million large dimensions would take minutes."""

# None is an unknown dimension, or an unknown shape.
Dims: TypeAlias = tuple[int | None, ...] | None

_NAMES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu",
    "FLOAT4E2M1": "float4_e2m1fn",
}
_DTYPES: dict[int, DType] = {
    number: DTYPES[_NAMES.get(name, name.lower())]
    for name, number in TensorProto.DataType.items()
    if _NAMES.get(name, name.lower()) in DTYPES
}
_UNKNOWN = DTYPES["unknown"]


def dtype_of(element: int) -> DType:
    """The dtype of an ONNX element type."""
    return _DTYPES.get(element, _UNKNOWN)


class ValueType:
    """The type of a value: its ONNX element type and dimensions, and the ONNX message."""

    __slots__ = ("_proto", "dims", "element", "shape")

    def __init__(self, proto: TypeProto | None, element: int, dims: Dims) -> None:
        self._proto = proto
        self.element = element
        self.dims = dims
        # None unless all dimensions are known.
        self.shape: Shape | None = None if dims is None or None in dims else cast("Shape", dims)

    @property
    def proto(self) -> TypeProto:
        """The ONNX message, created on first use."""
        if self._proto is None:
            self._proto = _message(self.element, self.dims)
        return self._proto

    @property
    def is_tensor(self) -> bool:
        """Whether the value is a tensor, not a sequence, a map, an optional or unknown."""
        return self._proto is None or self._proto.HasField("tensor_type")


def read(proto: TypeProto) -> ValueType:
    """The type in an ONNX message; sequences, maps and optionals have no dimensions."""
    if not proto.HasField("tensor_type"):
        return _NOTHING if proto.WhichOneof("value") is None else ValueType(proto, _inner(proto), None)
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return ValueType(proto, tensor.elem_type, None)
    if len(tensor.shape.dim) > MAX_DIMENSIONS:
        raise CorruptModel(
            f"a tensor has {len(tensor.shape.dim):,} dimensions; the limit is {MAX_DIMENSIONS:,}"
        )
    # Some exporters write -1 for an unknown dimension.
    dims = tuple(
        size if dim.HasField("dim_value") and (size := dim.dim_value) >= 0 else None
        for dim in tensor.shape.dim
    )
    return ValueType(proto, tensor.elem_type, dims)


def _inner(proto: TypeProto) -> int:
    """The element type of the tensors in a sequence or an optional."""
    for _ in range(4):
        if proto.HasField("sequence_type"):
            proto = proto.sequence_type.elem_type
        elif proto.HasField("optional_type"):
            proto = proto.optional_type.elem_type
        elif proto.HasField("sparse_tensor_type"):
            return proto.sparse_tensor_type.elem_type
    return proto.tensor_type.elem_type


def tensor_type(element: int, dims: Iterable[int | None] | None) -> ValueType:
    """The type of a tensor from its element type and dimensions; negative dimensions are unknown."""
    if dims is None:
        return ValueType(None, element, None)
    dims = tuple(dims)
    for size in dims:
        if size is None or size < 0:
            dims = tuple(dim if dim is not None and dim >= 0 else None for dim in dims)
            break
    return ValueType(None, element, dims)


def _message(element: int, dims: Dims) -> TypeProto:
    proto = TypeProto()
    tensor = proto.tensor_type
    tensor.elem_type = element
    if dims is not None:
        tensor.shape.SetInParent()
        for size in dims:
            dim = tensor.shape.dim.add()
            if size is not None:
                dim.dim_value = size
    return proto


_NOTHING = ValueType(TypeProto(), 0, None)


def unknown_type() -> ValueType:
    """The unknown type."""
    return _NOTHING


def common_type(first: ValueType, second: ValueType) -> ValueType:
    """The common part of two possible types of a value."""
    element = first.element if first.element == second.element else 0
    if not first.is_tensor:
        return first if first.proto == second.proto else unknown_type()
    if first.dims is None or second.dims is None or len(first.dims) != len(second.dims):
        return tensor_type(element, None) if element else unknown_type()
    if first.dims == second.dims and element:
        return first
    return tensor_type(element, (a if a == b else None for a, b in zip(first.dims, second.dims, strict=True)))


def refined(first: ValueType, second: ValueType) -> ValueType:
    """The first type, with its unknown parts taken from the second."""
    element = first.element or second.element
    if first.dims is None:
        settled = first.proto.WhichOneof("value") not in (None, "tensor_type")
        return (
            first if settled else second if second.element == element else tensor_type(element, second.dims)
        )
    if second.dims is None or len(first.dims) != len(second.dims):
        return first
    dims = tuple(b if a is None else a for a, b in zip(first.dims, second.dims, strict=True))
    return first if dims == first.dims and element == first.element else tensor_type(element, dims)
