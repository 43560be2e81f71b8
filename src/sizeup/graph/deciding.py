"""Who answers when a free dimension is compared: a listener that decides by example and remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sizeup.graph.expressions import Expression, Number

Relation = Literal["==", ">="]
# Whether `expression relation 0` holds, which from then on is a condition of all that follows.
Listener = Callable[["Expression", Relation], bool]

_asker: ContextVar[str] = ContextVar("asker", default="the model")
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def assuming(listener: Listener) -> Iterator[None]:
    """Let a listener decide comparisons of free dimensions inside the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def asked_by(part: str) -> Iterator[None]:
    """Say which part of a model asks inside the block."""
    token = _asker.set(part)
    try:
        yield
    finally:
        _asker.reset(token)


def asker() -> str:
    """The part of the model that asks now."""
    return _asker.get()


def decide(relation: Relation, difference: Number) -> bool:
    """Whether a difference is 0, or not negative: by itself, or by the listener's example."""
    if isinstance(difference, int):
        return difference == 0 if relation == "==" else difference >= 0
    listener = _listener.get()
    if listener is None:
        raise TypeError(f"a free dimension was compared: whether {difference} {relation} 0 depends on sizes")
    return listener(difference, relation)
