"""The cost rule of an op kind, the table of all cost rules, and how to register one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Dim, Graph, Op, Shape
from sizeup.ops.traits import TRAITS, Trait

Formula: TypeAlias = "Callable[[Call], Dim]"
# Elements moved, one number per input (or output) of the op.
Traffic: TypeAlias = "Callable[[Call], Sequence[Dim]]"
Format = Literal["torch", "onnx", "tflite"]


class UnknownShape(Exception):
    """A formula needs a shape that depends on data."""


class Value:
    """A tensor as seen by a cost rule: its shape and its number of elements."""

    __slots__ = ("_shape",)

    def __init__(self, shape: Shape | None) -> None:
        self._shape = shape

    @property
    def shape(self) -> Shape:
        """The dimensions."""
        if self._shape is None:
            raise UnknownShape
        return self._shape

    @property
    def elements(self) -> Dim:
        """The number of elements."""
        if self._shape is None:
            raise UnknownShape
        return math.prod(self._shape)


class Call:
    """One op as seen by its cost rule. An omitted optional input is None."""

    __slots__ = ("attrs", "inputs", "is_complex", "outputs")

    def __init__(
        self,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attrs: Mapping[str, Any],
        *,
        is_complex: bool = False,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.is_complex = is_complex  # its operands are complex numbers

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def input(self, index: int) -> Value:
        """The input at `index`; raises LookupError if it is omitted."""
        value = self.inputs[index]
        if value is None:
            raise LookupError(f"input {index} is missing")
        return value

    def number(self, name: str) -> Dim:
        """An attribute that is a dimension or a count."""
        value: Dim = self.attrs[name]
        return value

    def has_input(self, index: int) -> bool:
        """Whether the optional input at `index` is present."""
        return index < len(self.inputs) and self.inputs[index] is not None


def call_of(graph: Graph, op: Op) -> Call:
    """The op in the form that cost rules take."""
    tensors = graph.tensors
    return Call(
        [None if i == ABSENT else Value(tensors[i].shape) for i in op.inputs],
        [Value(tensors[i].shape) for i in op.outputs],
        op.attrs,
        is_complex=has_complex_operands(graph, op),
    )


def has_complex_operands(graph: Graph, op: Op) -> bool:
    """Whether the operands of an op are complex numbers: the dtype of its first input."""
    first = op.inputs[0] if op.inputs else ABSENT
    return first != ABSENT and graph.tensors[first].dtype.family == "complex"


_REAL_PRODUCTS = 4  # (a + b i)(c + d i) = a c - b d + (a d + b c) i


@dataclass(frozen=True, slots=True)
class OpRule:
    """The cost rule of one op kind."""

    kind: str
    family: str
    summary: str  # one line for the operator reference; by default the docstring of the MAC formula
    macs: Formula | None = None  # None: it has no multiply-accumulates
    elementwise: Formula | None = None  # None: it has no elementwise operations
    reads: Traffic | None = None  # None: every input once, in full
    writes: Traffic | None = None  # None: every output once, in full
    updates: Traffic | None = None  # elements written to inputs that persist between inferences; None: none
    torch: tuple[str, ...] = ()
    onnx: tuple[str, ...] = ()
    tflite: tuple[str, ...] = ()
    weight: int | None = None  # index of the input with the trained weight
    buffers: tuple[int, ...] = ()  # inputs that are stored but not trained (running statistics)
    views: bool = False  # the output always aliases the first input
    overwrites: bool = False  # the output may reuse the memory of an input of the same size at its last use
    every_run: bool = False  # runs in every inference, even if it reads constants only
    traits: tuple[str, ...] = ()  # of TRAITS
    latency: str = ""  # the class of its kernels in measured latencies; empty: that of the family
    alike: str = ""  # the op kind that stands for all that formats write in its place; empty: its own

    def count_macs(self, call: Call) -> Dim:
        """The MACs of a call; a complex multiply-accumulate is four real ones."""
        if self.macs is None:
            return 0
        return self.macs(call) * _REAL_PRODUCTS if call.is_complex else self.macs(call)


_RULES: dict[str, OpRule] = {}
_KINDS: dict[tuple[str, str], str] = {}
_changes: list[str] = []


def register(rule: OpRule, *, replace: bool = False) -> None:
    """Add a cost rule to the table; raises RuleError if one exists and `replace` is False."""
    if unknown := [trait for trait in rule.traits if trait not in TRAITS]:
        raise RuleError(f"{rule.kind!r} has the unknown trait {unknown[0]!r}; known: {', '.join(TRAITS)}")
    names = [(f, n) for f in ("torch", "onnx", "tflite") for n in getattr(rule, f)]
    if not replace:
        if rule.kind in _RULES:
            raise RuleError(f"{rule.kind!r} already has a cost rule; pass replace=True to replace it")
        for format_, name in names:
            if (format_, name) in _KINDS:
                owner = _KINDS[format_, name]
                raise RuleError(
                    f"{format_} operator {name!r} already belongs to {owner!r}; pass replace=True"
                )
    _RULES[rule.kind] = rule
    _KINDS.update(dict.fromkeys(names, rule.kind))
    _changes.append(rule.kind)


def table_version() -> int:
    """The number of changes to the table so far, as a key for caches of its content."""
    return len(_changes)


@contextmanager
def temporary_cost_rules() -> Iterator[None]:
    """Restore the table of cost rules at the end of the block."""
    rules_before, kinds_before = _RULES.copy(), _KINDS.copy()
    try:
        yield
    finally:
        _RULES.clear()
        _RULES.update(rules_before)
        _KINDS.clear()
        _KINDS.update(kinds_before)
        _changes.append("restored")


def op_rule(
    kind: str,
    *,
    torch: Iterable[str] = (),
    onnx: Iterable[str] = (),
    tflite: Iterable[str] = (),
    family: str = "own",
    weight: int | None = None,
    buffers: tuple[int, ...] = (),
    elementwise: Formula | None = None,
    reads: Traffic | None = None,
    writes: Traffic | None = None,
    traits: Iterable[Trait] = (),
    latency: str = "",
    alike: str = "",
    replace: bool = False,
) -> Callable[[Formula], Formula]:
    """Register the decorated function as the MAC formula of an op kind.

    Names are those of the format: `aten.linear` or `mylib.op` (torch), `Conv` or
    `my.domain::Op` (ONNX), `CONV_2D` or the code of a custom operator (TFLite).
    """

    def decorate(formula: Formula) -> Formula:
        summary = " ".join((formula.__doc__ or "").split())
        rule = OpRule(
            kind, family, summary, formula, elementwise, reads, writes, None,
            tuple(torch), tuple(onnx), tuple(tflite), weight, buffers,
            traits=tuple(traits), latency=latency, alike=alike,
        )  # fmt: skip
        register(rule, replace=replace)
        return formula

    return decorate


def cost_rule_of(op_kind: str) -> OpRule | None:
    """The cost rule of an op kind, or None."""
    return _RULES.get(op_kind)


def has_trait(op_kind: str, trait: Trait) -> bool:
    """Whether an op kind has a property; False for one without a cost rule."""
    rule = _RULES.get(op_kind)
    return rule is not None and trait in rule.traits


def op_kind_of(format: Format, name: str) -> str | None:
    """The op kind of a format's operator name, or None."""
    return _KINDS.get((format, name))


def names_of(format: Format, op_kind: str) -> tuple[str, ...]:
    """The operators that a format has for an op kind."""
    operators: tuple[str, ...] = getattr(_RULES[op_kind], format)
    return operators


def cost_rules() -> tuple[OpRule, ...]:
    """All cost rules, in order of registration."""
    return tuple(_RULES.values())


def names(text: str) -> tuple[str, ...]:
    """Split a string of names at whitespace; '-' means none."""
    return () if text == "-" else tuple(text.split())
