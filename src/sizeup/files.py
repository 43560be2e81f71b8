"""Writes files atomically, and reads settings files up to a maximum size.

New content goes to a temporary file in the same folder, is synced to disk and renamed over the old file. If
that fails (a full disk, Ctrl-C), the old file is unchanged and the temporary file is removed. Readers see the
old or the new content, never a part of it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from sizeup.errors import SizeupError, WriteError

PathLike: TypeAlias = str | os.PathLike[str]

UNFINISHED = ".unfinished"
"""Suffix of temporary files; a process that is killed leaves them behind."""
_LONGEST_STEM = 32  # characters of the file's name in the name of its temporary file
_MOST_LINKS = 40  # in a chain of symbolic links, as in Linux
_MOST_SETTINGS = 16 << 20  # bytes; a precision map of 100,000 layers takes 5 MB
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class PendingFile:
    """New content of a file: write it to `path`, then `commit` or `discard` it."""

    path: Path
    mode: int = 0  # of a new file; a replaced file keeps its mode
    target: Path | None = None  # None for a pipe or a device, which is written directly
    replaced: os.stat_result | None = None

    def commit(self) -> None:
        """Replace the file atomically, with the permissions of the old file."""
        if self.target is None:
            return
        with write_errors(self.target):
            _sync(self.path)  # before permissions change
            self.path.chmod(self.mode if self.replaced is None else _copy_owner(self.path, self.replaced))
            self.path.replace(self.target)
        with suppress(OSError):  # not supported on every system
            _sync(self.target.parent)

    def discard(self) -> None:
        """Discard the new content; the old file is unchanged."""
        if self.target is not None:
            self.path.unlink(missing_ok=True)


def open_pending(path: PathLike, *, like: Path | None = None, make_folder: bool = False) -> PendingFile:
    """Start writing a file; a new file gives group and others at most the permissions of the file `like`.

    Symbolic links are followed and kept. Pipes, devices and /dev/stdout are written directly.
    """
    with write_errors(path):
        if make_folder:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        target = _resolve_links(Path(path))
        if target is None:
            return PendingFile(Path(path))
        if not target.exists():
            allowed = 0o666 if like is None else like.stat().st_mode & 0o066 | _OWNER_ONLY
            return PendingFile(*_create_temporary(target, allowed), target)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return PendingFile(*_create_temporary(target, _OWNER_ONLY), target, target.stat())


def _create_temporary(target: Path, allowed: int) -> tuple[Path, int]:
    """Create an empty file next to the target; returns it and its mode: `allowed` minus the umask."""
    path = target.with_name(f".{target.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}{UNFINISHED}")
    # The system applies the umask; O_EXCL refuses an existing file or link.
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, allowed)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    os.close(handle)
    path.chmod(mode | _OWNER_ONLY)  # until it is finished: a umask may remove our own rights
    return path, mode


@contextmanager
def atomic_path(path: PathLike, *, like: Path | None = None, make_folder: bool = False) -> Iterator[Path]:
    """Yields a path to write to; the file is replaced when the block ends without an error.

    Raises WriteError if the file cannot be written.
    """
    new = open_pending(path, like=like, make_folder=make_folder)
    try:
        with write_errors(path):
            yield new.path
        new.commit()
    except BaseException:
        new.discard()
        raise


def open_regular(path: PathLike) -> BinaryIO:
    """Open a file to read; raises OSError for folders, pipes and devices, which may have no end."""
    _check_regular(Path(path).stat())  # first: opening a device may change it
    file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - returned
    try:
        _check_regular(os.fstat(file.fileno()))  # again: it may have been replaced by a pipe
    except OSError:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def read_settings(path: PathLike, most: int = _MOST_SETTINGS) -> str:
    """The text of a settings file; raises OSError, or ValueError if it is too large or not UTF-8."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"larger than {most >> 20} MiB")
    return content.decode("utf-8-sig")


def read_problem(error: Exception) -> str:
    """Why a file cannot be read, for the end of a message that names the file."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"


def cache_folder(name: str) -> Path:
    """The folder of one kind of cached results, which may not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sizeup" / name


def write_bytes(path: PathLike, content: bytes, *, like: Path | None = None) -> None:
    """Replace the content of a file."""
    with atomic_path(path, like=like) as out:
        out.write_bytes(content)


def write_text(
    path: PathLike,
    lines: Iterable[str],
    *,
    make_folder: bool = False,
    check: Callable[[Path], object] | None = None,
) -> None:
    """Replace the content of a file with lines of text, as UTF-8.

    `check` reads the new file before it replaces the old one, and raises SizeupError if it could not be read
    again.
    """
    with atomic_path(path, make_folder=make_folder) as out:
        with out.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(lines)
        if check is not None and out.is_file():  # not a pipe
            try:
                check(out)
            except SizeupError as error:
                reason = str(error).removeprefix(f"{out}: ")
                raise WriteError(
                    f"{os.fspath(path)}: not written, because sizeup could not read it: {reason}"
                ) from error


@contextmanager
def write_errors(path: PathLike) -> Iterator[None]:
    """Turn an OSError into a WriteError of one line that names the file."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise WriteError(f"{os.fspath(path)}: cannot be written: {reason}") from error


def _resolve_links(path: Path) -> Path | None:
    """The target of a chain of links; None if it is not a regular file, or an open stream of this process.

    /dev/stdout may be redirected to a regular file, but other output goes to the same open file.
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


def _copy_owner(path: Path, other: os.stat_result) -> int:
    """Set owner and group to those of another file if possible; returns the mode to set then."""
    mode = stat.S_IMODE(other.st_mode) & 0o777
    if hasattr(os, "chown"):
        for owner in (other.st_uid, -1):
            with suppress(OSError):
                os.chown(path, owner, other.st_gid)
                break
    if path.stat().st_gid != other.st_gid:  # do not give the old group's permissions to another group
        mode = mode & 0o707 | (mode & 0o007) << 3
    return mode


def _sync(path: Path) -> None:
    """Sync a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
