"""timm's benchmark, joined with a trace of each model: architecture families held out.

The trace is an independent table per operator, or sizeup's trace (`own_trace`) if available.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from latency.truth import own_trace
from latency.truth.judge import Outcome, folded
from latency.truth.own_trace import Traced
from latency.truth.splits import family, folds, kin
from latency.truth.tables import Table, Words, read
from sizeup.latency import FitOptions, Work, from_columns
from sizeup.latency.work import Codes, Flags, Floats

MIB = 2**20
_GPU = FitOptions(power=2)


def _cpu(mebibytes: float) -> FitOptions:
    return FitOptions(power=2, saturating=True, cache=mebibytes * MIB)


class Run(NamedTuple):
    """One column of timm's results: its device, settings and the form of its calibration."""

    tag: str
    device: str
    runtime: str
    version: str  # of PyTorch
    precision: str  # of products and what lies between them
    form: FitOptions
    own_power: float = 2  # of the form that suits the kernels of sizeup's own trace

    @property
    def own_form(self) -> FitOptions:
        """The form for sizeup's trace, which has more classes: they are shrunk more."""
        return replace(self.form, power=self.own_power, shrink=0.3)

    @property
    def fused(self) -> bool:
        """Whether a compiler merged kernels."""
        return self.runtime == own_trace.WAYS["inductor"]

    @property
    def width(self) -> int:
        """Bytes of a number."""
        return 4 if self.precision == "fp32" else 2


_EAGER, _INDUCTOR = own_trace.WAYS.values()
# The last-level caches are those of the processors' data sheets. Forms were chosen in folds of all kin.
RUNS = {
    "3090 eager": Run("rtx3090_amp_nchw_pt240", "rtx-3090", _EAGER, "2.4.0", "fp16", _GPU),
    "4090 eager": Run("4090_amp_nchw_pt291", "rtx-4090", _EAGER, "2.9.1", "fp16", _GPU),
    "4090 inductor": Run("4090_amp_nchw_pt291_dynamo", "rtx-4090", _INDUCTOR, "2.9.1", "fp16", _GPU),
    "i9 CPU": Run(
        *("i9_10940x_fp32_nchw_pt240_dynamo", "i9-10940x", _INDUCTOR, "2.4.0", "fp32"),
        form=_cpu(19.25),
        own_power=1,
    ),
    "i7 CPU": Run("i7_12700h_fp32_nchw_pt240_dynamo", "i7-12700h", _INDUCTOR, "2.4.0", "fp32", _cpu(24)),
}
# Further runs with separate calibrations.
MORE_RUNS = {
    "5090 eager": Run("5090_amp_nchw_pt291", "rtx-5090", _EAGER, "2.9.1", "fp16", _GPU),
    "5090 inductor": Run("5090_amp_nchw_pt291_dynamo", "rtx-5090", _INDUCTOR, "2.9.1", "fp16", _GPU),
    "PRO 6000 eager": Run("pro6000maxq_amp_nchw_pt291", "rtx-pro-6000-max-q", _EAGER, "2.9.1", "fp16", _GPU),
    "PRO 6000 inductor": Run(
        "pro6000maxq_amp_nchw_pt291_dynamo", "rtx-pro-6000-max-q", _INDUCTOR, "2.9.1", "fp16", _GPU
    ),
    "PRO 6000 inductor, bf16": Run(
        "pro6000maxq_bf16_nchw_pt291_dynamo", "rtx-pro-6000-max-q", _INDUCTOR, "2.9.1", "bf16", _GPU
    ),
    "4090 eager, 2.4": Run("rtx4090_amp_nchw_pt240", "rtx-4090", _EAGER, "2.4.0", "fp16", _GPU),
    "4090 inductor, 2.4": Run("rtx4090_amp_nchw_pt240_dynamo", "rtx-4090", _INDUCTOR, "2.4.0", "fp16", _GPU),
}
_PLAIN = {
    "act": "activation",
    "bmm": "matmul",
    "bn": "batch_norm",
    "conv1x1": "conv_1x1",
    "convgrp": "conv_grouped",
    "convkxk": "conv",
    "ew": "elementwise",
    "gn": "group_norm",
    "linear": "linear",
    "ln": "layer_norm",
    "mm": "linear",
    "pool": "pool",
    "reduce": "reduce",
    "softmax": "softmax",
    "wop": "weights",
    "wstd": "weight_norm",
    "copy": "copy",
}
_ATTENTION = {
    "sdpa_4d": "attention",
    "sdpa_5d": "attention_5d",
    "sdpa_mask_3d": "attention_masked",
    "sdpa_mask_4d": "attention_masked",
}


def _classes(trace: Table, eager: bool) -> list[str]:
    words = zip(trace.words("cls").tolist(), trace.words("op").tolist(), strict=True)
    weights, taps, channels, last = (trace.numbers(each) for each in ("w_e", "d3", "d0", "d5"))
    classes = []
    for index, (kind, operator) in enumerate(words):
        name = _ATTENTION.get(operator) or _PLAIN.get(kind, kind)
        if operator == "convolution" and channels[index] <= 4 and taps[index] > 1:
            name = "conv_stem"
        elif kind == "convdw":
            name = (
                "depthwise_3" if taps[index] <= 9 else "depthwise_5" if taps[index] <= 25 else "depthwise_7"
            )
        elif operator in ("cat", "stack"):
            name = "concat"
        elif operator == "index" or operator.startswith("upsample"):
            name = "index" if operator == "index" else "resize"
        elif name == "elementwise" and weights[index] > 0:
            # A float32 weight makes float32 of all that follows it under automatic mixed precision.
            name = "scaling"
        if eager and name in ("layer_norm", "copy") and last[index] == -1:
            name += "_strided"  # its input is a permuted view
        classes.append(name)
    return classes


