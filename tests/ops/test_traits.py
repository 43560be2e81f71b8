"""What op kinds have in common, as words on their rows."""

from __future__ import annotations

import pytest

from sizeup.errors import RuleError
from sizeup.latency.work import CLASSES
from sizeup.ops import OpRule, cost_rules, has_trait, register, temporary_cost_rules
from sizeup.ops.traits import TRAITS


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
