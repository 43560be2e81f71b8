"""The zip archive behind a .pt2 file: its JSON documents and its tensor payloads, and nothing else.

torch.export.load is never given the file: it unpickles, evaluates expressions, imports the modules that
the file names and opens shared libraries. Only what is read here reaches the rest of the program.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sizeup.errors import CorruptModel, LoadError

# A node takes about 2 KiB of JSON: this is room for more than 200,000.
_LARGEST_DOCUMENT = 512 << 20
_MOST_ENTRIES = 1_000_000
_MOST_DOCUMENTS = 8  # of programs, to name in a message
_END_RECORDS = 56 + 20 + 22  # of a zip file with 64-bit sizes: a record, its locator, the end record
_LEGACY_PROGRAM = "serialized_exported_program.json"  # written by torch up to 2.7


@dataclass(frozen=True, slots=True)
class Archive:
    """What a .pt2 file says, as plain data; `payload_bytes` has the size of every entry by its name."""

    path: Path
    root: str
    program: Mapping[str, Any]
    weights: Mapping[str, Any] | None  # None if the format is too old to have them
    constants: Mapping[str, Any] | None
    payload_bytes: Mapping[str, int]


def read_archive(path: Path) -> Archive:
    """Read the program of a .pt2 file and the tables of its tensors."""
    with _opened(path) as archive:
        entries = _entries(path, archive)
        sizes = {name: _stored_bytes(archive, entry) for name, entry in entries.items()}
        if _LEGACY_PROGRAM in entries:
            if any("models/" in name for name in entries):
                raise CorruptModel(f"{path}: holds a program in the older and one in the newer format")
            return Archive(path, "", _document(path, archive, entries[_LEGACY_PROGRAM]), None, None, sizes)
        name = _program_name(path, entries)
        root, _, model = name.removesuffix(".json").rpartition("models/")
        tables: list[Any] = [
            _document(path, archive, entries[table]).get("config") if table in entries else {}
            for table in (
                f"{root}data/weights/{model}_weights_config.json",
                f"{root}data/constants/{model}_constants_config.json",
            )
        ]
        program = _document(path, archive, entries[name])
        if not all(isinstance(each, dict) for each in tables):
            raise CorruptModel(f"{path}: a table of tensors is not a JSON object")
        return Archive(path, root, program, tables[0], tables[1], sizes)


def read_payload(path: Path, name: str) -> bytes:
    """The bytes of one entry, which is stored as it is."""
    with _opened(path) as archive:
        entry = _entries(path, archive)[name]
        _check_stored(path, archive, entry)
        return archive.read(entry)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    # A damaged archive makes zipfile fail in many ways: BadZipFile, EOFError, struct.error, KeyError, ...
    except (LoadError, MemoryError):
        raise
    except Exception as error:
        raise CorruptModel(f"{path}: not a readable .pt2 file: {type(error).__name__}: {error}") from error


def _entries(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    _check_directory(path, archive)
    listing = archive.infolist()
    if len(listing) > _MOST_ENTRIES:
        raise CorruptModel(f"{path}: {len(listing):,} entries; at most {_MOST_ENTRIES:,} are read")
    entries = {entry.filename: entry for entry in listing}
    if len(entries) != len(listing):
        # Two readers of such a file may see two different programs.
        repeated = Counter(entry.filename for entry in listing).most_common(1)[0][0]
        raise CorruptModel(f"{path}: the entry {repeated!r} is there more than once")
    return entries


def _check_directory(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a file in which other readers find another directory: one in front, behind or in a comment."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - _END_RECORDS, 0))
        tail = file.read().rjust(_END_RECORDS, b"\0")
    record64, locator, end = tail[:56], tail[56:76], tail[76:]
    length, start, position = (*struct.unpack("<LL", end[12:20]), size - len(end))
    if locator.startswith(b"PK\6\7"):
        length, start, position = (*struct.unpack("<QQ", record64[40:56]), size - _END_RECORDS)
        if struct.unpack("<Q", locator[8:16])[0] != position or not record64.startswith(b"PK\6\6"):
            start = -1
    is_plain = end.startswith(b"PK\5\6") and end[20:] == b"\0\0"
    if not is_plain or start + length != position or archive.start_dir != start:
        raise CorruptModel(f"{path}: its directory is not where a zip file of torch has it")


def _stored_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """The bytes of an entry as the file holds them; -1 if it is compressed or reaches beyond its end."""
    is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
    is_inside = entry.header_offset + entry.file_size <= archive.start_dir
    return entry.file_size if is_stored and is_inside else -1


def _check_stored(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    # Entries are stored by torch, never compressed: what is read is never larger than the file.
    if _stored_bytes(archive, entry) < 0:
        raise CorruptModel(
            f"{path}: {entry.filename} is compressed or cut; torch.export.save stores it whole"
        )


def _program_name(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> str:
    programs = [
        name for name in entries if name.endswith(".json") and name.rpartition("/")[0].endswith("models")
    ]
    if len(programs) == 1:
        return programs[0]
    if programs:
        listed = ", ".join(sorted(programs)[:_MOST_DOCUMENTS])
        raise LoadError(f"{path}: holds {len(programs)} programs ({listed}); save each into its own file")
    compiled = any("data/aotinductor/" in name for name in entries)
    what = "holds compiled code, but no exported program" if compiled else "holds no exported program"
    raise CorruptModel(f"{path}: {what}; write it with torch.export.save(program, path)")


def _document(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> dict[str, Any]:
    _check_stored(path, archive, entry)
    if entry.file_size > _LARGEST_DOCUMENT:
        raise CorruptModel(
            f"{path}: {entry.filename} has {entry.file_size:,} B; at most {_LARGEST_DOCUMENT:,} B are read"
        )
    try:
        content = json.loads(archive.read(entry))
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path}: {entry.filename} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptModel(f"{path}: {entry.filename} is not a JSON object")
    return content
