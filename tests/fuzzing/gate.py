"""The gate mode: no change of a file that keeps what it computes may turn a NO into a YES.

A mutant of `tflite_cheats` or `onnx_cheats` computes what its original computes, and does no less for it. It
is checked against limits just below what the original needs. A YES is a finding unless the runtime itself
needs less.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sizeup
from fuzzing import onnx_cheats, tflite_cheats
from fuzzing.gate_runtimes import RUNTIMES, Outcome
from fuzzing.verdicts import WrongYes

_MEMORY = ("ram", "arena")
# What ONNX Runtime says of an operator that it has no kernel for.
_NO_KERNEL = ("is not a registered function/op", "Could not find an implementation", "NOT_IMPLEMENTED")
# What counts as a parameter depends on where a file keeps it; what an arena is, on TFLite Micro.
_AMOUNTS = {
    "stm32f746/tflm": ("macs", "arena", "ram", "flash"),
    "rpi5/litert": ("macs", "ram"),
    "rpi5/ort": ("macs", "arena", "ram", "flash"),
}


def tflite(path: Path) -> Any:
    """Checked for TFLite Micro and for LiteRT."""
    original = _original(path.parent, "tflite", tflite_cheats.original_of(path.read_bytes()))
    stated = {}
    for target in [*_AMOUNTS][:2]:
        accepted, stated[target] = _accepted(original, path, target)
        if accepted:
            outcomes = {name: RUNTIMES.outcome(name, original, path) for name in ("tflm", "litert")}
            _judge(accepted, target, outcomes, original, path)
    return stated


def onnx(path: Path) -> Any:
    """Checked for ONNX Runtime."""
    original = _original(path.parent, "onnx", onnx_cheats.original_of(path.read_bytes()))
    accepted, stated = _accepted(original, path, "rpi5/ort")
    if accepted:
        found = RUNTIMES.outcome("ort", original, path)
        if any(each in found.refusal for each in _NO_KERNEL):
            raise WrongYes(f"YES for {', '.join(accepted)} without a kernel in ONNX Runtime", found)
        if found.is_same and found.macs[1] >= found.macs[0]:
            raise WrongYes(f"YES for {', '.join(accepted)} of the same work in ONNX Runtime", found)
    return stated


def _judge(
    accepted: list[str], target: str, found: Mapping[str, Outcome], original: Path, mutant: Path
) -> None:
    """Raise WrongYes if a file does the same for no less, or does not do it on the target."""
    micro, is_micro = found["tflm"], target.endswith("tflm")
    for name in accepted:
        if name == "flash":
            is_less = mutant.stat().st_size < original.stat().st_size
        elif name in _MEMORY and micro.is_same:
            is_less = is_micro and (micro.head[1] < micro.head[0] or micro.tail[1] < micro.tail[0])
        else:  # what it computes in LiteRT, it does not in TFLite Micro
            is_less = False
        if is_less or not (micro.is_same or found["litert"].is_same):
            continue
        runs = "runs so" if micro.is_same else "refuses it" if micro.refusal else "computes something else"
        raise WrongYes(f"YES for {name} on {target} of the same network; TFLite Micro {runs}", found)


@functools.cache
def _original(folder: Path, kind: str, number: int) -> Path:
    path = folder / f"original{number}.{kind}"
    path.write_bytes((tflite_cheats if kind == "tflite" else onnx_cheats).seeds(folder)[number])
    return path


@functools.cache
def limits_of(original: Path, target: str) -> dict[str, int]:
    """Limits that the original does not meet, by one byte or count."""
    least = dict.fromkeys(_AMOUNTS[target], 1)
    checked = _checked(original, target, least)
    assert checked.fits is False
    return {
        each.name: int(each.need_low) - 1 for each in checked.limits if each.name in least and each.need_low
    }


def _accepted(original: Path, mutant: Path, target: str) -> tuple[list[str], Any]:
    """The limits that a mutant is said to meet, each of which its original does not."""
    checked = _checked(mutant, target, limits_of(original, target))
    can_run = checked.unsupported_reason is None and checked.is_complete
    met = [each.name for each in checked.limits if each.fits and each.name in _AMOUNTS[target]]
    met = met if can_run else []
    return met, checked.to_dict()


def _checked(path: Path, target: str, limits: Mapping[str, int]) -> Any:
    arguments: dict[str, Any] = {"strict": True, "remedies": False, **limits}
    return sizeup.check(path, target, **arguments)
