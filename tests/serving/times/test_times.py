"""Step times, TPOT and TTFT: lower bounds by hand, shipped rates, and their behavior."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from language_model_configs import architecture
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.steps.rates import IDEAL, Rates, calibrations, fixed_batches
from sizeup.serving.steps.step import Server, demand, seconds_by_cause, server_of, step_time
from sizeup.serving.times.closed_form import STEADY, Benchmark, times
from sizeup.targets.clusters import cluster

TIMES = {field.name for field in fields(Rates) if field.name.endswith("_seconds")}
FACTORS = {"prefill_share", "first_steps"}


def server(name: str, target: str, layout: Layout, engine: str = "", kv: str = "bf16") -> Server:
    machines, _ = cluster(target)
    result = server_of(architecture(name), layout, machines, kv)
    assert result is not None
    if not engine:
        return result
    return replace(result, rates=calibrations()[engine].rates[machines.device.name])


def test_one_token_takes_at_least_its_weights_over_the_bandwidth() -> None:
    # Llama-3.1-8B in bf16: 8,030,261,248 parameters without the embedding of 128,256 x 4,096, at 3.35 TB/s.
    read = (8_030_261_248 - 128_256 * 4096) * 2 + 131_072 * 101
    expected = read / 3.35e12
    assert float(step_time(server("Llama-3.1-8B", "h100", Layout()), 1, 100)) == pytest.approx(
        expected, rel=1e-5
    )


def test_prefill_of_a_long_prompt_takes_at_least_its_flops_over_the_peak() -> None:
    flops = 2.858730e13 + 1.100048e12
    expected = flops / 989.4e12
    actual = float(step_time(server("Llama-3.1-8B", "h100", Layout()), 1, 0, 2048))
    assert expected < actual < 1.1 * expected  # and the reading of weights, smoothly


def test_shipped_rates_are_efficiencies_and_times() -> None:
    for engine, calibration in (*calibrations().items(), *fixed_batches().items()):
        assert all((calibration.source, calibration.date, calibration.versions)), engine
        if calibration.ttft is not None:
            assert calibration.measurements == sum(calibration.counts.values())
        for device, rates in calibration.rates.items():
            for field in fields(Rates):
                value = getattr(rates, field.name)
                if field.name == "grouping":
                    assert 0 <= value < 1, (engine, device)
                elif field.name in TIMES:
                    assert 0 < value < 0.1, (engine, device, field.name)
                elif field.name in FACTORS:
                    assert 0 < value < 5, (engine, device, field.name)
                else:
                    assert 0 < value <= 1, (engine, device, field.name)


def test_intervals_need_four_families() -> None:
    for calibration in (*calibrations().values(), *fixed_batches().values()):
        for errors in filter(None, (calibration.tpot, calibration.ttft)):
            assert errors.low is None or len(calibration.families) >= 4
            assert errors.low is None or errors.high is None or 0 < errors.low < 1 < errors.high


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_calibrated_steps_are_slower_than_the_lower_bound(engine: str) -> None:
    batches = np.array([1, 2, 8, 64, 256])
    for name, layout in (("Llama-3.1-70B", Layout(8)), ("DeepSeek-V3", Layout(8, expert=8))):
        ideal = step_time(server(name, "8xh200", layout), batches, 2000)
        actual = step_time(server(name, "8xh200", layout, engine), batches, 2000)
        assert (actual > ideal).all()
        assert (np.diff(actual) > 0).all()


def test_causes_add_up_to_the_step() -> None:
    served = server("gpt-oss-120b", "2xh100", Layout(2), "vllm")
    parts = seconds_by_cause(demand(served, [1, 64], 4096), served.rates)
    assert sum(parts.values()) == pytest.approx(step_time(served, [1, 64], 4096))
    assert all((each >= 0).all() for each in parts.values())


def test_more_requests_than_the_cache_holds_wait_for_others() -> None:
    served = server("Llama-3.1-70B", "2xh200", Layout(2), "trtllm")
    result = times(served, [32, 64, 128], 8192, 1024, 32)
    assert list(result.running) == [32, 32, 32]
    assert result.tpot[0] == result.tpot[2]
    waits = np.diff(result.ttft)
    answer = 1024 * result.tpot[0]
    assert waits[0] == pytest.approx(answer, rel=0.5)  # half of them wait for one answer
    assert waits[1] == pytest.approx(2 * waits[0])


def test_one_request_is_delayed_by_no_other() -> None:
    served = server("Llama-3.1-8B", "h100", Layout(), "vllm")
    result = times(served, 1, 1024, 128, 100)
    assert float(result.tpot) == float(result.step)
    busy = times(served, 64, 1024, 128, 100)
    assert float(busy.tpot) > float(busy.step)


def test_ideal_times_are_prefill_and_step_alone() -> None:
    served = server("Llama-3.1-8B", "h100", Layout())
    assert served.rates is IDEAL
    result = times(served, 1, 1024, 128, 100)
    assert float(result.ttft) == float(result.prefill)


def test_prompts_that_arrive_together_are_prefilled_one_after_another() -> None:
    served = server("Llama-3.1-8B", "h100", Layout())
    apart, together = (times(served, 8, 8192, 128, 100, Benchmark(share)) for share in (0.0, 1.0))
    # A prompt fills a step of 8,192 tokens: the i-th of 8 ends after i steps, which also decode.
    assert float(together.ttft) == pytest.approx(4.5 * float(together.prefill + together.step))
    # Half of them are prefilled before a sequence begins to decode.
    delays = [float(each.tpot - each.step) for each in (apart, together)]
    assert delays[1] == pytest.approx(delays[0] / 2)
    tenth = times(served, 8, 8192, 128, 100, Benchmark(0.1))
    assert float(tenth.ttft) == pytest.approx(0.9 * float(apart.ttft) + 0.1 * float(together.ttft))


def test_prompts_that_are_held_back_wait_for_steps() -> None:
    served = server("Llama-3.1-8B", "h100", Layout(), "vllm")
    free, held = (times(served, 8, 1024, 128, 100, each) for each in (STEADY, Benchmark(held_steps=20)))
    # They are sent less often: once in 148 steps instead of 128, and those that a prompt waits for.
    steps = served.rates.first_steps
    delays = [float(each.tpot - each.step) for each in (free, held)]
    assert delays[1] == pytest.approx(delays[0] * (128 + steps) / (148 + steps))
    shared = 7 * float(free.prefill) * (1 / (128 + steps) - 1 / (148 + steps))
    added = 20 * float(held.tpot) - steps * (delays[0] - delays[1]) - shared
    assert float(held.ttft - free.ttft) == pytest.approx(added)


def test_a_device_without_bandwidth_has_no_server() -> None:
    machines, _ = cluster("8xh100")
    unknown = replace(machines, device=replace(machines.device, memories=()))
    assert server_of(architecture("Llama-3.1-8B"), Layout(8), unknown, "bf16") is None


def test_bytes_over_an_unknown_link_are_not_counted() -> None:
    machines, _ = cluster("8xh100")
    unknown = server_of(architecture("Llama-3.1-8B"), Layout(8), replace(machines, link=None), "bf16")
    assert unknown is not None
    assert unknown.has_unknown_links
    assert float(step_time(unknown, 64, 100)) < float(
        step_time(server("Llama-3.1-8B", "8xh100", Layout(8)), 64, 100)
    )


def test_more_pipeline_stages_divide_the_batch_of_a_step() -> None:
    flat, staged = (
        step_time(server("Llama-3.1-70B", "8xh100", layout, "vllm"), 64, 1000)
        for layout in (Layout(tensor=4, data=2), Layout(tensor=4, pipeline=2))
    )
    # A stage holds half of the layers, and half of the sequences are in it at a time.
    assert float(staged) == pytest.approx(float(flat), rel=0.05)
