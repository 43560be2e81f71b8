"""The check of a served language model, in the formats of all checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizeup.render import markdown
from sizeup.render.data import ci

if TYPE_CHECKING:
    from sizeup.results.check import Check
    from sizeup.serving.results.llm import Serving


def markdown_lines(serving: Serving) -> Iterator[str]:
    """Yields the check as a comment."""
    return markdown.markdown(_checks(serving))


def junit_lines(serving: Serving) -> Iterator[str]:
    """Yields the check as JUnit XML."""
    return ci.junit_lines(_checks(serving))


def code_quality_lines(serving: Serving) -> Iterator[str]:
    """Yields the check as a code quality report."""
    return ci.code_quality_lines(_checks(serving))


def _checks(serving: Serving) -> tuple[Check, ...]:
    return () if serving.check is None else (serving.check,)
