"""The need before a conversion contains that of the converted file, and what the real interpreter needs."""

from __future__ import annotations

import statistics
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("tflite_micro")

import sizeup  # noqa: E402
from converted_twins import CONVERTED  # noqa: E402
from micro_interpreter import measure  # noqa: E402
from sizeup.backends.tflm import (  # noqa: E402
    Conversions,
    ConvertedArena,
)
from sizeup.backends.tflm.layout import PYTHON_PACKAGE  # noqa: E402
from sizeup.dtypes import precision  # noqa: E402
from sizeup.graph import Graph  # noqa: E402
from sizeup.memory import folded  # noqa: E402
from twins import Style, Twin, random_twin  # noqa: E402

pytestmark = pytest.mark.extras
TWINS = 300
TARGETS = (
    "stm32f446/tflm",
    "stm32f446/tflm-cmsis-nn",
    "nano33ble",
    "rp2040",
    "ensemble-e7/tflm-cmsis-nn",  # with Helium
    "esp32s3",
    "esp32-p4/tflm-esp-nn",
)


@cache
def twins() -> tuple[Twin, ...]:
    return tuple(random_twin(seed) for seed in range(TWINS))


@cache
def files() -> tuple[bytes, ...]:
    return tuple(twin.tflite_file() for twin in twins())


def loaded(twin: Twin, folder: Path) -> Graph:
    path = folder / "twin.onnx"
    onnx.save(twin.onnx_model(), path)
    return sizeup.load(path)


def precision_of(name: str) -> Any:
    return None if name == "fp32" else precision(name)


def bounds(graph: Graph, name: str) -> tuple[ConvertedArena, tuple[int, int]]:
    """Those of the interpreter of the package, and of the file."""
    given = folded(graph)
    conversions = Conversions(given, (given,), precision_of(name))
    return conversions.arena(PYTHON_PACKAGE), conversions.file_bytes()


def need(check: Any) -> tuple[int, int]:
    (ram,) = (limit for limit in check.limits if limit.name == "ram")
    assert ram.need_high is not None, ram
    return sum(part.low_bytes for part in ram.parts), ram.need_high


def test_the_real_interpreter_stays_within_the_range(tmp_path: Path) -> None:
    """Its head and tail for every third of the random networks."""
    seeds = range(0, TWINS, 3)
    for seed, measured in zip(seeds, measure([files()[seed] for seed in seeds]), strict=True):
        assert measured.failure == "", seed
        twin, size = twins()[seed], len(files()[seed])
        arena, file = bounds(loaded(twin, tmp_path), twin.style.precision)
        assert arena.head[0] <= measured.head <= arena.head[1], (seed, twin.style)
        assert measured.head + measured.tail <= arena.arena[1] + arena.composed_bytes, (seed, twin.style)
        assert file[0] <= size <= file[1], (seed, twin.style)


def test_the_range_contains_the_need_of_the_file_on_a_target(tmp_path: Path) -> None:
    """On targets with every library of kernels; and the upper end is a small multiple of the lower one."""
    widths = []
    for seed, twin in enumerate(twins()):
        target, name = TARGETS[seed % len(TARGETS)], twin.style.precision
        path = tmp_path / "twin.tflite"
        path.write_bytes(files()[seed])
        if name == "int16" and "esp" in target:
            continue  # ESP-NN has no kernels for it
        before = sizeup.check(
            loaded(twin, tmp_path), target, precision=None if name == "fp32" else name, remedies=False
        )
        after = sizeup.check(path, target, remedies=False, run=False)
        low, high = need(before)
        assert after.unsupported_reason is None, (seed, after.unsupported_reason)
        least, most = need(after)
        assert low <= least, (seed, target, twin.style)
        assert most <= high, (seed, target, twin.style)
        widths.append(high / low)
    assert statistics.median(widths) < 1.7


@pytest.mark.parametrize("seed", sorted(CONVERTED))
def test_files_of_a_real_converter_stay_within_the_range(seed: int, tmp_path: Path) -> None:
    graph = loaded(random_twin(seed, "fp32"), tmp_path)
    known = {name: bounds(graph, name) for name in {row[0] for row in CONVERTED[seed]}}
    for name, head, tail, size in CONVERTED[seed]:
        arena, file = known[name]
        assert arena.head[0] <= head <= arena.head[1], name
        assert head + tail <= arena.arena[1] + arena.composed_bytes, name
        assert file[0] <= size <= file[1], name


