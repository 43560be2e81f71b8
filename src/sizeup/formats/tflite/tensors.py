"""Reads the tensors of a subgraph; tensor ids are the indices in the file."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sizeup.dtypes import DTYPES, DType
from sizeup.errors import CorruptModel
from sizeup.formats.tflite.constants import Array
from sizeup.formats.tflite.node import Context
from sizeup.formats.tflite.schema import MAX_DIMENSIONS, MAX_ELEMENTS, TYPE_NAMES, numbers, schema
from sizeup.graph import Constant, Quant, Role, Shape, Tensor

_TYPES = [DTYPES[name] for name in TYPE_NAMES]


class _Details(NamedTuple):
    """Ids of the tensors with the scales and zero points of block-wise or multi-axis quantization."""

    scales: int
    zero_points: int


class TensorReader:
    """Reads one subgraph's tensors.

    `weights`: trained weights of any dtype. `states`: initial values of variables. `computed`: graph inputs
    and operator outputs. `used`: operator inputs.
    """

    def __init__(
        self,
        context: Context,
        table: Any,
        weights: set[int],
        states: set[int],
        computed: set[int],
        used: set[int],
    ) -> None:
        self.context = context
        self.table = table
        self.count = context.limits.tables(table.TensorsLength())
        self.weights = weights
        self.states = states
        self.computed = computed
        self.used = used
        self.open: dict[int, list[int]] = {}  # shape signatures with dynamic dimensions
        self._details: dict[int, _Details] = {}
        self._scale_tensors: set[int] = set()  # tensors with scales or zero points
        self._ranks_are_marked: bool | None = None

    def read(self) -> list[Tensor]:
        """All tensors, in file order."""
        accessors = [self.table.Tensors(index) for index in range(self.count)]
        quantizations = [accessor.Quantization() for accessor in accessors]
        for index, quantization in enumerate(quantizations):
            details = None if quantization is None else _details_of(quantization)
            if details is not None:
                self._details[index] = details
                self._scale_tensors.update(details)
        return [self._tensor(*row) for row in zip(range(self.count), accessors, quantizations, strict=True)]

    def _tensor(self, index: int, accessor: Any, quantization: Any) -> Tensor:
        name = self.context.limits.label(accessor.Name())
        dtype = self._dtype(name, accessor)
        shape = self._shape(name, accessor)
        quant = None if quantization is None else self._quant(index, quantization, shape)
        if index in self.computed:
            if accessor.IsVariable() or self.context.constants.has(accessor):
                kind = "a variable" if accessor.IsVariable() else "constant"
                raise CorruptModel(
                    f"{self.context.name}: tensor {name!r} is an input or an output and also {kind}"
                )
            self._note_open(index, accessor)
            known = bool(shape) or not self._is_unranked(accessor, dtype)
            return Tensor(name, shape if known else None, dtype, None, quant)
        if accessor.IsVariable():  # state kept between inferences; the file has no data for it
            return Tensor(name, shape, dtype, Constant("buffer", None, 0), quant)
        data = self.context.constants.constant(accessor, dtype, shape, self._role(index, dtype, shape, quant))
        if data is None and index in self.used and 0 not in shape:
            data = Constant("scratch", None, 0)
        return Tensor(name, shape, dtype, data or Constant("buffer"), quant)  # unused leftover of a converter

    def _role(self, index: int, dtype: DType, shape: Shape, quant: Quant | None) -> Role:
        if index in self.states:
            return "buffer"
        if not shape or index in self._scale_tensors:
            return "constant"
        trained = dtype.family == "float" or quant is not None or index in self.weights
        return "parameter" if trained else "constant"

    def _dtype(self, name: str, accessor: Any) -> DType:
        code: int = accessor.Type()
        if not 0 <= code < len(_TYPES):
            raise CorruptModel(f"{self.context.name}: tensor {name!r} has the unknown dtype code {code}")
        return _TYPES[code]

    def _shape(self, name: str, accessor: Any) -> Shape:
        dimensions = accessor.ShapeAsNumpy()
        if isinstance(dimensions, int):
            return ()
        if len(dimensions) > MAX_DIMENSIONS:
            raise CorruptModel(
                f"{self.context.name}: tensor {name!r} has {len(dimensions)} dimensions"
                f" (at most {MAX_DIMENSIONS})"
            )
        self.context.limits.refer(len(dimensions))
        shape = tuple(dimensions.tolist())
        if shape and min(shape) < 0:
            raise CorruptModel(f"{self.context.name}: tensor {name!r} has the negative shape {shape}")
        if math.prod(shape) > MAX_ELEMENTS:
            raise CorruptModel(f"{self.context.name}: tensor {name!r} of shape {shape} has too many elements")
        return shape

    def _note_open(self, index: int, accessor: Any) -> None:
        signature = accessor.ShapeSignatureAsNumpy()
        if not isinstance(signature, int) and len(signature) <= MAX_DIMENSIONS and -1 in signature:
            self.open[index] = numbers(signature)

    def _is_unranked(self, accessor: Any, dtype: DType) -> bool:
        """Whether an empty shape means unknown rank: the file marks ranks and this tensor is unmarked."""
        if dtype.family == "opaque" or accessor.HasRank():
            return False
        if self._ranks_are_marked is None:
            self._ranks_are_marked = any(self.table.Tensors(i).HasRank() for i in range(self.count))
        return self._ranks_are_marked

    def _quant(self, index: int, quantization: Any, shape: Shape) -> Quant | None:
        if index not in self._details:
            return _affine(quantization, shape)
        # Arrays of the tensor's rank, one scale per block.
        details = self._details[index]
        scale = self._numbers_of(details.scales)
        if scale is None:
            raise CorruptModel(f"{self.context.name}: scale tensor {details.scales} is empty")
        zero_point = self._numbers_of(details.zero_points) if details.zero_points > 0 else None
        return Quant(scale, np.zeros(1, np.int64) if zero_point is None else zero_point)

    def _numbers_of(self, index: int) -> Array | None:
        if not 0 <= index < self.count:
            raise CorruptModel(
                f"{self.context.name}: scale tensor {index} does not exist ({self.count} tensors)"
            )
        accessor = self.table.Tensors(index)
        name = self.context.limits.label(accessor.Name())
        dtype = self._dtype(name, accessor)
        constant = self.context.constants.constant(accessor, dtype, self._shape(name, accessor), "constant")
        return None if constant is None or constant.read is None else constant.read()


def _affine(quantization: Any, shape: Shape) -> Quant | None:
    """Per-tensor or per-channel scales and zero points.

    None if either is missing: LiteRT rejects such a file, and TFLite Micro treats the tensor as unquantized.
    """
    scale, zero_point = quantization.ScaleAsNumpy(), quantization.ZeroPointAsNumpy()
    if any(isinstance(values, int) or not len(values) for values in (scale, zero_point)):
        return None
    if len(scale) == 1:
        return Quant(scale, zero_point)
    recorded = quantization.QuantizedDimension()
    if 0 <= recorded < len(shape) and shape[recorded] == len(scale):
        return Quant(scale, zero_point, recorded)
    # Old converters record the filter's axis for biases.
    axis = shape.index(len(scale)) if shape.count(len(scale)) == 1 else None
    return Quant(scale, zero_point, axis, recorded)


def _details_of(quantization: Any) -> _Details | None:
    """The scale tensors of block-wise or multi-axis quantization, or None."""
    details_type = quantization.DetailsType()
    types = schema().QuantizationDetails
    for name in ("BlockwiseQuantization", "MultiAxisQuantization"):
        # Schema releases before 2.1 lack the second.
        if details_type and details_type == getattr(types, name, None):
            union = quantization.Details()
            if union is None:
                return None
            table = getattr(schema(), name)()
            table.Init(union.Bytes, union.Pos)
            return _Details(table.Scales(), table.ZeroPoints())
    return None
