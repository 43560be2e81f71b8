"""The arithmetic of docs/scale.md: the page says what the script computes, the script what a hand does."""

from __future__ import annotations

import re

import pytest

import scale


def test_the_page_says_what_the_script_computes() -> None:
    page = scale.PAGE.read_text("utf-8")
    assert scale.written(page) == page, "run: python tools/scale.py"


def test_the_plan_is_what_a_hand_computes() -> None:
    known = {
        "model_cpu_seconds": 2.0,
        "point_cpu_seconds": 0.01,
        "shard_bytes": 1000,
        "shard_point_bytes": 10,
        "table_point_bytes": 5,
        "compact_cpu_seconds": 0.036,
        "driver_cpu_seconds": 0.0036,
        "fastest_cpu_seconds": 3.0,
        "narrow_cpu_seconds": 0.5,
        "core_hour_dollars": 0.1,
        "gigabyte_month_dollars": 0.02,
        "put_dollars": 1e-5,
        "cores": 100,
        "network_bytes_per_second": 1e9,
        "file_bytes": 3.6e6,
        "configuration_bytes": 3600,
        "hanging_share": 0.01,
    }
    found = scale.plan(1_000_000, 100, known)
    # A model with its 100 points takes 3 s: three million seconds, 833.3 hours, 8.3 on 100 cores.
    assert found.core_hours == pytest.approx(2500 / 3)
    assert found.hours == pytest.approx(25 / 3)
    # 10,000 that hang for 600 s each.
    assert found.hanging_core_hours == pytest.approx(5000 / 3)
    assert found.dollars == pytest.approx(250)
    assert found.shard_bytes == 2e9
    assert found.table_bytes == 5e8
    assert found.month_dollars == pytest.approx(0.05)
    assert found.put_dollars == pytest.approx(10)
    assert found.fetch_hours == pytest.approx(1)
    assert found.configuration_hours == pytest.approx(0.001)
    assert found.driver_hours == pytest.approx(1)
    assert found.compact_hours == pytest.approx(10)
    assert (found.fastest_seconds, found.narrow_seconds) == pytest.approx((300, 50))


def test_every_constant_says_where_it_is_from() -> None:
    page = scale.PAGE.read_text("utf-8")
    for name, value in scale.constants().items():
        line = re.search(rf"^\| `{name}` \((?:measured|assumed)\) \| (.+?) \| (.+) \|$", page, re.MULTILINE)
        assert line is not None, name
        assert float(line[1].replace(",", "")) == value
        assert len(line[2]) > 10
