"""Runs tests on one change of the package after another, in forked processes of one session of pytest.

Tests are collected once. A child changes the code of the functions that are in memory, and runs its tests;
the processes that they start import a copy of the package with the change. What is executed at import
(tables, defaults, class bodies) cannot be changed afterwards: for such a change, a child imports the copy
instead of the package, and collects the tests again.
Every test that found a change is run without one, too; if it fails then, it finds nothing.
"""

from __future__ import annotations

import ast
import compileall
import gc
import importlib
import inspect
import os
import pkgutil
import shutil
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import _lru_cache_wrapper
from itertools import zip_longest
from pathlib import Path
from py_compile import PycInvalidationMode
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from micro_interpreter import REMEMBERED
from mutation.changes import PACKAGE, ROOT, Mutant

OFTEN = 20  # mutants from which a test function runs once before them, so that they share what it caches
# Seconds until a mutant is found because its tests do not end: at least, and per second that they take.
LONGEST, SLOWEST = 120.0, 12.0
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # code that Python calls at once
OPTIONS = (
    "-q", "-s", "-p", "no:cacheprovider", "-m", "not alone", "--hypothesis-profile=mutants",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # libraries, before pytest saw them
)  # fmt: skip


class Verdict(NamedTuple):
    """What the tests say of a mutant."""

    mutant: Mutant
    tests: int
    is_found: bool
    by: str = ""  # the test function that failed; empty if the time was over

    def line(self) -> str:
        """Where it is, whether it was found, and the change."""
        mutant, verdict = self.mutant, "found" if self.is_found else "SURVIVES"
        if not self.tests:
            verdict = "NOT REACHED by a test"
        where = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
        return f"{where}: {verdict}: {mutant.before}  ->  {mutant.after}"

    def row(self) -> dict[str, object]:
        """What build/mutants.json keeps of it."""
        file, code, before, after, occurrence = self.mutant.key
        change = {"code": code, "before": before, "after": after, "occurrence": occurrence}
        outcome = {"tests": self.tests, "found": self.is_found, "by": self.by}
        return {"file": file, "line": self.mutant.line, **change, **outcome}


class Task(NamedTuple):
    """Test functions, and the mutant that they judge; None to see whether they pass without one."""

    mutant: Mutant | None
    tests: list[str]
    is_anew: bool = False  # whether the package is imported again
    seconds: float = 0.0  # how long the tests took when coverage was measured

    def without(self, tests: set[str]) -> Task:
        """The same task without some of its tests."""
        return self._replace(tests=[test for test in self.tests if test not in tests])


class Outcome(NamedTuple):
    """How the tests of a task ended."""

    task: Task
    is_failure: bool
    test: str  # the function that failed


