"""The tensors of a subgraph, under the indices that the file gives them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sizeup.dtypes import DTYPES, DType
from sizeup.errors import CorruptModel
from sizeup.formats.tflite.constants import Array
from sizeup.formats.tflite.context import Context
from sizeup.formats.tflite.schema import MOST_DIMENSIONS, MOST_ELEMENTS, TYPE_NAMES, numbers, schema
from sizeup.graph import Constant, Quant, Role, Shape, Tensor

_TYPES = [DTYPES[name] for name in TYPE_NAMES]


class _Details(NamedTuple):
    """The tensors that hold a tensor's scales and zero points, for blocks or for several axes."""

    scales: int
    zero_points: int


class TensorReader:
    """Reads one subgraph's tensors.

    `weights` are those that operators use as trained numbers, whatever their type; `states` are those that
    variables start from; `made` are those that something computes or feeds; `used` those that operators read.
    """

    def __init__(
        self,
        context: Context,
        table: Any,
        weights: set[int],
        states: set[int],
        made: set[int],
        used: set[int],
    ) -> None:
        self.context = context
        self.table = table
        self.count = context.limits.length(table.TensorsLength())
        self.weights = weights
        self.states = states
        self.made = made
        self.used = used
        self.open: dict[int, list[int]] = {}  # signatures with dimensions that the file leaves open
        self._details: dict[int, _Details] = {}
        self._of_quantisation: set[int] = set()  # tensors that only hold scales and zero points
        self._ranks_are_marked: bool | None = None

    def read(self) -> list[Tensor]:
        """All tensors, in the file's order."""
        accessors = [self.table.Tensors(index) for index in range(self.count)]
        quantisations = [accessor.Quantization() for accessor in accessors]
        for index, quantisation in enumerate(quantisations):
            found = None if quantisation is None else _details_of(quantisation)
            if found is not None:
                self._details[index] = found
                self._of_quantisation.update(found)
        return [self._tensor(*each) for each in zip(range(self.count), accessors, quantisations, strict=True)]

    def _tensor(self, index: int, accessor: Any, quantisation: Any) -> Tensor:
        name = self.context.limits.label(accessor.Name())
        dtype = self._dtype(name, accessor)
        shape = self._shape(name, accessor)
        quant = None if quantisation is None else self._quant(index, quantisation, shape)
        if index in self.made:
            if accessor.IsVariable() or self.context.constants.has(accessor):
                kind = "a variable" if accessor.IsVariable() else "constant"
                raise CorruptModel(f"{self.context.name}: tensor {name!r} is computed or fed, and {kind} too")
            self._note_open(index, accessor)
            known = bool(shape) or not self._is_unranked(accessor, dtype)
            return Tensor(name, shape if known else None, dtype, None, quant)
        if accessor.IsVariable():  # a state, which a run leaves for the next: the file only describes it
            return Tensor(name, shape, dtype, Constant("buffer", None, 0), quant)
        data = self.context.constants.of(accessor, dtype, shape, self._role(index, dtype, shape, quant))
        if data is None and index in self.used and 0 not in shape:
            data = Constant("scratch", None, 0)
        return Tensor(name, shape, dtype, data or Constant("buffer"), quant)  # left over by a converter

    def _role(self, index: int, dtype: DType, shape: Shape, quant: Quant | None) -> Role:
        if index in self.states:
            return "buffer"
        if not shape or index in self._of_quantisation:
            return "constant"
        trained = dtype.family == "float" or quant is not None or index in self.weights
        return "parameter" if trained else "constant"

    def _dtype(self, name: str, accessor: Any) -> DType:
        code: int = accessor.Type()
        if not 0 <= code < len(_TYPES):
            raise CorruptModel(f"{self.context.name}: tensor {name!r} has the unknown number type {code}")
        return _TYPES[code]

    def _shape(self, name: str, accessor: Any) -> Shape:
        dimensions = accessor.ShapeAsNumpy()
        if isinstance(dimensions, int):
            return ()
        if len(dimensions) > MOST_DIMENSIONS:
            raise CorruptModel(f"{self.context.name}: tensor {name!r} claims {len(dimensions)} dimensions")
        shape = tuple(dimensions.tolist())
        if shape and min(shape) < 0:
            raise CorruptModel(f"{self.context.name}: tensor {name!r} has the shape {shape}")
        if math.prod(shape) > MOST_ELEMENTS:
            raise CorruptModel(f"{self.context.name}: tensor {name!r} of the shape {shape} fits no machine")
        return shape

    def _note_open(self, index: int, accessor: Any) -> None:
        signature = accessor.ShapeSignatureAsNumpy()
        if not isinstance(signature, int) and len(signature) <= MOST_DIMENSIONS and -1 in signature:
            self.open[index] = numbers(signature)

    def _is_unranked(self, accessor: Any, dtype: DType) -> bool:
        """An empty shape is a scalar's, unless the file marks ranks and this tensor is not marked."""
        if dtype.family == "opaque" or accessor.HasRank():
            return False
        if self._ranks_are_marked is None:
            self._ranks_are_marked = any(self.table.Tensors(i).HasRank() for i in range(self.count))
        return self._ranks_are_marked

    def _quant(self, index: int, quantisation: Any, shape: Shape) -> Quant | None:
        if index not in self._details:
            return _affine(quantisation, shape)
        # An array of the tensor's own rank: one scale per block.
        where = self._details[index]
        scale = self._numbers_of(where.scales)
        if scale is None:
            raise CorruptModel(f"{self.context.name}: tensor {where.scales} should hold scales and is empty")
        zero_point = self._numbers_of(where.zero_points) if where.zero_points > 0 else None
        return Quant(scale, np.zeros(1, np.int64) if zero_point is None else zero_point)

    def _numbers_of(self, index: int) -> Array | None:
        if not 0 <= index < self.count:
            raise CorruptModel(f"{self.context.name}: tensor {index} of {self.count} should hold scales")
        accessor = self.table.Tensors(index)
        name = self.context.limits.label(accessor.Name())
        dtype = self._dtype(name, accessor)
        found = self.context.constants.of(accessor, dtype, self._shape(name, accessor), "constant")
        return None if found is None or found.read is None else found.read()


