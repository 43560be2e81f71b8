"""Whether two graphs are one network at different number types."""

from __future__ import annotations

from sizeup.graph.ir import Graph, Tensor


def differ_in_types_alone(one: Graph, other: Graph) -> bool:
    """Whether operators are the very same objects, and shapes and what is constant are equal."""
    if one is other:
        return True
    if (len(one.ops), len(one.tensors)) != (len(other.ops), len(other.tensors)):
        return False
    return all(a is b for a, b in zip(one.ops, other.ops, strict=True)) and all(
        a is b or _differ_in_type_alone(a, b) for a, b in zip(one.tensors, other.tensors, strict=True)
    )


def _differ_in_type_alone(one: Tensor, other: Tensor) -> bool:
    # Strings have no bits: their bytes are not known, which a count says.
    return (
        one.shape == other.shape
        and (one.data is None) == (other.data is None)
        and bool(one.dtype.bits) == bool(other.dtype.bits)
    )
