"""What a model is run on: the caller's tensors or plain shapes, as tensors without content."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from sizeup.errors import LoadError

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def is_shape(value: Any) -> bool:
    """Whether a value is a plain shape: ints in a tuple or list, perhaps with a type's name after them."""
    if _is_typed_shape(value):
        return True
    return isinstance(value, tuple | list) and bool(value) and all(type(size) is int for size in value)


def _is_typed_shape(value: Any) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and isinstance(value[1], str)
        and is_shape(value[0])
    )


def plain_shape(value: Any) -> tuple[int, ...]:
    """The sizes of a tensor or of a plain shape."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return tuple(value[0] if _is_typed_shape(value) else value)


def arguments(inputs: Any, kwargs: Mapping[str, Any] | None) -> Arguments:
    """Positional and keyword arguments from however they were given."""
    named = dict(kwargs or {})
    if inputs is None:
        return (), named
    if isinstance(inputs, Mapping):
        return (), {**inputs, **named}
    if isinstance(inputs, torch.Tensor) or is_shape(inputs):
        return (inputs,), named
    if not isinstance(inputs, Sequence):
        raise LoadError(f"inputs are tensors or shapes, positional or by name, not {type(inputs).__name__}")
    return tuple(inputs), named


def prepare(
    given: Arguments, device: torch.device, dtype: torch.dtype, mode: FakeTensorMode | None
) -> Arguments:
    """The same arguments with tensors and shapes made content-free by `mode`, or real where there is none."""

    stands_for_tensor = leaf_test(given)

    def made(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor):
                return value
            if mode is None:  # the run may write into it
                return value.detach().clone().requires_grad_(value.requires_grad)
            return mode.from_tensor(value.to(device) if device.type == "meta" else value)
        return empty(value, device, dtype, mode) if stands_for_tensor(value) else value

    args, kwargs = pytree.tree_map(made, given, is_leaf=stands_for_tensor)
    return tuple(args), dict(kwargs)


def leaf_test(given: Arguments) -> Callable[[Any], bool]:
    """What tells a plain shape that stands for a tensor."""
    # Beside tensors, a tuple of ints is what it is: a window, a size, a list of scales.
    any_tensor = any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(given))
    return _is_typed_shape if any_tensor else is_shape


def retyped(value: Any, shape: tuple[int, ...]) -> Any:
    """A plain shape of other sizes, with the same type where one was given."""
    return (shape, value[1]) if _is_typed_shape(value) else shape


def empty(shape: Any, device: torch.device, dtype: torch.dtype, mode: FakeTensorMode | None) -> torch.Tensor:
    """A tensor of a plain shape: content-free under a mode, otherwise zeros."""
    if _is_typed_shape(shape):
        shape, name = shape
        found = getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise LoadError(f"unknown number type {name!r} for an input; torch has float32, int64, bool, ...")
        dtype = found
    if any(size < 0 for size in shape):
        raise LoadError(f"an input's shape has a negative dimension: {'x'.join(map(str, shape))}")
    if mode is None:
        return torch.zeros(tuple(shape), dtype=dtype, device=device)
    with mode:
        return torch.empty(tuple(shape), dtype=dtype, device=device)


def named_leaves(forward: Any, given: Arguments) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the arguments with the name under which the model's forward knows it."""
    yield from named_values(forward, given, lambda _: False)


def named_values(
    forward: Any, given: Arguments, stands_for_tensor: Callable[[Any], bool]
) -> Iterator[tuple[str, Any]]:
    """The same, with plain shapes that stand for tensors among them."""
    args, kwargs = given
    for name, value in [*zip(_parameter_names(forward, len(args)), args, strict=True), *kwargs.items()]:
        for path, leaf in pytree.tree_flatten_with_path(value, is_leaf=stands_for_tensor)[0]:
            if isinstance(leaf, torch.Tensor) or stands_for_tensor(leaf):
                yield name + pytree.keystr(path), leaf


def _parameter_names(forward: Any, count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters if each.kind in positional]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]
