"""Price lists: a table from a user, which may contain anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sizeup.checks.prices import read_prices
from sizeup.errors import SizeupError


def test_boards_are_found_by_name_alias_and_title(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    rows = "shop,Board,Price\nx,nano-33-ble,21.50\nx,Raspberry Pi Pico,4\n\nx,no such board,1\n"
    path.write_text(rows, "utf-8-sig")
    prices = read_prices(path)
    assert prices.by_board == {"nano33ble": 21.5, "pico": 4.0}
    assert prices.unknown == ("no such board",)
    assert read_prices({"pico": 4, "nano33ble": 21.5}).by_board == prices.by_board


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column 'board'; the first line names the columns: board,price"),
        ("board,cost\npico,4\n", "line 1: no column 'price'"),
        ("board;price\npico;4,50\n", "line 1: no column 'board'; separate cells by commas, not semicolons"),
        ("board\tprice\npico\t4\n", "line 1: no column 'board'; separate cells by commas, not tabs"),
        ("board,price,price\npico,4,5\n", "line 1: more than one column 'price'"),
        ("board,price\npico,$4\n", r"line 2: price '\$4' is not a number such as 12.50"),
        ("board,price\npico,-4\n", "line 2: price '-4' is not a number"),
        ("board,price\npico,nan\n", "line 2: price 'nan' is not a number"),
        ("board,price\npico,1e400\n", "line 2: price '1e400' is not a number"),
        ("board,price\npico," + "9" * 5000 + "\n", "line 2: price .* is not a number"),
        ("board,price\npico,\n", "line 2: price '' is not a number"),
        ("board,price\npico\n", "line 2: 1 cells, but line 1 has 2"),
        ("board,price\n,4\n", "line 2: board '' is not the name of a board"),
        ("board,price\na\x1b[31m,4\n", "line 2: board .* is not the name of a board"),
        ("board,price\npico,4\nrpi-pico,5\n", "line 3: a second price of pico"),
        ('board,price\n"pico,4\n', "line 2: not CSV"),
        ("board,price\nfoo,4\n", r"no row names a known board \('foo'\); sizeup devices --boards lists them"),
        ("board,price\n" + "pico,1\n" * 2, "line 3: a second price of pico"),
        ("board,price\n" + "x,1\n" * 100_001, "line 100002: more than 100,000 rows"),
    ],
)
def test_an_invalid_price_list_is_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(SizeupError, match=message):
        read_prices(path)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes(b"board,price\n\xff\xfe,1\n")
    with pytest.raises(SizeupError, match=r"prices.csv: not a CSV file of prices"):
        read_prices(path)
    with pytest.raises(SizeupError, match="no such file"):
        read_prices(tmp_path / "missing.csv")
    with pytest.raises(SizeupError, match="not a regular file"):
        read_prices(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SizeupError, match="not a regular file"):
        read_prices(tmp_path / "pipe")


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf"), "4", True, None])
def test_a_price_in_python_is_a_positive_number(price: object) -> None:
    with pytest.raises(SizeupError, match=r"is not a number such as 12\.50"):
        read_prices({"pico": price})  # type: ignore[dict-item]
