"""Model files of another git revision, and the models of a budget file that changed files affect."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from sizeup.checks.budgets import Budgets
from sizeup.errors import LfsPointer, RevisionError, SizeupError
from sizeup.formats import LFS_MAX_BYTES, lfs_object
from sizeup.formats.names import looks_like_code

_OBJECT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
_LINK, _SUBMODULE = "120000", "160000"


class _Entry(NamedTuple):
    mode: str
    object: str


def open_revision(name: str, folder: Path) -> Revision:
    """A revision of the git repository of a folder; raises RevisionError if it does not exist."""
    if not name or name.startswith("-") or "\0" in name:
        raise RevisionError(f"{name!r} is not a git revision; give a branch, tag or commit, e.g. origin/main")
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except RevisionError:
        raise RevisionError(
            f"{name!r} is not a commit of {top}; in a shallow clone, run: git fetch --depth 1 origin BRANCH"
        ) from None
    if not _OBJECT.fullmatch(commit):
        raise RevisionError(f"{name!r} is ambiguous; give a branch, tag or commit")
    return Revision(name, commit, top)


@dataclass(frozen=True)
class Revision:
    """A commit and its files."""

    name: str  # as the user typed it
    commit: str
    top: Path  # the root of the work tree

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        """All files, links and submodules by path."""
        listing = _git(self.top, "ls-tree", "-r", "-z", "--full-tree", self.commit, "--")
        entries = {}
        for line in listing.split("\0"):
            if line:
                head, _, path = line.partition("\t")
                mode, _, name = head.split(" ")
                entries[path] = _Entry(mode, name)
        return entries

    def files(self) -> Iterator[Path]:
        """The paths in the work tree of all regular files of the commit."""
        return (self.top / path for path, entry in self._entries.items() if entry.mode.startswith("100"))

    def has(self, model: str) -> bool:
        """Whether the commit has a file."""
        try:
            return self._entry_of(self._path_of(model)) is not None
        except RevisionError:
            return False

    @contextmanager
    def checked_out(self, model: str) -> Iterator[Path | None]:
        """A temporary copy of a model file and its external data; None if the commit does not have it."""
        path = self._path_of(model)
        entry = self._entry_of(path)
        if entry is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="sizeup-") as folder:
            copy = Path(folder) / PurePosixPath(path).name
            self._extract(path, entry, copy)
            for name in _external_files(copy):
                self._extract_external(name, path, copy)
            yield copy

    def _path_of(self, model: str) -> str:
        """The path of a file relative to the root of the repository."""
        absolute = Path(model).parent.resolve() / Path(model).name
        try:
            return absolute.relative_to(self.top.resolve()).as_posix()
        except ValueError:
            raise RevisionError(f"{model}: outside the git repository {self.top}") from None

    def _entry_of(self, path: str) -> _Entry | None:
        for parent in (PurePosixPath(path), *PurePosixPath(path).parents):
            entry = self._entries.get(str(parent))
            if entry is not None and entry.mode == _SUBMODULE:
                raise RevisionError(
                    f"{path}: inside the submodule {str(parent)!r}, whose files are not part of {self.name};"
                    " run the check inside the submodule"
                )
        entry = self._entries.get(path)
        if entry is not None and entry.mode == _LINK:
            raise RevisionError(
                f"{path}: a symbolic link at {self.name}; links in git revisions are not followed"
            )
        return entry

    def _extract_external(self, name: str, path: str, copy: Path) -> None:
        """Extract a file of external data; files that are missing or outside are reported by the loader."""
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts:
            return
        data_path = str(PurePosixPath(path).parent / relative)
        entry = self._entry_of(data_path)
        target = copy.parent / relative
        if entry is not None and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            self._extract(data_path, entry, target)

    def _extract(self, path: str, entry: _Entry, target: Path) -> None:
        with target.open("xb") as file:
            _git(self.top, "cat-file", "blob", entry.object, output=file)
        with target.open("rb") as file:
            object_name = lfs_object(file.read(LFS_MAX_BYTES))
        if object_name is None:
            return
        stored = self._lfs_objects / object_name[:2] / object_name[2:4] / object_name
        if not stored.is_file():
            raise LfsPointer(
                f"{path} at {self.name} is a Git LFS pointer, and its content is not in this clone;"
                f" run: git lfs fetch origin {self.commit}"
            )
        shutil.copyfile(stored, target)

    @cached_property
    def _lfs_objects(self) -> Path:
        return self.top / _git(self.top, "rev-parse", "--git-common-dir") / "lfs" / "objects"


def _external_files(copy: Path) -> list[str]:
    """The files of external weights that a model names; empty if the model cannot be read."""
    try:
        if copy.suffix.lower() == ".onnx":
            from sizeup.formats.onnx.write import external_files as onnx_files

            return onnx_files(copy)
        if copy.suffix.lower() == ".tflite":
            from sizeup.formats.tflite.write import external_files as tflite_files

            return tflite_files(copy.read_bytes())
    except SizeupError:
        pass  # reported when the copy is loaded
    return []


def _git(folder: Path, *arguments: str, output: IO[bytes] | None = None) -> str:
    """The output of a git command without the last line break, or '' if it is written to a file."""
    # Git hooks set these variables for their own repository, which may be another one.
    environment = {name: value for name, value in os.environ.items() if name not in _HOOK_VARIABLES}
    # No fetching in partial clones: the command to fetch with comes from the repository's configuration.
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}
    try:
        process = subprocess.run(
            ["git", "-c", "protocol.allow=never", "-C", os.fspath(folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    except OSError as error:
        raise RevisionError(f"cannot run git: {error.strerror or error}; install git") from error
    if process.returncode:
        reason = process.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise RevisionError(f"git {arguments[0]} failed in {folder}: {reason or 'no message'}")
    return os.fsdecode(process.stdout or b"").removesuffix("\n")


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
