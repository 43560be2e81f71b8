"""Loading and counting models."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from sizeup import cost, formats, units
from sizeup.cost import Cost
from sizeup.errors import RuleError, SizeupError
from sizeup.files import is_file
from sizeup.formats import FreeSpec, Inputs, is_symbolic
from sizeup.graph import Graph
from sizeup.results.report import Report

if TYPE_CHECKING:
    from sizeup.closed_forms.cost import SymbolicCost
    from sizeup.dtypes import DType
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.symbolic import SymbolicGraph

# A path, a name such as timm:NAME, a PyTorch module or exported program, an ONNX model, bytes, a graph, or a
# report of `analyze`, which is not loaded again.
Source: TypeAlias = Any


@overload
def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    free: None = None,
) -> Graph: ...
@overload
def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    free: FreeSpec,
) -> SymbolicGraph: ...
def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    free: FreeSpec | None = None,
) -> Graph | SymbolicGraph:
    """Load a model as a graph; `inputs` are tensors or shapes, `bind` sets sizes of symbolic dimensions.

    Dimensions in `free` stay symbolic: {"batch": (0, 0), "height": (0, 2)} gives input and axis (or a list of
    them) by name, a list of names means their usual axes, True all symbolic dimensions of the model.

    PyTorch modules are recorded in eval mode, with `train` in training mode: what one forward of training
    runs. All functions that take a model also take the graph that this returns.
    """
    if isinstance(source, Report):
        check_report_options(
            source, inputs=inputs, kwargs=kwargs, bind=bind, free=free or None, train=train or None
        )
        return source.graph
    if free is None or free is False:
        return formats.load(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train)
    return formats.load_symbolic(source, free, inputs=inputs, kwargs=kwargs, bind=bind, train=train)


@overload
def count(
    source: SymbolicGraph,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: None = None,
    train: bool = False,
    free: FreeSpec | None = None,
) -> SymbolicCost: ...
@overload
def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    free: None = None,
) -> Cost: ...
@overload
def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    free: FreeSpec,
) -> SymbolicCost: ...
def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    train: bool = False,
    free: FreeSpec | None = None,
) -> Cost | SymbolicCost:
    """Count MACs, elementwise operations, parameters and elements moved per operator.

    With symbolic dimensions (`free`) these are closed forms, evaluated by `.at(batch=8, height=heights)`.
    """
    if is_symbolic(source) and not bind:
        return _free_cost(source)
    if free is None or free is False:
        return counted(source, load(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train))
    return _free_cost(load(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train, free=free))


def load_at_precision(
    source: Source,
    inputs: Inputs,
    kwargs: Mapping[str, Any] | None,
    bind: Mapping[str, int] | None,
    precision: PrecisionSpec,
    *,
    train: bool = False,
) -> tuple[Graph, DType | None, Graph]:
    """The graph with a precision map applied, the one precision, and the graph as loaded.

    A report has its own precision unless another one is given.
    """
    loaded = load(source, inputs=inputs, kwargs=kwargs, bind=bind, train=train)
    if isinstance(source, Report):
        original = loaded if source.original_cost is None else source.original_cost.graph
        if precision is None:
            return loaded, source.precision, original
        loaded = original
    if precision is None:
        return loaded, None, loaded
    from sizeup.mixed_precision.precision_map import apply_precision

    return *apply_precision(loaded, precision), loaded


def counted(source: Source, graph: Graph) -> Cost:
    """The cost of a graph; that of a report on it is not counted again."""
    return source.cost if isinstance(source, Report) and source.graph is graph else cost.count(graph)


def check_report_options(report: Report, **options: Any) -> None:
    """Raises SizeupError for options that only loading the model again could follow."""
    for name, value in options.items():
        if value is not None:
            sizes = ", ".join(f"{port.name} {units.shape(port.shape)}" for port in report.inputs)
            raise SizeupError(
                f"{name}= does not apply to a report: it is for {sizes or 'fixed sizes'};"
                f" pass the model instead of its report, or analyze it again with {name}="
            )


def refuse_report(source: Source, verb: str) -> None:
    """Raises SizeupError if a source is a report and the verb runs the model itself."""
    if isinstance(source, Report):
        raise SizeupError(f"{verb} runs the model: pass the model itself, not its report")


def _free_cost(graph: SymbolicGraph) -> SymbolicCost:
    from sizeup.closed_forms.cost import SymbolicCost

    return SymbolicCost(graph)


_RULES = "sizeup_rules_"


def loaded_rules() -> list[Path]:
    """The files with cost rules that were loaded."""
    modules = [module for name, module in sys.modules.items() if name.startswith(_RULES)]
    return [Path(module.__file__) for module in modules if module.__file__]


def load_rules(path: str | os.PathLike[str]) -> None:
    """Run a Python file that registers cost rules with `@sizeup.op_rule`."""
    file = Path(path)
    if not is_file(file):
        raise RuleError(f"{file}: no such file")
    name = f"{_RULES}{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuleError(f"{file}: not a Python file; give a .py file with cost rules")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SizeupError:
        raise
    # User code can raise any exception.
    except Exception as error:
        raise RuleError(f"{file}: loading cost rules failed: {type(error).__name__}: {error}") from error
