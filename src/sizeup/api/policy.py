"""What a change did to the policy that judges it: edited settings, and models that it no longer names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sizeup.api.check_each import at_revision, device_edits, edit_check, removed_check, uncovered_check
from sizeup.errors import BudgetError, SizeupError
from sizeup.files import is_file, is_folder
from sizeup.formats.names import SUFFIXES, is_code

if TYPE_CHECKING:
    from sizeup.api.check import Model
    from sizeup.checks import Budgets, Reference, Subject
    from sizeup.checks.revision import Revision
    from sizeup.graph import Graph
    from sizeup.results.check import Check


_MOST_GRAPHS = 20  # removed models that a new one is compared with by graphs


@dataclass(frozen=True)
class Policy:
    """Budgets of the work tree or of a revision (`source`), and the revision to compare models with."""

    budgets: Budgets
    source: Revision | None
    revision: Revision | None
    copies: Path  # a folder for files of the revision
    _problems: list[str] = field(default_factory=list)  # of the budget file at the revision
    _graphs: dict[object, dict[Hashable, str]] = field(default_factory=dict)

    def before(self, model: Model, subject: Subject) -> Reference:
        """The amounts of a model at the revision, where it may have another path."""
        assert self.revision is not None
        if model.file is None or self.revision.has(model.argument):
            return at_revision(model.argument, subject, model.needs_of, self.revision)
        path = self.revision.path_of(model.argument)
        old = self._renames.get(path) or self._alike_graph(model, subject.graph)
        return at_revision(model.argument, subject, model.needs_of, self.revision, old)

    def prepare(self) -> None:
        """Compare names and contents now, once for all models."""
        if self.source or self.revision:
            self._renames  # noqa: B018 - a cached property

    def checks(self, models: Sequence[Check] | None) -> Iterator[Check]:
        """Edits of the policy; with the checks of all models that budgets name, also those that left them."""
        from sizeup.checks.policy import JUDGED_BY_ITSELF, Edit, edits

        base = self.source or self.revision
        if base is None:
            return
        if self._old is not None:
            for edit in edits(self.budgets, self._old, is_old_used=self.source is not None):
                yield edit_check(edit, base)
        for problem in self._problems:
            yield edit_check(Edit(self.budgets.path, (problem,), JUDGED_BY_ITSELF), base)
        yield from device_edits(base)
        if models is not None:
            yield from self._departed(models, self.revision or base)

    def _departed(self, models: Sequence[Check], base: Revision) -> Iterator[Check]:
        covered = set(self._covered)
        for model in [] if self._old is None else self._old.models()[0]:
            if model not in covered:
                reason = f"a budget of {base.name} names it, no budget of {self.budgets.name} does"
                yield uncovered_check(model, reason, base)
        names = set(self._names(covered, base))
        for new in sorted(self._renames.keys() - names):
            old = self._renames[new]
            reason = f"renamed from {old}, which a budget names; no budget names {new}"
            yield uncovered_check(os.path.relpath(base.top / new), reason, base, old)
        renamed = {*self._renames.values(), *(check.renamed_from for check in models)}
        for path in sorted(self._gone.keys() - renamed):
            yield removed_check(str(self.budgets.folder / self.budgets.key_of(str(base.top / path))), base)

    @cached_property
    def _old(self) -> Budgets | None:
        """The budgets at the revision; None if there was no such file."""
        from sizeup.checks.policy import budgets_of

        if self.source is not None:
            return self.budgets
        assert self.revision is not None
        self.revision.path_of(self.budgets.path)  # refuses a file outside the repository
        if not self.revision.has(str(self.budgets.path)):
            return None
        try:
            return budgets_of(self.revision, self.budgets.path, self.copies, self.budgets.settings())
        except BudgetError as error:
            self._problems.append(str(error))
            return None

    @cached_property
    def _covered(self) -> list[str]:
        return self.budgets.models()[0]

    @cached_property
    def _gone(self) -> Mapping[str, str]:
        """The models that budgets name and that no longer exist: their objects by their paths."""
        base = self.revision or self.source
        if base is None:
            return {}
        budgets = [each for each in (self.budgets, self._old) if each is not None]
        folders: dict[Path, set[str]] = {}
        gone = {}
        home = os.path.realpath(base.top)
        for path, name in base.objects.items():
            file = base.top / path
            # Not Path.exists: where names that differ in case mean one file, a renamed one exists.
            if file.parent not in folders:
                # Behind a link are other files.
                is_own = os.path.realpath(file.parent) == os.path.join(home, *Path(path).parent.parts)  # noqa: PTH118
                folders[file.parent] = _names_in(file.parent) if is_own else set()
            if file.name not in folders[file.parent] and any(each.names_path(file) for each in budgets):
                gone[path] = name
        return gone

    @cached_property
    def _renames(self) -> Mapping[str, str]:
        """The paths at the revision of the models that were renamed, by their new paths."""
        from sizeup.checks.git import blob_names
        from sizeup.checks.renames import pairs

        base = self.revision or self.source
        if base is None or not self._gone:
            return {}
        paths = {path: base.top / path for path in base.work_tree() if path.lower().endswith(SUFFIXES)}
        paths |= {path: Path(model) for path, model in self._names(self._covered, base).items()}
        new = {
            path: blob_names(file, base.commit)
            for path, file in paths.items()
            if path not in base.objects and is_file(file)
        }
        return pairs({path: (name,) for path, name in self._gone.items()}, new)

    def _names(self, models: Iterable[str], base: Revision) -> dict[str, str]:
        """The models by their paths in the repository, without code and files elsewhere."""
        files = [model for model in models if not is_code(model) and base.has_path(model)]
        return {base.path_of(model): model for model in files}

    def _alike_graph(self, model: Model, graph: Graph) -> str:
        """The path of a removed model whose graph is like that of a new one, or ''."""
        from sizeup.checks.renames import likeness

        rest = self._gone.keys() - set(self._renames.values())
        if not rest:
            return ""
        key = tuple(sorted((model.bind or {}).items()))
        if key not in self._graphs:
            paths: dict[Hashable, str] = {}
            for path in sorted(rest)[:_MOST_GRAPHS]:
                for sign in self._likeness(path, model):
                    paths.setdefault(sign, path)
            self._graphs[key] = paths
        return next(filter(None, (self._graphs[key].get(sign, "") for sign in likeness(graph))), "")

    def _likeness(self, path: str, model: Model) -> tuple[Hashable, ...]:
        from sizeup.checks.renames import likeness

        assert self.revision is not None
        try:
            with self.revision.checked_out(self.revision.top / path) as copy:
                return () if copy is None else likeness(replace(model, source=copy).load())
        except SizeupError:
            return ()


def settings_digest(model: Model, subject: Subject) -> str:
    """The digest of all that amounts depend on: the files of a model, settings, target and this version."""
    from sizeup.checks.revision import external_files
    from sizeup.formats.digest import sha256_of
    from sizeup.mixed_precision.precision_map import is_precision_map, read_precision_map
    from sizeup.targets import current_catalog

    if model.file is None:
        return ""
    files = [model.file, *(model.file.parent / name for name in external_files(model.file))]
    precision = model.precision
    if isinstance(precision, str) and is_precision_map(precision):
        precision = read_precision_map(Path(precision))
    target = subject.target
    calibration = None if target is None else current_catalog().calibration(target)
    slowdown = None if target is None else current_catalog().slowdown(target)
    settings = (version("sizeup"), precision, model.bind, target, calibration, slowdown)
    parts = [_canonical((*settings, subject.ram_bytes, subject.flash_bytes)), *map(sha256_of, files)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _names_in(folder: Path) -> set[str]:
    """The names of the files in a folder; links that lead to no file are none."""
    return {path.name for path in folder.iterdir() if os.path.isfile(path)} if is_folder(folder) else set()  # noqa: PTH113 - loops


def _canonical(value: Any) -> str:
    """A text that is equal for equal settings, in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        value = {(_canonical(key), _canonical(item)) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return repr(sorted(map(_canonical, value)))
    return repr([*map(_canonical, value)]) if isinstance(value, tuple | list) else repr(value)
