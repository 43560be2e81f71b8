"""Operators are listed in `ops` and in the tables of formats, runtimes and other tools, and nowhere else."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import sizeup
from sizeup.conventions.table import ROWS
from sizeup.ops import cost_rules

SOURCE = Path(sizeup.__file__).parent
FEW = 3  # names in a condition are no list
TEXT = 0.6  # of the words of a text, if it is a list of names
# Tables with one row per operator: what a format, a runtime or another tool knows of it.
TABLES = {
    "backends/ai8x/__init__.py": (1, "what the compiler of the MAX78000 takes"),
    "backends/edgetpu/__init__.py": (1, "what the Edge TPU Compiler takes"),
    "backends/tflm/kernels/arithmetic.py": (1, "kernels of TFLite Micro"),
    "backends/tflm/lowerings.py": (17, "what converters to TFLite write: sequences of operators"),
    "conventions/table.py": (3, "how other tools count, and functions that they count or leave out"),
    "formats/onnx/operators.py": (1, "what ONNX and its runtimes know"),
    "formats/tflite/operators.py": (1, "what LiteRT and its files know"),
    "memory/cuda_workspaces.py": (1, "workspaces of PyTorch's kernels for CUDA"),
    "memory/torch_workspaces.py": (1, "workspaces of PyTorch's kernels for CPUs"),
    "mixed_precision/recipes/ai_edge_quantizer.py": (1, "what ai-edge-quantizer writes"),
}
# Collections whose names are not those of operators, but spelled like some.
OTHER_NAMES = {
    "formats/torch/replay.py": (1, "functions of Python on numbers"),
    "formats/torch/size_expressions.py": (1, "functions of sympy"),
    "fusion.py": (1, "names of fusions in the files of runtimes"),
    "latency/execution.py": (1, "classes of kernels"),
    "latency/gaps.py": (1, "classes of kernels"),
    "latency/work.py": (1, "classes of kernels"),
}


@cache
def operators() -> frozenset[str]:
    """The op kinds, and the names of their operators in every format, with and without their domain."""
    rules = cost_rules()
    names = {name for rule in rules for name in (*rule.torch, *rule.onnx, *rule.tflite)}
    without_domain = {name.rpartition("::")[2].rpartition(".")[2] for name in names}
    return frozenset(names | without_domain | {rule.kind for rule in rules})


def lists(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line and the operators of every literal collection, text and call that names more than a few."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [name for name in dict.fromkeys(_words(node)) if name in operators()]
        if len(names) > FEW and isinstance(node, ast.expr):
            yield node.lineno, names


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        yield from _texts(node.elts)
    elif isinstance(node, ast.Call):
        yield from _texts(node.args)
    elif isinstance(node, ast.Dict):
        yield from _texts(node.keys)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value.split()
        known = sum(word in operators() for word in words)
        yield from words if known > TEXT * len(words) else ()


def _texts(nodes: Iterable[ast.expr | None]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def modules() -> dict[str, Path]:
    """All modules outside of `ops` by their path in the package."""
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: path for name, path in paths.items() if not name.startswith("ops/")}


@cache
def found() -> dict[str, list[tuple[int, list[str]]]]:
    """The lists of every module that has some."""
    return {name: rows for name, path in modules().items() if (rows := list(lists(path)))}


def test_no_module_lists_operators() -> None:
    allowed = Counter({name: count for name, (count, _) in (TABLES | OTHER_NAMES).items()})
    counts = Counter({name: len(rows) for name, rows in found().items()})
    more = {name: found()[name] for name in counts - allowed}
    assert more == {}, "state a property on the rows of these operators, and derive the list from it"
    assert allowed - counts == Counter(), "lower the number to what is left"


@pytest.mark.parametrize(
    "code",
    [
        "('conv', 'add', 'Mul', 'CONV_2D')",
        "{'conv': 1, 'add': 2, 'relu': 3, 'softmax': 4, **others}",
        "names('conv add relu softmax')",
        "lowers('CONV_2D', 'ADD', 'MUL', 'SUB')",
    ],
)
def test_a_list_is_found(code: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert [len(names) for _, names in lists(path)] == [4]


@pytest.mark.parametrize(
    "code", ["('conv', 'add', 'relu')", "'Add the mean of the pool to a list.'", "('a', 'b', 'c', 'd')"]
)
def test_other_collections_are_not(code: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    assert list(lists(path)) == []


def test_a_row_about_other_tools_is_that_of_an_op_kind() -> None:
    assert ROWS.keys() <= {rule.kind for rule in cost_rules()}
