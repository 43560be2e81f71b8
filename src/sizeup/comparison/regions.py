"""Operators without a partner: merged into another, standing for others, or there in one model alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice

from sizeup.comparison.facts import Facts, Path, class_of, dims, is_activation, is_product
from sizeup.comparison.matching import Matched
from sizeup.graph import ABSENT

# More operators than this in one place are no rewriting of one thing into another.
_LARGEST = 64
# Regions that share an end are compared with each other; more of them than this are left alone.
_MOST_RIVALS = 8


@dataclass(slots=True)
class Group:
    """Operators of both models that stand for each other, and how those beside the pair came there."""

    a: list[int]
    b: list[int]
    core: tuple[int, int] | None = None
    how: str = ""
    words: list[str] = field(default_factory=list)


def groups_of(a: Facts, b: Facts, matched: Matched) -> list[Group]:
    """Every operator of both models in exactly one group."""
    groups = [Group([i], [j], (i, j), matched.how[i]) for i, j in matched.pairs]
    sides = (
        _Side(a, matched.a, b, {group.core[0]: n for n, group in enumerate(groups) if group.core}, 0),
        _Side(b, matched.b, a, {group.core[1]: n for n, group in enumerate(groups) if group.core}, 1),
    )
    for side in sides:
        side.absorb(groups)
    _take_whole_modules(*sides, groups)
    _take_whole_modules(*sides[::-1], groups)
    regions = [side.regions() for side in sides]
    for one, other in _counterparts(*regions):
        ours, theirs = regions[0][one], regions[1][other]
        core = (ours.ops[0], theirs.ops[0]) if len(ours.ops) == len(theirs.ops) == 1 else None
        groups.append(Group(sorted(ours.ops), sorted(theirs.ops), core, "structure"))
        ours.ops.clear()
        theirs.ops.clear()
    groups += [Group([op], []) for region in regions[0] for op in sorted(region.ops)]
    groups += [Group([], [op]) for region in regions[1] for op in sorted(region.ops)]
    return groups


@dataclass(slots=True)
class _Region:
    """Connected operators without a partner, and the groups that feed them and that they feed."""

    ops: list[int]
    sources: set[int]
    sinks: set[int]


class _Side:
    def __init__(
        self, facts: Facts, partner: list[int], other: Facts, group_of: dict[int, int], place: int
    ) -> None:
        self.facts, self.partner, self.other = facts, partner, other
        self.group_of, self.place = group_of, place
        self.static = _static(facts)
        # What comes from outside and what goes there has no group: numbers below zero, by its place.
        self.given = {identity: -1 - number for number, identity in enumerate(facts.graph.inputs)}
        self.wanted = {identity: -1 - number for number, identity in enumerate(facts.graph.outputs)}

    def macs(self, ops: list[int]) -> int:
        """MACs of some operators together."""
        return sum(int(self.facts.cost.macs[each]) for each in ops)

    def absorb(self, groups: list[Group]) -> None:
        """Give operators that their partner has inside to its group."""
        for index in range(len(self.partner)):
            if self.partner[index] < 0 and index not in self.static:
                self._absorb(index, groups)
        for index in range(len(self.partner) - 1, -1, -1):
            if self.partner[index] < 0 and index in self.static:
                self._absorb_prepared(index, groups)

    def _absorb(self, index: int, groups: list[Group]) -> None:
        maker = self._only_maker(index)
        place = self.group_of.get(maker) if maker is not None else None
        core = None if place is None else groups[place].core
        if place is None or core is None:
            return
        word = self._word(index, core)
        if word:
            self._put(index, place, groups, word)

    def _put(self, index: int, place: int, groups: list[Group], word: str) -> None:
        self.group_of[index] = place
        (groups[place].a if self.place == 0 else groups[place].b).append(index)
        groups[place].words.append(word)

    def _only_maker(self, index: int) -> int | None:
        """The one operator whose result it computes with, where nobody else reads that."""
        inputs = [
            each for each in self.facts.graph.ops[index].inputs if each != ABSENT and not self._is_fixed(each)
        ]
        if len(inputs) != 1 or len(self.facts.readers[inputs[0]]) != 1:
            return None
        return self.facts.maker.get(inputs[0])

    def _is_fixed(self, identity: int) -> bool:
        return self.facts.graph.tensors[identity].data is not None or (
            self.facts.maker.get(identity, -1) in self.static
        )

    def _word(self, index: int, core: tuple[int, int]) -> str:
        """How the partner has it inside; empty where it does not."""
        op = self.facts.graph.ops[index]
        own, partner = self.facts.graph.ops[core[self.place]], self.other.graph.ops[core[1 - self.place]]
        gains_bias = _has_bias(partner.inputs) > _has_bias(own.inputs)
        if op.kind == "batch_norm" and is_product(own.kind) and self._may_hold_norm(core, gains_bias):
            return "batch_norm folded into the weights"
        inside = [class_of(each.attrs.get("activation") or "") for each in (own, partner)]
        if is_activation(op.kind) and inside[0] != class_of(op.kind) == inside[1]:
            return f"{op.kind} as its activation"
        if op.kind == "add" and is_product(own.kind) and gains_bias:
            return "add as its bias"
        return ""

    def _may_hold_norm(self, core: tuple[int, int], gains_bias: bool) -> bool:
        """Whether the partner can be the same product with a norm folded in, which alters no size."""
        own, partner = core[self.place], core[1 - self.place]
        # A converter folds norms; within one format the bias that is left of a norm is the sign of it.
        converted = self.facts.graph.format != self.other.graph.format
        if not gains_bias and not converted:
            return False
        readers = self.other.readers_of(partner)
        if any(self.other.graph.ops[each].kind == "batch_norm" for each in readers):
            return False
        made = [
            math.prod(dims(side.graph.tensors[side.graph.ops[index].outputs[0]].shape) or ())
            for side, index in ((self.facts, own), (self.other, partner))
        ]
        return made[0] == made[1] and self.facts.cost.macs[own] == self.other.cost.macs[partner]

    def _absorb_prepared(self, index: int, groups: list[Group]) -> None:
        """What is computed from constants alone goes with the one group that needs it."""
        needing = {self.group_of.get(each, -1) for each in self.facts.readers_of(index)}
        if len(needing) == 1 and -1 not in needing:
            self._put(index, needing.pop(), groups, "computed before the first run")

    def free(self) -> list[int]:
        """The operators that are in no group yet."""
        return [index for index in range(len(self.partner)) if index not in self.group_of]

    def regions(self) -> list[_Region]:
        """The operators that are left, those that touch each other together."""
        region_of: dict[int, int] = {}
        found: list[_Region] = []
        for index in self.free():
            if index in region_of:
                continue
            region_of[index] = len(found)
            found.append(self._grown(index, region_of, len(found)))
        return found

    def _grown(self, start: int, region_of: dict[int, int], number: int) -> _Region:
        region, waiting = _Region([], set(), set()), [start]
        while waiting:
            index = waiting.pop()
            region.ops.append(index)
            op = self.facts.graph.ops[index]
            makers, readers = self.facts.makers_of(index), self.facts.readers_of(index)
            region.sources |= {self.group_of[each] for each in makers if each in self.group_of}
            region.sources |= {self.given[each] for each in op.inputs if each in self.given}
            region.sinks |= {self.group_of[each] for each in readers if each in self.group_of}
            region.sinks |= {self.wanted[each] for each in op.outputs if each in self.wanted}
            for each in (*makers, *readers):
                if each not in self.group_of and each not in region_of:
                    region_of[each] = number
                    waiting.append(each)
        return region


def _has_bias(inputs: tuple[int, ...]) -> bool:
    return len(inputs) > 2 and inputs[2] != ABSENT


def _static(facts: Facts) -> frozenset[int]:
    """Operators whose results are known before the first run: shapes, and what comes of constants alone."""
    tensors = facts.graph.tensors
    found: set[int] = set()

    def is_fixed(identity: int) -> bool:
        return identity == ABSENT or tensors[identity].data is not None or facts.maker.get(identity) in found

    for index, op in enumerate(facts.graph.ops):
        # A second input of a cast only says to which type.
        read = op.inputs[:1] if op.kind == "cast" else op.inputs
        makes_constants = bool(op.outputs) and all(tensors[each].data is not None for each in op.outputs)
        if makes_constants or op.kind == "shape_of" or (read and all(map(is_fixed, read))):
            found.add(index)
    return frozenset(found)


def _take_whole_modules(one: _Side, other: _Side, groups: list[Group]) -> None:
    """Group operators that do the work of a whole module of the other model, with as many MACs."""
    whole: dict[Path, list[int]] = {}
    for index in one.free():
        if one.facts.paths[index] and one.facts.has_macs[index]:
            whole.setdefault(one.facts.paths[index], []).append(index)
    inside: dict[Path, list[int]] = {}
    for index in other.free() if whole else ():
        path = other.facts.paths[index]
        module = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in whole), None)
        if module is not None:
            inside.setdefault(module, []).append(index)
    for module, parts in inside.items():
        if one.macs(whole[module]) == other.macs(parts):
            for side, ops in ((one, whole[module]), (other, parts)):
                side.group_of.update(dict.fromkeys(ops, len(groups)))
            pair = (whole[module], parts) if one.place == 0 else (parts, whole[module])
            groups.append(Group(*pair, None, "name", ["one operator for a whole module"]))


def _counterparts(ours: list[_Region], theirs: list[_Region]) -> list[tuple[int, int]]:
    """Regions that read from the same and feed the same; of several, those that share most."""
    at_sink: dict[int, list[int]] = {}
    for number, region in enumerate(theirs):
        for sink in region.sinks:
            at_sink.setdefault(sink, []).append(number)
    taken: set[int] = set()
    found = []
    for number, region in enumerate(ours):
        near = (each for sink in sorted(region.sinks) for each in at_sink.get(sink, ()) if each not in taken)
        rivals = list(islice(dict.fromkeys(islice(near, 2 * _MOST_RIVALS)), _MOST_RIVALS))
        best = max(
            (each for each in rivals if _may_stand_for(region, theirs[each])),
            key=lambda each: _shared(region, theirs[each]),
            default=None,
        )
        if best is not None:
            taken.add(best)
            found.append((number, best))
    return found


def _may_stand_for(one: _Region, other: _Region) -> bool:
    if max(len(one.ops), len(other.ops)) > _LARGEST:
        return False
    return bool(one.sources & other.sources) and bool(one.sinks & other.sinks)


def _shared(one: _Region, other: _Region) -> float:
    """The share of ends that both have."""
    both = len(one.sources & other.sources) + len(one.sinks & other.sinks)
    return both / (len(one.sources | other.sources) + len(one.sinks | other.sinks))
