"""Changes a .tflite file in place: schedule, memory plan and buffers.

Operators are reordered by changing the references of one vector. Buffers of equal length are overwritten. If
the file must grow (a new memory plan, a longer buffer), a new root table and new lists are put before the old
content, and absolute file offsets are shifted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

from sizeup.errors import CorruptModel, WriteError
from sizeup.formats.tflite.flatbuffer import Prefix, Table, Vector, read_unsigned, root, write_unsigned
from sizeup.formats.tflite.schema import BROKEN, PLAN, damage

ONLINE = -1
"""Offset of a tensor that the interpreter plans at run time."""

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
# Buffers are aligned to 16 bytes. Data after the tables may be aligned to pages.
_ALIGNMENT, _PAGE = 16, 4096
# The options of this custom operator contain a file offset in a format that only its compiler knows.
_FIXED_OFFSET_CODE = b"DISPATCH_OP"
# The zip archive that TFLite metadata appends to a file (labels, vocabularies).
_END = b"PK\x05\x06"
_END_SIZE = 22
_ENTRY = b"PK\x01\x02"
_ENTRY_SIZE = 46
_MAX_COMMENT = 0xFFFF


def rewrite(
    content: bytes,
    *,
    schedule: Sequence[int] | None = None,
    offline_offsets: Sequence[int] | None = None,
    buffers: Mapping[int, bytes] | None = None,
) -> bytes:
    """The file with another schedule of its main graph, another memory plan, or other buffers.

    `offline_offsets` has one entry per tensor of the main graph or of all graphs, -1 for tensors that the
    interpreter plans. An existing plan is valid only for the old schedule: a new schedule without a new plan
    resets its offsets to -1.
    """
    file = bytearray(content)
    try:
        return bytes(_rewrite(file, schedule, offline_offsets, dict(buffers or {})))
    except BROKEN as error:
        raise CorruptModel(damage(error)) from error


def _rewrite(
    file: bytearray,
    schedule: Sequence[int] | None,
    offsets: Sequence[int] | None,
    buffers: dict[int, bytes],
) -> bytearray:
    model = root(file)
    if schedule is not None:
        _reorder(file, schedule)
    plan_buffer = _plan_buffer(model)
    added: bytes | None = None
    if offsets is not None:
        plan = _plan(model, offsets)
        if plan_buffer is None:
            added = plan
        else:
            buffers[plan_buffer] = plan
    elif schedule is not None and plan_buffer is not None:
        buffers[plan_buffer] = _plan(model, [ONLINE] * sum(_tensor_counts(model)))
    longer = {index: data for index, data in buffers.items() if not _overwrite(file, index, data)}
    if not longer and added is None:
        return file
    return _extend_file(file, longer, added)


def _reorder(file: bytearray, schedule: Sequence[int]) -> None:
    operators, *others = [graph.vector(_OPERATORS) for graph in root(file).vector(_SUBGRAPHS).tables()]
    if operators in others:
        raise WriteError("two graphs of the file share one list of operators; it cannot be reordered")
    if sorted(schedule) != list(range(operators.length)):
        raise WriteError(f"a schedule of {operators.length} operators must contain each of them once")
    targets = [operators.target(index) for index in schedule]
    for index, target in enumerate(targets):
        write_unsigned(file, operators.slot(index), 4, target - operators.slot(index))


def _tensor_counts(model: Table) -> list[int]:
    return [graph.vector(_TENSORS).length for graph in model.vector(_SUBGRAPHS).tables()]


def _plan(model: Table, offsets: Sequence[int]) -> bytes:
    """Encode a plan: format version, number of subgraphs, number of tensors in all of them, offsets."""
    counts = _tensor_counts(model)
    if len(offsets) not in (counts[0], sum(counts)):
        raise WriteError(f"{len(offsets)} offsets for {counts[0]} tensors of the main graph")
    numbers = [*offsets, *[ONLINE] * (sum(counts) - len(offsets))]
    return struct.pack(f"<3i{len(numbers)}i", 0, len(counts), len(numbers), *numbers)


def _plan_buffer(model: Table) -> int | None:
    """The buffer of the existing memory plan, or None; of several, the interpreter takes the last one."""
    buffer = None
    for entry in model.vector(_METADATA).tables():
        if entry.text(_NAME) == PLAN.encode():
            buffer = entry.number(_BUFFER, 4)
    return buffer


def _byte_range(buffer: Table) -> tuple[int, int]:
    """The position and length of a buffer's data, inline or after the tables."""
    if buffer.slot(_DATA) is not None:
        inside = buffer.vector(_DATA)
        return inside.first, inside.length
    offset = buffer.number(_OFFSET, 8)
    # An offset of 0 or 1 means no data.
    return (offset, buffer.number(_SIZE, 8)) if offset > 1 else (0, 0)


