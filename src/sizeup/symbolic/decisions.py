"""Comparisons that depend on symbolic dimensions: a listener decides them and records guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

Relation = Literal["==", ">="]
# Decides whether `expression relation 0` holds; its answer is a guard of everything computed afterwards.
Listener = Callable[[Any, Relation], bool]

_source: ContextVar[str] = ContextVar("source", default="the model")
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def assuming(listener: Listener) -> Iterator[None]:
    """Lets a listener decide comparisons inside the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def guard_source(part: str) -> Iterator[None]:
    """Attributes guards recorded inside the block to a part of the model."""
    token = _source.set(part)
    try:
        yield
    finally:
        _source.reset(token)


def current_source() -> str:
    """The part of the model that guards are attributed to."""
    return _source.get()


def decide(relation: Relation, difference: Any) -> bool:
    """Whether a difference is 0 ("==") or not negative (">="); the listener decides for expressions.

    Raises TypeError for an expression without a listener.
    """
    if isinstance(difference, int):
        return difference == 0 if relation == "==" else difference >= 0
    listener = _listener.get()
    if listener is None:
        raise TypeError(f"comparison of symbolic dimensions: {difference} {relation} 0 depends on the sizes")
    return listener(difference, relation)
