"""Shape rules of ONNX operators, for numeric and symbolic sizes."""

from sizeup.formats.onnx.shape_rules import layouts, products, windows  # noqa: F401 - importing registers the rules
from sizeup.formats.onnx.shape_rules.context import InferenceContext, rule_of, shapes_of

__all__ = ["InferenceContext", "rule_of", "shapes_of"]
