"""The changes of the package that tests should notice: one operator, number or condition each."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "sizeup"

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(NamedTuple):
    """One change: its place, and the expression before and after."""

    path: Path
    position: int  # of the node in a walk
    line: int
    code: str  # the line without its indentation
    before: str
    after: str
    occurrence: int  # among the same changes of the same code

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What names it among all, also after other lines of its file have changed."""
        file = self.path.relative_to(PACKAGE).as_posix()
        return file, self.code, self.before, self.after, self.occurrence

    def tree(self) -> ast.Module:
        """The whole file with the change; all lines keep their numbers."""
        tree = ast.parse(self.path.read_text("utf-8"))
        changed = ast.parse(self.after, mode="eval").body
        whole: ast.Module = _Replacement(self.position, changed).visit(tree)
        return whole

    def text(self) -> str:
        """The source of the file with the change."""
        return ast.unparse(self.tree())


def _mutated(node: ast.AST) -> ast.AST | None:
    """A changed copy of a node, or None if nothing in it is changed."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in _OPERATORS:
            changed.ops = [_OPERATORS[type(operator)]()]  # type: ignore[list-item]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in _OPERATORS:
            changed.op = _OPERATORS[type(operator)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.Not()):
            return changed.operand
        case ast.Constant(value=bool(value)):
            changed.value = not value
        case ast.Constant(value=int(value)):
            changed.value = value + 1
        case ast.IfExp(body=body, orelse=other):
            changed.body, changed.orelse = other, body
        case _:
            return None
    return changed


def _ignored(tree: ast.AST) -> set[int]:
    """Nodes of annotations, and of arguments that only protect against mistakes in the code."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            roots.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            roots.append(node.annotation)
        elif isinstance(node, ast.keyword) and node.arg in ("frozen", "slots", "strict"):
            roots.append(node.value)
    return {id(each) for root in roots if root is not None for each in ast.walk(root)}


class _Replacement(ast.NodeTransformer):
    def __init__(self, position: int, replacement: ast.AST) -> None:
        self.position, self.replacement, self.count = position, replacement, -1

    def generic_visit(self, node: ast.AST) -> ast.AST:
        self.count += 1
        if self.count != self.position:
            return super().generic_visit(node)
        for each in ast.walk(self.replacement):
            ast.copy_location(each, node)
        return self.replacement


def _positions(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes in the order in which a NodeTransformer visits them."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _positions(child)


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    text = path.read_text("utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    ignored = _ignored(tree)
    seen: Counter[tuple[str, str, str]] = Counter()
    for position, node in enumerate(_positions(tree)):
        changed = None if id(node) in ignored else _mutated(node)
        if changed is not None and isinstance(node, ast.expr):
            change = lines[node.lineno - 1].strip(), ast.unparse(node), ast.unparse(changed)
            yield Mutant(path, position, node.lineno, *change, seen[change])
            seen[change] += 1


def sample(count: int, seed: int, folders: Sequence[str]) -> list[Mutant]:
    """A seeded sample over all files of the folders, each mutant as likely as another.

    A mutant stays in the sample when other code changes: its place is a hash of what names it.
    """
    paths = [path for folder in folders for path in (PACKAGE / folder).rglob("*.py")]
    every = [mutant for path in paths for mutant in mutants(path)]
    return sorted(every, key=lambda each: _place(each, seed))[:count]


def _place(mutant: Mutant, seed: int) -> bytes:
    return hashlib.sha256(repr((seed, mutant.key)).encode()).digest()
