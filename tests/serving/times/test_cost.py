"""Costs per million tokens and the servers that a rate needs, compared with hand calculations."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore] # its types are in a separate package
import pytest

import published_configs
import sizeup
from cli.running import run_command
from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.times.anchors import configuration_digest
from sizeup.serving.times.cost import smallest_fleet, token_cost
from sizeup.serving.times.goals import Goals
from sizeup.serving.times.traffic import Percentiles, Traffic
from sizeup.targets import clear_cache, write
from sizeup.targets.anchors import Anchor
from sizeup.targets.clusters import Price, cluster, parse_price


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    published_configs.make(folder)
    return folder


def test_a_million_tokens_cost_the_hours_that_a_gpu_takes_for_them() -> None:
    machines = replace(cluster("8xh100")[0], price=Price(3.6, "EUR"))
    cost = token_cost(machines, 250.0, input=300, output=100)
    # 4,000 s of one GPU at 0.001 EUR and 700 W; a fourth of the tokens are output.
    assert cost.output == pytest.approx(4.0)
    assert cost.total == pytest.approx(1.0)
    assert cost.output_joules == pytest.approx(2.8e6)
    assert cost.total_joules == pytest.approx(0.7e6)
    assert cost.is_upper_bound


def test_energy_is_unknown_without_power_and_if_throughput_is_an_upper_bound() -> None:
    assert token_cost(cluster("8xh100")[0], 250.0, 1, 1, is_bound=True).output_joules is None
    cost = token_cost(cluster("gb200")[0], 250.0, 1, 1)  # the data sheet states no power of one GPU
    assert (cost.output, cost.output_joules, cost.total_joules) == (None, None, None)


@pytest.mark.parametrize(
    ("given", "price"),
    [
        (2, Price(2.0, "")),
        (2.5, Price(2.5, "")),
        ("2.50", Price(2.5, "")),
        ("2.50USD", Price(2.5, "USD")),
        ("2.50 USD/h", Price(2.5, "USD")),
        (1e9, Price(1e9, "")),
        ("1000000000", Price(1e9, "")),
        (1e-9, Price(1e-9, "")),
        ("0.000000001", Price(1e-9, "")),
        (0.1234567891234, Price(0.1234567891234, "")),
        ("0.1234567891234", Price(0.1234567891234, "")),
        (None, None),
    ],
)
def test_a_price_has_an_optional_currency(given: float | str | None, price: Price | None) -> None:
    assert parse_price(given) == price


@pytest.mark.parametrize(
    "given", ["-1", "0", "nan", "inf", "1e3", "2.50 dollars", "", "9999999999", -1, 0, float("nan"),
              float("inf"), True, 9999999999, 1e-10, "0.0000000001"]
)  # fmt: skip
def test_what_is_no_price_is_refused(given: float | str) -> None:
    with pytest.raises(SizeupError, match="give a price per GPU and hour"):
        parse_price(given)


def test_a_price_replaces_that_of_a_cluster_file(configs: Path, tmp_path: Path) -> None:
    file = tmp_path / "rack.toml"
    file.write_text(
        '[cluster]\nname = "rack"\nprice = "2.50 USD/h"\n[[node]]\ncount = 1\n'
        'devices = { name = "h100-sxm", count = 2 }\nlink = "nvswitch4"\n[links.nvswitch4]\n'
        'bandwidth = "450 GB/s"\nsource = "data sheet"\n'
    )
    config = configs / "llama-3.1-8b.json"
    assert sizeup.llm(config, target=str(file)).hourly_cost() == 5.0
    assert sizeup.llm(config, target=str(file), price=4).hourly_cost() == 8.0
    assert sizeup.llm(config, target="2xh100").hourly_cost() is None


def _traffic(servers: int, rate: float, each: float, base: float) -> Traffic:
    """A queue with one server: times grow with 1 / (1 - load)."""
    load = rate / (servers * each)
    if load >= 1:
        return Traffic(rate, servers * each, 1, 0, None, None, None, None)
    time = base / (1 - load)
    return Traffic(rate, servers * each, 1, 0, Percentiles(*[time] * 4), Percentiles(*[0.01] * 4), 1.0, 0)


@pytest.mark.parametrize("rate", [0.5, 9.9, 10.0, 40.0, 1234.0])
@pytest.mark.parametrize("goal", [0.11, 0.2, 1.0])
def test_the_fleet_is_the_first_number_of_servers_that_reaches_the_goals(rate: float, goal: float) -> None:
    fleet = smallest_fleet(Layout(4), Goals(ttft=goal), lambda count: _traffic(count, rate, 10.0, 0.1))
    # 0.1 / (1 - rate / (10 n)) <= goal for the first time
    expected = next(
        count for count in range(1, 10_000) if rate < 10 * count and 0.1 / (1 - rate / (10 * count)) <= goal
    )
    assert fleet is not None
    assert (fleet.servers, fleet.gpus) == (expected, 4 * expected)


def test_the_fleet_is_the_smallest_of_the_tied_layouts_and_has_measured_times(
    configs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    clear_cache()
    options: dict[str, Any] = {"input": 1024, "output": 256, "ttft": "1s", "tpot": "80ms", "rate": 20.0}
    config = configs / "llama-3.1-8b.json"
    pair, one = (sizeup.llm(config, target=target, **options) for target in ("2xh100/vllm", "h100/vllm"))
    assert pair.fleet is not None
    assert one.fleet is not None
    assert pair.fleet.gpus <= one.fleet.gpus == 2
    digest = configuration_digest(one.architecture, one.layout, one.kv)
    times = one.times()
    assert times is not None
    slow = 3 * times.points[0].tpot.seconds
    anchor = Anchor("h100-sxm/vllm", digest, "llama", "tp1", 1, 1024, 256, slow, None, "bench.json")
    write.save_anchors(tmp_path / "sizeup/targets/h100-sxm.toml", [anchor.to_table()])
    clear_cache()
    slowed = sizeup.llm(config, target="h100/vllm", **options)
    assert slowed.fleet is not None
    assert slowed.traffic is not None
    assert slowed.fleet.gpus * slowed.traffic.max_rate > 20
    assert slowed.fleet.gpus > one.fleet.gpus


def test_goals_that_one_request_alone_misses_need_no_fleet() -> None:
    def simulate(count: int) -> Traffic:
        return _traffic(count, 40.0, 10.0, 0.1)

    assert smallest_fleet(Layout(), Goals(ttft=0.09), simulate) is None
    assert smallest_fleet(Layout(), Goals(tpot=0.009), simulate) is None


def test_costs_are_printed_and_in_the_json(configs: Path) -> None:
    command = (
        "llm", configs / "llama-3.1-8b.json", "-d", "2xh100/vllm", "--in", "1024", "--out", "128",
        "--concurrency", "1,32", "--rate", "40", "--tpot", "20ms", "--price", "2.50USD",
    )  # fmt: skip
    shown = run_command(*command)
    text = " ".join(shown.stdout.split())
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "requests per 1 M output tokens per 1 M tokens energy per 1 M output tokens" in text
    assert "cost 5.00 USD per hour: 2 GPUs at 2.50 USD" in text
    content = json.loads(run_command(*command, "--json").stdout)
    jsonschema.validate(content, json.loads((files("sizeup.serving.render") / "llm_schema.json").read_text()))
    point = content["times"]["points"][1]
    expected = 2.5 / 3600 * 1e6 / point["gpu_tokens_per_second"]
    assert point["cost"]["per_million_output_tokens"] == pytest.approx(expected, rel=1e-5)
    assert point["cost"]["per_million_tokens"] == pytest.approx(expected / 9, rel=1e-5)
    fleet = content["fleet"]
    assert fleet["traffic"]["tpot_seconds"]["p90"] <= 0.02
    assert fleet["per_hour"] == 2.5 * fleet["gpus"]
    # All of it is divided by the output tokens of the requests that arrive.
    cost = 2.5 * fleet["gpus"] / 3600 / (40 * 128) * 1e6
    assert fleet["cost"]["per_million_output_tokens"] == pytest.approx(cost, rel=1e-5)
    assert content["goals"]["layouts"][0]["cost"]["per_million_output_tokens"] > 0
    assert f"needed {fleet['gpus']} GPU" in text


def test_lower_bounds_of_times_are_lower_bounds_of_costs(configs: Path) -> None:
    shown = run_command("llm", configs / "llama-3.1-8b.json", "-d", "a100/sglang", "--price", "1")
    assert "at least" in next(line for line in shown.stdout.splitlines() if line.endswith("unknown"))
    assert "  energy       unknown: the times are lower bounds" in shown.stdout
    shown = run_command("llm", configs / "llama-3.1-8b.json", "-d", "gh200/vllm", "--price", "1")
    assert "  energy       unknown: the catalog has no power of gh200-96gb" in shown.stdout
    refused = run_command("llm", configs / "llama-3.1-8b.json", "-d", "a100/sglang", "--price", "-1")
    assert refused.returncode == 2
    assert "price '-1': give a price per GPU and hour, such as 2.50 or 2.50USD" in refused.stderr
