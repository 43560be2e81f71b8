"""Networks with known edits: the comparison finds them, and its numbers always add up."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from comparison.edited import Layer, became, chain, check_complete, differences, edited

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
    now, edits_by_kind = edited(layers, edits)
    differs = differences(chain(layers), chain(now))
    check_complete(differs)
    assert differs.macs == sum(each.macs for each in now) - sum(each.macs for each in layers)
    kept = {each.identity for each in layers} - edits_by_kind["deleted"] - edits_by_kind["changed"]
    same, others = became(differs, layers, now)
    assert same == {((each,), (each,)) for each in kept}
    for status, ours, theirs in others:
        if ours == theirs:
            assert (status, set(ours) <= edits_by_kind["changed"]) == ("changed", True)
        else:  # a new layer in the place of an old one is reported as a replacement
            assert set(ours) <= edits_by_kind["deleted"]
            assert set(theirs) <= edits_by_kind["inserted"]
            assert status == ("removed" if not theirs else "added") or (ours and theirs)


@settings(max_examples=120, deadline=None)
@given(networks(), EDITS)
def test_no_more_differs_than_was_edited_without_names(
    layers: Sequence[Layer], edits: list[tuple[str, int]]
) -> None:
    now, edits_by_kind = edited(layers, edits)
    differs = differences(chain(layers, names=False), chain(now, names=False))
    check_complete(differs)
    # Of equal layers in a row any may be the changed one: it then counts as one that is gone and a new one.
    edits_made = sum(map(len, edits_by_kind.values())) + len(edits_by_kind["changed"])
    assert sum(row.status != "same" for row in differs.rows) <= edits_made


@settings(max_examples=80, deadline=None)
@given(networks(), networks(), st.booleans())
def test_numbers_add_up_for_any_two_networks(a: Sequence[Layer], b: Sequence[Layer], names: bool) -> None:
    differs = differences(chain(a, names=names), chain(b, names=names))
    check_complete(differs)
    assert differs.macs == sum(each.macs for each in b) - sum(each.macs for each in a)


@settings(max_examples=40, deadline=None)
@given(networks())
def test_nothing_differs_from_itself_whatever_it_is_called(layers: Sequence[Layer]) -> None:
    for names in (True, False):
        differs = differences(chain(layers), chain(layers, names=names, prefix="other"))
        check_complete(differs)
        assert {row.status for row in differs.rows} == {"same"}
        assert all(row.a == row.b for row in differs.rows)
