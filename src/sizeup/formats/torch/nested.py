"""Jagged nested tensors: record their operators as those on their values, all sequences one after another."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor, nested_view_from_values_offsets
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

LENGTHS_ARE_DATA = "the lengths of nested tensors are data"


def has_nested(values: Any) -> bool:
    """Return whether there is a nested tensor among values."""
    return any(isinstance(leaf, NestedTensor) for leaf in pytree.tree_leaves(values))


def is_nested(types: Iterable[type]) -> bool:
    """Return whether one of the classes is that of nested tensors."""
    return NestedTensor in types


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a nested tensor, and any other tensor unchanged."""
    return tensor._values if isinstance(tensor, NestedTensor) else tensor


class NestedAttention(TorchFunctionMode):
    """Replaces attention on nested tensors, which torch pads on a CPU, by one operator over their values."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and is_nested(types):
            return _attention(*args, **kwargs)
        return func(*args, **kwargs)


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    """Return the attention of nested (batch, heads, length, size)."""
    import_module("torch.nn.attention.varlen")  # registers the operator
    values = [tensor.transpose(1, 2).values() for tensor in (query, key, value)]
    longest = [int(tensor.offsets().diff().max()) for tensor in (query, key)]
    result = torch.ops.torch_attn._varlen_attn(*values, query.offsets(), key.offsets(), *longest)[0]
    nested = nested_view_from_values_offsets(result, query.offsets())  # type: ignore[no-untyped-call]
    return nested.transpose(1, 2)
