"""Model files of another git revision, and the models of a budget file that changed files affect."""

from __future__ import annotations

import os
import posixpath
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sizeup.checks.budgets import Budgets
from sizeup.checks.git import Repository, blob_names, is_object, open_repository, text_name
from sizeup.errors import LfsPointer, RevisionError, SizeupError
from sizeup.files import exists, is_file
from sizeup.formats import LFS_MAX_BYTES, lfs_object
from sizeup.formats.digest import sha256_of
from sizeup.formats.names import looks_like_code

_LINK, _SUBMODULE = "120000", "160000"


class _Entry(NamedTuple):
    mode: str
    object: str


def open_revision(name: str) -> Revision:
    """A revision of the repository of the working directory; raises RevisionError if there is none."""
    repository = open_repository(Path.cwd())
    return Revision(name, repository.commit(name), repository)


@dataclass(frozen=True)
class Revision:
    """A commit and its files."""

    name: str  # as the user typed it
    commit: str
    repository: Repository

    @property
    def top(self) -> Path:
        """The root of the work tree."""
        return self.repository.top

    @property
    def undetermined_reason(self) -> str:
        """Why the judged change may have chosen the commit, as it chooses the history of a submodule; or ''.

        It did not if the user named the commit itself, or the enclosing repository has it at that revision.
        """
        outer = self.repository.outer
        if outer is None or is_object(self.name):
            return ""
        path = self.top.relative_to(outer.top).as_posix()
        with suppress(RevisionError):
            base = Revision(self.name, outer.commit(self.name), outer)
            if base._entries.get(path) == _Entry(_SUBMODULE, self.commit) and not base.undetermined_reason:
                return ""
        folder, name = os.path.relpath(outer.top), f"{self.name}:{path}"
        return (
            f"{self.name} is a revision of the submodule {path}, whose history a change may choose;"
            f" name the commit, as printed by: git -C {shlex.quote(folder)} rev-parse {shlex.quote(name)}"
        )

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        """All files, links and submodules by path."""
        listing = self.repository.run("ls-tree", "-r", "-z", "--full-tree", self.commit, "--")
        entries = {}
        for line in listing.split("\0"):
            if line:
                head, _, path = line.partition("\t")
                mode, _, name = head.split(" ")
                entries[path] = _Entry(mode, name)
        return entries

    @cached_property
    def objects(self) -> dict[str, str]:
        """The names of the objects of all regular files, by their paths in the repository."""
        return {path: entry.object for path, entry in self._entries.items() if entry.mode.startswith("100")}

    def work_tree(self) -> list[str]:
        """The paths of the files of the work tree, without those that git ignores."""
        listing = self.repository.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return [path for path in listing.split("\0") if path]

    def has_path(self, file: str | Path) -> bool:
        """Whether a path is one of the repository."""
        try:
            return bool(self.path_of(file))
        except RevisionError:
            return False

    def has(self, model: str) -> bool:
        """Whether the commit has a file."""
        try:
            return self._entry_of(self.path_of(model)) is not None
        except RevisionError:
            return False

    @contextmanager
    def checked_out(self, model: str | Path) -> Iterator[Path | None]:
        """A temporary copy of a model file and its external data; None if the commit does not have it."""
        path = self.path_of(model)
        entry = self._entry_of(path)
        if entry is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="sizeup-") as folder:
            copy = Path(folder) / PurePosixPath(path).name
            self._extract(path, entry, copy)
            for name in external_files(copy):
                self._extract_external(name, path, copy)
            yield copy

    def copy_settings(self, path: str, folder: Path) -> bool:
        """Copy a settings file, by its path in the repository, below a folder; False if it does not exist."""
        path = posixpath.normpath(path)
        entry, target = self._entry_of(path), folder / path
        if entry is not None and not exists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._extract(path, entry, target)
        return entry is not None

    def is_unchanged(self, model: str, path: str = "") -> bool:
        """Whether a model file and its external data have the content that the same or another path had."""
        place, file = PurePosixPath(path or self.path_of(model)), Path(model)
        data = external_files(file)
        return self._has_content(str(place), file) and all(
            self._has_content(str(place.parent / name), file.parent / name) for name in data
        )

    def _has_content(self, path: str, file: Path) -> bool:
        entry = self._entries.get(posixpath.normpath(path))
        return entry is not None and is_file(file) and entry.object in blob_names(file, entry.object)

    def path_of(self, file: str | Path) -> str:
        """The path of a file relative to the root of the repository, by its name and not by links."""
        absolute = Path(os.path.abspath(file))  # noqa: PTH100 - does not follow links
        root = next((parent for parent in reversed(absolute.parents) if _is_same(parent, self.top)), None)
        if root is None:
            raise RevisionError(
                f"{file}: outside the git repository {self.top} of the working directory;"
                " run the check inside its own"
            )
        path = absolute.relative_to(root)
        for parent in reversed(path.parents[:-1]):
            entry = self._entries.get(parent.as_posix())
            # A folder that is the same link in both is followed: the change did not choose where it leads.
            if (
                entry is not None
                and entry.mode == _LINK
                and (root / parent).is_symlink()
                and exists(root / parent)
            ):
                link = os.fspath((root / parent).readlink())
                if text_name(link, entry.object) == entry.object:
                    return self.path_of((root / parent).parent / link / path.relative_to(parent))
        return path.as_posix()

    def _entry_of(self, path: str) -> _Entry | None:
        for parent in (PurePosixPath(path), *PurePosixPath(path).parents):
            entry = self._entries.get(str(parent))
            if entry is not None and entry.mode == _SUBMODULE:
                raise RevisionError(
                    f"{path}: inside the submodule {str(parent)!r}, whose files are not part of {self.name};"
                    " run the check inside the submodule"
                )
            if entry is not None and entry.mode == _LINK:
                raise RevisionError(
                    f"{path}: a symbolic link at {self.name}; links in git revisions are not followed"
                )
        return self._entries.get(path)

    def _extract_external(self, name: str, path: str, copy: Path) -> None:
        """Extract a file of external data; files that are missing or outside are reported by the loader."""
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            return
        data_path = str(PurePosixPath(path).parent / relative)
        entry = self._entry_of(data_path)
        target = copy.parent / relative
        if entry is not None and not exists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self._extract(data_path, entry, target)

    def _extract(self, path: str, entry: _Entry, target: Path) -> None:
        with target.open("xb") as file:
            self.repository.run("cat-file", "blob", entry.object, output=file)
        if entry.object != blob_names(target, entry.object)[0]:
            raise RevisionError(f"{path}: the object {entry.object} of the git repository is corrupt")
        with target.open("rb") as file:
            object_name = lfs_object(file.read(LFS_MAX_BYTES))
        if object_name is None:
            return
        folder = self._lfs_objects.resolve()
        stored = folder / object_name[:2] / object_name[2:4] / object_name
        # Like git, which stores no links there.
        if stored.resolve() != stored or not is_file(stored):
            raise LfsPointer(
                f"{path} at {self.name} is a Git LFS pointer, and its content is not in this clone;"
                f" run: git lfs fetch origin {self.commit}"
            )
        shutil.copyfile(stored, target)
        if sha256_of(target) != object_name:
            raise LfsPointer(f"{path} at {self.name}: the Git LFS object {stored} has another content")

    @cached_property
    def _lfs_objects(self) -> Path:
        return self.repository.shared_folder / "lfs" / "objects"


