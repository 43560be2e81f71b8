"""Storage of a store: a folder, or an address that fsspec supports. Files appear atomically."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from sizeup import files
from sizeup.errors import CorruptStore, MissingLibrary, SizeupError
from sizeup.files import UNFINISHED, exists, is_file, is_folder, write_errors


class Draft(Protocol):
    """A file that is being written and becomes visible when finished."""

    @property
    def path(self) -> Path:
        """The local path to write to."""

    def commit(self) -> None:
        """Publish the file atomically."""

    def discard(self) -> None:
        """Discard the file."""


@contextlib.contextmanager
def writing(storage: Storage, name: str) -> Iterator[Path]:
    """A local path to write to; the file appears atomically if the block ends without an error."""
    draft = storage.draft(name)
    try:
        with write_errors(storage.path(name)):
            yield draft.path
        draft.commit()
    except BaseException:
        draft.discard()
        raise


class Storage(Protocol):
    """Files by relative name, written atomically."""

    address: str

    def names(self, folder: str) -> list[str]:
        """All finished files below a folder, sorted."""

    def has(self, name: str) -> bool:
        """Whether a file exists."""

    def tail(self, name: str, length: int) -> bytes | None:
        """The last `length` bytes of a file, or all if it is shorter; None if it does not exist."""

    def draft(self, name: str) -> Draft:
        """A file to write, which appears when finished."""

    def reading(self, name: str) -> Any:
        """An open file."""

    def remove(self, folder: str) -> None:
        """Remove a file, or a folder with its contents, if it exists."""

    def clean(self) -> int:
        """Remove the unfinished files of killed runs; returns their number."""

    def path(self, name: str) -> str:
        """The full address of a file."""


def open_storage(address: str | os.PathLike[str]) -> Storage:
    """The storage at a path or an address such as s3://bucket/sweep."""
    text = os.fspath(address)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return RemoteStorage(text) if "://" in text else LocalStorage(Path(text))


