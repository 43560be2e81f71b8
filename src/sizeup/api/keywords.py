"""Keywords of other tools: a call that uses one is refused with the keyword to use instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Inputs of a model in torchinfo, torchsummary, ptflops, fvcore and torch.export.
_INPUTS = ("input_size", "input_data", "input_shape", "input_res", "example_inputs", "input", "args")
_OTHERS = {"device": "target", "dtype": "precision", "dtypes": "precision", "batch_dim": "inputs"}
_EXAMPLE = "((1, 3, 224, 224),)"


def with_keyword_hints(function: Callable[P, R]) -> Callable[P, R]:
    """Raises TypeError for a keyword of another tool, with the keyword that `function` has instead."""
    accepted = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs.keys() - accepted:
            replacement = "inputs" if name in _INPUTS else _OTHERS.get(name)
            if replacement in accepted:
                value = _as_inputs(kwargs[name]) if replacement == "inputs" else repr(kwargs[name])
                raise TypeError(f"{function.__name__}() takes {replacement}={value}, not {name}=")
        return function(*args, **kwargs)

    return call


def _as_inputs(value: Any) -> str:
    """The value of `inputs` with these shapes; an example if they are not shapes."""
    if _is_shape(value):
        return repr((tuple(value),))
    if isinstance(value, Sequence) and value and all(map(_is_shape, value)):
        return repr(tuple(map(tuple, value)))
    # Not its text: that of a tensor has all values.
    return "(tensor,)" if hasattr(value, "shape") else _EXAMPLE


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(type(size) is int for size in value)
