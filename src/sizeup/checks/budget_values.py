"""The values of settings in a budget file; all raise BudgetError with their place for an invalid one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from sizeup.checks.evaluate import NewPolicy
from sizeup.errors import BudgetError
from sizeup.units import quoted


def table_at(
    table: Mapping[str, Any], key: str | None, location: str, known: Iterable[str] | None
) -> dict[str, Any]:
    """A table of settings; with `known`, only these keys."""
    value = table if key is None else table.get(key, {})
    if not isinstance(value, dict):
        raise BudgetError(
            f"{location}: {key or 'it'} is {quoted(value)}, not a table such as {{ macs = ... }}"
        )
    if known is not None:
        refuse_unknown_keys(value, tuple(known), location if key is None else f"{location}: {key}")
    return value


def text_at(table: Mapping[str, Any], key: str, location: str) -> str | None:
    """A text that is not empty; None without one."""
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise BudgetError(f"{location}: {key} is {quoted(value)}, not a text")
    return value


def flag_at(table: Mapping[str, Any], key: str, location: str) -> bool:
    """A flag; False without one."""
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise BudgetError(f"{location}: {key} is {quoted(value)}, not true or false")
    return value


def new_policy_at(table: Mapping[str, Any], location: str) -> NewPolicy:
    """The verdict on the growth of new models."""
    value = table.get("new", "ask")
    if value not in get_args(NewPolicy):
        raise BudgetError(f'{location}: new is {quoted(value)}, not "allow", "ask" or "deny"')
    if "new" in table and not table.get("growth"):
        raise BudgetError(f'{location}: new needs growth limits: growth = {{ macs = "5%" }}')
    policy: NewPolicy = value
    return policy


def bindings_at(table: Mapping[str, Any], location: str) -> dict[str, int]:
    """The sizes of symbolic dimensions."""
    sizes = table_at(table, "bind", location, None)
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BudgetError(f"{location}: bind: {name} is {quoted(size)}, not a size such as 1")
    return sizes


def refuse_unknown_keys(table: Mapping[str, Any], known: Sequence[str], location: str) -> None:
    """Raises BudgetError for a key that is not known, with a suggestion."""
    for key in table:
        if key not in known:
            similar = difflib.get_close_matches(key, known, 1, 0.5)
            hint = f"; did you mean {similar[0]!r}?" if similar else f"; known: {', '.join(known)}"
            raise BudgetError(f"{location}: unknown key {key!r}{hint}")
