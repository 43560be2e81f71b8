"""The pages that are written when the site is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from documentation import api, commands, schemas, validation, worked_examples

PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/commands.md": commands.page,
    "reference/functions.md": api.functions,
    "reference/classes.md": api.classes,
    "reference/errors.md": api.errors,
    "reference/worked-examples.md": worked_examples.page,
    "reference/schemas.md": schemas.page,
    "reference/validation.md": validation.page,
}
