"""Changing a .tflite file without touching the rest of it.

The order of operators is changed by pointing the entries of one vector at other tables, buffers of the same
length are written over in place. Only what makes the file longer, a plan where there was none, gets a new
root table and new lists in front of the old file, which follows as it was; the few places that count bytes
from the beginning of the file are moved along.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

from sizeup.errors import CorruptModel, WriteError
from sizeup.formats.tflite.flat import Front, Table, Vector, put, root, unsigned
from sizeup.formats.tflite.schema import BROKEN, PLAN

ONLINE = -1
"""The offset of a tensor that the interpreter is to place by itself."""

# Fields of the schema's tables.
_CODES, _SUBGRAPHS, _BUFFERS, _METADATA = 1, 2, 4, 6
_EXTERNAL = (8, 9)
_ROOT_FIELDS = 10
_TENSORS, _OPERATORS = 0, 3
_TENSOR_BUFFER = 2
_DATA, _OFFSET, _SIZE = 0, 1, 2
_NAME, _BUFFER = 0, 1
_LARGE_OPTIONS = 9
_CUSTOM_CODE = 1
_VERSION = 0
# Buffers are aligned to 16 bytes; what is stored behind the tables may be aligned to pages.
_ALIGNMENT, _PAGE = 16, 4096
# Its options name a place in the file that only its compiler knows.
_BOUND_TO_PLACE = b"DISPATCH_OP"
# The zip archive that TFLite metadata packs behind a file: labels, vocabularies and the like.
_END = b"PK\x05\x06"
_END_SIZE = 22
_ENTRY = b"PK\x01\x02"
_ENTRY_SIZE = 46
_LONGEST_COMMENT = 0xFFFF


def rewrite(
    content: bytes,
    *,
    order: Sequence[int] | None = None,
    offline_offsets: Sequence[int] | None = None,
    buffers: Mapping[int, bytes] | None = None,
) -> bytes:
    """The file with its main graph's operators in another order, with a plan, or with other buffers.

    `offline_offsets` has one entry for each tensor of the main graph or of all graphs, -1 for those that the
    interpreter is to place. A plan that the file had holds for its old order: a new order without a new
    plan takes its offsets away.
    """
    file = bytearray(content)
    try:
        return bytes(_rewritten(file, order, offline_offsets, dict(buffers or {})))
    except BROKEN as error:
        raise CorruptModel(f"the file is damaged: {error}") from error


def _rewritten(
    file: bytearray,
    order: Sequence[int] | None,
    offsets: Sequence[int] | None,
    buffers: dict[int, bytes],
) -> bytearray:
    model = root(file)
    if order is not None:
        _reorder(file, order)
    planned = _plan_buffer(model)
    added: bytes | None = None
    if offsets is not None:
        plan = _plan(model, offsets)
        if planned is None:
            added = plan
        else:
            buffers[planned] = plan
    elif order is not None and planned is not None:
        buffers[planned] = _plan(model, [ONLINE] * sum(_tensor_counts(model)))
    longer = {index: data for index, data in buffers.items() if not _replaced(file, index, data)}
    if not longer and added is None:
        return file
    return _grown(file, longer, added)


def _reorder(file: bytearray, order: Sequence[int]) -> None:
    operators, *others = [graph.vector(_OPERATORS) for graph in root(file).vector(_SUBGRAPHS).tables()]
    if operators in others:
        raise WriteError("two graphs of the file share one list of operators, which cannot be reordered")
    if sorted(order) != list(range(operators.length)):
        raise WriteError(f"an order of {operators.length} operators must name each of them once")
    targets = [operators.target(index) for index in order]
    for index, target in enumerate(targets):
        put(file, operators.slot(index), 4, target - operators.slot(index))


def _tensor_counts(model: Table) -> list[int]:
    return [graph.vector(_TENSORS).length for graph in model.vector(_SUBGRAPHS).tables()]


def _plan(model: Table, offsets: Sequence[int]) -> bytes:
    """Format version, number of subgraphs, number of tensors in all of them, and their offsets."""
    counts = _tensor_counts(model)
    if len(offsets) not in (counts[0], sum(counts)):
        raise WriteError(f"{len(offsets)} offsets for {counts[0]} tensors of the main graph")
    numbers = [*offsets, *[ONLINE] * (sum(counts) - len(offsets))]
    return struct.pack(f"<3i{len(numbers)}i", 0, len(counts), len(numbers), *numbers)


def _plan_buffer(model: Table) -> int | None:
    """The buffer that holds a plan already."""
    for entry in model.vector(_METADATA).tables():
        if entry.text(_NAME) == PLAN.encode():
            return entry.number(_BUFFER, 4)
    return None


def _place(buffer: Table) -> tuple[int, int]:
    """Where a buffer's bytes begin and how many there are: behind its table, or anywhere in the file."""
    if buffer.slot(_DATA) is not None:
        inside = buffer.vector(_DATA)
        return inside.first, inside.length
    offset = buffer.number(_OFFSET, 8)
    # Offsets of 0 and 1 mean that there is none.
    return (offset, buffer.number(_SIZE, 8)) if offset > 1 else (0, 0)