def _own_parts(code: CodeType) -> tuple[object, ...]:
    """What a code object computes, without the functions that it defines."""
    constants = [(type(each), each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, constants, code.co_names, code.co_varnames


def _nested(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def changed_code(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code objects that differ, each with what it becomes; the outer one first."""
    if before != after:
        yield before, after
        for pair in zip(_nested(before), _nested(after), strict=True):
            yield from changed_code(*pair)


class Functions:
    """The functions of the package that are in memory, by their code, and the results that it caches."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(str(PACKAGE)):
                self._known[self._key(each.__code__)].append(each)
        every = (each for each in gc.get_objects() if type(each) is _lru_cache_wrapper)
        self._caches = [each for each in every if (each.__module__ or "").startswith("sizeup")]

    @staticmethod
    def _key(code: CodeType) -> tuple[str, str, int]:
        return code.co_filename, code.co_name, code.co_firstlineno

    def change(self, mutant: Mutant) -> None:
        """Give the functions the code of a mutant, and forget what they returned before."""
        for cached in self._caches:
            cached.cache_clear()
        for old, new in changed_code(*_compiled(mutant)):
            for function in self._known.get(self._key(old), ()):
                function.__code__ = new


def _compiled(mutant: Mutant) -> tuple[CodeType, CodeType]:
    """The module without and with the change."""
    path = str(mutant.path)
    before = compile(ast.parse(mutant.path.read_text("utf-8")), path, "exec", dont_inherit=True)
    return before, compile(mutant.tree(), path, "exec", dont_inherit=True)


def is_at_import(mutant: Mutant) -> bool:
    """Whether a mutant changes what is executed when its module is imported."""
    return _differs_at_import(*_compiled(mutant))


def _differs_at_import(before: CodeType, after: CodeType) -> bool:
    """Whether the code of a module or class differs, also in its classes and comprehensions."""
    return _own_parts(before) != _own_parts(after) or any(
        _differs_at_import(old, new)
        for old, new in zip(_nested(before), _nested(after), strict=True)
        if not old.co_flags & inspect.CO_NEWLOCALS or old.co_name in COMPREHENSIONS
    )


class Judge:
    """A plugin that runs the tests of each task in a child instead of all tests in this process."""

    def __init__(
        self, tasks: Sequence[Task], jobs: int, folder: Path, report: Callable[[Verdict], None]
    ) -> None:
        self.tasks, self.folder, self.report = tasks, folder, report
        self.jobs = jobs
        self.items: dict[str, list[pytest.Item]] = defaultdict(list)
        self.running: dict[int, tuple[Task, float, Path]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge all tasks; those that a test found that fails anyway, again without it."""
        for item in session.items:
            self.items[item.nodeid.partition("[")[0]].append(item)
        remembered = self.folder / "remembered"
        remembered.mkdir()
        os.environ[REMEMBERED] = str(remembered)
        self._fill_caches()
        self.functions = Functions()
        gc.collect()
        gc.freeze()
        self.free = [_copied_package(self.folder / str(job)) for job in range(self.jobs)]
        tasks = [task.without(set(task.tests) - self.items.keys()) for task in self.tasks]
        sound: set[tuple[str, bool]] = {("", False), ("", True)}
        while tasks:
            found = [each for each in self._outcomes(tasks) if each.is_failure]
            used = {(each.test, each.task.is_anew) for each in found}
            controls = [Task(None, [test], is_anew) for test, is_anew in sorted(used - sound)]
            failing = [each.task for each in self._outcomes(controls) if each.is_failure]
            unsound = {(task.tests[0], task.is_anew) for task in failing}
            sound |= used - unsound
            tasks = [
                each.task.without({each.test}) for each in found if (each.test, each.task.is_anew) in unsound
            ]
        return True

    def _fill_caches(self) -> None:
        """Run the tests that judge many mutants in this process: models that they read stay in memory."""
        counts = Counter(test for task in self.tasks if not task.is_anew for test in task.tests)
        items = [item for test, count in counts.items() if count >= OFTEN for item in self.items[test]]
        for item, following in zip_longest(items, items[1:]):
            runtestprotocol(item, log=False, nextitem=following)

    def _outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Run tasks, some at once, and report those of mutants."""
        for task in tasks:
            while not self.free:
                yield from self._ended()
            self._start(task, self.free.pop())
        while self.running:
            yield from self._ended()

    def _start(self, task: Task, sources: Path) -> None:
        items = [item for test in task.tests for item in self.items[test]]
        if task.mutant is not None:
            copied = sources / "sizeup" / task.mutant.path.relative_to(PACKAGE)
            copied.write_text(task.mutant.text(), "utf-8")
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.setsid()
                _prepare(sources)
                if task.is_anew and items:
                    code = _run_anew(task.tests, sources)
                else:
                    if task.mutant is not None:
                        self.functions.change(task.mutant)
                    code = _run(items, sources / "failed")
            finally:
                os._exit(code)
        end = time.monotonic() + max(LONGEST, SLOWEST * task.seconds)
        self.running[child] = task, end, sources

    def _ended(self) -> Iterator[Outcome]:
        """What the children found that ended or took too long; their copies of the package are free again."""
        time.sleep(0.02)
        for child, (task, end, sources) in list(self.running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() < end:
                continue
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            if not ended:
                os.waitpid(child, 0)
            del self.running[child]
            self.free.append(sources)
            failed = sources / "failed"
            test = failed.read_text("utf-8") if failed.exists() else ""
            failed.unlink(missing_ok=True)
            outcome = Outcome(task, status != 0 or not ended, test)
            if task.mutant is not None:
                path = task.mutant.path
                shutil.copyfile(path, sources / "sizeup" / path.relative_to(PACKAGE))
                self.report(Verdict(task.mutant, len(task.tests), outcome.is_failure, test))
            yield outcome


def _copied_package(folder: Path) -> Path:
    """A folder with a copy of the package; its compiled files are valid for unchanged contents alone."""
    shutil.copytree(PACKAGE, folder / "sizeup", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    (folder / "temporary").mkdir()
    return folder


def _prepare(sources: Path) -> None:
    """Print nowhere, and let processes that tests start import the copy of the package."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (sources, ROOT / "tests", ROOT / "tools")))
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(sources / "temporary")
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(sources / "temporary")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def _run(items: Sequence[pytest.Item], failed: Path) -> int:
    for item, following in zip_longest(items, items[1:]):
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            failed.write_text(item.nodeid.partition("[")[0], "utf-8")
            return 1
    return 0


class _FirstFailure:
    """A plugin that writes the name of the first test that fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of a test."""
        if report.failed:
            self.path.write_text(report.nodeid.partition("[")[0], "utf-8")


def _run_anew(tests: Sequence[str], sources: Path) -> int:
    folders = tuple(f"{folder}{os.sep}" for folder in (PACKAGE, ROOT / "tests"))
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(folders):
            del sys.modules[name]
    sys.path[:] = [str(sources), *(each for each in sys.path if each != str(PACKAGE.parent))]
    importlib.invalidate_caches()
    return int(pytest.main(["-x", *OPTIONS, *tests], plugins=[_FirstFailure(sources / "failed")]))


def judge(tasks: Sequence[Task], jobs: int, folder: Path, report: Callable[[Verdict], None]) -> None:
    """Collect the tests of all tasks, and report a verdict on each mutant."""
    from hypothesis import Phase, settings

    # A failure is enough: it is not made smaller.
    settings.register_profile(
        "mutants", phases=[Phase.explicit, Phase.generate], derandomize=True, deadline=None
    )
    sys.path[:0] = [str(PACKAGE.parent)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages([str(PACKAGE)], "sizeup."):
            if not module.name.endswith("__main__"):
                with suppress(ImportError):
                    importlib.import_module(module.name)
    os.chdir(ROOT)
    files = sorted({test.partition("::")[0] for task in tasks for test in task.tests})
    code = pytest.main([*OPTIONS, *files], plugins=[Judge(tasks, jobs, folder, report)])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {code!r}")
