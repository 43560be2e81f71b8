"""Parse size expressions of exported programs without evaluating code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sizeup.errors import CorruptModel

_LONGEST = 2_000  # letters; the longest expression in torchvision and transformers exports has 300
_DEEPEST = 50
_LARGEST_POWER = 8


@dataclass(frozen=True, slots=True)
class SizeExpression:
    """A size as an expression of symbols; `text` is in plain notation, such as `2*s0 + 1`."""

    text: str
    symbols: frozenset[str]
    tree: ast.expr

    @property
    def is_symbol(self) -> bool:
        """Whether it is a single symbol."""
        return isinstance(self.tree, ast.Name)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the size for these symbol values: numbers, or objects that support + - * // and %."""
        return _checked_value(self.tree, values)


@cache
def parse_size(text: str) -> SizeExpression:
    """Parse an expression of torch: `s0`, `2*s0`, `Symbol('s0', integer=True)`, `Max(1, s0)`."""
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"{len(text):,} letters")
        tree = _plain(ast.parse(text.strip(), mode="eval").body, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CorruptModel(f"{text[:60]!r} is not a plain size expression: {error}") from error
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    functions = frozenset(node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call))  # type: ignore[attr-defined]
    return SizeExpression(ast.unparse(tree), names - functions, tree)


def _plain(node: ast.expr, depth: int) -> ast.expr:
    """Copy an expression; raises ValueError unless it has only integers, names, arithmetic and _FUNCTIONS."""
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
    if name == "Symbol":  # its keywords are assumptions such as positive=True
        label = node.args[0] if len(node.args) == 1 else None
        if isinstance(label, ast.Constant) and isinstance(label.value, str) and label.value.isidentifier():
            return ast.Name(label.value)
    elif name == "Integer" and len(node.args) == 1 and not node.keywords:
        return _plain(node.args[0], depth + 1)
    elif name in _FUNCTIONS and node.args and not node.keywords:
        return ast.Call(ast.Name(name), [_plain(argument, depth + 1) for argument in node.args], [])
    raise ValueError(f"a call of {name} is not allowed")


def _ceil_div(left: Any, right: Any) -> Any:
    return -(-left // right)


def _add(*terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _multiply(*factors: Any) -> Any:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or not 0 <= exponent <= _LARGEST_POWER:
        raise ValueError(f"exponent {exponent} is out of range (0 to {_LARGEST_POWER})")
    return base**exponent


# Names as printed by sympy and torch.utils._sympy.functions.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": _add,
    "Mul": _multiply,
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


def _checked_value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    value = _evaluate(node, values)
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise CorruptModel(f"{ast.unparse(node)[:60]!r} does not fit 64 bits")
    return value


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_checked_value(node.operand, values)
    if isinstance(node, ast.BinOp):
        return _ARITHMETIC[type(node.op)](
            _checked_value(node.left, values), _checked_value(node.right, values)
        )
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*(_checked_value(argument, values) for argument in node.args))
