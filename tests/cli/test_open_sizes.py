"""A latency has no upper end if sizes of a file are only lower bounds, in every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import sizeup
from cli.running import Run
from formats.tflite.factory import File, options
from sizeup.dtypes import dtype
from sizeup.graph import Constant, GraphBuilder

pytestmark = pytest.mark.extras

INT8 = dtype("int8")
PLACEHOLDER = "input 'x' has no fixed size"
RECOMPUTED = "LiteRT computes the shape (40, 64), not (1, 64)"


def falsely_recorded() -> bytes:
    """40 rows of a table are gathered, and one is on record."""
    file = File()
    main = file.main
    x, y = main.tensor("x", (40,), "INT32"), main.tensor("y", (1, 64))
    rows = main.tensor("rows", (9, 64), data=[0.0] * (9 * 64))
    main.op("GATHER", [rows, x], [y], options("GatherOptions", axis=0))
    main.ends([x], [y])
    return file.pack()


def without_size() -> bytes:
    """A converter recorded 1 for rows and columns that it did not know."""
    file = File()
    main = file.main
    x = main.tensor("x", (1, 1, 1, 64), shapeSignature=[-1, -1, -1, 64])
    y = main.tensor("y", (1, 1, 1, 64), shapeSignature=[-1, -1, -1, 64])
    main.op("RELU", [x], [y])
    main.ends([x], [y])
    return file.pack()


CASES = [(falsely_recorded, RECOMPUTED), (without_size, PLACEHOLDER)]


@pytest.mark.parametrize(("content", "reason"), CASES)
@pytest.mark.parametrize("target", ["rpi5/litert", "rpi4/litert"])
def test_no_command_states_an_upper_end(
    content: Callable[[], bytes], reason: str, target: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(content())
    estimate = sizeup.analyze(path, target=target).latency
    assert estimate is not None
    assert estimate.high is None
    assert any(note.startswith(f"no upper end: {reason}") for note in estimate.notes)
    assert sizeup.estimate(path, target).high is None
    check = sizeup.check(path, target, latency=1.0, remedies=False)
    assert check.fits is None
    (limit,) = (each for each in check.limits if each.name == "latency")
    assert limit.need_low == estimate.low
    assert limit.need_high is None
    printed = json.loads(run("analyze", path, "-d", target, "--json").out)
    assert printed["latency"]["high_ms"] is None
    assert "at least" in run("analyze", path, "-d", target).out.partition("latency")[2].splitlines()[0]
    sizeup.sweep({"models": [str(path)], "targets": [target]}, tmp_path / "store", in_process=True)
    (row,) = sizeup.query(tmp_path / "store", "SELECT low_ms, high_ms FROM points").to_dict()["rows"]
    assert row == {"low_ms": pytest.approx(1e3 * (estimate.low or 0)), "high_ms": None}


def test_a_runtime_that_uses_the_record_has_an_upper_end() -> None:
    """TFLite Micro allocates what the file records; an input without a size has none for it either."""
    builder = GraphBuilder("conv", "tflite")
    x = builder.input("x", (1, 32, 32, 8), INT8)
    w = builder.tensor("w", (16, 3, 3, 8), INT8, Constant("parameter"))
    y = builder.tensor("y", (1, 32, 32, 16), INT8)
    builder.op("conv", [x, w], [y], {"out_channels": 16, "kernel": (3, 3)}, source="CONV_2D")
    builder.outputs.append(y)
    known = builder.freeze()
    placeholder = replace(known, placeholder_sizes=("an input is larger",))
    recomputed = replace(known, recomputed_outputs=("an output is larger",))
    for target, is_open in (("stm32f746", False), ("stm32f446", False), ("rpi5/litert", True)):
        high = sizeup.estimate(known, target).high
        assert high is not None, target
        assert sizeup.estimate(placeholder, target).high is None, target
        assert sizeup.estimate(recomputed, target).high == (None if is_open else high), target


def test_the_refusal_is_why_an_arena_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(falsely_recorded())
    check = sizeup.check(path, "stm32f746", remedies=False, run=False)
    assert check.fits is False
    (ram,) = (each for each in check.limits if each.name == "ram")
    bases = [part.basis for part in ram.parts]
    assert bases == ["the arena is not known: GATHER 'y' computes another output shape than the file records"]
