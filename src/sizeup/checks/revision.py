"""Model files of another git revision, read from git; and which models of a budget changed files concern."""

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
from sizeup.formats import LFS_MOST, lfs_object
from sizeup.formats.names import means_code

_OBJECT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
_LINK, _SUBMODULE = "120000", "160000"


class _Entry(NamedTuple):
    mode: str
    object: str


def open_revision(name: str, folder: Path) -> Revision:
    """A revision of the git repository that a folder is in; raises RevisionError if there is none."""
    if not name or name.startswith("-") or "\0" in name:
        raise RevisionError(f"{name!r} is not a git revision; give a branch, a tag or a commit: origin/main")
    top = Path(_git(folder, "rev-parse", "--show-toplevel"))
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except RevisionError:
        raise RevisionError(
            f"{name!r} is not a commit of {top}; if the clone is shallow: git fetch --depth 1 origin BRANCH"
        ) from None
    if not _OBJECT.fullmatch(commit):
        raise RevisionError(f"{name!r} names more than one commit; give a branch, a tag or a commit")
    return Revision(name, commit, top)


@dataclass(frozen=True)
class Revision:
    """A commit, and the files in it."""

    name: str  # as the user typed it
    commit: str
    top: Path  # the root of the work tree

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        """All files, links and submodules by their path, in one listing."""
        listing = _git(self.top, "ls-tree", "-r", "-z", "--full-tree", self.commit, "--")
        entries = {}
        for line in listing.split("\0"):
            if line:
                head, _, path = line.partition("\t")
                mode, _, name = head.split(" ")
                entries[path] = _Entry(mode, name)
        return entries

    def files(self) -> Iterator[Path]:
        """Where every regular file of the commit is, or was, in the work tree."""
        return (self.top / path for path, each in self._entries.items() if each.mode.startswith("100"))

    def has(self, model: str) -> bool:
        """Whether a file is in the commit."""
        try:
            return self._entry_of(self._path_of(model)) is not None
        except RevisionError:
            return False

    @contextmanager
    def checked_out(self, model: str) -> Iterator[Path | None]:
        """A copy of a model file and of its external data, in a folder that is then deleted; None if new."""
        path = self._path_of(model)
        entry = self._entry_of(path)
        if entry is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="sizeup-") as folder:
            copy = Path(folder) / PurePosixPath(path).name
            self._extract(path, entry, copy)
            for name in _external_files(copy):
                self._extract_beside(name, path, copy)
            yield copy

    def _path_of(self, model: str) -> str:
        """The path of a file from the root of the repository."""
        place = Path(model).parent.resolve() / Path(model).name
        try:
            return place.relative_to(self.top.resolve()).as_posix()
        except ValueError:
            raise RevisionError(f"{model}: outside the git repository {self.top}") from None

    def _entry_of(self, path: str) -> _Entry | None:
        for parent in (PurePosixPath(path), *PurePosixPath(path).parents):
            entry = self._entries.get(str(parent))
            if entry is not None and entry.mode == _SUBMODULE:
                raise RevisionError(
                    f"{path}: in the submodule {str(parent)!r}, whose files are not part of {self.name};"
                    " run the check inside the submodule"
                )
        entry = self._entries.get(path)
        if entry is not None and entry.mode == _LINK:
            raise RevisionError(f"{path}: a symbolic link at {self.name}, which is not followed")
        return entry

    def _extract_beside(self, name: str, path: str, copy: Path) -> None:
        """External data of a model; the reader reports what is not there or leads elsewhere."""
        within = PurePosixPath(name)
        if within.is_absolute() or ".." in within.parts:
            return
        beside = str(PurePosixPath(path).parent / within)
        entry = self._entry_of(beside)
        target = copy.parent / within
        if entry is not None and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            self._extract(beside, entry, target)

    def _extract(self, path: str, entry: _Entry, target: Path) -> None:
        with target.open("xb") as file:
            _git(self.top, "cat-file", "blob", entry.object, output=file)
        with target.open("rb") as file:
            object_name = lfs_object(file.read(LFS_MOST))
        if object_name is None:
            return
        stored = self._lfs_objects / object_name[:2] / object_name[2:4] / object_name
        if not stored.is_file():
            raise LfsPointer(
                f"{path} at {self.name} is a Git LFS pointer, and this clone does not have the file itself;"
                f" run: git lfs fetch origin {self.commit}"
            )
        shutil.copyfile(stored, target)

    @cached_property
    def _lfs_objects(self) -> Path:
        return self.top / _git(self.top, "rev-parse", "--git-common-dir") / "lfs" / "objects"


def _external_files(copy: Path) -> list[str]:
    """The files that a model names to keep its weights in; none of what cannot be read at all."""
    try:
        if copy.suffix.lower() == ".onnx":
            from sizeup.formats.onnx.write import external_files as named_by_onnx

            return named_by_onnx(copy)
        if copy.suffix.lower() == ".tflite":
            from sizeup.formats.tflite.write import external_files as named_by_tflite

            return named_by_tflite(copy.read_bytes())
    except SizeupError:
        pass  # whoever loads the copy reports it
    return []


def _git(folder: Path, *arguments: str, output: IO[bytes] | None = None) -> str:
    """What git prints, without the last line break; or it goes to a file."""
    # A hook of git names the repository that it runs for, which need not be that of the folder.
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    # A partial clone fetches what it lacks when it is read, by whatever command its configuration names.
    environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(
            ["git", "-c", "protocol.allow=never", "-C", os.fspath(folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    except OSError as error:
        raise RevisionError(f"git cannot be run: {error.strerror or error}; install git") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise RevisionError(f"git {arguments[0]} failed in {folder}: {reason or 'no message'}")
    return os.fsdecode(done.stdout or b"").removesuffix("\n")


def affected(budgets: Budgets, changed: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """The models to check (None: all that budgets name), and the changed files that no budget names.

    A change of the budget file or of a baseline affects every model.
    """
    deciding = {(budgets.folder / each.baseline).resolve() for each in budgets.budgets if each.baseline}
    deciding.add(budgets.path.resolve())
    if any(_followed(Path(file)) in deciding for file in changed):
        return None, []
    links = _linked(budgets)
    models: dict[str, None] = {}
    others = []
    for file in changed:
        affected_by_it = links.get(_followed(Path(file)), []) + [file] * budgets.names(file)
        models.update((_as_path(each), None) for each in affected_by_it)
        if not affected_by_it:
            others.append(file)
    return list(models), others


def _linked(budgets: Budgets) -> dict[Path, list[str]]:
    """The models that are symbolic links, by the file that each leads to."""
    links: dict[Path, list[str]] = {}
    for link in budgets.links():
        links.setdefault(_followed(link), []).append(str(link))
    return links


def _as_path(file: str) -> str:
    """The file by a name that never means code: `module:factory` may be a file that was deleted."""
    return f"{os.curdir}{os.sep}{file}" if means_code(file) else file


def _followed(path: Path) -> Path:
    """The file behind all links; of a loop of links, some path within it."""
    return Path(os.path.realpath(path))
