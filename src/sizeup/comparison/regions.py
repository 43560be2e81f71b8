"""Groups ops without a partner: fused into another op, replaced by others, or in one model only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice

from sizeup.comparison.facts import Facts, Path, class_of, dims, is_activation, is_product
from sizeup.comparison.matching import Matched
from sizeup.graph import ABSENT, is_precomputed

# Larger regions are not treated as replacements.
_LARGEST = 64
# The number of regions with a common sink that a region is compared with.
_MOST_RIVALS = 8


@dataclass(slots=True)
class Group:
    """Equivalent ops of both models; `notes` state how ops outside the core pair relate to it."""

    a: list[int]
    b: list[int]
    core: tuple[int, int] | None = None
    matched_by: str = ""
    notes: list[str] = field(default_factory=list)


def groups_of(a: Facts, b: Facts, matched: Matched) -> list[Group]:
    """Group the ops of both models; each is in exactly one group."""
    groups = [Group([i], [j], (i, j), matched.matched_by[i]) for i, j in matched.pairs]
    sides = (
        _Side(a, matched.a, b, {group.core[0]: n for n, group in enumerate(groups) if group.core}, 0),
        _Side(b, matched.b, a, {group.core[1]: n for n, group in enumerate(groups) if group.core}, 1),
    )
    for side in sides:
        side.absorb(groups)
    _group_modules(*sides, groups)
    _group_modules(*sides[::-1], groups)
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
    """Connected ops without a partner, and the groups before and after them."""

    ops: list[int]
    sources: set[int]
    sinks: set[int]


class _Side:
    """One of the two models, with the group of each op."""

    def __init__(
        self, facts: Facts, partner: list[int], other: Facts, group_of: dict[int, int], side_index: int
    ) -> None:
        self.facts, self.partner, self.other = facts, partner, other
        self.group_of, self.side_index = group_of, side_index
        self.static = _static(facts)
        # Inputs and outputs of the graph have no group: negative numbers by position stand for them.
        self.input_numbers = {identity: -1 - number for number, identity in enumerate(facts.graph.inputs)}
        self.output_numbers = {identity: -1 - number for number, identity in enumerate(facts.graph.outputs)}

    def macs(self, ops: list[int]) -> int:
        """The sum of the MACs of some ops."""
        return sum(int(self.facts.cost.macs[op]) for op in ops)

    def absorb(self, groups: list[Group]) -> None:
        """Add ops that a partner has fused or precomputed to its group."""
        for index in range(len(self.partner)):
            if self.partner[index] < 0 and index not in self.static:
                self._absorb(index, groups)
        for index in range(len(self.partner) - 1, -1, -1):
            if self.partner[index] < 0 and index in self.static:
                self._absorb_constant(index, groups)

    def _absorb(self, index: int, groups: list[Group]) -> None:
        producer = self._only_producer(index)
        group_index = self.group_of.get(producer) if producer is not None else None
        core = None if group_index is None else groups[group_index].core
        if group_index is None or core is None:
            return
        relation = self._relation(index, core)
        if relation:
            self._add(index, group_index, groups, relation)

    def _add(self, index: int, group_index: int, groups: list[Group], note: str) -> None:
        self.group_of[index] = group_index
        (groups[group_index].a if self.side_index == 0 else groups[group_index].b).append(index)
        groups[group_index].notes.append(note)

    def _only_producer(self, index: int) -> int | None:
        """The op that produces its only variable input, if no other op reads that."""
        inputs = [
            identity
            for identity in self.facts.graph.ops[index].inputs
            if identity != ABSENT and not self._is_fixed(identity)
        ]
        if len(inputs) != 1 or len(self.facts.readers[inputs[0]]) != 1:
            return None
        return self.facts.producer.get(inputs[0])

    def _is_fixed(self, identity: int) -> bool:
        return self.facts.graph.tensors[identity].data is not None or (
            self.facts.producer.get(identity, -1) in self.static
        )

    def _relation(self, index: int, core: tuple[int, int]) -> str:
        """How the partner contains the op; empty if it does not."""
        op = self.facts.graph.ops[index]
        own, partner = (
            self.facts.graph.ops[core[self.side_index]],
            self.other.graph.ops[core[1 - self.side_index]],
        )
        gains_bias = _has_bias(partner.inputs) > _has_bias(own.inputs)
        if op.kind == "batch_norm" and is_product(own.kind) and self._may_contain_norm(core, gains_bias):
            return "batch_norm folded into the weights"
        inside = [class_of(product.attrs.get("activation") or "") for product in (own, partner)]
        if is_activation(op.kind) and inside[0] != class_of(op.kind) == inside[1]:
            return f"{op.kind} fused as activation"
        if op.kind == "add" and is_product(own.kind) and gains_bias:
            return "add fused as bias"
        return ""

    def _may_contain_norm(self, core: tuple[int, int], gains_bias: bool) -> bool:
        """Whether the partner can be the same product with a norm folded in, which changes no size."""
        own, partner = core[self.side_index], core[1 - self.side_index]
        # Converters fold norms. Within one format, a new bias indicates a folded norm.
        is_converted = self.facts.graph.format != self.other.graph.format
        if not gains_bias and not is_converted:
            return False
        readers = self.other.readers_of(partner)
        if any(self.other.graph.ops[reader].kind == "batch_norm" for reader in readers):
            return False
        output_sizes = [
            math.prod(dims(side.graph.tensors[side.graph.ops[index].outputs[0]].shape) or ())
            for side, index in ((self.facts, own), (self.other, partner))
        ]
        return (
            output_sizes[0] == output_sizes[1] and self.facts.cost.macs[own] == self.other.cost.macs[partner]
        )

    def _absorb_constant(self, index: int, groups: list[Group]) -> None:
        """Add an op that depends only on constants to the only group that reads it."""
        group_indices = {self.group_of.get(reader, -1) for reader in self.facts.readers_of(index)}
        if len(group_indices) == 1 and -1 not in group_indices:
            self._add(index, group_indices.pop(), groups, "computed before the first inference")

    def free(self) -> list[int]:
        """The ops that are not in a group yet."""
        return [index for index in range(len(self.partner)) if index not in self.group_of]

    def regions(self) -> list[_Region]:
        """The connected components of the remaining ops."""
        region_of: dict[int, int] = {}
        components: list[_Region] = []
        for index in self.free():
            if index in region_of:
                continue
            region_of[index] = len(components)
            components.append(self._grow(index, region_of, len(components)))
        return components

    def _grow(self, start: int, region_of: dict[int, int], number: int) -> _Region:
        region, waiting = _Region([], set(), set()), [start]
        while waiting:
            index = waiting.pop()
            region.ops.append(index)
            op = self.facts.graph.ops[index]
            producers, readers = self.facts.producers_of(index), self.facts.readers_of(index)
            region.sources |= {self.group_of[neighbor] for neighbor in producers if neighbor in self.group_of}
            region.sources |= {
                self.input_numbers[neighbor] for neighbor in op.inputs if neighbor in self.input_numbers
            }
            region.sinks |= {self.group_of[neighbor] for neighbor in readers if neighbor in self.group_of}
            region.sinks |= {
                self.output_numbers[neighbor] for neighbor in op.outputs if neighbor in self.output_numbers
            }
            for neighbor in (*producers, *readers):
                if neighbor not in self.group_of and neighbor not in region_of:
                    region_of[neighbor] = number
                    waiting.append(neighbor)
        return region


def _has_bias(inputs: tuple[int, ...]) -> bool:
    return len(inputs) > 2 and inputs[2] != ABSENT


def _static(facts: Facts) -> frozenset[int]:
    """Ops whose outputs are known before the first inference: shapes, and results of constants only."""
    tensors = facts.graph.tensors
    static: set[int] = set()

    def is_fixed(identity: int) -> bool:
        return (
            identity == ABSENT or tensors[identity].data is not None or facts.producer.get(identity) in static
        )

    for index, op in enumerate(facts.graph.ops):
        # The second input of a cast only gives the dtype.
        read = op.inputs[:1] if op.kind == "cast" else op.inputs
        if is_precomputed(facts.graph, op) or op.kind == "shape_of" or (read and all(map(is_fixed, read))):
            static.add(index)
    return frozenset(static)


def _group_modules(one: _Side, other: _Side, groups: list[Group]) -> None:
    """Group ops that replace a module of the other model and have the same MACs."""
    module_ops: dict[Path, list[int]] = {}
    for index in one.free():
        if one.facts.paths[index] and one.facts.has_macs[index]:
            module_ops.setdefault(one.facts.paths[index], []).append(index)
    parts_by_module: dict[Path, list[int]] = {}
    for index in other.free() if module_ops else ():
        path = other.facts.paths[index]
        module = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in module_ops), None)
        if module is not None:
            parts_by_module.setdefault(module, []).append(index)
    for module, parts in parts_by_module.items():
        if one.macs(module_ops[module]) == other.macs(parts):
            for side, ops in ((one, module_ops[module]), (other, parts)):
                side.group_of.update(dict.fromkeys(ops, len(groups)))
            pair = (module_ops[module], parts) if one.side_index == 0 else (parts, module_ops[module])
            groups.append(Group(*pair, None, "name", ["one op for a module"]))


def _counterparts(ours: list[_Region], theirs: list[_Region]) -> list[tuple[int, int]]:
    """Pairs of regions with common sources and sinks; of several, those that share most."""
    at_sink: dict[int, list[int]] = {}
    for number, region in enumerate(theirs):
        for sink in region.sinks:
            at_sink.setdefault(sink, []).append(number)
    matched: set[int] = set()
    pairs = []
    for number, region in enumerate(ours):
        near = (
            candidate
            for sink in sorted(region.sinks)
            for candidate in at_sink.get(sink, ())
            if candidate not in matched
        )
        rivals = list(islice(dict.fromkeys(islice(near, 2 * _MOST_RIVALS)), _MOST_RIVALS))
        best = max(
            (candidate for candidate in rivals if _may_replace(region, theirs[candidate])),
            key=lambda candidate: _shared(region, theirs[candidate]),
            default=None,
        )
        if best is not None:
            matched.add(best)
            pairs.append((number, best))
    return pairs


def _may_replace(one: _Region, other: _Region) -> bool:
    if max(len(one.ops), len(other.ops)) > _LARGEST:
        return False
    return bool(one.sources & other.sources) and bool(one.sinks & other.sinks)


def _shared(one: _Region, other: _Region) -> float:
    """The fraction of sources and sinks that both have."""
    both = len(one.sources & other.sources) + len(one.sinks & other.sinks)
    return both / (len(one.sources | other.sources) + len(one.sinks | other.sinks))
