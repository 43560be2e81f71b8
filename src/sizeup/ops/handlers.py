"""Functions that handle operators or op kinds, registered next to their definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Handler = TypeVar("Handler")


class Handlers(dict[str, Handler]):
    """The handler of each operator that has one, as a decorator: `@handlers("Conv")`."""

    def __call__(self, *names: str) -> Callable[[Handler], Handler]:
        """Register the decorated function; an operator has one handler."""
        assert self.keys().isdisjoint(names), names

        def register(handler: Handler) -> Handler:
            self.update(dict.fromkeys(names, handler))
            return handler

        return register
