"""Live bytes while each op runs, conversions included, as a function of the dtypes of a few groups.

A tensor that is read at another dtype is converted right before the first such read. The tensor itself stays
live until its last read at its own dtype, or its last conversion; a converted copy until its last read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sizeup.dtypes import DType
from sizeup.graph import Graph
from sizeup.memory import buffer_liveness, initial_tensors, tensor_bytes
from sizeup.mixed_precision.conversions import OWN, DtypeGroups, Read, own_dtype_index
from sizeup.mixed_precision.trellis import Codes, Flags, Floats

_MAX_COMBINATIONS = 1 << 12  # of dtypes, over the groups that matter at one step


@dataclass(frozen=True, slots=True, eq=False)
class _Buffer:
    """A tensor with its aliases: its size at every dtype, and its reads."""

    first: int
    last: int
    group: int
    sizes: Codes  # by dtype, the last at its own
    own: int  # the index of the model's dtype in `sizes`
    reads: tuple[Read, ...]
    copies: dict[int, Codes]  # by tensor that is read at other dtypes, sizes by dtype
    reading_groups: tuple[int, ...]  # the groups that read it, if it is a graph input
    is_output: bool
    is_input: bool  # live before the first op

    def groups_at(self, step: int) -> set[int]:
        """Returns the groups whose dtypes decide how much of it is live at a step."""
        foreign = {read.tensor for read in self.reads if read.op >= step and read.tensor in self.copies}
        readers = {read.group for read in self.reads if read.tensor in foreign}
        entering = self.reading_groups if len(self.reading_groups) > 1 else ()
        return {self.group, *readers, *entering} - {OWN}


class LiveBytes:
    """The live bytes at every step of a graph, as a function of the dtypes of groups."""

    def __init__(self, graph: Graph, typing: DtypeGroups, dtypes: Sequence[DType]) -> None:
        self.dtype_count = len(dtypes)
        liveness = buffer_liveness(graph)
        leaving, model_inputs = set(graph.outputs), set(initial_tensors(graph))
        self.inputs = [op.inputs for op in graph.ops]
        read_tensors = {identity for inputs in self.inputs for identity in inputs}
        self.at: list[list[_Buffer]] = [[] for _ in range(liveness.steps)]
        for index, tensors in enumerate(liveness.tensors):
            sizes = [[tensor_bytes(graph.tensors[i], dtype) for dtype in dtypes] for i in tensors]
            own = [tensor_bytes(graph.tensors[i]) for i in tensors]
            by_dtype = np.array([[*row, last] for row, last in zip(sizes, own, strict=True)], np.int64)
            reads = [read for i in tensors for read in typing.reads.get(i, ())]
            copies = {i: by_dtype[row] for row, i in enumerate(tensors) if typing.foreign(i)}
            buffer = _Buffer(
                int(liveness.first[index]),
                int(liveness.last[index]),
                next((typing.group[i] for i in tensors if typing.group[i] != OWN), OWN),
                by_dtype.max(axis=0),
                own_dtype_index(graph.tensors[tensors[0]], dtypes) if tensors else len(dtypes),
                tuple(sorted(reads, key=lambda read: read.op)),
                copies,
                tuple(typing.inputs.get(tensors[0], ())) if tensors else (),
                any(i in leaving for i in tensors),
                any(i in model_inputs for i in tensors),
            )
            is_unread = not buffer.is_output and buffer.first == buffer.last
            if is_unread and buffer.is_input and not any(i in read_tensors for i in tensors):
                continue  # live while the first op runs, which may be a conversion
            for step in range(buffer.first, buffer.last + 1):
                self.at[step].append(buffer)

    def exceeding(self, limit: int) -> Iterator[tuple[tuple[int, ...], Flags]]:
        """Yields groups, and by their dtypes whether the live bytes exceed a limit at some step."""
        by_scope: dict[tuple[int, ...], Flags] = {}
        for step, buffers in enumerate(self.at):
            if sum(_max_bytes(buffer) for buffer in buffers) <= limit:
                continue
            scope, table = self._table(step, buffers)
            over = table > limit
            if over.any():
                by_scope[scope] = by_scope[scope] | over if scope in by_scope else over
        yield from by_scope.items()

    def _table(self, step: int, buffers: list[_Buffer]) -> tuple[tuple[int, ...], Floats]:
        """Returns the live bytes at a step, also while its inputs are converted, by the dtypes of groups.

        If too many groups matter, the smaller buffers count at their narrowest.
        """
        scope: list[int] = []
        exact, smallest = [], 0
        for buffer in sorted(buffers, key=lambda buffer: -int(buffer.sizes.max())):
            extended = [*scope, *sorted(buffer.groups_at(step) - set(scope))]
            if self.dtype_count ** len(extended) <= _MAX_COMBINATIONS:
                scope = extended
                exact.append(buffer)
            else:
                smallest += int(buffer.sizes.min())
        scope.sort()
        shape = (self.dtype_count,) * len(scope)
        grid = np.indices(shape).reshape(len(scope), -1) if scope else np.zeros((0, 1), np.int64)
        code_of = {group: grid[row] for row, group in enumerate(scope)}
        live = _StepMemory(step, self.inputs[step], exact, code_of, grid.shape[1])
        return tuple(scope), (live.peak() + smallest).reshape(shape)


def _max_bytes(buffer: _Buffer) -> int:
    """Returns the maximum bytes of a buffer and its copies."""
    return int(buffer.sizes.max()) + sum(int(sizes.max()) for sizes in buffer.copies.values()) * 2


_Event: TypeAlias = tuple[Read, Flags, Flags, Codes]


class _StepMemory:
    """The live bytes at one step, one value per combination of dtypes."""

    def __init__(
        self, step: int, inputs: Sequence[int], buffers: list[_Buffer], code_of: dict[int, Codes], count: int
    ) -> None:
        self.step, self.code_of, self.count = step, code_of, count
        self.order = {identity: position for position, identity in enumerate(dict.fromkeys(inputs))}
        self.buffers = buffers
        self.written = [self._written_code(buffer) for buffer in buffers]
        self.events = [self._events(*pair) for pair in zip(buffers, self.written, strict=True)]

    def peak(self) -> Floats:
        """Returns the maximum of the live bytes while the op runs and while its inputs are converted."""
        peak = self._bytes(None)
        for tensor in self.order:
            conversions = [
                is_first
                for events in self.events
                for read, _, is_first, _ in events
                if read.op == self.step and read.tensor == tensor
            ]
            if conversions and conversions[0].any():
                peak = np.maximum(peak, np.where(conversions[0], self._bytes(self.order[tensor]), 0.0))
        return peak

    def _code(self, group: int, buffer: _Buffer) -> Codes:
        return self.code_of[group] if group in self.code_of else np.full(self.count, buffer.own)

    def _written_code(self, buffer: _Buffer) -> Codes:
        """Returns the dtype a tensor is written in: its own if it is a graph input and its readers differ."""
        code = self._code(buffer.group, buffer)
        if len(buffer.reading_groups) < 2:
            return code
        agreed = np.all([self._code(group, buffer) == code for group in buffer.reading_groups], axis=0)
        return np.where(agreed, code, buffer.own)

    def _events(self, buffer: _Buffer, own: Codes) -> list[_Event]:
        """Returns each read, whether it is at the tensor's dtype or the first at another, and the dtype."""
        events: list[_Event] = []
        for read in buffer.reads:
            target = self._code(read.group, buffer) if read.tensor in buffer.copies else own
            same = target == own
            is_first = ~same
            for other, _, _, code in events:
                if other.tensor == read.tensor:
                    is_first = is_first & (code != target)
            events.append((read, same, is_first, target))
        return events

    def _bytes(self, converting: int | None) -> Floats:
        """Returns the live bytes while the op runs, or while its input at that position is converted."""
        total = np.zeros(self.count)
        for buffer, written, events in zip(self.buffers, self.written, self.events, strict=True):
            is_written = buffer.first == self.step and not buffer.is_input
            if is_written and converting is not None:
                continue
            if not buffer.copies:
                total += buffer.sizes[written]
                continue
            total += np.where(
                self._is_live(buffer, events, converting) | is_written, buffer.sizes[written], 0
            )
            for read, _, is_first, code in events:
                if read.tensor in buffer.copies and self._is_done(read, converting):
                    is_live = is_first & self._is_read_later(events, read, code)
                    total += np.where(is_live, buffer.copies[read.tensor][code], 0)
        return total

    def _is_read_later(self, events: list[_Event], read: Read, code: Codes) -> Flags:
        """Whether the same tensor is read at a dtype from this step on."""
        is_read = np.zeros(self.count, np.bool_)
        for other, _, _, target in events:
            if other.tensor == read.tensor and other.op >= self.step:
                is_read |= target == code
        return is_read

    def _is_done(self, read: Read, converting: int | None) -> bool:
        """Whether the conversion for a read is complete."""
        if read.op != self.step or converting is None:
            return read.op <= self.step
        return self.order[read.tensor] <= converting

    def _is_live(self, buffer: _Buffer, events: list[_Event], converting: int | None) -> Flags:
        """Whether a tensor is still read at its own dtype, or still to be converted."""
        is_live = np.full(self.count, buffer.is_output)
        for read, same, is_first, _ in events:
            if read.op >= self.step:
                is_live |= same
            if read.op > self.step or (
                read.op == self.step and converting is not None and self.order[read.tensor] >= converting
            ):
                is_live |= is_first
        return is_live
