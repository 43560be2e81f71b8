"""Read the zip archive of a .pt2 file: its JSON documents and its tensor payloads.

torch.export.load is not used: it unpickles, evaluates expressions, imports modules named in the file and
opens shared libraries.
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

# A node takes about 2 KiB of JSON, so this allows more than 200,000 nodes.
_LARGEST_DOCUMENT = 512 << 20
_MOST_ENTRIES = 1_000_000
_MOST_DOCUMENTS = 8  # programs listed in a message
_END_RECORDS = 56 + 20 + 22  # zip64 end record, its locator, end of central directory
_LEGACY_PROGRAM = "serialized_exported_program.json"  # written by torch up to 2.7


@dataclass(frozen=True, slots=True)
class Archive:
    """The content of a .pt2 file as plain data; `payload_bytes` maps each entry name to its size."""

    path: Path
    root: str
    program: Mapping[str, Any]
    weights: Mapping[str, Any] | None  # None in the legacy format
    constants: Mapping[str, Any] | None
    payload_bytes: Mapping[str, int]


def read_archive(path: Path) -> Archive:
    """Read the program of a .pt2 file and the tables of its tensors."""
    with _opened(path) as archive:
        entries = _entries(path, archive)
        sizes = {name: _stored_bytes(archive, entry) for name, entry in entries.items()}
        if _LEGACY_PROGRAM in entries:
            if any("models/" in name for name in entries):
                raise CorruptModel(f"{path}: contains a legacy and a current program")
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
        if not all(isinstance(content, dict) for content in tables):
            raise CorruptModel(f"{path}: a table of tensors is not a JSON object")
        return Archive(path, root, program, tables[0], tables[1], sizes)


def read_payload(path: Path, name: str) -> bytes:
    """Return the bytes of one uncompressed entry."""
    with _opened(path) as archive:
        entry = _entries(path, archive)[name]
        _check_stored(path, archive, entry)
        return archive.read(entry)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    # On a damaged archive zipfile raises BadZipFile, EOFError, struct.error, KeyError and others.
    except (LoadError, MemoryError):
        raise
    except Exception as error:
        raise CorruptModel(f"{path}: not a readable .pt2 file: {type(error).__name__}: {error}") from error


def _entries(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    _check_directory(path, archive)
    listing = archive.infolist()
    if len(listing) > _MOST_ENTRIES:
        raise CorruptModel(f"{path}: {len(listing):,} entries (limit {_MOST_ENTRIES:,})")
    entries = {entry.filename: entry for entry in listing}
    if len(entries) != len(listing):
        # Two zip readers could see two different programs.
        repeated = Counter(entry.filename for entry in listing).most_common(1)[0][0]
        raise CorruptModel(f"{path}: duplicate entry {repeated!r}")
    return entries


def _check_directory(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise CorruptModel if another zip reader could find a different central directory."""
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
        raise CorruptModel(f"{path}: the zip central directory is not at the end of the file")


def _stored_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Return the size of an entry; -1 if it is compressed or extends past the end of the file."""
    is_stored = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
    is_inside = entry.header_offset + entry.file_size <= archive.start_dir
    return entry.file_size if is_stored and is_inside else -1


def _check_stored(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    # torch never compresses entries. This bounds the bytes read by the size of the file.
    if _stored_bytes(archive, entry) < 0:
        raise CorruptModel(
            f"{path}: {entry.filename} is compressed or truncated; write it with torch.export.save"
        )


def _program_name(path: Path, entries: Mapping[str, zipfile.ZipInfo]) -> str:
    programs = [
        name for name in entries if name.endswith(".json") and name.rpartition("/")[0].endswith("models")
    ]
    if len(programs) == 1:
        return programs[0]
    if programs:
        listed = ", ".join(sorted(programs)[:_MOST_DOCUMENTS])
        raise LoadError(f"{path}: contains {len(programs)} programs ({listed}); save each to a separate file")
    compiled = any("data/aotinductor/" in name for name in entries)
    problem = "only compiled code" if compiled else "no exported program"
    raise CorruptModel(f"{path}: contains {problem}; write it with torch.export.save(program, path)")


def _document(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> dict[str, Any]:
    _check_stored(path, archive, entry)
    if entry.file_size > _LARGEST_DOCUMENT:
        raise CorruptModel(
            f"{path}: {entry.filename} has {entry.file_size:,} B (limit {_LARGEST_DOCUMENT:,} B)"
        )
    try:
        content = json.loads(archive.read(entry))
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path}: {entry.filename} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptModel(f"{path}: {entry.filename} is not a JSON object")
    return content
