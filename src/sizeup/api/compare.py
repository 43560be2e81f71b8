"""Two models, or one model twice, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sizeup.api.analyze import analyze
from sizeup.api.models import Source
from sizeup.formats import Inputs
from sizeup.results.report import Report

if TYPE_CHECKING:
    from sizeup.mixed_precision.mixing import Wish
    from sizeup.results.comparison import Comparison
    from sizeup.targets import Target


def compare(
    a: Source,
    b: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: Wish = None,
    target: str | Target | None = None,
) -> Comparison:
    """What B costs beside A: totals, and operator by operator what is the same, changed, fused, new or gone.

    Operators are matched by name, then by structure, across formats too. Either may be a report of `analyze`,
    which keeps its own inputs, precision and target: so two precisions or two targets are compared.
    """
    from sizeup.results.comparison import comparison_of

    def report_on(source: Source) -> Report:
        if isinstance(source, Report):
            return source
        return analyze(source, inputs, kwargs=kwargs, bind=bind, precision=precision, target=target)

    return comparison_of(report_on(a), report_on(b))
