"""Module paths out of tensor names: the format has no modules, but converters keep their names."""

from __future__ import annotations

# Wrappers that TensorFlow's converter puts around the model's own names.
_WRAPPERS = frozenset(("StatefulPartitionedCall", "PartitionedCall"))


def scope_of(name: str) -> str:
    """The path in front of an operator's own name, of the first where a fused operator joins several.

    'model/block_1/conv/Conv2D;model/block_1/bn/FusedBatchNormV3' -> 'model/block_1/conv'
    """
    if "/" not in name:
        return ""
    parts = [part for part in name.partition(";")[0].split("/") if part]
    while parts and parts[0] in _WRAPPERS:
        parts = parts[1:]
    return "/".join(parts[:-1])
