"""Sizes that a program writes as expressions of its symbols, parsed without evaluating any text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sizeup.errors import CorruptModel

_LONGEST = 2_000  # letters of one expression; the longest in torchvision and transformers exports has 300
_DEEPEST = 50
_LARGEST_POWER = 8


@dataclass(frozen=True, slots=True)
class SizeExpression:
    """A size as an expression of symbols: `text` in plain notation, as `2*s0 + 1`."""

    text: str
    symbols: frozenset[str]
    tree: ast.expr

    @property
    def is_symbol(self) -> bool:
        """Whether it is one symbol alone."""
        return isinstance(self.tree, ast.Name)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The size with these values of the symbols: numbers, or anything with + - * // and %."""
        return _value(self.tree, values)


@cache
def parse_size(text: str) -> SizeExpression:
    """Parse an expression as torch writes them: `s0`, `2*s0`, `Symbol('s0', integer=True)`, `Max(1, s0)`."""
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"{len(text):,} letters")
        tree = _plain(ast.parse(text.strip(), mode="eval").body, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CorruptModel(f"{text[:60]!r} is not a plain size expression: {error}") from error
    names = frozenset(each.id for each in ast.walk(tree) if isinstance(each, ast.Name))
    functions = frozenset(each.func.id for each in ast.walk(tree) if isinstance(each, ast.Call))  # type: ignore[attr-defined]
    return SizeExpression(ast.unparse(tree), names - functions, tree)


def _plain(node: ast.expr, depth: int) -> ast.expr:
    """The same expression made of numbers, names, arithmetic and known functions alone."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1 << 63:
        return node
    if isinstance(node, ast.Name):
        return ast.Name(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return ast.UnaryOp(node.op, _plain(node.operand, depth + 1))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return ast.BinOp(_plain(node.left, depth + 1), node.op, _plain(node.right, depth + 1))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _plain_call(node.func.id, node, depth)
    raise ValueError(f"{type(node).__name__} is not allowed")


def _plain_call(name: str, node: ast.Call, depth: int) -> ast.expr:
    if name == "Symbol":  # its keywords are assumptions, as positive=True
        label = node.args[0] if len(node.args) == 1 else None
        if isinstance(label, ast.Constant) and isinstance(label.value, str) and label.value.isidentifier():
            return ast.Name(label.value)
    elif name == "Integer" and len(node.args) == 1 and not node.keywords:
        return _plain(node.args[0], depth + 1)
    elif name in _FUNCTIONS and node.args and not node.keywords:
        return ast.Call(ast.Name(name), [_plain(each, depth + 1) for each in node.args], [])
    raise ValueError(f"a call of {name} is not allowed")


def _ceil_div(left: Any, right: Any) -> Any:
    return -(-left // right)


def _added(*terms: Any) -> Any:
    total = terms[0]
    for each in terms[1:]:
        total = total + each
    return total


def _multiplied(*factors: Any) -> Any:
    product = factors[0]
    for each in factors[1:]:
        product = product * each
    return product


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or not 0 <= exponent <= _LARGEST_POWER:
        raise ValueError(f"a power of {exponent}")
    return base**exponent


# By the names that sympy and torch.utils._sympy.functions print.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": _added,
    "Mul": _multiplied,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": lambda left, right: left // right,
    "CleanDiv": lambda left, right: left // right,
    "CeilDiv": _ceil_div,
    "Mod": lambda left, right: left % right,
    "PythonMod": lambda left, right: left % right,
    "ModularIndexing": lambda value, divisor, modulus: value // divisor % modulus,
    "Max": max,
    "Min": min,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: _power,
}


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    value = _computed(node, values)
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise CorruptModel(f"{ast.unparse(node)[:60]!r} does not fit 64 bits")
    return value


def _computed(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, values)
    if isinstance(node, ast.BinOp):
        return _ARITHMETIC[type(node.op)](_value(node.left, values), _value(node.right, values))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*(_value(each, values) for each in node.args))
