"""The zip archive that TFLite metadata packs behind a file: labels, vocabularies and the like."""

from __future__ import annotations

import struct

_END = b"PK\x05\x06"
_END_SIZE = 22
_ENTRY = b"PK\x01\x02"
_ENTRY_SIZE = 46
_LONGEST_COMMENT = 0xFFFF


def move_along(file: bytearray, shift: int) -> None:
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
