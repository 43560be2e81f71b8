"""No operator of ONNX is forgotten in silence, and no rule names one that does not exist."""

from __future__ import annotations

from typing import Any

from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from sizeup.formats.onnx.operators import OPERATORS
from sizeup.ops import cost_rules, op_kind_of

# Operators of ONNX's own domain that no rule covers: each is reported as unknown.
WITHOUT_RULE = {
    # Transforms whose cost depends on the algorithm.
    "DFT",
    "STFT",
    # Recurrences that came with operator set 27.
    "CausalConvWithState",
    "LinearAttention",
    # Strings, images, texts: work that depends on their content.
    "ImageDecoder",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
}
# Filed under ONNX's own domain by ONNX Runtime alone.
OF_THE_RUNTIME = {"SimplifiedLayerNormalization"}


def standard() -> set[str]:
    return {schema.name for schema in defs.get_all_schemas_with_history() if schema.domain == ""}


def named() -> set[str]:
    return {name for rule in cost_rules() for name in rule.onnx} | OPERATORS.keys()


def test_every_operator_of_onnx_has_a_rule_or_is_listed_as_having_none() -> None:
    without = {name for name in standard() if op_kind_of("onnx", name) is None}
    assert without == WITHOUT_RULE


def test_classical_models_and_training_operators_have_no_rule() -> None:
    """Trees, vectorizers and optimizers are not networks: what is not counted must not look free."""
    others = [schema for schema in defs.get_all_schemas() if schema.domain != ""]
    assert {op_kind_of("onnx", f"{schema.domain}::{schema.name}") for schema in others} == {None}


def test_names_of_rules_and_of_the_table_are_operators_of_onnx() -> None:
    assert {name for name in named() if "::" not in name} <= standard() | OF_THE_RUNTIME


def test_names_of_the_runtime_are_its_operators() -> None:
    schemas: list[Any] = runtime.get_all_operator_schema()
    known = {f"{each.domain}::{each.name}" for each in schemas}
    assert {name for name in named() if "::" in name} <= known
    assert {f"::{name}" for name in OF_THE_RUNTIME} <= known
