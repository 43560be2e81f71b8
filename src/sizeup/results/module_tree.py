"""The module tree of a model, with repeated modules collapsed."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from sizeup.graph import without_gc
from sizeup.results.rollup import TOP_LEVEL, Sums, add_sums, module_path, sums_by_key, unused_rows
from sizeup.results.rows import Group

if TYPE_CHECKING:
    from sizeup.results.report import Report

ITSELF = "(itself)"
"""The row of ops directly in a module that has inner modules, so that rows add up."""

_NUMBER = re.compile(r"^(.*?)([0-9]{1,9})([^0-9]*)$", re.DOTALL)
# Names in a file may be nested arbitrarily deep; real networks are not.
_MAX_DEPTH = 60
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Branch:
    """A module with everything inside it, or several identical modules."""

    name: str  # below its parent: fc, or layers.0-31 for several
    count: int  # number of modules
    total: Group  # all of them together
    single: Group  # one of them
    children: tuple[Branch, ...]  # the modules in one of them; adds up to `single` if not empty

    @property
    def rows(self) -> int:
        """The number of table rows: one, one more if there are several, and those of inner modules."""
        return 1 + (self.count > 1) + rows_of(self.children)


@dataclass(slots=True)
class _Module:
    """A module while the tree is built."""

    name: str
    path: str
    separator: str
    inner: dict[str, _Module] = field(default_factory=dict)
    own: Sums | None = None  # of ops in no inner module
    op_kinds: tuple[str, ...] = ()
    sums: Sums = field(default_factory=list)
    signature: int = -1  # equal for modules of equal structure and numbers

    def group(self) -> Group:
        return Group(self.path, None, *self.sums)


class ModuleTree:
    """The modules of a report, summed once, to be shown at any depth."""

    def __init__(self, report: Report) -> None:
        with without_gc():
            self._root = _summed_tree(report)
        self._unused = unused_rows(report.cost)
        self.deepest = _deepest(self._root)

    def branches(self, depth: int | None = None, top: int | None = None) -> tuple[Branch, ...]:
        """Returns the outermost modules, cut at `depth` names, `top` per module; they sum to the totals."""
        with without_gc():
            children = _Folder(depth, top).children(self._root, 1)
        return (*children, *(Branch(row.module or "", 1, row, row, ()) for row in self._unused))


def rows_of(branches: Iterable[Branch]) -> int:
    """Returns the number of table rows of branches and everything inside them."""
    return sum(branch.rows for branch in branches)


def _deepest(module: _Module) -> int:
    """Returns the depth of the tree below this module."""
    return max((1 + _deepest(inner) for inner in module.inner.values()), default=0)


def _summed_tree(report: Report) -> _Module:
    """Returns the model as a tree of modules with sums; identical modules share a number."""
    op_kinds: dict[str, list[str]] = {}
    for op in report.graph.ops:
        op_kinds.setdefault(op.scope, []).append(op.kind)
    scopes = [op.scope for op in report.graph.ops]
    root = _Module("", "", ".")
    for scope, numbers in sums_by_key(report.cost, report.traffic, report.op_seconds, scopes).items():
        module = _module_at(root, scope)
        # Two scopes may mean the same module: 'a/b' and 'a//b'.
        module.own = numbers if module.own is None else add_sums((module.own, numbers))
        module.op_kinds += tuple(op_kinds[scope])
    _fill_sums(root, {})
    return root


def _module_at(root: _Module, scope: str) -> _Module:
    separator = "/" if "/" in scope else "."
    module = root
    for name in module_path(scope)[:_MAX_DEPTH]:
        path = f"{module.path}{separator}{name}" if module.path else name
        module = module.inner.setdefault(name, _Module(name, path, separator))
    return module


def _fill_sums(module: _Module, seen: dict[Hashable, int]) -> None:
    for inner in module.inner.values():
        _fill_sums(inner, seen)
    parts = [inner.sums for inner in module.inner.values()]
    module.sums = add_sums([*([module.own] if module.own else []), *parts])
    *counts, seconds = module.sums
    # Equal work may differ in the last digits of its latency.
    time = seconds and round(seconds, _DIGITS - 1 - math.floor(math.log10(seconds)))
    children = tuple((inner.name, inner.signature) for inner in module.inner.values())
    module.signature = seen.setdefault((*counts, time, module.op_kinds, children), len(seen))


@dataclass(frozen=True, slots=True)
class _Folder:
    """Turns modules into branches: down to a depth, and with a maximum per module."""

    depth: int | None
    top: int | None

    def children(self, module: _Module, level: int) -> tuple[Branch, ...]:
        """Returns the branches in a module, identical modules collapsed; empty at the cut or a leaf."""
        is_cut = self.depth is not None and level > self.depth
        if is_cut or (level > 1 and not module.inner):
            return ()
        placed = [pair for group in _identical(module.inner.values()) for pair in self._fold(group, level)]
        branches = [branch for _, branch in sorted(placed, key=lambda pair: pair[0])]
        if module.own:
            own = Group(module.path, None, *module.own)
            branches.append(Branch(TOP_LEVEL if level == 1 else ITSELF, 1, own, own, ()))
        return self._costliest(branches)

    def _fold(self, group: Sequence[tuple[int, _Module]], level: int) -> list[tuple[int, Branch]]:
        """Returns one branch for identical modules, if that is shorter than one each; with positions."""
        (position, module), *others = group
        children = self.children(module, level + 1)
        first = _branch(module, children)
        if not others:
            return [(position, first)]
        name = _common_name([other.name for _, other in group])
        if first.count == 1:  # merge the names of modules that contain only one other
            name, children = name + first.name[len(module.name) :], first.children
        total = Group(None, None, *add_sums([other.sums for _, other in group]))
        folded = Branch(name, len(group), total, module.group(), children)
        if len(group) * first.rows > folded.rows:
            return [(position, folded)]
        singles = ((index, _branch(other, self.children(other, level + 1))) for index, other in others)
        return [(position, first), *singles]

    def _costliest(self, branches: list[Branch]) -> tuple[Branch, ...]:
        if self.top is None or len(branches) <= self.top:
            return tuple(branches)
        order = sorted(range(len(branches)), key=lambda index: _cost(branches[index].total))
        shown, rest_order = sorted(order[: self.top]), order[self.top :]
        rest = Group(None, None, *add_sums([_numbers(branches[index].total) for index in rest_order]))
        modules = sum(branches[index].count for index in rest_order)
        return (*(branches[index] for index in shown), Branch(f"({modules:,} more)", 1, rest, rest, ()))


def _branch(module: _Module, children: tuple[Branch, ...]) -> Branch:
    """Returns the branch of a module; one that contains only one other is merged with it: layers.0-31."""
    group = module.group()
    if len(children) != 1 or module.own:
        return Branch(module.name, 1, group, group, children)
    (only,) = children
    separator = next(iter(module.inner.values())).separator
    return Branch(f"{module.name}{separator}{only.name}", only.count, group, only.single, only.children)


def _cost(group: Group) -> tuple[float, ...]:
    return (-(group.seconds or 0.0), -group.macs, -group.elementwise_ops, -group.params)


def _numbers(group: Group) -> Sums:
    return [
        group.ops,
        group.unknown_ops,
        group.macs,
        group.elementwise_ops,
        group.params,
        group.read_bytes,
        group.written_bytes,
        group.seconds,
    ]


def _identical(modules: Iterable[_Module]) -> Iterable[list[tuple[int, _Module]]]:
    """Groups modules of equal structure and numbers whose names differ in one number; with positions."""
    groups: dict[Hashable, list[tuple[int, _Module]]] = {}
    for position, module in enumerate(modules):
        head, number, tail = _numbered(module.name)
        key = (head, tail, module.signature) if number else module.name
        groups.setdefault(key, []).append((position, module))
    return groups.values()


def _numbered(name: str) -> tuple[str, str, str]:
    """Splits a name at its last number: the text before, the number, the text after."""
    match = _NUMBER.search(name)
    return (match[1], match[2], match[3]) if match else (name, "", "")


def _common_name(names: Sequence[str]) -> str:
    """Returns one name for several: layer_0, layer_1 and layer_2 become layer_0-2."""
    head, _, tail = _numbered(names[0])
    numbers = sorted((_numbered(name)[1] for name in names), key=int)
    return f"{head}{','.join(_ranges(numbers))}{tail}"


def _ranges(numbers: Sequence[str]) -> Iterator[str]:
    """Yields numbers in ascending order, consecutive ones as first-last."""
    for _, run in groupby(enumerate(numbers), key=lambda placed: int(placed[1]) - placed[0]):
        texts = [text for _, text in run]
        yield texts[0] if len(texts) == 1 else f"{texts[0]}-{texts[-1]}"
