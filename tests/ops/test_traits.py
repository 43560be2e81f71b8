"""What op kinds have in common stands on their rows: no other module lists them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sizeup
from sizeup.errors import RuleError
from sizeup.latency.work import CLASSES
from sizeup.ops import OpRule, cost_rules, has_trait, register, temporary_cost_rules
from sizeup.ops.traits import TRAITS

SOURCE = Path(sizeup.__file__).parent
FEW = 3  # names in a condition are no list
# Collections of op kinds outside of `ops`: what a tool, a runtime or a generator does with each.
LISTS = {
    "calibration/write_tflite.py": "how a drawn network is written as TFLite",
    "calibration/write_torch.py": "how a drawn network is written in PyTorch",
    "checks/npu_support.py": "what the compiler of the MAX78000 takes",
    "conventions/convention.py": "what other tools count",
    "fusion.py": "names of fusions, and the operators of a pattern",
    "formats/torch/lowering.py": "how calls of PyTorch are lowered",
    "latency/execution.py": "classes of kernels in order",
    "latency/gaps.py": "classes of kernels that compute",
    "latency/work.py": "classes of kernels, and how products are measured",
    "backends/tflm/conversion.py": "what converters write for an op kind",
    "backends/tflm/lowered.py": "what converters write for an op kind",
    "memory/torch_workspaces.py": "kernels of PyTorch without a model",
    "mixed_precision/assign.py": "conversions that an assignment replaces",
}


def collections() -> Iterator[tuple[str, int, list[str]]]:
    """Literal collections of which most texts are op kinds: the file, the line and the kinds."""
    kinds = {rule.kind for rule in cost_rules()}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("ops/"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
                    continue
                texts = list(_texts(node))
                named = list(dict.fromkeys(text for text in texts if text in kinds))
                if len(named) > FEW and len(named) > len(set(texts)) / 2:
                    yield name, node.lineno, named


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from _texts(key)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Starred | ast.Call):
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def test_no_other_module_lists_op_kinds() -> None:
    places: dict[str, list[tuple[int, list[str]]]] = {}
    for name, line, kinds in collections():
        places.setdefault(name, []).append((line, kinds))
    assert {name: places[name] for name in places.keys() - LISTS.keys()} == {}, "add a trait to their rows"
    assert LISTS.keys() - places.keys() == set(), "lists nothing any more"


def test_every_trait_is_that_of_some_kind_and_every_class_exists() -> None:
    assert {trait for rule in cost_rules() for trait in rule.traits} == TRAITS.keys()
    assert {rule.latency for rule in cost_rules()} - {""} <= set(CLASSES)
    kinds = {rule.kind for rule in cost_rules()}
    shared = {rule.alike for rule in cost_rules() if rule.alike} - kinds
    assert shared == {"conversion", "lookup"}


def test_a_trait_that_does_not_exist_is_refused() -> None:
    with (
        temporary_cost_rules(),
        pytest.raises(RuleError, match="the unknown trait 'activated'; known: activates"),
    ):
        register(OpRule("made_up", "own", "", traits=("activated",)))
    with temporary_cost_rules():
        register(OpRule("made_up", "own", "", traits=("activation",)))
        assert has_trait("made_up", "activation")
    assert not has_trait("made_up", "activation")