def _replaced(file: bytearray, index: int, data: bytes) -> bool:
    """Write over a buffer, if the new bytes are as many and no other buffer shares the old ones."""
    buffers = root(file).vector(_BUFFERS)
    if not 0 < index < buffers.length:
        raise WriteError(f"there is no buffer {index} to replace")
    first, length = _place(buffers.table(index))
    if first + length > len(file):
        raise CorruptModel(f"buffer {index} lies outside the file")
    if length != len(data) or not length:
        return False
    for other in range(buffers.length):
        begin, size = _place(buffers.table(other))
        if other != index and size and begin < first + length and first < begin + size:
            return False
    file[first : first + length] = data
    return True


def _grown(file: bytearray, longer: Mapping[int, bytes], plan: bytes | None) -> bytearray:
    """A new root and new lists of buffers and metadata, in front of the file."""
    model = root(file)
    _refuse_what_cannot_move(model)
    given = [number for number in range(1, model.fields) if model.slot(number) is not None]
    fields = sorted({*given, _BUFFERS, *([_METADATA] if plan is not None else [])})
    front = Front()
    version = model.number(_VERSION, 4)
    start = front.table(_ROOT_FIELDS, {_VERSION: version}, fields)
    slots = dict(zip(fields, start.slots, strict=True))
    old_buffers, old_metadata = model.vector(_BUFFERS), model.vector(_METADATA)
    added = {**longer, **({old_buffers.length: plan} if plan is not None else {})}
    buffers = _extended(front, slots.pop(_BUFFERS), old_buffers, added.keys())
    if plan is not None:
        metadata = _extended(front, slots.pop(_METADATA), old_metadata, [old_metadata.length])
        entry = front.table(2, {_BUFFER: old_buffers.length}, [_NAME])
        front.refer(metadata[old_metadata.length], entry)
        front.refer(entry.slots[0], front.data(PLAN.encode()))
    for number, slot in slots.items():
        front.refer_inward(slot, _needed(model.target(number)))
    for index, data in added.items():
        table = front.table(1, {}, [_DATA])
        front.refer(buffers[index], table)
        front.refer(table.slots[0], front.data(data, _ALIGNMENT))
    grown, shift = front.joined(file, start, _alignment(model))
    _move_along(grown, shift)
    return grown


def _extended(front: Front, slot: int, old: Vector, changed: Iterable[int]) -> dict[int, int]:
    """A copy of a list that has room for new entries; returns the slots that are still to be set."""
    wanted = set(changed)
    length = max([old.length, *(index + 1 for index in wanted)])
    made = front.vector(length)
    front.refer(slot, made)
    for index in range(old.length):
        if index not in wanted:
            front.refer_inward(made.slots[index], old.target(index))
    return {index: made.slots[index] for index in wanted}


def _needed(position: int | None) -> int:
    assert position is not None
    return position