@pytest.mark.parametrize("target", ["stm32f446/tflm", "esp32s3", "stm32f446/tflm-cmsis-nn"])
def test_scratch_of_a_transposed_convolution_counts(target: str, tmp_path: Path) -> None:
    """16 channels and 64 x 64 outputs: 256 KiB of 32-bit sums in the reference kernel, rows in CMSIS-NN."""
    twin = Twin(Style("int8"), Random(0))
    x = twin.conv(twin.input((1, 32, 32, 3)), 16, act="relu")
    twin.output(twin.conv(twin.conv_transpose(x, 16, act="relu"), 1, 1))
    graph, path = loaded(twin, tmp_path), tmp_path / "twin.tflite"
    path.write_bytes(twin.tflite_file())
    before = sizeup.check(graph, target, precision="int8", ram=128 << 10, remedies=False)
    after = sizeup.check(path, target, ram=128 << 10, remedies=False, run=False)
    assert before.fits is after.fits is ("cmsis" in target)
    low, high = need(before)
    assert low <= need(after)[0] <= need(after)[1] <= high
    sums = 4 * 16 * 64 * 64
    assert (low >= sums + 16 * 64 * 64) == ("cmsis" not in target)


def test_a_limit_on_the_arena_counts_scratch_and_interpreter(tmp_path: Path) -> None:
    """Without a target, too: with the reference kernels."""
    twin = twins()[0]
    path = tmp_path / "twin.tflite"
    path.write_bytes(files()[0])
    name = twin.style.precision
    graph = loaded(twin, tmp_path)
    before = sizeup.check(graph, arena=1 << 20, precision=None if name == "fp32" else name, remedies=False)
    after = sizeup.check(path, arena=1 << 20, remedies=False)
    one, other = before.limits[0], after.limits[0]
    assert 0 < (one.need_low or 0) <= (other.need_low or 0)
    assert 0 < (other.need_high or 0) <= (one.need_high or 0)


def test_steps_of_a_recurrent_cell_may_be_operators(tmp_path: Path) -> None:
    """A converter without a kernel for the cell writes 17 operators per step."""

    def graph(steps: int) -> Graph:
        twin = Twin(Style(), Random(0))
        twin.output(twin.lstm(twin.input((1, steps, 4)), 8))
        return folded(loaded(twin, tmp_path))

    short, long = (Conversions(each, (each,), None).arena(PYTHON_PACKAGE) for each in (graph(2), graph(12)))
    assert long.composed_bytes - short.composed_bytes >= 10 * 17 * 150


@pytest.mark.parametrize("target", ["stm32h747/stedgeai", "esp32s3/esp-dl", "stm32f746/tinyengine"])
def test_ranges_of_other_planners_contain_those_of_the_file(target: str, tmp_path: Path) -> None:
    for seed in range(0, TWINS, 12):
        twin, path = twins()[seed], tmp_path / "twin.tflite"
        path.write_bytes(files()[seed])
        name = twin.style.precision
        before = sizeup.check(
            loaded(twin, tmp_path), target, precision=None if name == "fp32" else name, remedies=False
        )
        after = sizeup.check(path, target, remedies=False)
        for one, other in zip(before.limits, after.limits, strict=True):
            assert (one.need_low or 0) <= (other.need_low or 0), (seed, one.name)
            if one.need_high is not None:
                assert other.need_high is not None, (seed, one.name)
                assert other.need_high <= one.need_high, (seed, one.name)


def test_the_interval_of_the_latency_contains_that_of_the_file(tmp_path: Path) -> None:
    target = "stm32f746/tflm-cmsis-nn"
    for seed in (1, 4, 13, 15, 22, 39):
        twin, path = twins()[seed], tmp_path / "twin.tflite"
        path.write_bytes(files()[seed])
        name = twin.style.precision
        graph = loaded(twin, tmp_path)
        assumed = None if name == "fp32" else name
        before = sizeup.check(graph, target, precision=assumed, remedies=False, latency=1.0)
        after = sizeup.check(path, target, remedies=False, latency=1.0, run=False)
        one, other = (
            next(each for each in check.limits if each.name == "latency") for check in (before, after)
        )
        assert (one.need_low or 0) <= (other.need_low or 0) * (1 + 1e-9), seed
        if one.need_high is not None:
            assert other.need_high is not None, seed
            assert other.need_high <= one.need_high * (1 + 1e-9), seed