def _affine(quantisation: Any, shape: Shape) -> Quant | None:
    """Scales and zero points written beside the tensor, one for all of it or one for each slice.

    None if either is missing: LiteRT refuses such a file, and TFLite Micro takes the tensor as not quantized.
    """
    scale, zero_point = quantisation.ScaleAsNumpy(), quantisation.ZeroPointAsNumpy()
    if any(isinstance(each, int) or not len(each) for each in (scale, zero_point)):
        return None
    axis = None if len(scale) == 1 else _axis(quantisation.QuantizedDimension(), len(scale), shape)
    return Quant(scale, zero_point, axis)


def _axis(recorded: int, scales: int, shape: Shape) -> int | None:
    """The axis along which scales change. Old converters give biases the axis of the filter."""
    if 0 <= recorded < len(shape) and shape[recorded] == scales:
        return recorded
    return shape.index(scales) if shape.count(scales) == 1 else None


def _details_of(quantisation: Any) -> _Details | None:
    """Where scales for blocks, or along several axes, are kept; None for the plain scheme."""
    kind = quantisation.DetailsType()
    kinds = schema().QuantizationDetails
    for name in ("BlockwiseQuantization", "MultiAxisQuantization"):
        # Releases of the schema before 2.1 lack the second.
        if kind and kind == getattr(kinds, name, None):
            union = quantisation.Details()
            if union is None:
                return None
            table = getattr(schema(), name)()
            table.Init(union.Bytes, union.Pos)
            return _Details(table.Scales(), table.ZeroPoints())
    return None
