"""What is known of the names in a block: types, and the values of small tensors that are certain."""

from __future__ import annotations

from sizeup.errors import LoadError
from sizeup.formats.onnx.blocks import Block
from sizeup.formats.onnx.constants import SMALL, Array, Stored
from sizeup.formats.onnx.value_types import ValueType, dtype_of, make, unknown

_FEW = 16


class Frame:
    """The names of one block, and through it those of the blocks around it."""

    __slots__ = ("assumed", "block", "outer", "types", "values")

    def __init__(self, block: Block, outer: Frame | None = None) -> None:
        self.block = block
        self.outer = outer
        self.types: dict[str, ValueType] = {}
        self.values: dict[str, Array | None] = {}
        self.assumed: set[str] = set()  # names whose values follow from defaults of inputs

    def type(self, name: str) -> ValueType:
        """The type of a name, as far as it is known."""
        frame: Frame | None = self
        while frame is not None:
            found = frame.types.get(name)
            if found is not None:
                return found
            constant = frame.block.constants.get(name)
            if constant is not None:
                return frame.types.setdefault(name, make(constant.element, constant.dims))
            frame = frame.outer
        return unknown()

    def value(self, name: str) -> Array | None:
        """The small tensor behind a name, where it is certain before the run."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            constant = frame.block.constants.get(name)
            if constant is not None:
                return frame.values.setdefault(name, _small(constant))
            frame = frame.outer
        return None

    def certain(self, name: str) -> Array | None:
        """The same, unless a caller can change it by overriding the default of an input."""
        return None if self.is_assumed(name) else self.value(name)

    def is_assumed(self, name: str) -> bool:
        """Whether a value is the default of an input, or computed from one."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.assumed:
                return True
            constant = frame.block.constants.get(name)
            if constant is not None or name in frame.types:
                return constant is not None and constant.overridable
            frame = frame.outer
        return False

    def constant(self, name: str) -> Stored | None:
        """The constant of the file that a name stands for, if it does."""
        frame: Frame | None = self
        while frame is not None:
            constant = frame.block.constants.get(name)
            if constant is not None or name in frame.types:
                return constant
            frame = frame.outer
        return None


def _small(constant: Stored) -> Array | None:
    """What may decide a shape: integers and booleans, and the few floats of a scale or a range."""
    family = dtype_of(constant.element).family
    if family == "complex" or constant.elements > (SMALL if family in ("int", "bool") else _FEW):
        return None
    try:
        return constant.read()
    except LoadError:  # its file is not there; most counts are certain without it
        return None