@cache
def own(path: Path, fused: bool, width: int) -> Traced:
    """The kernels of every model that sizeup traced."""
    return own_trace.as_work(read(path), "inductor" if fused else "eager", width)


@cache
def traced(folder: Path, fused: bool, width: int) -> Traced:
    """The kernels of every model, with the traffic of single operators or of fused chains."""
    trace = read(folder / "timm_traced_ops.parquet")
    place: dict[tuple[str, int], int] = {}
    keys = zip(trace.words("model").tolist(), trace.numbers("img").astype(int).tolist(), strict=True)
    network = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
    classes = np.array(_classes(trace, not fused), object)
    macs, count = trace.numbers("macs"), trace.numbers("count")
    read_elements, written = _traffic(trace, fused)
    count = np.where((read_elements + written > 0) | (macs > 0), count, 0.0)
    steps = _recurrent_steps(trace)
    classes[steps], times = "recurrent", np.where(steps, _STEPS, 1.0)
    shape = _product(trace)
    work = from_columns(
        classes.tolist(),
        len(place),
        network,
        macs=macs * times,
        read=read_elements * width * times,
        written=written * width * times,
        weights=trace.numbers("w_e") * width,
        length=shape[0],
        columns=shape[1],
        rows=shape[2],
        count=count / times,
    )
    products = np.isin(trace.words("cls"), ["conv1x1", "convdw", "convgrp", "convkxk", "linear"])
    held = np.bincount(network, trace.numbers("w_e") * trace.numbers("count") * products, len(place))
    return Traced(work, place, np.asarray(held, np.float64))


# The trace has each step of a recurrent layer; a runtime runs about this many of them as one kernel.
_STEPS = 100.0


def _recurrent_steps(trace: Table) -> Flags:
    named = np.char.startswith(trace.words("model"), "sequencer")
    return np.asarray(named & (trace.numbers("count") > 60), np.bool_)


def _traffic(trace: Table, fused: bool) -> tuple[Floats, Floats]:
    """Elements read and written; a compiler fuses pointwise chains, but not reductions, pads and concats."""
    alone = trace.numbers("in_e"), trace.numbers("out_e")
    if not fused:
        return alone
    kept = np.isin(trace.words("op"), ["constant_pad_nd", "cat"]) | (trace.words("cls") == "reduce")
    return np.where(kept, alone[0], trace.numbers("fin")), np.where(kept, alone[1], trace.numbers("fo"))


def _product(trace: Table) -> tuple[Floats, Floats, Floats]:
    first, columns, groups, taps, rows = (trace.numbers(each) for each in ("d0", "d1", "d2", "d3", "d5"))
    conv = trace.words("op") == "convolution"
    there = trace.numbers("macs") > 0
    groups = np.maximum(groups, 1)
    length = np.where(conv, first / groups * taps, first)
    return (
        np.where(there, length, 0.0),
        np.where(there, np.where(conv, columns / groups, columns), 0.0),
        np.where(there, np.where(conv, rows, rows * groups), 0.0),
    )


class Measured(NamedTuple):
    """One run: work at the measured batch, seconds, the models' names, and the batches."""

    work: Work
    seconds: Floats
    models: Words
    batches: Floats


def measured(folder: Path, run: Run, trace: Path | None = None) -> Measured:
    """The rows of a run whose trace is the measured network; `trace` is a file of sizeup's trace."""
    results = read(folder / "timm_infer.parquet")
    traced_models = (
        traced(folder, run.fused, run.width) if trace is None else own(trace, run.fused, run.width)
    )
    keys = [*zip(results.words("model").tolist(), results.numbers("img").astype(int).tolist(), strict=True)]
    place = np.array([traced_models.place.get(key, -1) for key in keys], np.int64)
    kept = (results.words("device_tag") == run.tag) & (place >= 0)
    kept &= _same_network(results, keys, place, traced_models.matrix_weights)
    rows = results.where(kept)
    batches = rows.numbers("batch")
    work = traced_models.work.select(place[kept]).at_batch(batches)
    return Measured(work, rows.numbers("latency_ms") / 1e3, rows.words("model"), batches)


def _same_network(results: Table, keys: list[tuple[str, int]], place: Codes, matrix_weights: Floats) -> Flags:
    """Whether the model was not re-parameterized, which leaves fewer parameters than in other runs."""
    parameters = results.numbers("params")
    most: dict[tuple[str, int], float] = {}
    for key, count in zip(keys, parameters.tolist(), strict=True):
        most[key] = max(most.get(key, 0.0), count)
    whole = parameters > 0.999 * np.array([most[key] for key in keys])
    ratio = matrix_weights[place] / parameters
    merged = np.char.startswith(results.words("model"), "ghostnetv3") & (ratio > 1.01)
    return np.asarray(whole & ~merged & (ratio > 0.75), np.bool_)


def outcome(folder: Path, name: str, strict: bool = False, trace: Path | None = None) -> Outcome:
    """One run, every family (or all its kin) held out in one of ten folds."""
    run = (RUNS | MORE_RUNS)[name]
    work, seconds, models, _ = measured(folder, run, trace)
    groups = [kin(model) if strict else family(model) for model in models.tolist()]
    label = f"timm {name}, {'related families' if strict else 'family'} held out"
    return folded(label, work, seconds, folds(groups), run.form if trace is None else run.own_form)
