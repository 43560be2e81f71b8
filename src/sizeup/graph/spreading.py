"""How shapes are spread to each other where a dimension may be free."""

from __future__ import annotations

from typing import Any, TypeAlias

Sides: TypeAlias = tuple[Any, ...]  # a shape whose dimensions may be expressions


class NotClosed(Exception):
    """What an operator makes is no closed form of the free dimensions; the message says why."""


def broadcast(left: Sides, right: Sides) -> Sides:
    """The shape that two tensors are spread to, aligned at their last dimension."""
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(spread(a, b) for a, b in pairs)


def spread(left: Any, right: Any) -> Any:
    """The size that two are spread to: one of them is 1, or both are the same."""
    if isinstance(left, int) and left == 1:
        return right
    if isinstance(right, int) and right == 1:
        return left
    if isinstance(left - right, int) and left - right == 0:
        return left
    if left == 1:
        return right
    if right == 1 or left == right:
        return left
    raise NotClosed(f"{left} and {right} do not fit")
