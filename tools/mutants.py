"""Changes one operator or number of the package at a time, and reports which changes no test notices.

    make coverage                       # once: which tests reach which lines
    python tools/mutants.py --mutants 1000 --seed 0

A mutant is a copy of the package with one change. It is judged by the tests that reach its line, in a process
that is forked with the libraries already imported; a test that fails or runs too long finds it. One line per
mutant: where, whether found, the change. Outside CI: a mutant takes seconds to minutes.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "sizeup"
DATA = ROOT / "build" / "coverage" / "data"
FOLDERS = ("ops", "cost", "memory", "latency", "checks")
MOST_TESTS = 60  # functions per mutant; those of the mutated folder first
SECONDS = 300.0
# What tests import, and takes seconds; nothing that imports the package.
LIBRARIES = (
    "pytest", "hypothesis", "numpy", "torch", "torch.export", "torch._dynamo", "onnx", "onnxruntime",
    "pandas", "ai_edge_litert.interpreter", "tflite_micro", "ortools.sat.python.cp_model", "scipy.optimize",
)  # fmt: skip

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(NamedTuple):
    """One change: file, position of the node in a walk, line, and the expression before and after."""

    path: Path
    position: int
    line: int
    before: str
    after: str

    def text(self) -> str:
        """The whole file with the change."""
        tree = ast.parse(self.path.read_text("utf-8"))
        changed = ast.parse(self.after, mode="eval").body
        whole = _Replacement(self.position, changed).visit(tree)
        return ast.unparse(ast.fix_missing_locations(whole))


def _mutated(node: ast.AST) -> ast.AST | None:
    """A changed copy of a node, or None if nothing in it is changed."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in _OPERATORS:
            changed.ops = [_OPERATORS[type(operator)]()]  # type: ignore[list-item]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in _OPERATORS:
            changed.op = _OPERATORS[type(operator)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.Not()):
            return changed.operand
        case ast.Constant(value=bool(value)):
            changed.value = not value
        case ast.Constant(value=int(value)):
            changed.value = value + 1
        case ast.IfExp(body=body, orelse=other):
            changed.body, changed.orelse = other, body
        case _:
            return None
    return changed


def _annotations(tree: ast.AST) -> set[int]:
    """The nodes of annotations, which do nothing at run time."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            roots.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            roots.append(node.annotation)
    return {id(each) for root in roots if root is not None for each in ast.walk(root)}


class _Replacement(ast.NodeTransformer):
    def __init__(self, position: int, replacement: ast.AST) -> None:
        self.position, self.replacement, self.count = position, replacement, -1

    def generic_visit(self, node: ast.AST) -> ast.AST:
        self.count += 1
        return self.replacement if self.count == self.position else super().generic_visit(node)


def _positions(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes in the order in which a NodeTransformer visits them."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _positions(child)


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    ignored = _annotations(tree)
    for position, node in enumerate(_positions(tree)):
        changed = None if id(node) in ignored else _mutated(node)
        if changed is not None and isinstance(node, ast.expr):
            yield Mutant(path, position, node.lineno, ast.unparse(node), ast.unparse(changed))


def sample(count: int, seed: int, folders: Sequence[str]) -> list[Mutant]:
    """A seeded sample over all files of the folders, each mutant as likely as another."""
    paths = [path for folder in folders for path in sorted((PACKAGE / folder).rglob("*.py"))]
    every = [mutant for path in paths for mutant in mutants(path)]
    return random.Random(seed).sample(every, min(count, len(every)))


@cache
def tests_by_line(path: Path) -> dict[int, list[str]]:
    """The tests that reach each line of a file, as pytest names them; from the data of `make coverage`."""
    from coverage import CoverageData

    data = CoverageData(str(DATA))
    data.read()
    lines: dict[int, list[str]] = {}
    for line, contexts in data.contexts_by_lineno(str(path)).items():
        ids = {_test_id(context) for context in contexts}
        lines[line] = sorted(each for each in ids if each)
    return lines


def _test_id(context: str) -> str:
    """`tests.ops.test_rules.test_x` as pytest names it; empty if it is no test of ours."""
    module, _, function = context.rpartition(".")
    path = ROOT / f"{module.replace('.', '/')}.py"
    return f"{path}::{function}" if module and path.is_file() else ""


def tests_of(mutant: Mutant) -> list[str]:
    """The tests that judge a mutant; none if no test reaches its line."""
    lines = tests_by_line(mutant.path)
    tests = lines.get(mutant.line, [])
    if not tests and mutant.line in lines:  # it runs when the module is imported
        tests = sorted({each for ids in lines.values() for each in ids})
    folder = f"/tests/{mutant.path.relative_to(PACKAGE).parts[0]}/"
    return sorted(tests, key=lambda each: (folder not in each, each))[:MOST_TESTS]


class Verdict(NamedTuple):
    """What the tests say of a mutant."""

    mutant: Mutant
    tests: int
    is_found: bool

    def line(self) -> str:
        """Where it is, whether it was found, and the change."""
        mutant, verdict = self.mutant, "found" if self.is_found else "SURVIVES"
        if not self.tests:
            verdict = "NOT REACHED by a test"
        where = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
        return f"{where}: {verdict}: {mutant.before}  ->  {mutant.after}"


@cache
def _copied_package(folder: Path) -> Path:
    """A folder with a copy of the package; its compiled files are valid for unchanged contents alone."""
    shutil.copytree(PACKAGE, folder / "sizeup", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return folder


def judge(mutant: Mutant, seconds: float, folder: str) -> Verdict:
    """Run the tests that reach the line of a mutant, on a copy of the package in a folder of this process."""
    tests = tests_of(mutant)
    if not tests:
        return Verdict(mutant, 0, False)
    sources = _copied_package(Path(folder, str(os.getpid())))
    copied = sources / "sizeup" / mutant.path.relative_to(PACKAGE)
    before = copied.read_bytes()
    copied.write_text(mutant.text(), "utf-8")
    try:
        return Verdict(mutant, len(tests), _fails(tests, sources, seconds))
    finally:
        copied.write_bytes(before)


def _fails(tests: Sequence[str], sources: Path, seconds: float) -> bool:
    """Whether a test fails or runs too long, in a forked process."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            code = _run(tests, sources)
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run(tests: Sequence[str], sources: Path) -> int:
    import pytest

    paths = [str(sources), str(ROOT / "tests"), str(ROOT / "tools")]
    own = [each for each in sys.path if not Path(each, "sizeup", "__init__.py").exists()]
    sys.path[:] = [*paths, *(each for each in own if each not in paths)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.chdir(ROOT)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not alone and not slow"]
    imported = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # libraries, before pytest saw them
    return int(pytest.main([*options, *imported, *tests]))


def main() -> None:
    """Judges the sample, and prints survivors and score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit per mutant")
    parser.add_argument("--folders", nargs="+", default=FOLDERS)
    parser.add_argument("--jobs", type=int, default=1, help="mutants judged at once")
    options = parser.parse_args()
    if not DATA.exists():
        raise SystemExit(f"{DATA.relative_to(ROOT)} does not exist: run make coverage")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    found = judged = 0
    chosen = sample(options.mutants, options.seed, options.folders)
    with (
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("fork").Pool(options.jobs) as pool,
    ):
        for verdict in pool.imap_unordered(partial(judge, seconds=options.seconds, folder=folder), chosen):
            judged, found = judged + 1, found + verdict.is_found
            print(verdict.line(), flush=True)
    print(f"{found:,} of {judged:,} mutants found ({found / max(judged, 1):.1%}), seed {options.seed}")


if __name__ == "__main__":
    main()
