"""Which shapes hold as recorded, and which only data decides.

A file may leave dimensions open (-1 in a tensor's signature). Beside that it records a shape, which
holds for the recorded batch; but where the numbers that come in decide the size, it is a mere stand-in.
"""

from __future__ import annotations

from dataclasses import replace

from sizeup.formats.tflite.node import Node
from sizeup.graph import ABSENT, Tensor

# They have the shape of what they convert. Quantisers that add them leave the signature out.
_CONVERSIONS = frozenset({"quantize", "dequantize", "cast"})


class Openness:
    """Follows open dimensions through a subgraph and clears the shapes that data decides."""

    def __init__(self, tensors: list[Tensor], signatures: dict[int, list[int]]) -> None:
        self.tensors = tensors
        self.open = set(signatures)
        # Tensors whose numbers follow from shapes: what SHAPE gives, and what is computed from it.
        self.of_shapes: set[int] = set()

    def follow(self, node: Node) -> None:
        """Judge one operator's outputs, after everything in front of it."""
        given = [identity for identity in node.inputs if identity != ABSENT]
        if node.kind == "shape_of" or self._are_of_shapes(given):
            self.of_shapes.update(node.outputs)
        if node.kind in _CONVERSIONS and self.open.intersection(given):
            self.open.update(node.outputs)
        if self._is_decided_by_data(node, given):
            for identity in self.open.intersection(node.outputs):
                self.tensors[identity] = replace(self.tensors[identity], shape=None)

    def _is_decided_by_data(self, node: Node, given: list[int]) -> bool:
        if node.data_shaped or any(self.tensors[identity].shape is None for identity in given):
            return True
        if self.open.intersection(given):
            return False
        # An open dimension that begins here comes from numbers: from those of shapes, or from data.
        return not self._are_of_shapes(given)

    def _are_of_shapes(self, given: list[int]) -> bool:
        return all(identity in self.of_shapes or self._is_constant(identity) for identity in given)

    def _is_constant(self, identity: int) -> bool:
        data = self.tensors[identity].data
        return data is not None and data.role not in ("buffer", "scratch")
