"""A choice of number types, written for the tools that carry it out."""

from sizeup.precision.recipes.litert import recipe_for_ai_edge_quantizer
from sizeup.precision.recipes.recipe import Recipe

__all__ = ["Recipe", "recipe_for_ai_edge_quantizer"]