def _overwrite(file: bytearray, index: int, data: bytes) -> bool:
    """Overwrite a buffer if the length is equal and no other buffer shares its bytes; whether it did."""
    buffers = root(file).vector(_BUFFERS)
    if not 0 < index < buffers.length:
        raise WriteError(f"no buffer {index} to replace")
    first, length = _byte_range(buffers.table(index))
    if first + length > len(file):
        raise CorruptModel(f"buffer {index} lies outside the file")
    if length != len(data) or not length:
        return False
    for other in range(buffers.length):
        begin, size = _byte_range(buffers.table(other))
        if other != index and size and begin < first + length and first < begin + size:
            return False
    file[first : first + length] = data
    return True


def _extend_file(file: bytearray, longer: Mapping[int, bytes], plan: bytes | None) -> bytearray:
    """Put a new root and new lists of buffers and metadata before the file."""
    model = root(file)
    _check_movable(model)
    present = [number for number in range(1, model.fields) if model.slot(number) is not None]
    fields = sorted({*present, _BUFFERS, *([_METADATA] if plan is not None else [])})
    prefix = Prefix()
    version = model.number(_VERSION, 4)
    root_table = prefix.table(_ROOT_FIELDS, {_VERSION: version}, fields)
    slots = dict(zip(fields, root_table.slots, strict=True))
    old_buffers, old_metadata = model.vector(_BUFFERS), model.vector(_METADATA)
    added = {**longer, **({old_buffers.length: plan} if plan is not None else {})}
    buffers = _copy_vector(prefix, slots.pop(_BUFFERS), old_buffers, added.keys())
    if plan is not None:
        metadata = _copy_vector(prefix, slots.pop(_METADATA), old_metadata, [old_metadata.length])
        entry = prefix.table(2, {_BUFFER: old_buffers.length}, [_NAME])
        prefix.refer(metadata[old_metadata.length], entry)
        prefix.refer(entry.slots[0], prefix.data(PLAN.encode()))
    for number, slot in slots.items():
        prefix.refer_to_old(slot, _required(model.target(number)))
    for index, data in added.items():
        table = prefix.table(1, {}, [_DATA])
        prefix.refer(buffers[index], table)
        prefix.refer(table.slots[0], prefix.data(data, _ALIGNMENT))
    extended, shift = prefix.join(file, root_table, _alignment(model))
    _shift_offsets(extended, shift)
    return extended


def _copy_vector(prefix: Prefix, slot: int, old: Vector, changed: Iterable[int]) -> dict[int, int]:
    """Copy a list with space for new entries; returns the slots of changed and new entries, not set yet."""
    indices = set(changed)
    length = max([old.length, *(index + 1 for index in indices)])
    vector = prefix.vector(length)
    prefix.refer(slot, vector)
    for index in range(old.length):
        if index not in indices:
            prefix.refer_to_old(vector.slots[index], old.target(index))
    return {index: vector.slots[index] for index in indices}


def _required(position: int | None) -> int:
    assert position is not None
    return position


def _check_movable(model: Table) -> None:
    if any(model.slot(number) is not None for number in range(_ROOT_FIELDS, model.fields)):
        raise WriteError("the file uses a newer schema than this version can write")
    for code in model.vector(_CODES).tables():
        if code.text(_CUSTOM_CODE) == _FIXED_OFFSET_CODE:
            raise WriteError("the file contains compiled code at a fixed offset, so it cannot grow")


