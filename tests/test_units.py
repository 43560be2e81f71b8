from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizeup import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1"),
        (999, "999"),
        (1_000, "1.00 k"),
        (9_994, "9.99 k"),
        (9_996, "10.0 k"),
        (99_940, "99.9 k"),
        (99_960, "100 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (4_089_184_256, "4.09 G"),
        (17_563_830_000, "17.6 G"),
        (51_747_377_000_000, "51.7 T"),
        (3 * 10**18, "3.00 E"),
        (7 * 10**21, "7,000 E"),
        (0.25, "0.25"),
        (12.5, "12.5"),
    ],
)
def test_counts_show_three_digits_in_powers_of_1000(value: float, text: str) -> None:
    assert units.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1_023, "1,023 B"),
        (1_024, "1.00 KiB"),
        (26_944, "26.3 KiB"),
        (524_288, "512 KiB"),
        (1_024_000, "1,000 KiB"),
        (1_048_576, "1.00 MiB"),
        (1_048_575, "1.00 MiB"),
        (3 * 2**30, "3.00 GiB"),
        (5 * 2**60, "5,120 PiB"),
    ],
)
def test_sizes_show_powers_of_1024(value: float, text: str) -> None:
    assert units.size(value) == text


@given(st.integers(1_000, 10**20))
def test_a_count_for_people_is_never_off_by_more_than_half_a_percent(value: int) -> None:
    number, suffix = units.count(value).replace(",", "").split(" ")
    shown = float(number) * 1000 ** " kMGTPE".index(suffix)
    assert abs(shown - value) <= 0.005 * value + 1
    assert len(number.replace(".", "").strip("0") or "0") <= 3 or suffix == "E"


def test_shares_are_in_percent_and_empty_without_a_whole() -> None:
    assert units.share(1, 8) == "12.5 %"
    assert units.share(0, 8) == "0.0 %"
    assert units.share(1, 0) == ""


def test_shapes_read_as_people_write_them() -> None:
    assert units.shape((1, 3, 224, 224)) == "1x3x224x224"
    assert units.shape(()) == "scalar"
    assert units.shape(None) == "?"


def test_one_thing_is_singular() -> None:
    counts = [units.plural(number, "operator") for number in (0, 1, 2, 1_234)]
    assert counts == ["0 operators", "1 operator", "2 operators", "1,234 operators"]
    assert units.plural(2, "entry", "entries") == "2 entries"
