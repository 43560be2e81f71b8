"""The rules' TFLite names against LiteRT's own list: none misspelled, none forgotten in silence."""

from __future__ import annotations

from ai_edge_litert import schema_py_generated as schema

from sizeup.backends.tflm.kernels import KERNELS
from sizeup.formats.tflite import lowering  # noqa: F401 - importing registers the lowerings
from sizeup.formats.tflite.node import LOWERINGS
from sizeup.formats.tflite.operators import OPERATORS
from sizeup.formats.tflite.schema import TYPE_NAMES
from sizeup.ops import cost_rules

BUILTIN = {name for name in vars(schema.BuiltinOperator) if not name.startswith("_")}
# An operator of MediaPipe. The names of those of TFLite Micro are compared with its interpreter in
# backends/tflm/test_refusal.py.
CUSTOM = {"Convolution2DTransposeBias"}
# Nothing is known of these: they stay unknown in every report.
WITHOUT_RULE = {
    "CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES",  # not operators
    "STABLEHLO_CUSTOM_CALL",  # whatever its target does
    "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE",
    "LSH_PROJECTION", "SKIP_GRAM", "CONCAT_EMBEDDINGS", "EMBEDDING_LOOKUP_SPARSE",  # work depends on data
    "RFFT2D",  # operations depend on the algorithm
    "STABLEHLO_SCATTER",  # its region may do anything with each update
}  # fmt: skip


def _known() -> set[str]:
    return {name for rule in cost_rules() for name in rule.tflite if rule.family != "own"}


def test_every_name_in_the_rules_is_an_operator() -> None:
    assert _known() - BUILTIN - KERNELS.keys() == CUSTOM


def test_every_operator_has_a_rule_or_is_listed_as_unknown() -> None:
    assert BUILTIN - _known() == WITHOUT_RULE


def test_every_lowering_and_every_row_is_for_an_operator_with_a_rule() -> None:
    assert LOWERINGS.keys() | OPERATORS.keys() <= _known()


def test_number_types_are_those_of_the_schema() -> None:
    codes = {name.lower(): code for name, code in vars(schema.TensorType).items() if name[0] != "_"}
    # Releases before 2.2 lack the newest types.
    assert codes.items() <= {name: code for code, name in enumerate(TYPE_NAMES)}.items()
