"""Specs and models of a sweep enter; points and rows of language models leave."""

from sizeup.serving.models.reader import checkpoint_digest
from sizeup.serving.sweeps.evaluate import evaluate_serving
from sizeup.serving.sweeps.spec import cluster_parts, serving_grid, serving_point

__all__ = ["checkpoint_digest", "cluster_parts", "evaluate_serving", "serving_grid", "serving_point"]
