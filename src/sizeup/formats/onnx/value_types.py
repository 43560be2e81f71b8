"""What is known of a value before the model runs: its number type and, as far as certain, its shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from onnx import TensorProto, TypeProto

from sizeup.dtypes import DTYPES, DType
from sizeup.errors import CorruptModel
from sizeup.graph import Shape

MOST_DIMENSIONS = 1024
"""More than any runtime takes. The product of a million large dimensions would take minutes."""

# None stands for one dimension, or for a whole shape, that is not known.
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
    """The number type behind ONNX's code for it."""
    return _DTYPES.get(element, _UNKNOWN)


class ValueType:
    """A value's type: its number type and dimensions, and ONNX's own message of them."""

    __slots__ = ("_proto", "dims", "element", "shape")

    def __init__(self, proto: TypeProto | None, element: int, dims: Dims) -> None:
        self._proto = proto
        self.element = element
        self.dims = dims
        # The dimensions where all of them are known.
        self.shape: Shape | None = None if dims is None or None in dims else cast("Shape", dims)

    @property
    def proto(self) -> TypeProto:
        """ONNX's message; that of a tensor is made when it is asked for, which is seldom."""
        if self._proto is None:
            self._proto = _message(self.element, self.dims)
        return self._proto

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor's, not that of a sequence, a map, an optional or of something unknown."""
        return self._proto is None or self._proto.HasField("tensor_type")


def read(proto: TypeProto) -> ValueType:
    """The type that an ONNX message describes; sequences, maps and optionals have no dimensions."""
    if not proto.HasField("tensor_type"):
        return _NOTHING if proto.WhichOneof("value") is None else ValueType(proto, _inner(proto), None)
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return ValueType(proto, tensor.elem_type, None)
    if len(tensor.shape.dim) > MOST_DIMENSIONS:
        raise CorruptModel(f"a tensor has {len(tensor.shape.dim):,} dimensions, at most {MOST_DIMENSIONS:,}")
    # Some exporters write -1 for a dimension that they do not know.
    dims = tuple(
        size if dim.HasField("dim_value") and (size := dim.dim_value) >= 0 else None
        for dim in tensor.shape.dim
    )
    return ValueType(proto, tensor.elem_type, dims)


def _inner(proto: TypeProto) -> int:
    """The number type of the tensors in a sequence, or of an optional one."""
    for _ in range(4):
        if proto.HasField("sequence_type"):
            proto = proto.sequence_type.elem_type
        elif proto.HasField("optional_type"):
            proto = proto.optional_type.elem_type
        elif proto.HasField("sparse_tensor_type"):
            return proto.sparse_tensor_type.elem_type
    return proto.tensor_type.elem_type


def make(element: int, dims: Iterable[int | None] | None) -> ValueType:
    """A tensor's type from its number type and what is known of its dimensions; a negative one is not."""
    if dims is None:
        return ValueType(None, element, None)
    dims = tuple(dims)
    for size in dims:
        if size is None or size < 0:
            dims = tuple(each if each is not None and each >= 0 else None for each in dims)
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


def unknown() -> ValueType:
    """The type of a value of which nothing is known."""
    return _NOTHING


def joined(first: ValueType, second: ValueType) -> ValueType:
    """What two possible types of one value have in common."""
    element = first.element if first.element == second.element else 0
    if not first.is_tensor:
        return first if first.proto == second.proto else unknown()
    if first.dims is None or second.dims is None or len(first.dims) != len(second.dims):
        return make(element, None) if element else unknown()
    if first.dims == second.dims and element:
        return first
    return make(element, (a if a == b else None for a, b in zip(first.dims, second.dims, strict=True)))


def refined(first: ValueType, second: ValueType) -> ValueType:
    """The first type, with what it leaves open taken from the second."""
    element = first.element or second.element
    if first.dims is None:
        settled = first.proto.WhichOneof("value") not in (None, "tensor_type")
        return first if settled else second if second.element == element else make(element, second.dims)
    if second.dims is None or len(first.dims) != len(second.dims):
        return first
    dims = tuple(b if a is None else a for a, b in zip(first.dims, second.dims, strict=True))
    return first if dims == first.dims and element == first.element else make(element, dims)
