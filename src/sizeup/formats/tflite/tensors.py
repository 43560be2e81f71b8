"""The tensors of a subgraph, under the indices that the file gives them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sizeup.dtypes import DTYPES, DType
from sizeup.errors import CorruptModel
from sizeup.formats.tflite.content import Array
from sizeup.formats.tflite.limits import MOST_DIMENSIONS, MOST_ELEMENTS
from sizeup.formats.tflite.quantisation import Details, affine, details
from sizeup.formats.tflite.schema import TYPE_NAMES, numbers
from sizeup.graph import Constant, Quant, Role, Shape, Tensor

if TYPE_CHECKING:
    from sizeup.formats.tflite.model import Model

_TYPES = [DTYPES[name] for name in TYPE_NAMES]


class TensorReader:
    """Reads one subgraph's tensors.

    `weights` are those that operators use as trained numbers, whatever their type; `states` are those that
    variables start from; `made` are those that something computes or feeds; `used` those that operators read.
    """

    def __init__(
        self, model: Model, table: Any, weights: set[int], states: set[int], made: set[int], used: set[int]
    ) -> None:
        self.model = model
        self.table = table
        self.count = model.limits.length(table.TensorsLength())
        self.weights = weights
        self.states = states
        self.made = made
        self.used = used
        self.open: dict[int, list[int]] = {}  # signatures with dimensions that the file leaves open
        self._details: dict[int, Details] = {}
        self._of_quantisation: set[int] = set()  # tensors that only hold scales and zero points
        self._ranks_are_marked: bool | None = None

    def read(self) -> list[Tensor]:
        """All tensors, in the file's order."""
        accessors = [self.table.Tensors(index) for index in range(self.count)]
        quantisations = [accessor.Quantization() for accessor in accessors]
        for index, quantisation in enumerate(quantisations):
            found = None if quantisation is None else details(quantisation)
            if found is not None:
                self._details[index] = found
                self._of_quantisation.update(found)
        return [self._tensor(*each) for each in zip(range(self.count), accessors, quantisations, strict=True)]

    def _tensor(self, index: int, accessor: Any, quantisation: Any) -> Tensor:
        name = self.model.limits.label(accessor.Name())
        dtype = self._dtype(name, accessor)
        shape = self._shape(name, accessor)
        quant = None if quantisation is None else self._quant(index, quantisation, shape)
        if index in self.made:
            if accessor.IsVariable() or self.model.constants.has(accessor):
                kind = "a variable" if accessor.IsVariable() else "constant"
                raise CorruptModel(f"{self.model.name}: tensor {name!r} is computed or fed, and {kind} too")
            self._note_open(index, accessor)
            known = bool(shape) or not self._is_unranked(accessor, dtype)
            return Tensor(name, shape if known else None, dtype, None, quant)
        if accessor.IsVariable():  # a state, which a run leaves for the next: the file only describes it
            return Tensor(name, shape, dtype, Constant("buffer", None, 0), quant)
        data = self.model.constants.of(accessor, dtype, shape, self._role(index, dtype, shape, quant))
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
            raise CorruptModel(f"{self.model.name}: tensor {name!r} has the unknown number type {code}")
        return _TYPES[code]

    def _shape(self, name: str, accessor: Any) -> Shape:
        dimensions = accessor.ShapeAsNumpy()
        if isinstance(dimensions, int):
            return ()
        if len(dimensions) > MOST_DIMENSIONS:
            raise CorruptModel(f"{self.model.name}: tensor {name!r} claims {len(dimensions)} dimensions")
        shape = tuple(dimensions.tolist())
        if shape and min(shape) < 0:
            raise CorruptModel(f"{self.model.name}: tensor {name!r} has the shape {shape}")
        if math.prod(shape) > MOST_ELEMENTS:
            raise CorruptModel(f"{self.model.name}: tensor {name!r} of the shape {shape} fits no machine")
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
            return affine(quantisation, shape)
        # An array of the tensor's own rank: one scale a block.
        where = self._details[index]
        scale = self._numbers_of(where.scales)
        if scale is None:
            raise CorruptModel(f"{self.model.name}: tensor {where.scales} should hold scales and is empty")
        zero_point = self._numbers_of(where.zero_points) if where.zero_points > 0 else None
        return Quant(scale, np.zeros(1, np.int64) if zero_point is None else zero_point)

    def _numbers_of(self, index: int) -> Array | None:
        if not 0 <= index < self.count:
            raise CorruptModel(f"{self.model.name}: tensor {index} of {self.count} should hold scales")
        accessor = self.table.Tensors(index)
        name = self.model.limits.label(accessor.Name())
        dtype = self._dtype(name, accessor)
        found = self.model.constants.of(accessor, dtype, self._shape(name, accessor), "constant")
        return None if found is None or found.read is None else found.read()
