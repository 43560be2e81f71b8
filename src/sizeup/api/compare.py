"""Comparison of two models, or of one model under two conditions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sizeup.api.analyze import analyze
from sizeup.api.keywords import with_keyword_hints
from sizeup.api.models import Source
from sizeup.errors import SizeupError, UnboundDimension
from sizeup.formats import Inputs, is_symbolic
from sizeup.formats.names import is_code
from sizeup.graph import Graph
from sizeup.results.report import Report

if TYPE_CHECKING:
    from sizeup.mixed_precision.precision_map import PrecisionSpec
    from sizeup.results.comparison import Comparison
    from sizeup.targets import Target


@with_keyword_hints
def compare(
    a: Source,
    b: Source,
    inputs: Inputs = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    bind: Mapping[str, int] | None = None,
    precision: PrecisionSpec = None,
    target: str | Target | None = None,
    inputs_b: Inputs = None,
    bind_b: Mapping[str, int] | None = None,
    precision_b: PrecisionSpec = None,
    target_b: str | Target | None = None,
) -> Comparison:
    """Compare two models: totals, and per operator whether it is the same, changed, fused, added or removed.

    Operators are matched by name, then by structure, also across formats. Options apply to both models, and
    those that end in `_b` replace them for `b`. If code is compared with a file, `inputs` are those of the
    code; of the file they set symbolic dimensions, by name or in order. `a` and `b` may be reports of
    `analyze`, which stay as they are.
    """
    from sizeup.results.comparison import comparison_of

    for_a = SideOptions(inputs, kwargs, bind, precision, target)
    own_b = (inputs_b, bind_b, precision_b, target_b)
    for_b = for_a.replaced(*own_b)
    options = {"inputs": inputs, "kwargs": kwargs, "bind": bind, "precision": precision, "target": target}
    names = ("inputs_b", "bind_b", "precision_b", "target_b")
    _check_used(a, b, options, dict(zip(names, own_b, strict=True)))
    return comparison_of(for_a.report(a, b), for_b.report(b, a))


@dataclass(frozen=True)
class SideOptions:
    """How one of two compared models is analyzed; `is_own`: its inputs are not shared with the other."""

    inputs: Inputs = None
    kwargs: Mapping[str, Any] | None = None
    bind: Mapping[str, int] | None = None
    precision: PrecisionSpec = None
    target: str | Target | None = None
    is_own: bool = False

    def replaced(
        self,
        inputs: Inputs,
        bind: Mapping[str, int] | None,
        precision: PrecisionSpec,
        target: str | Target | None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> SideOptions:
        """These options, replaced by those that are not None."""
        is_own = inputs is not None or kwargs is not None
        return SideOptions(
            inputs if is_own else self.inputs,
            kwargs if is_own else self.kwargs,
            self.bind if bind is None else bind,
            self.precision if precision is None else precision,
            self.target if target is None else target,
            is_own,
        )

    def report(self, source: Source, other: Source) -> Report:
        """The report on one of two models; `other` decides which options are meant for it alone."""
        if isinstance(source, Report):
            return source
        if not self.is_own and _is_code(other) and not _is_code(source):
            return self._file_report(source)
        bind = None if _is_module(source) and not _is_module(other) else self.bind
        return self._analyze(source, self.inputs, self.kwargs, bind)

    def _file_report(self, source: Source) -> Report:
        """The report on a file at inputs that are meant for code, as far as they match those of the file."""
        try:
            report = self._analyze(source, None, None, self.bind)
        except UnboundDimension as error:
            shapes = _matching(self.inputs, {dim.input: dim.rank for dim in error.dimensions})
            if not shapes:
                raise
            return self._analyze(source, shapes, None, self.bind)
        if not isinstance(self.inputs, Mapping) or isinstance(source, Graph) or is_symbolic(source):
            return report
        shapes = _matching(self.inputs, {port.name: len(port.shape or ()) for port in report.inputs})
        return self._analyze(source, shapes, None, self.bind) if shapes else report

    def _analyze(
        self,
        source: Source,
        inputs: Inputs,
        kwargs: Mapping[str, Any] | None,
        bind: Mapping[str, int] | None,
    ) -> Report:
        return analyze(source, inputs, kwargs=kwargs, bind=bind, precision=self.precision, target=self.target)


def _check_used(a: Source, b: Source, options: Mapping[str, Any], for_b: Mapping[str, Any]) -> None:
    """Raises SizeupError for an option that applies to no model, because reports stay as they are."""
    both = isinstance(a, Report) and isinstance(b, Report)
    unused = {**(options if both else {}), **(for_b if isinstance(b, Report) else {})}
    for name, value in unused.items():
        if value is not None:
            sides = "two reports" if both else "b, a report"
            raise SizeupError(
                f"{name}= does not apply to {sides}: analyze the model with {name.removesuffix('_b')}= first,"
                " or pass the model instead of its report"
            )


def _matching(inputs: Inputs, ranks: Mapping[str, int]) -> dict[str, Any]:
    """The shapes of those inputs of a file that are given, by name or in order, with the same rank."""
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        shapes = {name: _shape(value) for name, value in inputs.items() if name in ranks}
    else:
        values = (inputs,) if _is_one(inputs) else tuple(inputs)
        if len(values) != len(ranks):
            return {}
        shapes = dict(zip(ranks, map(_shape, values), strict=True))
    return {name: shape for name, shape in shapes.items() if shape and len(shape) == ranks[name]}


def _shape(value: Any) -> tuple[int, ...] | None:
    """The sizes of a tensor, a shape, or a pair of shape and dtype; None for other arguments."""
    sizes = getattr(value, "shape", value)
    if isinstance(sizes, tuple | list) and len(sizes) == 2 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    is_shape = isinstance(sizes, tuple | list) and all(isinstance(size, int) for size in sizes)
    return tuple(sizes) if is_shape else None


def _is_one(inputs: Any) -> bool:
    """Whether inputs are one tensor or one shape instead of a sequence of them."""
    return hasattr(inputs, "shape") or all(isinstance(size, int) for size in inputs)


def _is_code(source: Source) -> bool:
    """Whether a source is run to record it, at inputs that the caller gives."""
    if isinstance(source, str | os.PathLike):
        return is_code(os.fspath(source))
    return _is_module(source)


def _is_module(source: Source) -> bool:
    """Whether a source is a PyTorch module, without importing torch."""
    return any(f"{base.__module__}.{base.__name__}" == _MODULE for base in type(source).__mro__)


_MODULE = "torch.nn.modules.module.Module"
