"""The git repository of the working directory: files of the work tree cannot redirect it or run code."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from sizeup.errors import RevisionError
from sizeup.files import exists, is_folder

_OBJECT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
# Variables of git that choose no repository, objects or programs of another one, as hooks do for theirs.
_KEPT_VARIABLES = re.compile("GIT_(CONFIG.*|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM|EXEC_PATH)")
_VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_GRAFT_FILE": os.devnull,  # no other parents of commits
    # No fetching in partial clones: the command to fetch with comes from the repository's configuration.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # overrides the configuration, which `-c protocol.allow` does not
}
_SETTINGS = ("safe.bareRepository=explicit", f"core.hooksPath={os.devnull}", "core.fsmonitor=false")
_OPTIONS = ["--no-replace-objects", *(word for setting in _SETTINGS for word in ("-c", setting))]
# What follows the name of a ref in a revision: main~2, main^{commit}, main@{1}.
_SUFFIX = re.compile(r"(?:[~^]|@\{).*")
_LONG = 64  # digits of the name of an object in a repository with SHA-256
_CHUNK = 1 << 20
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"
_OWN_REF = re.compile("[A-Z_]+")  # HEAD, FETCH_HEAD: files of the repository itself, which take precedence


@dataclass(frozen=True)
class Repository:
    """The root of a work tree, and its git folder."""

    top: Path
    folder: Path

    def run(self, *arguments: str, output: IO[bytes] | None = None) -> str:
        """The output of a git command without the last line break, or '' if it is written to a file."""
        # The user's settings have a part in discovery alone, and a confined worker cannot read them.
        settings = {"GIT_CONFIG_GLOBAL": os.devnull}
        options = (f"--git-dir={self.folder}", f"--work-tree={self.top}")
        return _run(self.top, *options, *arguments, output=output, variables=settings)

    @cached_property
    def shared_folder(self) -> Path:
        """The git folder with the objects, which linked work trees share."""
        return self.top / self.run("rev-parse", "--git-common-dir")

    @cached_property
    def outer(self) -> Repository | None:
        """The repository that this one is a submodule of."""
        top = _run(self.top, "rev-parse", "--show-superproject-working-tree")
        return open_repository(Path(top)) if top else None

    def commit(self, name: str) -> str:
        """The commit of a revision; raises RevisionError if it does not exist, or a name means several."""
        if not name or name.startswith("-") or "\0" in name:
            raise RevisionError(
                f"{name!r} is not a git revision; give a branch, tag or commit, e.g. origin/main"
            )
        self._refuse_ambiguous(name)
        try:
            commit = self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except RevisionError:
            raise RevisionError(
                f"{name!r} is not a commit of {self.top};"
                " in a shallow clone, run: git fetch --depth 1 origin BRANCH"
            ) from None
        if not _OBJECT.fullmatch(commit):
            raise RevisionError(f"{name!r} is ambiguous; give a branch, tag or commit")
        return commit

    def _refuse_ambiguous(self, name: str) -> None:
        """Raises RevisionError for a name of several refs, such as a tag that is named like a branch."""
        base = _SUFFIX.sub("", name)
        if not base or _OBJECT.fullmatch(base) or _OWN_REF.fullmatch(base) or ":" in base:
            return
        namespaces = ("refs", "refs/tags", "refs/heads", "refs/remotes")
        names = {f"{namespace}/{base}" for namespace in namespaces} | {base, f"refs/remotes/{base}/HEAD"}
        # A pattern also lists the refs below it.
        listing = self.run("for-each-ref", "--format=%(objectname) %(refname)", *sorted(names)).splitlines()
        refs = [line.partition(" ")[::2] for line in listing]
        meant = {ref: commit for commit, ref in refs if ref in names}
        if meant and re.fullmatch("[0-9a-f]{4,}", base):  # an abbreviated object
            objects = self.run("rev-parse", f"--disambiguate={base}").split()
            meant |= {f"object {name}": name for name in objects}
        if len(set(meant.values())) > 1:
            raise RevisionError(
                f"{name!r} is ambiguous: {', '.join(sorted(meant))}; give one of them in full"
            )


def open_repository(folder: Path) -> Repository:
    """The git repository whose work tree contains a folder; raises RevisionError if there is none.

    A bare repository among the files of a work tree is never used, nor one that a file named .git chooses.
    """
    words = _run(folder, "rev-parse", "--show-toplevel", "--absolute-git-dir").splitlines()
    top, git_folder = map(Path, words)
    own = top / ".git"
    if is_folder(own) and not own.is_symlink():
        is_believed = own.samefile(git_folder)
    else:  # a linked work tree or a submodule
        is_believed = not any(
            exists(parent / ".git")
            and git_folder.is_relative_to(parent)
            and not git_folder.is_relative_to(parent / ".git")
            for parent in (top, *top.parents)
        )
    if not is_believed:
        raise RevisionError(f"{folder}: its git repository {git_folder} is among the files of a work tree")
    return Repository(top, git_folder)


def is_object(name: str) -> bool:
    """Whether a revision is named by the full name of an object, so that no ref decides what it is."""
    return bool(_OBJECT.fullmatch(_SUFFIX.sub("", name)))


def blob_names(path: Path, like: str) -> tuple[str, str]:
    """The names of a file's content as an object of git, by the algorithm of another name.

    The first is of the content, the second of the pointer that Git LFS stores instead.
    """
    size, content = path.stat().st_size, hashlib.sha256()
    name = _blob_digest(like, size)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            name.update(chunk)
            content.update(chunk)
    return name.hexdigest(), text_name(_POINTER.format(content.hexdigest(), size), like)


def text_name(text: str, like: str) -> str:
    """The name of a text as an object of git, by the algorithm of another name."""
    content = os.fsencode(text)
    name = _blob_digest(like, len(content))
    name.update(content)
    return name.hexdigest()


def _blob_digest(like: str, size: int) -> hashlib._Hash:
    name = hashlib.sha256() if len(like) == _LONG else hashlib.sha1(usedforsecurity=False)
    name.update(b"blob %d\0" % size)
    return name


def _run(
    folder: Path, *arguments: str, output: IO[bytes] | None = None, variables: Mapping[str, str] = _VARIABLES
) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or _KEPT_VARIABLES.fullmatch(name)
    }
    try:
        process = subprocess.run(
            ["git", *_OPTIONS, "-C", os.fspath(folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env={**environment, **_VARIABLES, **variables},
            check=False,
        )
    except OSError as error:
        raise RevisionError(f"cannot run git: {error.strerror or error}; install git") from error
    if process.returncode:
        reason = process.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        command = next(word for word in arguments if not word.startswith("-"))
        raise RevisionError(f"git {command} failed in {folder}: {reason or 'no message'}")
    return os.fsdecode(process.stdout or b"").removesuffix("\n")
