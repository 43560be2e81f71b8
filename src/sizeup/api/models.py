"""Reading a model, however it is given."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from sizeup import cost, formats
from sizeup.cost import Cost
from sizeup.errors import RuleError, SizeupError
from sizeup.formats import Free, Inputs
from sizeup.graph import Graph
from sizeup.symbolic import FreeGraph

if TYPE_CHECKING:
    from sizeup.closed_forms.cost import FreeCost

# A path, a name such as timm:NAME, a PyTorch module or program, an ONNX model, bytes, or a graph.
Source: TypeAlias = Any


@overload
def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    free: None = None,
) -> Graph: ...
@overload
def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    free: Free,
) -> FreeGraph: ...
def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    free: Free | None = None,
) -> Graph | FreeGraph:
    """Read a model and return its graph; inputs are tensors or shapes, `bind` sizes free dimensions.

    Dimensions named in `free` keep no size: {"batch": (0, 0), "height": (0, 2)} names input and axis (or a
    list of such), a list of names stands for their usual places, True for all that the model has.
    """
    if free is None or free is False:
        return formats.load(source, inputs=inputs, kwargs=kwargs, bind=bind)
    return formats.load_free(source, free, inputs=inputs, kwargs=kwargs, bind=bind)


@overload
def count(
    source: FreeGraph,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: None = None,
    free: Free | None = None,
) -> FreeCost: ...
@overload
def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    free: None = None,
) -> Cost: ...
@overload
def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    free: Free,
) -> FreeCost: ...
def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    free: Free | None = None,
) -> Cost | FreeCost:
    """Count a model's operators: columns of MACs, elementwise operations, parameters and elements moved.

    With free dimensions these are closed forms, and `.at(batch=8, height=heights)` evaluates them.
    """
    if isinstance(source, FreeGraph) and not bind:
        return _closed(source)
    if free is None or free is False:
        return cost.count(load(source, inputs=inputs, kwargs=kwargs, bind=bind))
    return _closed(load(source, inputs=inputs, kwargs=kwargs, bind=bind, free=free))


def _closed(graph: FreeGraph) -> FreeCost:
    from sizeup.closed_forms.cost import FreeCost

    return FreeCost(graph)


def load_rules(path: str | os.PathLike[str]) -> None:
    """Run a Python file that registers rules for operators of your own with `@sizeup.op_rule`."""
    file = Path(path)
    if not file.is_file():
        raise RuleError(f"{file}: no such file of rules")
    name = f"sizeup_rules_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuleError(f"{file}: rules are a Python file, with the ending .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SizeupError:
        raise
    # It is the user's code: whatever it raises is news about that file, not a fault of ours.
    except Exception as error:
        raise RuleError(f"{file}: the rules cannot be used: {type(error).__name__}: {error}") from error
