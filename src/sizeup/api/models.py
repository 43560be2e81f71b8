"""Reading a model, however it is given."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sizeup import cost, formats
from sizeup.cost import Cost
from sizeup.errors import RuleError, SizeupError
from sizeup.formats import Inputs
from sizeup.graph import Graph

# A path, a name such as timm:NAME, a PyTorch module or program, an ONNX model, bytes, or a graph.
Source: TypeAlias = Any


def load(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Graph:
    """Read a model and return its graph; inputs are tensors or shapes, `bind` sizes free dimensions."""
    return formats.load(source, inputs=inputs, kwargs=kwargs, bind=bind)


def count(
    source: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
) -> Cost:
    """Count a model's operators: columns of MACs, elementwise operations, parameters and elements moved."""
    return cost.count(load(source, inputs=inputs, kwargs=kwargs, bind=bind))


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
