"""The estimated remaining time of a sweep."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import sizeup
from sizeup.sweeps import Progress
from sizeup.sweeps.run import Remaining


def write_chain(path: Path, nodes: int) -> None:
    """As many operators one after the other."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("t0", f"t{nodes}")]
    chain = [helper.make_node("Relu", [f"t{index}"], [f"t{index + 1}"]) for index in range(nodes)]
    onnx.save(helper.make_model(helper.make_graph(chain, "chain", ends[:1], ends[1:])), path)


def test_the_time_left_is_that_of_the_models_left_not_of_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for index, nodes in enumerate([16, 16, 16, 16, 64, 64, 4096]):
        write_chain(tmp_path / f"{index}.onnx", nodes)
    heard: list[Progress] = []
    spec = {"models": ["*.onnx"], "targets": ["rpi5/ort"]}
    sizeup.sweep(
        {**spec, "models": ["0.onnx"]}, tmp_path / "warm", in_process=True
    )  # imports have no second time
    sizeup.sweep(spec, tmp_path / "out", in_process=True, progress=heard.append)
    before, last = heard[-2:]
    assert before.seconds_left is not None
    assert before.rate is not None
    actual, by_count = last.seconds - before.seconds, 1 / before.rate
    assert before.seconds_left > 2 * by_count
    assert abs(math.log(before.seconds_left / actual)) < abs(math.log(by_count / actual))
    assert last.seconds_left == 0
    again: list[Progress] = []
    sizeup.sweep(spec, tmp_path / "out", in_process=True, progress=again.append)
    assert [each.seconds_left for each in again] == [None] * 7  # nothing is measured, and nothing has to be


def test_time_left_by_class_by_hand() -> None:
    remaining = Remaining(Counter({(".onnx", 10): 3, (".onnx", 14): 4, (".tflite", 10): 2, ("timm", 0): 1}))
    assert remaining.seconds(0.0) is None
    remaining.add((".onnx", 10), 1.0, now=1.0)
    remaining.add((".onnx", 10), 3.0, now=3.0)  # two at once: begun at 0, at the same time as the other
    # One more of 2 s; four with 2 ** 4 times the bytes, and so sqrt(2 ** 4) times the seconds; two of
    # the same size in another format; one without a file, 2 ** -10 of the bytes. 4 s of work took 3 s.
    left = 1 * 2 + 4 * (2 * 4) + 2 * 2 + 2 / 2**5
    assert remaining.seconds(3.0) == pytest.approx(left * 3 / 4)
    remaining.add((".onnx", 14), 32.0, now=35.0)
    measured = 1 * 2 + 3 * 32 + 2 * 2 + 2 / 2**5
    assert remaining.seconds(35.0) == pytest.approx(measured * 35 / 36)
    for size_class in [(".onnx", 10), *[(".onnx", 14)] * 3, *[(".tflite", 10)] * 2]:
        remaining.add(size_class, None, now=36.0)
    assert remaining.seconds(36.0) == pytest.approx(2 / 2**5)
    remaining.add(("timm", 0), 1.0, now=37.0)
    assert remaining.seconds(37.0) == 0


def test_the_first_model_of_a_process_counts_until_there_are_others() -> None:
    remaining = Remaining(Counter({(".onnx", 10): 4}))
    remaining.add((".onnx", 10), 5.0, now=5.0, is_first=True)
    assert remaining.seconds(5.0) == pytest.approx(3 * 5)
    remaining.add((".onnx", 10), 1.0, now=6.0)
    assert remaining.seconds(6.0) == pytest.approx(2 * 1)


def test_one_large_model_takes_its_time_however_many_work() -> None:
    remaining = Remaining(Counter({(".onnx", 10): 8, (".onnx", 20): 1}))
    for index in range(8):
        remaining.add((".onnx", 10), 1.0, now=1.0 + index * 1e-3)
    assert remaining.seconds(1.0) == pytest.approx(2**5)