class LocalStorage:
    """A local folder, or a mounted one that several machines share."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.absolute()
        self.address = str(self.root)
        self._home = os.path.realpath(self.root)
        if exists(self.root) and not is_folder(self.root):
            raise SizeupError(f"{folder}: a file; give a folder for the results of a sweep")

    def inside(self, name: str) -> Path:
        """The path of a file or folder; raises CorruptStore if links lead out of the store."""
        path = self.root / name
        target = os.path.realpath(path)
        if target != self._home and not target.startswith(self._home.rstrip(os.sep) + os.sep):
            raise CorruptStore(f"{path}: a link that leads out of the folder of the sweep; remove it")
        return path

    def names(self, folder: str) -> list[str]:
        """All finished regular files below a folder, sorted."""
        self.inside(folder)
        names, folders = [], [folder]
        while folders:
            parent = folders.pop()
            for entry in _entries(self.root / parent):
                name = f"{parent}/{entry.name}"
                if entry.is_symlink():
                    self.inside(name)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_file() and not name.endswith(UNFINISHED):
                    names.append(name)
        return sorted(names)

    def has(self, name: str) -> bool:
        """Whether a file exists."""
        return is_file(self.inside(name))

    def tail(self, name: str, length: int) -> bytes | None:
        """The last `length` bytes of a file, or all if it is shorter; None if it does not exist."""
        try:
            with files.open_regular(self.inside(name)) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - length))
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def draft(self, name: str) -> Draft:
        """Written under another name, synced to disk, then renamed: readers never see a part of it."""
        return files.open_pending(self.inside(name), make_folder=True, inside=self.root)

    def reading(self, name: str) -> Any:
        """An open file."""
        return files.open_regular(self.inside(name))

    def remove(self, folder: str) -> None:
        """Remove a file, or a folder with its contents, if it exists."""
        path = self.inside(str(PurePosixPath(folder).parent)) / PurePosixPath(folder).name
        if is_folder(path) and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def clean(self) -> int:
        """Remove the unfinished files of killed runs; returns their number."""
        left = [
            Path(parent) / name
            for parent, _, names in os.walk(self.root)
            for name in names
            if name.endswith(UNFINISHED)
        ]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def path(self, name: str) -> str:
        """The full address of a file."""
        return str(self.root / name)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # another process removed it
        return []


class RemoteStorage:
    """An address of fsspec. Files are uploaded with one put, which object stores guarantee to be atomic."""

    def __init__(self, address: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise MissingLibrary(f"a store at {address}", "fsspec", "sweep") from error
        try:
            self.system, root = fsspec.core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise SizeupError(f"{address}: {error}") from error
        self.address = address.rstrip("/")
        self.root = PurePosixPath(root)

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turns any error of the file system, except FileNotFoundError, into a SizeupError of one line."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            raise self._error_about(error) from error

    def _error_about(self, error: Exception) -> SizeupError:
        return SizeupError(f"{self.address}: {str(error).partition(chr(10))[0] or type(error).__name__}")

    def names(self, folder: str) -> list[str]:
        """All finished files below a folder, sorted."""
        self.system.invalidate_cache()
        try:
            with self._translated_errors():
                paths = self.system.find(str(self.root / folder))
        except FileNotFoundError as error:  # the bucket: a missing folder is no error
            raise self._error_about(error) from error
        skipped = len(self.root.as_posix().strip("/")) + 1
        return sorted(str(name).strip("/")[skipped:] for name in paths)

    def has(self, name: str) -> bool:
        """Whether a file exists."""
        self.system.invalidate_cache()
        with self._translated_errors():
            return bool(self.system.isfile(str(self.root / name)))

    def tail(self, name: str, length: int) -> bytes | None:
        """The last `length` bytes of a file, or all if it is shorter; None if it does not exist."""
        self.system.invalidate_cache()
        path = str(self.root / name)
        try:
            with self._translated_errors():
                return bytes(self.system.cat_file(path, start=-length))
        except FileNotFoundError:
            return None
        except SizeupError:  # object stores refuse range reads of an empty file
            with self._translated_errors():
                if self.system.size(path) == 0:
                    return b""
            raise

    def draft(self, name: str) -> Draft:
        """Written to a local temporary file, then uploaded."""
        folder = tempfile.TemporaryDirectory(prefix="sizeup-")
        return _Upload(folder, lambda path: self._put(path, self.root / name))

    def _put(self, path: Path, target: PurePosixPath) -> None:
        try:
            with self._translated_errors():
                # Object stores have no folders, and would create a bucket for a mistyped name.
                if not self.system.async_impl:
                    self.system.makedirs(str(target.parent), exist_ok=True)
                self.system.put_file(str(path), str(target))
        except FileNotFoundError as error:
            raise self._error_about(error) from error

    def reading(self, name: str) -> Any:
        """An open file."""
        with self._translated_errors():
            return self.system.open(str(self.root / name), "rb")

    def remove(self, folder: str) -> None:
        """Remove a file, or a folder with its contents, if it exists."""
        path = str(self.root / folder)
        self.system.invalidate_cache()
        with (
            self._translated_errors(),
            contextlib.suppress(FileNotFoundError),
        ):  # another process may have removed it
            if self.system.exists(path):
                self.system.rm(path, recursive=True)

    def clean(self) -> int:
        """Uploads are atomic, so there is nothing to remove."""
        return 0

    def path(self, name: str) -> str:
        """The full address of a file."""
        return f"{self.address}/{name}"


@dataclass(frozen=True, slots=True)
class _Upload:
    """A temporary local file that is uploaded when finished."""

    folder: tempfile.TemporaryDirectory[str]
    put: Callable[[Path], None]

    @property
    def path(self) -> Path:
        """The local path to write to."""
        return Path(self.folder.name) / "file"

    def commit(self) -> None:
        """Upload the file."""
        self.put(self.path)
        self.folder.cleanup()

    def discard(self) -> None:
        """Discard the file."""
        self.folder.cleanup()
