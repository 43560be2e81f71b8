"""Shapes of what operators make, by rules of our own: of sizes that are numbers, or have only names."""

from sizeup.formats.onnx.rules import layouts, products, windows  # noqa: F401 - their rules register themselves
from sizeup.formats.onnx.rules.spots import RULES, Spot, shapes_of

__all__ = ["RULES", "Spot", "shapes_of"]
