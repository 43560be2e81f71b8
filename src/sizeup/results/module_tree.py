"""The modules inside modules, with those that are alike told once."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from sizeup.graph import without_collection
from sizeup.results.rollup import TOP_LEVEL, Sums, added, module_path, summed, unused
from sizeup.results.rows import Group

if TYPE_CHECKING:
    from sizeup.results.report import Report

ITSELF = "(itself)"
"""The row of operators that stand in a module beside its inner modules; without it rows would not add up."""

_NUMBER = re.compile(r"^(.*?)([0-9]{1,9})([^0-9]*)$", re.DOTALL)
# Names in a file may be nested as deep as they like; no network of people is.
_DEEPEST = 60
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Branch:
    """A module with all that is inside it, or several modules that are alike in everything."""

    name: str  # below its parent: fc, or layers.0-31 where it stands for several
    count: int  # how many modules it stands for
    total: Group  # all of them together
    each: Group  # one of them
    inside: tuple[Branch, ...]  # what one of them holds; adds up to `each` where there is anything

    @property
    def rows(self) -> int:
        """How many lines a table needs for it: one, one for each of several, and those inside."""
        return 1 + (self.count > 1) + rows_of(self.inside)


@dataclass(slots=True)
class _Module:
    """A module while the tree is made."""

    name: str
    path: str
    separator: str
    inner: dict[str, _Module] = field(default_factory=dict)
    own: Sums | None = None  # of the operators that stand in no inner module
    kinds: tuple[str, ...] = ()
    sums: Sums = field(default_factory=list)
    alike: int = -1  # the same for modules of the same structure and numbers

    def group(self) -> Group:
        return Group(self.path, None, *self.sums)


class ModuleTree:
    """The modules of a report, measured once, to be told at any depth."""

    def __init__(self, report: Report) -> None:
        with without_collection():
            self._root = _measured(report)
        self._unused = unused(report.cost)
        self.deepest = _deepest(self._root)

    def branches(self, depth: int | None = None, top: int | None = None) -> tuple[Branch, ...]:
        """The outermost modules, cut `depth` names deep, `top` of them in each; they add up to the totals."""
        with without_collection():
            inside = _Folding(depth, top).inside(self._root, 1)
        return (*inside, *(Branch(row.module or "", 1, row, row, ()) for row in self._unused))


def rows_of(branches: Iterable[Branch]) -> int:
    """How many lines a table needs for branches and all inside them."""
    return sum(branch.rows for branch in branches)


def _deepest(module: _Module) -> int:
    """How many modules an operator stands in, at most, beside this one."""
    return max((1 + _deepest(inner) for inner in module.inner.values()), default=0)


def _measured(report: Report) -> _Module:
    """The model as a module of modules, each with its sums and a number that those like it share."""
    kinds: dict[str, list[str]] = {}
    for op in report.graph.ops:
        kinds.setdefault(op.scope, []).append(op.kind)
    scopes = [op.scope for op in report.graph.ops]
    root = _Module("", "", ".")
    for scope, numbers in summed(report.cost, report.moved, report.op_seconds, scopes).items():
        place = _place(root, scope)
        # Two scopes may be written differently and mean one place: 'a/b' and 'a//b'.
        place.own = numbers if place.own is None else added((place.own, numbers))
        place.kinds += tuple(kinds[scope])
    _sum_up(root, {})
    return root


def _place(root: _Module, scope: str) -> _Module:
    separator = "/" if "/" in scope else "."
    module = root
    for name in module_path(scope)[:_DEEPEST]:
        path = f"{module.path}{separator}{name}" if module.path else name
        module = module.inner.setdefault(name, _Module(name, path, separator))
    return module


def _sum_up(module: _Module, seen: dict[Hashable, int]) -> None:
    for inner in module.inner.values():
        _sum_up(inner, seen)
    parts = [inner.sums for inner in module.inner.values()]
    module.sums = added([*([module.own] if module.own else []), *parts])
    *counts, seconds = module.sums
    # Equal work may differ in the last digit of its time.
    time = seconds and round(seconds, _DIGITS - 1 - math.floor(math.log10(seconds)))
    inside = tuple((inner.name, inner.alike) for inner in module.inner.values())
    module.alike = seen.setdefault((*counts, time, module.kinds, inside), len(seen))


@dataclass(frozen=True, slots=True)
class _Folding:
    """How modules become branches: how deep, and how many beside each other."""

    depth: int | None
    top: int | None

    def inside(self, module: _Module, level: int) -> tuple[Branch, ...]:
        """What a module holds, alike modules together; nothing where the tree is cut or ends."""
        is_cut = self.depth is not None and level > self.depth
        if is_cut or (level > 1 and not module.inner):
            return ()
        placed = [each for alike in _alike(module.inner.values()) for each in self._folded(alike, level)]
        branches = [branch for _, branch in sorted(placed, key=lambda pair: pair[0])]
        if module.own:
            own = Group(module.path, None, *module.own)
            branches.append(Branch(TOP_LEVEL if level == 1 else ITSELF, 1, own, own, ()))
        return self._costliest(branches)

    def _folded(self, alike: Sequence[tuple[int, _Module]], level: int) -> list[tuple[int, Branch]]:
        """One branch for modules that are alike, where that is shorter than one for each; with places."""
        (place, module), *others = alike
        inside = self.inside(module, level + 1)
        first = _branch(module, inside)
        if not others:
            return [(place, first)]
        name = _common_name([each.name for _, each in alike])
        if first.count == 1:  # then nothing is lost with the names of modules that only hold another
            name, inside = name + first.name[len(module.name) :], first.inside
        total = Group(None, None, *added([each.sums for _, each in alike]))
        folded = Branch(name, len(alike), total, module.group(), inside)
        if len(alike) * first.rows > folded.rows:
            return [(place, folded)]
        singles = ((where, _branch(each, self.inside(each, level + 1))) for where, each in others)
        return [(place, first), *singles]

    def _costliest(self, branches: list[Branch]) -> tuple[Branch, ...]:
        if self.top is None or len(branches) <= self.top:
            return tuple(branches)
        places = sorted(range(len(branches)), key=lambda place: _cost(branches[place].total))
        kept, left = sorted(places[: self.top]), places[self.top :]
        rest = Group(None, None, *added([_numbers(branches[place].total) for place in left]))
        modules = sum(branches[place].count for place in left)
        return (*(branches[place] for place in kept), Branch(f"({modules:,} more)", 1, rest, rest, ()))


def _branch(module: _Module, inside: tuple[Branch, ...]) -> Branch:
    """A module by itself; one that only holds another goes into its name: layers.0-31."""
    group = module.group()
    if len(inside) != 1 or module.own:
        return Branch(module.name, 1, group, group, inside)
    (only,) = inside
    separator = next(iter(module.inner.values())).separator
    return Branch(f"{module.name}{separator}{only.name}", only.count, group, only.each, only.inside)


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


def _alike(modules: Iterable[_Module]) -> Iterable[list[tuple[int, _Module]]]:
    """Modules of equal structure and numbers whose names differ in one number alone, with their places."""
    found: dict[Hashable, list[tuple[int, _Module]]] = {}
    for place, module in enumerate(modules):
        head, number, tail = _numbered(module.name)
        key = (head, tail, module.alike) if number else module.name
        found.setdefault(key, []).append((place, module))
    return found.values()


def _numbered(name: str) -> tuple[str, str, str]:
    """What stands before the last number of a name, that number, and what follows; all before without one."""
    found = _NUMBER.search(name)
    return (found[1], found[2], found[3]) if found else (name, "", "")


def _common_name(names: Sequence[str]) -> str:
    """One name for several: layer_0, layer_1 and layer_2 are layer_0-2."""
    head, _, tail = _numbered(names[0])
    numbers = sorted((_numbered(name)[1] for name in names), key=int)
    return f"{head}{','.join(_ranges(numbers))}{tail}"


def _ranges(numbers: Sequence[str]) -> Iterator[str]:
    """Numbers in rising order, those that follow each other as the first and the last."""
    for _, run in groupby(enumerate(numbers), key=lambda placed: int(placed[1]) - placed[0]):
        texts = [text for _, text in run]
        yield texts[0] if len(texts) == 1 else f"{texts[0]}-{texts[-1]}"