def _is_same(folder: Path, other: Path) -> bool:
    """Whether two paths lead to the same folder."""
    try:
        return folder.samefile(other)
    except OSError:
        return False


def external_files(model: Path) -> list[str]:
    """The files of external weights that a model names; empty if the model cannot be read."""
    try:
        if model.suffix.lower() == ".onnx":
            from sizeup.formats.onnx.write import external_files as onnx_files

            return onnx_files(model)
        if model.suffix.lower() == ".tflite":
            from sizeup.formats.tflite.write import external_files as tflite_files

            return tflite_files(model.read_bytes())
    except SizeupError:
        pass  # reported when the model is loaded
    return []


def affected(budgets: Budgets, changed: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """The models to check (None: all that budgets name), and the changed files that no budget names.

    A change of the budget file or of a baselines file affects every model.
    """
    settings = {(budgets.folder / budget.baseline).resolve() for budget in budgets.budgets if budget.baseline}
    settings.add(budgets.path.resolve())
    if any(_real_path(Path(file)) in settings for file in changed):
        return None, []
    links = _links(budgets)
    models: dict[str, None] = {}
    others = []
    for file in changed:
        names = links.get(_real_path(Path(file)), []) + [file] * budgets.has_budget(file)
        models.update((_as_path(name), None) for name in names)
        if not names:
            others.append(file)
    return list(models), others


def _links(budgets: Budgets) -> dict[Path, list[str]]:
    """The models that are symbolic links, by the file that they point to."""
    links: dict[Path, list[str]] = {}
    for link in budgets.links():
        links.setdefault(_real_path(link), []).append(str(link))
    return links


def _as_path(file: str) -> str:
    """A path that cannot be read as a name of code: `module:factory` may be a deleted file."""
    return f"{os.curdir}{os.sep}{file}" if looks_like_code(file) else file


def _real_path(path: Path) -> Path:
    """The path with all links resolved; does not raise for a loop of links."""
    return Path(os.path.realpath(path))
