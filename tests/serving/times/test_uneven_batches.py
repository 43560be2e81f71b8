"""Numbers of requests that are no multiple of the groups of a layout, group by group and simulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from language_model_configs import architecture
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.rates import calibrations
from sizeup.serving.steps.step import Server, server_of
from sizeup.serving.steps.work import step_work
from sizeup.serving.times.closed_form import output_rate, times
from sizeup.serving.times.scheduler import Requests, SchedulerLimits, simulate
from sizeup.serving.times.traffic import step_seconds
from sizeup.targets.clusters import cluster

UNLIMITED = 1 << 20
INDEPENDENT = [
    ("Llama-3.1-8B", Layout(data=8)),
    ("Llama-3.1-70B", Layout(2, 2, 2)),
    ("Mixtral-8x7B", Layout(replicas=8)),
    ("DeepSeek-V3", Layout(2, 2, replicas=2)),
]
IN_STEP = [("DeepSeek-V3", Layout(data=8, expert=8)), ("Qwen3-30B-A3B", Layout(data=4, expert=4, replicas=2))]


def server(name: str, layout: Layout, target: str = "8xh200") -> Server:
    machines, _ = cluster(target)
    result = server_of(architecture(name), layout, machines, "bf16")
    assert result is not None
    return replace(result, rates=calibrations()["vllm"].rates[machines.device.name])


@pytest.mark.parametrize("name", ["Llama-3.1-8B", "Mixtral-8x7B"])
@pytest.mark.parametrize("requests", [1, 3, 8, 9, 13, 67])
def test_times_are_the_mean_over_the_requests_of_all_replicas(name: str, requests: int) -> None:
    experts = name.startswith("Mixtral")
    layout = Layout(replicas=8) if experts else Layout(data=8)
    result = times(server(name, layout), requests, 2048, 128, UNLIMITED)
    alone, per_second, tpot, ttft = server(name, Layout(), "h200"), 0.0, 0.0, 0.0
    for replica in range(8):
        own = requests // 8 + (replica < requests % 8)
        if own:
            each = times(alone, own, 2048, 128, UNLIMITED)
            ended = own / (float(each.ttft) + 127 * float(each.tpot))
            per_second += ended
            tpot += ended * float(each.tpot)
            ttft += ended * float(each.ttft)
    assert float(result.tpot) == pytest.approx(tpot / per_second)
    assert float(result.ttft) == pytest.approx(ttft / per_second)
    assert float(output_rate(requests, 128, result)) == pytest.approx(128 * per_second)


def test_nine_requests_on_eight_replicas_are_those_of_simulated_replicas() -> None:
    subject, random = server("Llama-3.1-8B", Layout(data=8)), np.random.default_rng(2)
    limits = SchedulerLimits(batch_tokens=8192, sequences=8, blocks=20_000, block_tokens=16)
    seconds, per_second, tpot = step_seconds(subject, limits, 9216), 0.0, 0.0
    for clients in (1, 1, 1, 1, 1, 1, 1, 2):
        # Lengths differ, else both requests of a replica would always be prefilled together.
        prompt, answer = random.integers(6144, 8193, 40 * clients), random.integers(96, 161, 40 * clients)
        timeline = simulate(
            Requests(np.zeros(40 * clients), prompt, answer), limits, seconds, concurrency=clients
        )
        ended = 40 * clients / float(timeline.end_s.max())
        per_second += ended
        tpot += ended * float(timeline.tpot_s.mean())
    closed = times(subject, 9, 7168, 128, UNLIMITED)
    assert float(closed.tpot) == pytest.approx(tpot / per_second, rel=0.05)
    even = times(subject, 8, 7168, 128, UNLIMITED)
    assert 1 < float(closed.tpot / even.tpot) < 1.2  # one replica of eight has two requests


@pytest.mark.parametrize(("name", "layout"), INDEPENDENT)
@pytest.mark.parametrize(
    ("input", "output"), [(1024, 1024), (8192, 128), (65_536, 16), (16, 2048), (65_536, 2), (8192, 1)]
)
def test_one_more_request_never_lowers_throughput(name: str, layout: Layout, input: int, output: int) -> None:
    counts = np.arange(1, 130)
    result = times(server(name, layout), counts, input, output, UNLIMITED)
    assert (np.diff(output_rate(counts, output, result)) > 0).all()
    for each in (result.tpot, result.ttft):
        assert (np.diff(each) > -1e-12).all()


@pytest.mark.parametrize(("name", "layout"), IN_STEP)
@pytest.mark.parametrize(("input", "output"), [(1024, 1024), (65_536, 16)])
def test_groups_that_share_experts_wait_for_the_fullest(
    name: str, layout: Layout, input: int, output: int
) -> None:
    counts = np.arange(1, 130)
    result = times(server(name, layout), counts, input, output, UNLIMITED)
    assert (np.diff(result.tpot) > -1e-12).all()
    rates = output_rate(counts, output, result)
    assert (np.diff(rates[7::8]) > 0).all()  # with groups that are equally full
    if input == 1024:
        assert (np.diff(rates) > 0).all()


def test_experts_get_the_tokens_of_all_groups_and_attention_those_of_the_fullest() -> None:
    division = server("Qwen3-30B-A3B", Layout(data=8, expert=8)).division
    row = next(index for index, part in enumerate(division.parts) if part.part_class == "experts")
    work, full = (step_work(division, batch, 999) for batch in (9, 16))
    assert float(work.sequences) == 2
    assert float(work.cache_bytes) == float(full.cache_bytes)
    touched = 1 - (1 - 8 / 128) ** 9
    assert float(work.weight_bytes[row]) == pytest.approx(division.parts[row].weight_bytes * touched)
    assert float(work.macs[row]) == pytest.approx(float(full.macs[row]) * 9 / 16)
