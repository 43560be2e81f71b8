"""Where a store lies: a folder, or any address that fsspec knows. A file is there whole or not at all."""

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
from sizeup.errors import MissingLibrary, SizeupError
from sizeup.files import UNFINISHED, write_errors


class Draft(Protocol):
    """A file that is not there yet: where it is written, what makes it appear, and what makes it go away."""

    @property
    def path(self) -> Path:
        """Where it is written."""

    def finish(self) -> None:
        """Let the file appear in one step."""

    def drop(self) -> None:
        """Remove what was written."""


@contextlib.contextmanager
def writing(place: Place, name: str) -> Iterator[Path]:
    """A local path to write to; when the block ends without an error, the file appears in one step."""
    draft = place.draft(name)
    try:
        with write_errors(place.path(name)):
            yield draft.path
        draft.finish()
    except BaseException:
        draft.drop()
        raise


class Place(Protocol):
    """Files by relative name, read and written whole."""

    address: str

    def names(self, folder: str) -> list[str]:
        """All finished files below a folder, sorted."""

    def has(self, name: str) -> bool:
        """Whether a file is there."""

    def tail(self, name: str, length: int) -> bytes | None:
        """The last bytes of a file, fewer where it has no more; None where there is no file."""

    def draft(self, name: str) -> Draft:
        """A local path to write to, and how the file then appears in one step."""

    def reading(self, name: str) -> Any:
        """An open file."""

    def remove(self, folder: str) -> None:
        """Remove a file, or a folder with all that it holds; nothing where there is none."""

    def clean(self) -> int:
        """Remove what a run that was killed left unfinished; how many files that were."""

    def path(self, name: str) -> str:
        """The full address of a file."""


def place_of(address: str | os.PathLike[str]) -> Place:
    """The place behind a path or an address such as s3://bucket/sweep."""
    text = os.fspath(address)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return Remote(text) if "://" in text else Local(Path(text))


class Local:
    """A folder of this machine, or one that several machines have mounted."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.absolute()
        self.address = str(self.root)
        if self.root.exists() and not self.root.is_dir():
            raise SizeupError(f"{folder}: a file, not a folder for the results of a sweep")

    def names(self, folder: str) -> list[str]:
        """All finished files below a folder, sorted."""
        found = []
        for place, _, names in os.walk(self.root / folder):
            inner = Path(place).relative_to(self.root).as_posix()
            found += [f"{inner}/{name}" for name in names if not name.endswith(UNFINISHED)]
        return sorted(found)

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.root / name).is_file()

    def tail(self, name: str, length: int) -> bytes | None:
        """The last bytes of a file, fewer where it has no more; None where there is no file."""
        try:
            with (self.root / name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - length))
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def draft(self, name: str) -> Draft:
        """Written under another name, brought to the disk, then renamed: a reader sees all or nothing."""
        return files.draft(self.root / name, make_folder=True)

    def reading(self, name: str) -> Any:
        """An open file."""
        return (self.root / name).open("rb")

    def remove(self, folder: str) -> None:
        """Remove a file, or a folder with all that it holds; nothing where there is none."""
        path = self.root / folder
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def clean(self) -> int:
        """Remove what a run that was killed left unfinished; how many files that were."""
        left = [
            Path(place) / name
            for place, _, names in os.walk(self.root)
            for name in names
            if name.endswith(UNFINISHED)
        ]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def path(self, name: str) -> str:
        """The full address of a file."""
        return str(self.root / name)


class Remote:
    """An address of fsspec. Files are put in one step, which object stores promise to be all or nothing."""

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
    def _reached(self) -> Iterator[None]:
        """Whatever a system raises when it is not there or refuses is news about it, in one line."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> SizeupError:
        return SizeupError(f"{self.address}: {str(error).partition(chr(10))[0] or type(error).__name__}")

    def names(self, folder: str) -> list[str]:
        """All finished files below a folder, sorted."""
        self.system.invalidate_cache()
        try:
            with self._reached():
                found = self.system.find(str(self.root / folder))
        except FileNotFoundError as error:  # not the folder, of which nothing is known, but the bucket
            raise self._refusal(error) from error
        skipped = len(self.root.as_posix().strip("/")) + 1
        return sorted(str(name).strip("/")[skipped:] for name in found)

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        self.system.invalidate_cache()
        with self._reached():
            return bool(self.system.isfile(str(self.root / name)))

    def tail(self, name: str, length: int) -> bytes | None:
        """The last bytes of a file, fewer where it has no more; None where there is no file."""
        self.system.invalidate_cache()
        path = str(self.root / name)
        try:
            with self._reached():
                return bytes(self.system.cat_file(path, start=-length))
        except FileNotFoundError:
            return None
        except SizeupError:  # an object store refuses to give the last bytes of a file that has none
            with self._reached():
                if self.system.size(path) == 0:
                    return b""
            raise

    def draft(self, name: str) -> Draft:
        """Written here, then put there in one step."""
        folder = tempfile.TemporaryDirectory(prefix="sizeup-")
        return _Upload(folder, lambda path: self._put(path, self.root / name))

    def _put(self, path: Path, target: PurePosixPath) -> None:
        try:
            with self._reached():
                # Object stores have no folders, and would make a bucket of a name that was mistyped.
                if not self.system.async_impl:
                    self.system.makedirs(str(target.parent), exist_ok=True)
                self.system.put_file(str(path), str(target))
        except FileNotFoundError as error:
            raise self._refusal(error) from error

    def reading(self, name: str) -> Any:
        """An open file."""
        with self._reached():
            return self.system.open(str(self.root / name), "rb")

    def remove(self, folder: str) -> None:
        """Remove a file, or a folder with all that it holds; nothing where there is none."""
        path = str(self.root / folder)
        self.system.invalidate_cache()
        with self._reached(), contextlib.suppress(FileNotFoundError):  # another may have been faster
            if self.system.exists(path):
                self.system.rm(path, recursive=True)

    def clean(self) -> int:
        """Nothing is ever there half."""
        return 0

    def path(self, name: str) -> str:
        """The full address of a file."""
        return f"{self.address}/{name}"


@dataclass(frozen=True, slots=True)
class _Upload:
    """A file in a folder of ours that is then put elsewhere."""

    folder: tempfile.TemporaryDirectory[str]
    put: Callable[[Path], None]

    @property
    def path(self) -> Path:
        """Where it is written."""
        return Path(self.folder.name) / "file"

    def finish(self) -> None:
        """Put the file where it belongs."""
        self.put(self.path)
        self.folder.cleanup()

    def drop(self) -> None:
        """Remove the folder."""
        self.folder.cleanup()