def _refuse_what_cannot_move(model: Table) -> None:
    if any(model.slot(number) is not None for number in range(_ROOT_FIELDS, model.fields)):
        raise WriteError("the file uses a newer schema than this version can write")
    for code in model.vector(_CODES).tables():
        if code.text(_CUSTOM_CODE) == _BOUND_TO_PLACE:
            raise WriteError("the file holds compiled code at a fixed place, so nothing can be added to it")


def _alignment(model: Table) -> int:
    """What all data behind the tables is aligned to, so that it stays so."""
    offsets = [each.number(_OFFSET, 8) for each in model.vector(_BUFFERS).tables()]
    common = gcd(_PAGE, *(offset for offset in offsets if offset > 1))
    return max(common if any(offset > 1 for offset in offsets) else _ALIGNMENT, _ALIGNMENT)


def _move_along(file: bytearray, shift: int) -> None:
    """Correct everything that counts bytes from the beginning of the file."""
    for slot in set(_absolute(root(file))):  # a set, as tables may be shared
        put(file, slot, 8, unsigned(file, slot, 8) + shift)
    _move_archive(file, shift)


def _move_archive(file: bytearray, shift: int) -> None:
    """Correct the places that an archive at the end of a file has written down, counted from its start."""
    end = file.rfind(_END, max(0, len(file) - _END_SIZE - _LONGEST_COMMENT))
    if end < 0 or end + _END_SIZE > len(file):
        return
    entries, size, directory, comment = struct.unpack_from("<HIIH", file, end + 10)
    if end + _END_SIZE + comment != len(file) or directory + shift + size != end:
        return  # it counts from its own beginning, or is none
    struct.pack_into("<I", file, end + 16, directory + shift)
    position = directory + shift
    for _ in range(entries):
        if file[position : position + 4] != _ENTRY:
            return
        name, extra, remark = struct.unpack_from("<HHH", file, position + 28)
        place = struct.unpack_from("<I", file, position + 42)[0]
        struct.pack_into("<I", file, position + 42, place + shift)
        position += _ENTRY_SIZE + name + extra + remark


def _absolute(model: Table) -> Iterator[int]:
    """Where positions in the file are written down; 0 and 1 are none."""
    tables = [(each, _OFFSET) for each in model.vector(_BUFFERS).tables()]
    for graph in model.vector(_SUBGRAPHS).tables():
        tables += [(each, _LARGE_OPTIONS) for each in graph.vector(_OPERATORS).tables()]
    for table, number in tables:
        slot = table.slot(number)
        if slot is not None and unsigned(model.content, slot, 8) > 1:
            yield slot


def stored_plan(content: bytes) -> tuple[int, ...] | None:
    """The offsets of a plan that the file holds already, of all tensors; None without one."""
    model = root(content)
    index = _plan_buffer(model)
    if index is None:
        return None
    first, length = _place(model.vector(_BUFFERS).table(index))
    return struct.unpack_from(f"<{max(length // 4 - 3, 0)}i", content, first + 12)


def external_files(content: bytes) -> list[str]:
    """The names of other files in which the model keeps weights."""
    groups = root(content).vector(_EXTERNAL[0]).tables()
    return [group.text(_NAME).decode("utf-8", "replace") for group in groups]


def holds_data_outside(content: bytes) -> bool:
    """Whether something lies behind the tables of the file, or in another file."""
    model = root(content)
    return any(True for _ in _absolute(model)) or any(model.slot(each) is not None for each in _EXTERNAL)


def tensor_buffers(content: bytes) -> list[tuple[int, memoryview]]:
    """For every tensor of the main graph its buffer's number, 0 for the empty one, and what that holds."""
    model, view = root(content), memoryview(content)
    buffers = model.vector(_BUFFERS)
    found = []
    for tensor in model.vector(_SUBGRAPHS).table(0).vector(_TENSORS).tables():
        index = tensor.number(_TENSOR_BUFFER, 4)
        first, length = _place(buffers.table(index))
        found.append((index, view[first : first + length]))
    return found
