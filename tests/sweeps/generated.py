"""Small models by the hundred, and models that do harm."""

from __future__ import annotations

from pathlib import Path

from sizeup.calibration.network_spec import NetworkBuilder, NetworkSpec
from sizeup.calibration.write_onnx import onnx_model
from sizeup.calibration.write_tflite import tflite_file

# Code that does harm where a model is loaded; it needs no library.
POISON = """
import os
import re
import signal


def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)


def never_returns():
    re.match("(a+)+$", "a" * 64 + "b")  # holds the interpreter all the while


def wants_50_gigabytes():
    return [bytearray(1 << 28) for _ in range(200)]


def all():
    for factory in (crashes, never_returns, wants_50_gigabytes):
        yield factory.__name__, factory
"""
POISONED = {
    "crashes": "Crashed",
    "never_returns": "TimedOut",
    "wants_50_gigabytes": "OutOfMemory",
    "truncated.tflite": "CorruptModel",
    "no.onnx": "CorruptModel",
}
"""What a sweep must survive, and what its rows say of it."""


def sketch(index: int, precision: str) -> NetworkSpec:
    """A different network for every index below 2,304."""
    draft = NetworkBuilder(f"net{index}", "net", (16, 16, 3), precision)
    for layer in range(1 + index % 4):
        draft.conv(4 + (index // 4) % 8 + layer, 3, 1 + layer % 2)
    draft.mean()
    draft.linear(2 + index // 32)
    return draft.build()


def write_models(folder: Path, count: int) -> None:
    """Files of ONNX and TFLite in turn, no two of them equal."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        if index % 2:
            content = onnx_model(sketch(index, "fp32"), index).SerializeToString()
            (folder / f"{index:05}.onnx").write_bytes(content)
        else:
            precision = "int8" if index % 4 else "fp32"
            (folder / f"{index:05}.tflite").write_bytes(tflite_file(sketch(index, precision), index))


def write_poison(folder: Path) -> None:
    """The files behind POISONED; the code is named as `generate = "poison:all"`."""
    (folder / "poison.py").write_text(POISON)
    whole = tflite_file(sketch(7, "int8"), 7)
    (folder / "truncated.tflite").write_bytes(whole[: len(whole) // 3])
    (folder / "no.onnx").write_text("this is no model\n" * 40)