def _alignment(model: Table) -> int:
    """The common alignment of the data after the tables."""
    offsets = [buffer.number(_OFFSET, 8) for buffer in model.vector(_BUFFERS).tables()]
    common = gcd(_PAGE, *(offset for offset in offsets if offset > 1))
    return max(common if any(offset > 1 for offset in offsets) else _ALIGNMENT, _ALIGNMENT)


def _shift_offsets(file: bytearray, shift: int) -> None:
    """Shift all absolute file offsets."""
    for slot in set(_absolute_offsets(root(file))):  # a set, as tables may be shared
        write_unsigned(file, slot, 8, read_unsigned(file, slot, 8) + shift)
    _shift_archive(file, shift)


def _shift_archive(file: bytearray, shift: int) -> None:
    """Shift the offsets in an appended zip archive that are relative to the start of the file."""
    end = file.rfind(_END, max(0, len(file) - _END_SIZE - _MAX_COMMENT))
    if end < 0 or end + _END_SIZE > len(file):
        return
    entries, size, directory, comment = struct.unpack_from("<HIIH", file, end + 10)
    if end + _END_SIZE + comment != len(file) or directory + shift + size != end:
        return  # not an archive, or its offsets are relative to its own start
    struct.pack_into("<I", file, end + 16, directory + shift)
    position = directory + shift
    for _ in range(entries):
        if file[position : position + 4] != _ENTRY:
            return
        name, extra, comment_length = struct.unpack_from("<HHH", file, position + 28)
        offset = struct.unpack_from("<I", file, position + 42)[0]
        struct.pack_into("<I", file, position + 42, offset + shift)
        position += _ENTRY_SIZE + name + extra + comment_length


def _absolute_offsets(model: Table) -> Iterator[int]:
    """The positions of all absolute file offsets; values 0 and 1 mean none."""
    tables = [(buffer, _OFFSET) for buffer in model.vector(_BUFFERS).tables()]
    for graph in model.vector(_SUBGRAPHS).tables():
        tables += [(operator, _LARGE_OPTIONS) for operator in graph.vector(_OPERATORS).tables()]
    for table, number in tables:
        slot = table.slot(number)
        if slot is not None and read_unsigned(model.content, slot, 8) > 1:
            yield slot


def stored_plan(content: bytes) -> tuple[int, ...] | None:
    """The offsets of the memory plan stored in the file, for all tensors, or None."""
    model = root(content)
    index = _plan_buffer(model)
    if index is None:
        return None
    first, length = _byte_range(model.vector(_BUFFERS).table(index))
    return struct.unpack_from(f"<{max(length // 4 - 3, 0)}i", content, first + 12)


def external_files(content: bytes) -> list[str]:
    """The names of external weight files."""
    groups = root(content).vector(_EXTERNAL[0]).tables()
    return [group.text(_NAME).decode("utf-8", "replace") for group in groups]


def has_external_data(content: bytes) -> bool:
    """Whether the file has data after its tables or in another file."""
    model = root(content)
    return any(True for _ in _absolute_offsets(model)) or any(
        model.slot(number) is not None for number in _EXTERNAL
    )


def has_archive(content: bytes) -> bool:
    """Whether a zip archive with metadata follows the tables."""
    end = content.rfind(_END, max(0, len(content) - _END_SIZE - _MAX_COMMENT))
    if not 0 <= end <= len(content) - _END_SIZE:
        return False
    comment: int = struct.unpack_from("<H", content, end + _END_SIZE - 2)[0]
    return end + _END_SIZE + comment == len(content)


def tensor_buffers(content: bytes) -> list[tuple[int, memoryview]]:
    """Per tensor of the main graph: the index of its buffer (0: empty) and the buffer's content."""
    model, view = root(content), memoryview(content)
    buffers = model.vector(_BUFFERS)
    contents = []
    for tensor in model.vector(_SUBGRAPHS).table(0).vector(_TENSORS).tables():
        index = tensor.number(_TENSOR_BUFFER, 4)
        first, length = _byte_range(buffers.table(index))
        contents.append((index, view[first : first + length]))
    return contents
