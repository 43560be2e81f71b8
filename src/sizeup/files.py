"""Files that sizeup writes, and settings files that it reads, up to a size.

A reader of a written file sees the old content or all of the new content, never a part of it.

New content goes to a temporary file in the same folder, is synced to disk and renamed over the old file. If
that fails (a full disk, Ctrl-C), the old file stays as it was and the temporary file is removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from sizeup.errors import WriteError

PathLike: TypeAlias = str | os.PathLike[str]

UNFINISHED = ".unfinished"
"""How the names of temporary files end; a process that is killed leaves them behind."""
_LONGEST_STEM = 32  # letters of the file's own name within that of its temporary file
_MOST_LINKS = 40  # in a chain of symbolic links, as Linux allows
_MOST_SETTINGS = 16 << 20  # bytes; a precision map of 100,000 layers takes 5 MB
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class Draft:
    """New content of a file: write it to `path`, then `finish` or `drop` it."""

    path: Path
    mode: int = 0  # of a new file; one that is replaced keeps its own
    target: Path | None = None  # None if `path` is a pipe or a device, which is written directly
    replaced: os.stat_result | None = None

    def finish(self) -> None:
        """Put the new content in place in one step, with the permissions of the file that it replaces."""
        if self.target is None:
            return
        with write_errors(self.target):
            _sync(self.path)  # while it is ours to open
            self.path.chmod(self.mode if self.replaced is None else _owned_alike(self.path, self.replaced))
            self.path.replace(self.target)
        with suppress(OSError):  # not every system can sync a folder
            _sync(self.target.parent)

    def drop(self) -> None:
        """Remove the new content; the old file stays as it is."""
        if self.target is not None:
            self.path.unlink(missing_ok=True)


def draft(path: PathLike, *, like: Path | None = None, make_folder: bool = False) -> Draft:
    """Begin to write a file; a new one gives groups and others at most the permissions that `like` does.

    A symbolic link is followed and stays. What is no regular file (a pipe, a device, /dev/stdout) is written
    directly.
    """
    with write_errors(path):
        if make_folder:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        target = _followed(Path(path))
        if target is None:
            return Draft(Path(path))
        if not target.exists():
            allowed = 0o666 if like is None else like.stat().st_mode & 0o066 | _OWNER_ONLY
            return Draft(*_created(target, allowed), target)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return Draft(*_created(target, _OWNER_ONLY), target, target.stat())


def _created(target: Path, allowed: int) -> tuple[Path, int]:
    """An empty file beside another, and its permissions: those that are allowed, less the umask."""
    path = target.with_name(f".{target.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}{UNFINISHED}")
    # The system applies the umask; O_EXCL refuses a file or a link that somebody put there.
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, allowed)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    os.close(handle)
    path.chmod(mode | _OWNER_ONLY)  # until it is finished: a umask may take our own rights
    return path, mode


@contextmanager
def replacing(path: PathLike, *, like: Path | None = None, make_folder: bool = False) -> Iterator[Path]:
    """A path to write new content to, which replaces the file when the block ends without an error.

    Raises WriteError if the file cannot be written.
    """
    new = draft(path, like=like, make_folder=make_folder)
    try:
        with write_errors(path):
            yield new.path
        new.finish()
    except BaseException:
        new.drop()
        raise


def read_settings(path: PathLike) -> str:
    """The text of a settings file; raises OSError, or ValueError if it is too large or not UTF-8."""
    with Path(path).open("rb") as file:
        content = file.read(_MOST_SETTINGS + 1)
    if len(content) > _MOST_SETTINGS:
        raise ValueError(f"larger than {_MOST_SETTINGS >> 20} MiB")
    return content.decode("utf-8-sig")


def write_bytes(path: PathLike, content: bytes, *, like: Path | None = None) -> None:
    """Replace the content of a file."""
    with replacing(path, like=like) as out:
        out.write_bytes(content)


def write_text(path: PathLike, lines: Iterable[str], *, make_folder: bool = False) -> None:
    """Replace the content of a file by lines of text, as UTF-8."""
    with (
        replacing(path, make_folder=make_folder) as out,
        out.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.writelines(lines)


@contextmanager
def write_errors(path: PathLike) -> Iterator[None]:
    """Turn an error of the system into a WriteError of one line that names the file."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise WriteError(f"{os.fspath(path)}: cannot be written: {reason}") from error


def _followed(path: Path) -> Path | None:
    """The file behind a chain of links; None if it is no regular file, or a stream of this process.

    /dev/stdout may lead to a regular file, but whatever else is printed goes to the same open file.
    """
    for _ in range(_MOST_LINKS):
        folder = path.parent.resolve()
        if folder.parts[1:2] == ("proc",) or folder == Path("/dev/fd"):
            return None
        path = folder / path.name
        if not path.is_symlink():
            break
        path = folder / path.readlink()
    else:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return path if path.is_file() or not path.exists() else None


def _owned_alike(path: Path, other: os.stat_result) -> int:
    """Give a file the owner and group of another if possible; returns the permissions that are then right."""
    mode = stat.S_IMODE(other.st_mode) & 0o777
    if hasattr(os, "chown"):
        for owner in (other.st_uid, -1):
            with suppress(OSError):
                os.chown(path, owner, other.st_gid)
                break
    if path.stat().st_gid != other.st_gid:  # rights of one group are not for another
        mode = mode & 0o707 | (mode & 0o007) << 3
    return mode


def _sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
