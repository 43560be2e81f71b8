"""Model inputs: convert tensors and plain shapes of the caller to fake tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from sizeup.dtypes import dtype_name
from sizeup.errors import LoadError

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

# Names of inputs with token ids, positions or masks in language models; a shape of one means integers.
_INTEGER_INPUTS = frozenset(
    name
    for base in ("input_ids", "token_type_ids", "attention_mask", "position_ids", "labels")
    for name in (base, f"decoder_{base}", f"encoder_{base}")
) | {"cache_position", "ids", "idx", "input_tokens", "segment_ids", "token_ids", "tokens"}
_MOST_INTEGER_AXES = 2  # batch and sequence; with more axes they are vectors


def is_shape(value: Any) -> bool:
    """Return whether a value is a plain shape: a tuple or list of ints, or (shape, dtype)."""
    if _is_typed_shape(value):
        return True
    return isinstance(value, tuple | list) and bool(value) and all(type(size) is int for size in value)


def _is_typed_shape(value: Any) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and (isinstance(value[1], str | torch.dtype | np.dtype) or _is_scalar_type(value[1]))
        and is_shape(value[0])
    )


def _is_scalar_type(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, np.generic)


def plain_shape(value: Any) -> tuple[int, ...]:
    """Return the sizes of a tensor or of a plain shape."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return tuple(value[0] if _is_typed_shape(value) else value)


def module_arguments(module: torch.nn.Module, inputs: Any, kwargs: Mapping[str, Any] | None) -> Arguments:
    """Return the arguments of a module; shapes of inputs that are token ids by their name get integers."""
    args, named = call_args = arguments(inputs, kwargs)
    is_leaf = leaf_test(call_args)

    def typed(name: str, value: Any) -> Any:
        is_ids = name in _INTEGER_INPUTS and is_leaf(value) and not _is_typed_shape(value)
        return (value, "int64") if is_ids and len(value) <= _MOST_INTEGER_AXES else value

    names = _parameter_names(module.forward, len(args))
    return tuple(map(typed, names, args)), {name: typed(name, value) for name, value in named.items()}


def arguments(inputs: Any, kwargs: Mapping[str, Any] | None) -> Arguments:
    """Return positional and keyword arguments from inputs in any accepted form."""
    args, named = _plain_arguments(inputs, kwargs)

    def with_name(value: Any) -> Any:
        return (value[0], dtype_name(value[1])) if _is_typed_shape(value) else value

    return pytree.tree_map(with_name, (args, named), is_leaf=_is_typed_shape)  # type: ignore[no-any-return]


def _plain_arguments(inputs: Any, kwargs: Mapping[str, Any] | None) -> Arguments:
    named = dict(kwargs or {})
    if inputs is None:
        return (), named
    if isinstance(inputs, Mapping):
        return (), {**inputs, **named}
    if isinstance(inputs, torch.Tensor) or is_shape(inputs):
        return (inputs,), named
    if not isinstance(inputs, Sequence):
        raise LoadError(f"inputs must be tensors or shapes, in order or by name, not {type(inputs).__name__}")
    return tuple(inputs), named


def prepare(
    call_args: Arguments, device: torch.device, dtype: torch.dtype, mode: FakeTensorMode | None
) -> Arguments:
    """Return the arguments with tensors and shapes as fake tensors of `mode`, or real if it is None."""

    is_leaf = leaf_test(call_args)

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor):
                return value
            if mode is None:  # the run may modify it
                return value.detach().clone().requires_grad_(value.requires_grad)
            fake = mode.from_tensor(value.to(device) if device.type == "meta" else value)
            if not value.is_meta:
                setattr(fake, _VALUES, value.detach())
            return fake
        return empty(value, device, dtype, mode) if is_leaf(value) else value

    args, kwargs = pytree.tree_map(convert, call_args, is_leaf=is_leaf)
    return tuple(args), dict(kwargs)


_VALUES = "_sizeup_values"  # attribute of a fake input: the caller's tensor


def values_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor with values: itself, or the caller's tensor of a fake input; None if there are none."""
    if isinstance(tensor, FakeTensor):
        return getattr(tensor, _VALUES, None)
    return None if tensor.is_meta else tensor


def has_values(call_args: Arguments) -> bool:
    """Return whether there are input tensors, and all of them have values."""
    tensors = [leaf for leaf in pytree.tree_leaves(call_args) if isinstance(leaf, torch.Tensor)]
    has_shapes = any(map(leaf_test(call_args), pytree.tree_leaves(call_args, is_leaf=leaf_test(call_args))))
    return bool(tensors) and not has_shapes and all(values_of(tensor) is not None for tensor in tensors)


def leaf_test(call_args: Arguments) -> Callable[[Any], bool]:
    """Return a predicate for plain shapes that represent tensors."""
    # If there are tensors, a tuple of ints is an ordinary argument: a window, a size, a list of scales.
    has_tensor = any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(call_args))
    return _is_typed_shape if has_tensor else is_shape


def retyped(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a plain shape with other sizes and the same dtype, if it has one."""
    return (shape, value[1]) if _is_typed_shape(value) else shape


def empty(shape: Any, device: torch.device, dtype: torch.dtype, mode: FakeTensorMode | None) -> torch.Tensor:
    """Return a tensor of a plain shape: fake if there is a mode, otherwise zeros."""
    if _is_typed_shape(shape):
        shape, name = shape
        named_dtype = getattr(torch, name, None)
        if not isinstance(named_dtype, torch.dtype):
            raise LoadError(f"unknown input dtype {name!r}; use a torch dtype such as float32, int64 or bool")
        dtype = named_dtype
    if any(size < 0 for size in shape):
        raise LoadError(f"negative dimension in input shape {'x'.join(map(str, shape))}")
    if mode is None:
        return torch.zeros(tuple(shape), dtype=dtype, device=device)
    with mode:
        return torch.empty(tuple(shape), dtype=dtype, device=device)


def named_leaves(forward: Any, call_args: Arguments) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor of the arguments with its parameter name in the model's forward."""
    yield from named_values(forward, call_args, lambda _: False)


def named_values(
    forward: Any, call_args: Arguments, is_leaf: Callable[[Any], bool]
) -> Iterator[tuple[str, Any]]:
    """Like `named_leaves`, including plain shapes that represent tensors."""
    args, kwargs = call_args
    for name, value in [*zip(_parameter_names(forward, len(args)), args, strict=True), *kwargs.items()]:
        for path, leaf in pytree.tree_flatten_with_path(value, is_leaf=is_leaf)[0]:
            if isinstance(leaf, torch.Tensor) or is_leaf(leaf):
                yield name + pytree.keystr(path), leaf


def _parameter_names(forward: Any, count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]
