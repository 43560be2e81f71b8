"""Random arrivals, compared with the closed form and with step times that are not interpolated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from language_model_configs import architecture
from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.rates import calibrations
from sizeup.serving.steps.step import Server, server_of, step_time
from sizeup.serving.times.closed_form import STEADY, Benchmark, times
from sizeup.serving.times.scheduler import Requests, SchedulerLimits, simulate
from sizeup.serving.times.traffic import REQUESTS, read_requests, simulate_rate, simulate_trace, step_seconds
from sizeup.targets.clusters import cluster

LIMITS = SchedulerLimits(batch_tokens=8192, sequences=128, blocks=20_000, block_tokens=16)
# Differences of the closed form from the simulation that were found, rounded up.
TPOT_RANGE = 0.05
# TTFT: in the simulation, prompts of one step all end with it, and share its reading of weights.
STEADY_RANGE, WAVE_RANGE = (0.95, 1.45), (0.65, 1.1)


def server(name: str, target: str, layout: Layout, engine: str) -> Server:
    machines, _ = cluster(target)
    result = server_of(architecture(name), layout, machines, "bf16")
    assert result is not None
    return replace(result, rates=calibrations()[engine].rates[machines.device.name])


SERVERS = {
    "dense": server("Llama-3.1-8B", "h100", Layout(), "vllm"),
    "tensor parallel": server("Llama-3.1-70B", "8xh200", Layout(4, data=2), "trtllm"),
    "experts": server("Mixtral-8x7B", "4xh100", Layout(4), "sglang"),
}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("clients", [1, 16, 100])
def test_the_closed_form_is_within_its_range_of_the_simulation(name: str, clients: int) -> None:
    random, count = np.random.default_rng(7), 20 * clients
    # Requests of equal lengths would run in step: prompts would delay each other, and no decoding sequence.
    prompt, answer = random.integers(819, 1025, count), random.integers(205, 257, count)
    requests = Requests(np.zeros(count), prompt, answer)
    timeline = simulate(requests, LIMITS, step_seconds(SERVERS[name], LIMITS, 1280), concurrency=clients)
    groups = SERVERS[name].division.servers
    closed = times(SERVERS[name], clients * groups, float(prompt.mean()), float(answer.mean()), 1 << 20)
    assert float(closed.tpot) == pytest.approx(float(timeline.tpot_s.mean()), rel=TPOT_RANGE)


@pytest.mark.parametrize("name", SERVERS)
def test_the_closed_form_of_ttft_is_within_its_range_of_the_simulation(name: str) -> None:
    # The scheduler alone: no overhead per request, and a prompt takes its prefill and one step.
    rates = replace(
        SERVERS[name].rates, prefill_share=1.0, first_seconds=0.0, launch_seconds=0.0, first_steps=1.0
    )
    subject, random = replace(SERVERS[name], rates=rates), np.random.default_rng(3)
    limits = SchedulerLimits(batch_tokens=8192, sequences=64, blocks=1 << 20, block_tokens=16)
    seconds = step_seconds(subject, limits, 9216)
    ratios: dict[Benchmark, list[float]] = {STEADY: [], Benchmark(0.1): []}
    for _ in range(6):
        input, output, clients = (int(2 ** random.uniform(*span)) for span in ((8, 13), (7, 10), (1, 6)))
        count = 20 * clients
        prompt = random.integers(int(0.8 * input), input + 1, count)
        answer = random.integers(int(0.8 * output), output + 1, count)
        requests = Requests(np.zeros(count), prompt, answer)
        ttft = simulate(requests, limits, seconds, concurrency=clients).ttft_s
        means = {STEADY: ttft[10 * clients :].mean(), Benchmark(0.1): ttft[: 10 * clients].mean()}
        for benchmark, mean in means.items():
            requests_of_all = clients * subject.division.servers
            lengths = float(prompt.mean()), float(answer.mean())
            closed = times(subject, requests_of_all, *lengths, 1 << 20, benchmark)
            ratios[benchmark].append(float(closed.ttft) / float(mean))
    for benchmark, (low, high) in ((STEADY, STEADY_RANGE), (Benchmark(0.1), WAVE_RANGE)):
        assert all(low < ratio < high for ratio in ratios[benchmark]), (benchmark, ratios)
    assert np.median(ratios[STEADY]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", SERVERS)
def test_interpolated_steps_are_near_the_step_time(name: str) -> None:
    subject, random = SERVERS[name], np.random.default_rng(5)
    seconds = step_seconds(subject, LIMITS, 16_384)
    for _ in range(200):
        count, context = int(random.integers(1, 129)), float(random.integers(0, 16_384))
        tokens, cached = int(random.integers(2, 8192)), float(random.integers(0, 16_384))
        columns = (np.array([value]) for value in (float(count), context, float(tokens), cached))
        decode = step_time(subject, count * subject.division.servers, context)
        prefill = step_time(subject, 1, cached, tokens)
        expected = float(decode + subject.rates.prefill_share * prefill)
        assert float(seconds(*columns)[0]) == pytest.approx(expected, rel=0.01)


def test_times_rise_with_the_rate_until_the_servers_are_overloaded() -> None:
    subject = SERVERS["tensor parallel"]
    idle = simulate_rate(subject, 0.01, 1024, 256, LIMITS)
    assert idle.ttft is not None
    assert idle.tpot is not None
    # A request alone takes the steps of one sequence.
    alone = times(subject, 1, 1024, 256, 1)
    assert idle.tpot.p50 == pytest.approx(float(alone.tpot), rel=0.01)
    results = [simulate_rate(subject, share * idle.max_rate, 1024, 256, LIMITS) for share in (0.3, 0.6, 0.9)]
    assert all(each.requests == REQUESTS and not each.is_overloaded for each in results)
    for quantity in ("ttft", "tpot"):
        values = [getattr(each, quantity) for each in (idle, *results)]
        assert [each.p90 for each in values] == sorted(each.p90 for each in values)
        assert all(each.p50 <= each.p90 <= each.p99 for each in values)
    assert results[1].output_tokens_per_second == pytest.approx(0.6 * idle.max_rate * 256, rel=0.05)
    overloaded = simulate_rate(subject, 1.01 * idle.max_rate, 1024, 256, LIMITS)
    assert overloaded.is_overloaded
    assert (overloaded.ttft, overloaded.tpot, overloaded.output_tokens_per_second) == (None, None, None)


def test_the_same_rate_gives_the_same_result() -> None:
    first, second = (simulate_rate(SERVERS["dense"], 5, 512, 64, LIMITS) for _ in range(2))
    assert first == second


def test_recorded_requests_are_simulated_on_all_servers_in_turn() -> None:
    subject = SERVERS["tensor parallel"]  # two servers
    # Two requests at once, far from the others: each is alone on its server.
    arrivals = np.array([0.0, 0.0, 100.0, 100.0])
    requests = Requests(arrivals, np.full(4, 1024), np.full(4, 256))
    traffic = simulate_trace(subject, requests, LIMITS)
    alone = times(subject, 1, 1024, 256, 1)
    assert (traffic.requests, traffic.seed, traffic.preemptions) == (4, None, 0)
    assert traffic.rate == 3 / 100
    assert traffic.tpot is not None
    assert traffic.tpot.p99 == pytest.approx(float(alone.tpot), rel=0.01)
    # All at once: a trace ends, so it has times although it overloads the servers.
    burst = simulate_trace(subject, replace(requests, arrival_s=np.zeros(4)), LIMITS)
    assert burst.is_overloaded
    assert burst.ttft is not None
    assert traffic.ttft is not None
    assert burst.ttft.p99 > traffic.ttft.p99


def test_a_trace_is_read_in_order_of_arrival(tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("user,arrival_s,output,input\nb,2.5,20,200\n\na,0,10,100\n")
    requests = read_requests(file)
    assert requests.arrival_s.tolist() == [0, 2.5]
    assert (requests.input.tolist(), requests.output.tolist()) == ([100, 200], [10, 20])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "arrival_s,input\n0,1\n",
            "line 1: no column 'output'; the first line names the columns: arrival_s,input",
        ),
        ("arrival_s;input;output\n0;1;1\n", "separate cells by commas, not semicolons"),
        ("arrival_s,input,output\n-1,1,1\n", "line 2: arrival_s '-1' is not a number of seconds"),
        ("arrival_s,input,output\nnan,1,1\n", "line 2: arrival_s 'nan' is not"),
        ("arrival_s,input,output\n0,0,1\n", "line 2: input '0' is not a number of tokens"),
        ("arrival_s,input,output\n0,1,1.5\n", "line 2: output '1.5' is not a number of tokens"),
        ("arrival_s,input,output\n0,90,11\n", "line 2: 101 tokens exceed the context of 100"),
        ("arrival_s,input,output\n0,1\n", "line 2: 2 cells, but line 1 has 3"),
        ("arrival_s,input,output\n", "no request"),
    ],
)
def test_a_wrong_trace_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "day.csv"
    file.write_text(text)
    with pytest.raises(SizeupError, match=message):
        read_requests(file, max_context=100)
