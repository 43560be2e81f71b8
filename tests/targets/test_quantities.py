"""Limits that users set: numbers and texts with units."""

import pytest

from sizeup.api.check_options import option_value
from sizeup.errors import SizeupError
from sizeup.targets.quantities import COUNT, ENERGY, SIZE, TIME, Quantity, parse_limit


@pytest.mark.parametrize(
    ("value", "quantity", "amount"),
    [
        (20, TIME, 20.0),
        (0.02, TIME, 0.02),
        (" 20 ms ", TIME, 0.02),
        (3, ENERGY, 3.0),
        ("3mJ", ENERGY, 0.003),
        ("4096", SIZE, 4096.0),
        ("1024", SIZE, 1024.0),
        ("262144", SIZE, 262144.0),
        ("0", SIZE, 0.0),
        ("18 B", SIZE, 18.0),
        (18, SIZE, 18.0),  # a number of bytes
        ("4MB", SIZE, 4e6),
        ("4 MiB", SIZE, 4 * 1024 * 1024),
        ("1.5 GB", SIZE, 1.5e9),
        ("4.1 MB", SIZE, 4_100_000),
        ("64KB", SIZE, 64_000),
        ("64 kB", SIZE, 64_000),
        ("20", COUNT, 20.0),
        (None, TIME, None),
    ],
)
def test_limits_are_read(value: float | str | None, quantity: Quantity, amount: float | None) -> None:
    assert parse_limit(value, quantity, "--limit") == (None if amount is None else pytest.approx(amount))


@pytest.mark.parametrize(
    ("value", "quantity", "message"),
    [
        ("20", TIME, "--limit 20: give a unit, e.g. 20ms"),
        (" 3 ", ENERGY, "--limit 3: give a unit, e.g. 3mJ"),
        ("20.5", TIME, "--limit 20.5: give a unit, e.g. 20.5ms"),
        ("18", SIZE, "--limit 18: give a unit, e.g. 18KiB"),
        ("1023", SIZE, "--limit 1023: give a unit, e.g. 1023KiB"),
        ("0.5", SIZE, "--limit 0.5: give a unit, e.g. 0.5KiB"),
        ("", TIME, "--limit '': not a time; use e.g. 20ms"),
        ("x" * 100, SIZE, f"--limit '{'x' * 59}...: not a size; use e.g. 320KiB"),
        (float("nan"), TIME, "--limit nan is not a limit; it must be 0 or a positive, finite number"),
    ],
)
def test_error_names_the_option_and_what_to_type(
    value: float | str, quantity: Quantity, message: str
) -> None:
    with pytest.raises(SizeupError) as caught:
        parse_limit(value, quantity, "--limit")
    assert str(caught.value) == message


def test_an_amount_as_an_option_is_read_as_the_same_amount() -> None:
    for amount in (0, 18, 1023, 1024, 262144):
        assert parse_limit(option_value("ram", amount), SIZE, "--ram") == amount
    assert option_value("ram", 18) == "18B"
