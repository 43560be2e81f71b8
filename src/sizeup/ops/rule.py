"""What is known of an operator kind, in one place: the rule, the table of rules, and how to add one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sizeup.errors import RuleError
from sizeup.graph import ABSENT, Dim, Graph, Op, Shape

Formula: TypeAlias = "Callable[[Call], Dim]"
# Elements moved, one number an input (or an output) of the operator.
Traffic: TypeAlias = "Callable[[Call], Sequence[Dim]]"
Format = Literal["torch", "onnx", "tflite"]


class UnknownShape(Exception):
    """A formula asked for a shape that only data decides."""


class Value:
    """A tensor as a rule sees it: a shape and a number of elements, nothing else."""

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
        """How many numbers it holds."""
        if self._shape is None:
            raise UnknownShape
        return math.prod(self._shape)


class Call:
    """One operator as its rule sees it. An optional input that was not given is None."""

    __slots__ = ("attrs", "inputs", "outputs")

    def __init__(
        self, inputs: Sequence[Value | None], outputs: Sequence[Value], attrs: Mapping[str, Any]
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def input(self, index: int) -> Value:
        """The input at that place, which must be given."""
        value = self.inputs[index]
        if value is None:
            raise LookupError(f"input {index} is not given")
        return value

    def number(self, name: str) -> Dim:
        """An attribute that is a dimension or a count."""
        value: Dim = self.attrs[name]
        return value

    def given(self, index: int) -> bool:
        """Whether the optional input at that place was given."""
        return index < len(self.inputs) and self.inputs[index] is not None


def call_of(graph: Graph, op: Op) -> Call:
    """The view of an operator that rules compute from."""
    tensors = graph.tensors
    return Call(
        [None if i == ABSENT else Value(tensors[i].shape) for i in op.inputs],
        [Value(tensors[i].shape) for i in op.outputs],
        op.attrs,
    )


@dataclass(frozen=True, slots=True)
class OpRule:
    """All that is known of one kind of operator."""

    kind: str
    family: str
    summary: str  # the line of the operator reference; a formula's docstring
    macs: Formula | None = None  # None: it has no multiply-accumulates
    elementwise: Formula | None = None  # None: it has no elementwise operations
    reads: Traffic | None = None  # None: every input once, in full
    writes: Traffic | None = None  # None: every output once, in full
    updates: Traffic | None = None  # elements written into inputs that outlive the run; None: none
    torch: tuple[str, ...] = ()
    onnx: tuple[str, ...] = ()
    tflite: tuple[str, ...] = ()
    weight: int | None = None  # which input holds the trained weight
    buffers: tuple[int, ...] = ()  # inputs that are kept but not trained (running statistics)
    views: bool = False  # the output certainly is the first input's bytes
    overwrites: bool = False  # the output may reuse the bytes of a dying input of its own size
    every_run: bool = False  # runs anew each time and holds its output, also where it reads constants alone


_RULES: dict[str, OpRule] = {}
_KINDS: dict[tuple[str, str], str] = {}
_changes: list[str] = []


def register(rule: OpRule, *, replace: bool = False) -> None:
    """Add a rule to the table; `replace` allows it to take the place of one that is there."""
    names = [(f, n) for f in ("torch", "onnx", "tflite") for n in getattr(rule, f)]
    if not replace:
        if rule.kind in _RULES:
            raise RuleError(f"there is a rule for {rule.kind!r} already; pass replace=True to replace it")
        for format_, name in names:
            if (format_, name) in _KINDS:
                taken = _KINDS[format_, name]
                raise RuleError(
                    f"{format_} operator {name!r} belongs to {taken!r} already; pass replace=True"
                )
    _RULES[rule.kind] = rule
    _KINDS.update(dict.fromkeys(names, rule.kind))
    _changes.append(rule.kind)


def generation() -> int:
    """A number that grows with every change of the table, for whoever remembers what it said."""
    return len(_changes)


@contextmanager
def temporary_rules() -> Iterator[None]:
    """Rules registered inside the block are gone after it."""
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
    replace: bool = False,
) -> Callable[[Formula], Formula]:
    """Register the decorated function as the MAC formula of an operator kind.

    Names are those of each format: `aten.linear` or `mylib.op` (torch), `Conv` or
    `my.domain::Op` (ONNX), `CONV_2D` or a custom operator's own code (TFLite).
    """

    def decorate(formula: Formula) -> Formula:
        summary = " ".join((formula.__doc__ or "").split())
        rule = OpRule(
            kind, family, summary, formula, elementwise, reads, writes, None,
            tuple(torch), tuple(onnx), tuple(tflite), weight, buffers,
        )  # fmt: skip
        register(rule, replace=replace)
        return formula

    return decorate


def rule_of(kind: str) -> OpRule | None:
    """The rule of a kind, or None where nothing is known of it."""
    return _RULES.get(kind)


def kind_of(format: Format, name: str) -> str | None:
    """The kind that a format's operator name stands for, or None."""
    return _KINDS.get((format, name))


def rules() -> tuple[OpRule, ...]:
    """Every rule, in the order of registration."""
    return tuple(_RULES.values())


def names(text: str) -> tuple[str, ...]:
    """The names in a string, split at white space; '-' stands for none."""
    return () if text == "-" else tuple(text.split())
