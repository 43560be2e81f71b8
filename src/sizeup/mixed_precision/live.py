"""Bytes that are in memory while each operator runs, conversions included, by the types of a few groups.

A value that readers want at another type is converted right before the first of them. The value itself stays
until its last reader at its own type, or its last conversion; a converted copy until the last that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory import given_tensors, lifetimes, tensor_bytes
from sizeup.mixed_precision.conversions import OWN, Read, Typing, own_kind
from sizeup.mixed_precision.network import Codes, Flags, Floats

_MOST_COMBINATIONS = 1 << 12  # of the types of groups that decide on one step


@dataclass(frozen=True, slots=True, eq=False)
class _Buffer:
    """A value with its views: how large at every type, and who reads it."""

    first: int
    last: int
    group: int
    sizes: Codes  # by type, the last at its own
    own: int  # the place of its own type there
    reads: tuple[Read, ...]
    copies: dict[int, Codes]  # of every tensor in it that is read at other types, sizes by type
    entering: tuple[int, ...]  # the groups that read it where it enters the graph
    leaves: bool
    is_given: bool  # before the first operator

    def groups_at(self, step: int) -> set[int]:
        """The groups whose types decide how much of it is in memory at a step."""
        foreign = {each.tensor for each in self.reads if each.op >= step and each.tensor in self.copies}
        readers = {each.group for each in self.reads if each.tensor in foreign}
        return ({self.group} | readers | set(self.entering if len(self.entering) > 1 else ())) - {OWN}


class LiveBytes:
    """The bytes in memory at every step of a graph, as a function of the types of groups."""

    def __init__(self, graph: Graph, typing: Typing, kinds: Sequence[DType]) -> None:
        self.kinds = len(kinds)
        found = lifetimes(graph)
        leaving, given = set(graph.outputs), set(given_tensors(graph))
        self.inputs = [op.inputs for op in graph.ops]
        read = {identity for inputs in self.inputs for identity in inputs}
        self.at: list[list[_Buffer]] = [[] for _ in range(found.steps)]
        for place, tensors in enumerate(found.tensors):
            sizes = [[tensor_bytes(graph.tensors[i], kind) for kind in kinds] for i in tensors]
            own = [tensor_bytes(graph.tensors[i]) for i in tensors]
            by_type = np.array([[*each, one] for each, one in zip(sizes, own, strict=True)], np.int64)
            reads = [each for i in tensors for each in typing.reads.get(i, ())]
            copies = {i: by_type[row] for row, i in enumerate(tensors) if typing.foreign(i)}
            buffer = _Buffer(
                int(found.first[place]),
                int(found.last[place]),
                next((typing.group[i] for i in tensors if typing.group[i] != OWN), OWN),
                by_type.max(axis=0),
                own_kind(graph.tensors[tensors[0]], kinds) if tensors else len(kinds),
                tuple(sorted(reads, key=lambda each: each.op)),
                copies,
                tuple(typing.inputs.get(tensors[0], ())) if tensors else (),
                any(i in leaving for i in tensors),
                any(i in given for i in tensors),
            )
            is_unread = not buffer.leaves and buffer.first == buffer.last
            if is_unread and buffer.is_given and not any(each in read for each in tensors):
                continue  # in memory while the first operator runs, which may be a conversion
            for step in range(buffer.first, buffer.last + 1):
                self.at[step].append(buffer)

    def crowded(self, most: int) -> Iterator[tuple[tuple[int, ...], Flags]]:
        """Groups, and by their types whether more than that is in memory at some step."""
        merged: dict[tuple[int, ...], Flags] = {}
        for step, buffers in enumerate(self.at):
            if sum(_most_of(each) for each in buffers) <= most:
                continue
            scope, table = self._table(step, buffers)
            over = table > most
            if over.any():
                merged[scope] = merged[scope] | over if scope in merged else over
        yield from merged.items()

    def _table(self, step: int, buffers: list[_Buffer]) -> tuple[tuple[int, ...], Floats]:
        """Bytes at a step, and while its inputs are converted, by the types of the groups that decide on it.

        Where these are too many, the smaller buffers count at their narrowest.
        """
        scope: list[int] = []
        exact, rest = [], 0
        for buffer in sorted(buffers, key=lambda each: -int(each.sizes.max())):
            wider = [*scope, *sorted(buffer.groups_at(step) - set(scope))]
            if self.kinds ** len(wider) <= _MOST_COMBINATIONS:
                scope = wider
                exact.append(buffer)
            else:
                rest += int(buffer.sizes.min())
        scope.sort()
        shape = (self.kinds,) * len(scope)
        grid = np.indices(shape).reshape(len(scope), -1) if scope else np.zeros((0, 1), np.int64)
        kind_of = {group: grid[place] for place, group in enumerate(scope)}
        live = _Live(step, self.inputs[step], exact, kind_of, grid.shape[1])
        return tuple(scope), (live.most() + rest).reshape(shape)


def _most_of(buffer: _Buffer) -> int:
    """What a buffer and its copies take at most."""
    return int(buffer.sizes.max()) + sum(int(each.max()) for each in buffer.copies.values()) * 2


_Event: TypeAlias = tuple[Read, Flags, Flags, Codes]


class _Live:
    """The bytes at one step, one number per combination of types."""

    def __init__(
        self, step: int, inputs: Sequence[int], buffers: list[_Buffer], kind_of: dict[int, Codes], count: int
    ) -> None:
        self.step, self.kind_of, self.count = step, kind_of, count
        self.order = {identity: place for place, identity in enumerate(dict.fromkeys(inputs))}
        self.buffers = buffers
        self.made = [self._made(each) for each in buffers]
        self.events = [self._events(*each) for each in zip(buffers, self.made, strict=True)]

    def most(self) -> Floats:
        """While the operator runs, or one of its inputs is converted before that."""
        found = self._bytes(None)
        for tensor in self.order:
            happens = [
                is_first
                for events in self.events
                for read, _, is_first, _ in events
                if read.op == self.step and read.tensor == tensor
            ]
            if happens and happens[0].any():
                found = np.maximum(found, np.where(happens[0], self._bytes(self.order[tensor]), 0.0))
        return found

    def _kind(self, group: int, buffer: _Buffer) -> Codes:
        return self.kind_of[group] if group in self.kind_of else np.full(self.count, buffer.own)

    def _made(self, buffer: _Buffer) -> Codes:
        """The type that a value is made in: its own if it enters the graph and its readers differ."""
        made = self._kind(buffer.group, buffer)
        if len(buffer.entering) < 2:
            return made
        agreed = np.all([self._kind(group, buffer) == made for group in buffer.entering], axis=0)
        return np.where(agreed, made, buffer.own)

    def _events(self, buffer: _Buffer, made: Codes) -> list[_Event]:
        """Of every read whether it is at the value's own type, or the first at another, and at which."""
        found: list[_Event] = []
        for read in buffer.reads:
            wanted = self._kind(read.group, buffer) if read.tensor in buffer.copies else made
            same = wanted == made
            is_first = ~same
            for other, _, _, kind in found:
                if other.tensor == read.tensor:
                    is_first = is_first & (kind != wanted)
            found.append((read, same, is_first, wanted))
        return found

    def _bytes(self, converting: int | None) -> Floats:
        """Bytes while the operator runs, or while the input at a place is converted for it."""
        total = np.zeros(self.count)
        for buffer, made, events in zip(self.buffers, self.made, self.events, strict=True):
            is_made = buffer.first == self.step and not buffer.is_given
            if is_made and converting is not None:
                continue
            if not buffer.copies:
                total += buffer.sizes[made]
                continue
            total += np.where(self._is_kept(buffer, events, converting) | is_made, buffer.sizes[made], 0)
            for read, _, is_first, kind in events:
                if read.tensor in buffer.copies and self._is_done(read, converting):
                    is_live = is_first & self._is_read_later(events, read, kind)
                    total += np.where(is_live, buffer.copies[read.tensor][kind], 0)
        return total

    def _is_read_later(self, events: list[_Event], read: Read, kind: Codes) -> Flags:
        """Whether the same tensor is read at a type from this step on."""
        found = np.zeros(self.count, np.bool_)
        for other, _, _, wanted in events:
            if other.tensor == read.tensor and other.op >= self.step:
                found |= wanted == kind
        return found

    def _is_done(self, read: Read, converting: int | None) -> bool:
        """Whether a conversion for a read lies behind."""
        if read.op != self.step or converting is None:
            return read.op <= self.step
        return self.order[read.tensor] <= converting

    def _is_kept(self, buffer: _Buffer, events: list[_Event], converting: int | None) -> Flags:
        """Whether a value is still read at its own type, or still converted."""
        kept = np.full(self.count, buffer.leaves)
        for read, same, is_first, _ in events:
            if read.op >= self.step:
                kept |= same
            if read.op > self.step or (
                read.op == self.step and converting is not None and self.order[read.tensor] >= converting
            ):
                kept |= is_first
        return kept
