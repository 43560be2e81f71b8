"""Networks with known edits: the comparison finds them, and its numbers always add up."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from comparison.edited import Layer, became, chain, check_whole, differences, edited

KINDS = ("relu", "tanh", "batch_norm")


@st.composite
def networks(draw: st.DrawFn) -> list[Layer]:
    """Convolutions between which sizes agree, and layers that keep them."""
    layers: list[Layer] = []
    size = 4
    for identity in range(draw(st.integers(2, 30))):
        kind = draw(st.sampled_from(("conv", "conv", *KINDS)))
        out = draw(st.integers(1, 6)) if kind == "conv" else size
        kernel = draw(st.sampled_from((1, 3))) if kind == "conv" else 1
        layers.append(Layer(identity, kind, size, out, kernel))
        size = out
    return layers


EDITS = st.lists(st.tuples(st.sampled_from(("insert", "delete", "change")), st.integers(0, 40)), max_size=6)


@settings(max_examples=120, deadline=None)
@given(networks(), EDITS)
def test_edits_of_named_layers_are_found_one_by_one(
    layers: Sequence[Layer], edits: list[tuple[str, int]]
) -> None:
    now, told = edited(layers, edits)
    found = differences(chain(layers), chain(now))
    check_whole(found)
    assert found.macs == sum(each.macs for each in now) - sum(each.macs for each in layers)
    kept = {each.identity for each in layers} - told["deleted"] - told["changed"]
    same, others = became(found, layers, now)
    assert same == {((each,), (each,)) for each in kept}
    for status, ours, theirs in others:
        if ours == theirs:
            assert (status, set(ours) <= told["changed"]) == ("changed", True)
        else:  # a new layer in the place of an old one is told as that
            assert set(ours) <= told["deleted"]
            assert set(theirs) <= told["inserted"]
            assert status == ("removed" if not theirs else "added") or (ours and theirs)


@settings(max_examples=120, deadline=None)
@given(networks(), EDITS)
def test_no_more_is_told_to_differ_than_was_edited_where_nothing_has_a_name(
    layers: Sequence[Layer], edits: list[tuple[str, int]]
) -> None:
    now, told = edited(layers, edits)
    found = differences(chain(layers, names=False), chain(now, names=False))
    check_whole(found)
    # Of equal layers in a row any may be the changed one: it then counts as one that is gone and a new one.
    edits_made = sum(map(len, told.values())) + len(told["changed"])
    assert sum(row.status != "same" for row in found.rows) <= edits_made


@settings(max_examples=80, deadline=None)
@given(networks(), networks(), st.booleans())
def test_numbers_add_up_for_any_two_networks(a: Sequence[Layer], b: Sequence[Layer], names: bool) -> None:
    found = differences(chain(a, names=names), chain(b, names=names))
    check_whole(found)
    assert found.macs == sum(each.macs for each in b) - sum(each.macs for each in a)


@settings(max_examples=40, deadline=None)
@given(networks())
def test_nothing_differs_from_itself_whatever_it_is_called(layers: Sequence[Layer]) -> None:
    for names in (True, False):
        found = differences(chain(layers), chain(layers, names=names, prefix="other"))
        check_whole(found)
        assert {row.status for row in found.rows} == {"same"}
        assert all(row.a == row.b for row in found.rows)
