"""Growth against a baseline: the verdict agrees with exact fractions for all numbers in JSON."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from networks import FLOAT, three_convolutions, with_unknown
from sizeup.checks import Limit, Needs, Subject
from sizeup.checks.evaluate import Reference, growth_limits
from sizeup.checks.limits import parse_share
from sizeup.cost import count
from sizeup.errors import BudgetError
from sizeup.graph import GraphBuilder

_SUBJECT = Subject(Needs(three_convolutions(), count(three_convolutions())))
_MACS = 3_276_800


def _grown(before: int, allowed: str) -> Limit:
    reference = Reference("baselines.json", {"macs": before})
    (result,) = growth_limits(_SUBJECT, reference, {"macs": parse_share(allowed, "growth")}, "a budget")
    return result


@given(some.integers(1, 5 * _MACS), some.integers(0, 400_000))
def test_the_verdict_on_growth_is_that_of_fractions(before: int, thousandths: int) -> None:
    result = _grown(before, f"{thousandths // 1000}.{thousandths % 1000:03}%")
    assert result.fits is (before * (1 + Fraction(thousandths, 100_000)) >= _MACS)


@pytest.mark.parametrize("allowed", ["2.4%", "0.1%", "28%", "60%", "100%", "156.25%"])
def test_what_grew_by_precisely_what_is_allowed_is_kept(allowed: str) -> None:
    before = Fraction(_MACS) / (1 + Fraction(allowed.rstrip("%")) / 100)
    least, most = int(before), int(before) + 1
    assert _grown(most, allowed).fits is True
    assert _grown(least, allowed).fits is (before == least)


def test_anything_is_too_much_growth_of_a_baseline_of_0() -> None:
    result = _grown(0, "1000000%")
    assert (result.fits, result.unknown) == (False, ("the baseline is 0, and the amount is now 3.28 M",))
    assert _grown(1, "1000000000%").fits is True
    builder = GraphBuilder("product")
    inputs = [builder.input(name, (1, 1), FLOAT) for name in "xy"]
    builder.op("matmul", inputs, [builder.tensor("z", (1, 1), FLOAT)], {"contracted": (1,)})
    (single,) = growth_limits(
        Subject(Needs(builder.freeze(), count(builder.freeze()))),
        Reference("baselines.json", {"macs": 0}),
        {"macs": 2.0},
        "a budget",
    )
    assert single.fits is False


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        (
            Reference("baselines.json", {"params": 1}),
            "baselines.json has no macs of this model; check --update-baselines adds it",
        ),
        (Reference("main", {"params": 1}, is_revision=True), "main has no macs of this model"),
    ],
)
def test_growth_without_an_earlier_amount_is_undetermined(reference: Reference, reason: str) -> None:
    (result,) = growth_limits(_SUBJECT, reference, {"macs": 0.1}, "a budget")
    assert (result.fits, result.unknown) == (None, (reason,))


def test_growth_of_an_amount_that_is_not_known_has_its_reason() -> None:
    """An update of baselines would add no amount."""
    subject = Subject(Needs(with_unknown(), count(with_unknown())))
    (result,) = growth_limits(subject, Reference("baselines.json", {}), {"macs": 0.1}, "a budget")
    assert (result.fits, result.unknown) == (None, ("2 operators are not counted",))


@pytest.mark.parametrize("share", ["9" * 400 + "%", "1e3%", "inf%", "nan%", "-5%", "5", "%", 5, 0.05, True])
def test_a_share_that_is_none_is_refused(share: Any) -> None:
    with pytest.raises(BudgetError, match="not a share such as '5%'"):
        parse_share(share, "growth")
