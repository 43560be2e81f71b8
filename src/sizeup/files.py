"""Writes files atomically and never out of a checkout, and reads settings files up to a maximum size.

New content goes to a temporary file in the same folder, is synced to disk and renamed over the old file. If
that fails (a full disk, Ctrl-C), the old file is unchanged and the temporary file is removed. Readers see the
old or the new content, never a part of it.

The working directory may be a checkout, whose author chose the links in it: an output that one takes out of
it is refused. Folders elsewhere are what a user typed; a link in place of the output may not leave them.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
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
_DEVICES = tuple(Path("/dev", name) for name in ("stdout", "stderr", "null", "full", "tty"))  # for every link
_STREAMS = ("0", "1", "2")  # descriptors for every link
_PIPE_SECONDS = 20.0


@dataclass(slots=True)
class Outbox:
    """A folder for the outputs of a confined process, and which file is the content of which output."""

    folder: Path
    outputs: dict[str, str]

    def content_of(self, path: Path) -> Path:
        """The file that has the content of an output."""
        contents = {output: content for content, output in self.outputs.items()}
        return Path(contents.get(os.path.realpath(path), path))


outbox: Outbox | None = None
"""Set in a confined process: outputs stay in its folder, and another process moves them."""


@dataclass(frozen=True, slots=True)
class PendingFile:
    """New content of a file: write it to `path`, then `commit` or `discard` it."""

    path: Path
    mode: int = 0  # of a new file; a replaced file keeps its mode
    target: Path | None = None  # None for a pipe or a device, which is written directly
    replaced: os.stat_result | None = None
    pipe: int | None = None  # open until the pipe is written

    def commit(self) -> None:
        """Replace the file atomically, with the permissions of the old file."""
        if self.target is None:
            self.discard()
            return
        with write_errors(self.target):
            _sync(self.path)  # before permissions change
            self.path.chmod(self.mode if self.replaced is None else _copy_owner(self.path, self.replaced))
            if outbox is not None and self.path.parent != self.target.parent:
                outbox.outputs[str(self.path)] = str(self.target)
                return
            self.path.replace(self.target)
        with suppress(OSError):  # not supported on every system
            _sync(self.target.parent)

    def discard(self) -> None:
        """Discard the new content; the old file is unchanged."""
        if self.target is not None:
            self.path.unlink(missing_ok=True)
        if self.pipe is not None:
            os.close(self.pipe)


def open_pending(
    path: PathLike, *, like: Path | None = None, make_folder: bool = False, inside: Path | None = None
) -> PendingFile:
    """Start writing a file; a new file gives group and others at most the permissions of the file `like`.

    Symbolic links are followed and kept, unless they leave the working directory or the folder `inside`.
    Pipes, devices and /dev/stdout are written directly.
    """
    with write_errors(path):
        target = target_of(Path(path), inside)
        if target is None:
            return PendingFile(Path(path), pipe=_open_pipe(Path(path)))
        if make_folder and outbox is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        if not exists(target):
            allowed = 0o666 if like is None else like.stat().st_mode & 0o066 | _OWNER_ONLY
            return PendingFile(*_create_temporary(target, allowed), target)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return PendingFile(*_create_temporary(target, _OWNER_ONLY), target, target.stat())


def _create_temporary(target: Path, allowed: int) -> tuple[Path, int]:
    """Create an empty file next to the target; returns it and its mode: `allowed` minus the umask."""
    is_here = outbox is None or target.is_relative_to(outbox.folder)
    folder = target.parent if outbox is None or is_here else outbox.folder
    path = folder / f".{target.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}{UNFINISHED}"
    # The system applies the umask; O_EXCL refuses an existing file or link.
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, allowed)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    os.close(handle)
    path.chmod(mode | _OWNER_ONLY)  # until it is finished: a umask may remove our own rights
    return path, mode


@contextmanager
def atomic_path(
    path: PathLike, *, like: Path | None = None, make_folder: bool = False, inside: Path | None = None
) -> Iterator[Path]:
    """Yields a path to write to; the file is replaced when the block ends without an error.

    Raises WriteError if the file cannot be written.
    """
    new = open_pending(path, like=like, make_folder=make_folder, inside=inside)
    try:
        with write_errors(path):
            yield new.path
        new.commit()
    except BaseException:
        new.discard()
        raise


def exists(path: PathLike) -> bool:
    """Whether there is such a path; unlike `Path.exists`, no error for a name that is too long."""
    return os.path.exists(path)  # noqa: PTH110


def is_folder(path: PathLike) -> bool:
    """Whether there is such a folder; unlike `Path.is_dir`, no error for a name that is too long."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: PathLike) -> bool:
    """Whether there is such a file; unlike `Path.is_file`, no error for a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113


def open_regular(path: PathLike) -> BinaryIO:
    """Open a file to read; raises OSError for folders, pipes, devices and names that cannot be."""
    try:
        _check_regular(Path(path).stat())  # first: opening a device may change it
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, str(error)) from error
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
    home = os.environ.get("XDG_CACHE_HOME", "")
    # Its specification ignores a relative path, which would be in the working directory.
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "sizeup" / name


def write_bytes(path: PathLike, content: bytes, *, like: Path | None = None) -> None:
    """Replace the content of a file."""
    with atomic_path(path, like=like) as out:
        out.write_bytes(content)


def write_text(
    path: PathLike,
    lines: Iterable[str],
    *,
    make_folder: bool = False,
    inside: Path | None = None,
    check: Callable[[Path], object] | None = None,
) -> None:
    """Replace the content of a file with lines of text, as UTF-8.

    `check` reads the new file before it replaces the old one, and raises SizeupError if it could not be read
    again.
    """
    with atomic_path(path, make_folder=make_folder, inside=inside) as out:
        with out.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(lines)
        if check is not None and is_file(out):  # not a pipe
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


def clear(path: PathLike) -> None:
    """Empty a file that exists: it may not pass for the output of a process that ends without one."""
    with write_errors(path):
        target = target_of(Path(path))
        if target is None or not exists(target):
            return
        try:
            write_bytes(target, b"")
        except WriteError:  # a full disk
            target.unlink()


def make_folder(folder: PathLike, inside: Path | None = None) -> None:
    """Make a folder for outputs, and its parents."""
    with write_errors(folder):
        _require_inside(Path(folder), _trees(Path(folder), inside))
        Path(folder).mkdir(parents=True, exist_ok=True)


def resolve_inside(path: Path, folders: Iterable[Path]) -> Path | None:
    """The path with all links resolved; None if it is in none of the folders."""
    try:
        target = path.resolve()
    except RuntimeError as error:  # a loop, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error
    return target if any(target.is_relative_to(folder.resolve()) for folder in folders) else None


def target_of(path: Path, inside: Path | None = None) -> Path | None:
    """The file at the end of a chain of links; None for a pipe, a device or an open stream of this process.

    /dev/stdout may be redirected to a regular file, but other output goes to the same open file. Raises
    OSError for a link that leaves the working directory or the folder `inside`, and for what is no file.
    """
    typed = Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve follows links
    if typed.parts[1:2] == ("proc",) or typed.parent == Path("/dev/fd"):
        return None
    trees = _trees(path, inside)
    for _ in range(_MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        path = folder / path.name
        if path in _DEVICES or (path.name in _STREAMS and folder == Path("/dev/fd").resolve()):
            return None
        if not path.is_symlink():
            break
        path = folder / path.readlink()
    else:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    _require_inside(path, trees)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if is_file(path) or not exists(path):
        return path
    if not path.is_fifo() and path.parts[1:2] != ("dev",):
        raise OSError("not a regular file")
    return None


def _trees(path: Path, inside: Path | None) -> list[Path]:
    """The folders that links may not leave on the way to an output."""
    typed, here = Path(os.path.abspath(path)), Path.cwd()  # noqa: PTH100 - Path.resolve follows links
    # A relative path may start above the working directory, in another folder of the same checkout.
    starts = (here,) if path.is_absolute() else (here, *here.parents)
    tree = next((each for each in starts if typed.is_relative_to(each) and each != each.parent), typed.parent)
    return [tree] if inside is None else [tree, inside]


def _require_inside(target: Path, folders: Iterable[Path]) -> None:
    for folder in folders:
        resolved = resolve_inside(target, [folder])
        if resolved is None:
            raise OSError(
                f"a link leads to {target.resolve()}, outside of {folder}; type that if you mean it"
            )
        if any(part.lower() == ".git" for part in resolved.relative_to(folder.resolve()).parts):
            raise OSError(f"{resolved} belongs to git")


def _open_pipe(path: Path) -> int | None:
    """An open pipe, once another process reads it; None for a device."""
    end = time.monotonic() + _PIPE_SECONDS
    while path.is_fifo():
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > end:
                raise OSError("no process reads this pipe") from None
        time.sleep(0.01)
    return None


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
    handle = os.open(path, os.O_RDONLY if is_folder(path) else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
