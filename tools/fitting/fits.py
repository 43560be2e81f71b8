"""Every source of measurements that may be shipped from, and how it is fitted and held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fitting import hailo, ncnn, search_spaces, tiny, vidur
from fitting.measured import Measured, no_faster, target_of
from fitting.shipped import Shipped, judged
from latency.truth.splits import drawn, every, folds
from sizeup.latency import Band, Form, Rate, Rates, band, fit, held_out, type_of, unseen_spread
from sizeup.latency.work import Codes, Floats

_FOLDS = 5
# A fit that is further off on what it has not seen is no better than a data sheet, and is not shipped.
WORST = 0.5


class Source(NamedTuple):
    """A file of fits: where the measurements are from (a word and its text), what it says, how it is made."""

    file: str
    sources: dict[str, str]
    head: str
    make: Callable[[Path, Path], list[Shipped]]


def _precisions(found: Measured) -> list[str]:
    return sorted({type_of(name) for name in found.work.names})


def _mean_off(estimated: Floats, measured: Floats) -> str:
    return f"{100 * np.abs(estimated / measured - 1).mean():.1f} %"


def _by_lot(found: Measured) -> Codes:
    """Folds of networks; the same network at several batches may stand in several."""
    return np.array([drawn(f"{found.target.name} {index}") % _FOLDS for index in range(len(found.seconds))])


_WHOLE = "the phones told whole milliseconds"
_SMALL = "pictures of 32 x 32 alone"


def of_help(folder: Path, models: Path) -> list[Shipped]:
    """Search spaces held out in turn; where one was measured, other targets say how far a new one is off."""
    found = [*search_spaces.measured(folder)]
    across = {each.target.name: _across(each) for each in found if len(np.unique(each.group)) > 1}
    return [_help_fit(each, across, found) for each in found]


def _across(found: Measured) -> Floats:
    return held_out(found.work, found.seconds, every(found.group), Form())


def _help_fit(found: Measured, across: dict[str, Floats], others: list[Measured]) -> Shipped:
    rates = no_faster(fit(found.work, found.seconds, Form()), found.target)
    near = held_out(found.work, found.seconds, _by_lot(found), Form())
    inside = f"{_mean_off(near, found.seconds)} on unseen networks of the spaces that it was fitted to"
    spread = unseen_spread(rates, found.work)
    phone = found.target.runtime.name == "litert"
    notes = ["TFLite of 2021; whether XNNPACK computed is not told"] if phone else ["PyTorch of 2021"]
    notes += [_WHOLE] if found.target.name == "snapdragon-835/litert" else []
    notes += [_SMALL] if "help_ofa" not in found.group else []
    if found.target.name in across:
        notes.append(inside)
        estimated, what, groups = across[found.target.name], "search space", every(found.group)
    else:
        notes.append("one search space was measured: the range is how far others were off on similar devices")
        estimated, what, groups = near, "networks of the same search space", None
    made = judged(
        found.target.name,
        ["fp32"],
        rates,
        estimated,
        found.seconds,
        what,
        "help",
        groups=groups,
        unseen=spread,
        note="; ".join(notes),
    )
    return made if groups is not None else _as_kin(made, found, across, others)


def _as_kin(made: Shipped, found: Measured, across: dict[str, Floats], others: list[Measured]) -> Shipped:
    """With the range of targets of the same runtime and kind of unit, search spaces held out."""

    def sort(each: Measured) -> tuple[str, str]:
        return each.target.runtime.name, each.target.units[0].kind

    kin = [each for each in others if sort(each) == sort(found) and each.target.name in across]
    estimated = np.concatenate([across[each.target.name] for each in kin])
    measured = np.concatenate([each.seconds for each in kin])
    names = np.concatenate([np.char.add(f"{each.target.name} ", each.group) for each in kin])
    stated = replace(band(estimated, measured, every(names)), unseen=made.band.unseen)
    return replace(made, band=stated, elsewhere=float(np.abs(estimated / measured - 1).mean()))


def of_ncnn(folder: Path, models: Path) -> list[Shipped]:
    """A fifth of the networks held out in turn, in all their precisions."""
    return [_ncnn_fit(each) for each in ncnn.measured(folder)]


def _ncnn_fit(found: Measured) -> Shipped:
    form = Form(by_class=len(found.work.names) > 1)
    estimated = held_out(found.work, found.seconds, every(found.group) % _FOLDS, form)
    note = "ncnn computes float networks in fp16 where the processor can"
    if found.target.runtime.name == "ncnn-vulkan":
        note = "ncnn computes float networks in fp16 where the card can"
    return judged(
        found.target.name,
        _precisions(found),
        no_faster(fit(found.work, found.seconds, form), found.target),
        estimated,
        found.seconds,
        "networks",
        "ncnn",
        threads=found.threads,
        note=note,
    )


_BY_MACS = "seconds for each MAC alone; the range is that of MLPerf Tiny's networks on all boards together"


def of_boards(folder: Path, models: Path) -> list[Shipped]:
    """Four networks tell no more than seconds for each MAC; every network held out in turn."""
    stated = _board_band(folder, models)
    found = [_by_macs(each, "mlperf_tiny", _BY_MACS) for each in tiny.measured(folder, models)]
    return [replace(each, band=stated) for each in found]


def of_tiny_engine(folder: Path, models: Path) -> list[Shipped]:
    """Every network held out in turn; of the networks nothing but MACs is told."""
    stated = _board_band(folder, models)
    return [replace(_by_macs(each, "tinyengine", _BY_MACS), band=stated) for each in tiny.tiny_engine(folder)]


def _board_band(folder: Path, models: Path) -> Band:
    """So few errors have no range of their own: that of the benchmark, whose networks are of four kinds, and
    err alike on all boards, so that each counts once."""
    found = [*tiny.measured(folder, models)]
    estimated = np.concatenate([_from_others(each) for each in found])
    names = np.concatenate([each.group for each in found])
    return band(estimated, np.concatenate([each.seconds for each in found]), every(names))


def _per_mac(found: Measured) -> Floats:
    return found.seconds / found.work.totals(found.work.macs)


def _from_others(found: Measured) -> Floats:
    """The middle of what the other networks take for each MAC."""
    taken = _per_mac(found)
    others = [np.median(np.delete(taken, index)) for index in range(len(taken))]
    return np.array(others) * found.work.totals(found.work.macs)


def _by_macs(found: Measured, source: str, note: str) -> Shipped:
    rates = Rates(Rate(float(np.median(_per_mac(found))), 0.0, 0.0))
    return judged(
        found.target.name,
        ["int8"],
        rates,
        _from_others(found),
        found.seconds,
        "network",
        source,
        version=found.version,
        note=note,
    )


def of_hailo(folder: Path, models: Path) -> list[Shipped]:
    """Families of architectures held out."""
    form = Form(by_class=False, launching=False)
    made = []
    for found in hailo.measured(folder):
        estimated = held_out(found.work, found.seconds, folds(found.group), form)
        rates = no_faster(fit(found.work, found.seconds, form), found.target)
        note = (
            "one over frames a second: the chip works on several frames at once, so a single one takes longer"
        )
        made.append(
            judged(
                found.target.name, ["int8"], rates, estimated, found.seconds, "families", "hailo", note=note
            )
        )
    return made


def of_vidur(folder: Path, models: Path) -> list[Shipped]:
    """Language models of the same sizes held out together."""
    form = Form(by_class=True, power=4, saturating=True)
    made = []
    for found in vidur.measured(folder):
        fold = every(found.group)
        estimated = held_out(found.work, found.seconds, fold, form)
        rates = no_faster(fit(found.work, found.seconds, form), found.target)
        note = "single kernels of eight language models, no attention among them"
        made.append(
            judged(
                found.target.name,
                ["fp16"],
                rates,
                estimated,
                found.seconds,
                "language models",
                "vidur",
                groups=fold,
                unseen=unseen_spread(rates, found.work),
                note=note,
            )
        )
    return made


def of_neusight(folder: Path, models: Path) -> list[Shipped]:
    """Single operators of each card, with products as slow as whole networks say; networks held out."""
    from latency.truth import gpu_networks  # it builds networks in torch
    from latency.truth.gpu_operators import TRAIN

    _, times, _, devices = gpu_networks.measured(folder)
    estimated = gpu_networks.network_held_out(folder, (*TRAIN, "test")).estimated
    made = []
    for device, found in gpu_networks.fits(folder).items():
        target, here = target_of(device, "torch-eager"), devices == device
        if target is not None:
            note = "float32 language models at large batches; operators were timed one by one"
            pair = (estimated[here], times[here])
            own = judged(target.name, ["fp32"], found.rates, *pair, "network", "neusight", note=note)
            stated = replace(found.band, unseen=_FOREIGN)
            made.append(replace(own, band=stated, rates=no_faster(_as_linear(found.rates), target)))
    return made


# Classes of kernels lie so far from the rate of all on the cards that search spaces ran on, in logarithms.
_FOREIGN = 1.0


def _as_linear(rates: Rates) -> Rates:
    """Products of classes that nobody timed cost what matrices do: the pool of some cards has no products."""
    return replace(rates, pooled=replace(rates.pooled, mac=rates.of("linear").mac))


def _github(repository: str, commit: str, licence: str, what: str) -> str:
    return f"{what}, https://github.com/{repository}, commit {commit[:7]}, {licence}"


# Of several versions of PyTorch on one device, the newest speaks for the target.
_TIMM_LEFT_OUT = ("4090 eager, 2.4", "4090 inductor, 2.4", "PRO 6000 inductor, bf16")


def of_timm(folder: Path, models: Path) -> list[Shipped]:
    """Image models in PyTorch, from sizeup's own trace of them; families of architectures held out."""
    from latency.truth import image_fits, own_trace

    made = []
    for name, found in image_fits.fits(own_trace.PATH, folder).items():
        target = target_of(found.run.device, found.run.runtime)
        if target is None or name in _TIMM_LEFT_OUT:
            continue
        alone = found.batches == (1, 1)
        low, high = found.batches
        batches = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        busy = f"image models at batches of {batches}; a launch cannot be told from work there"
        made.append(
            judged(
                target.name,
                (found.run.precision,),
                no_faster(found.rates, target),
                found.estimated,
                found.seconds,
                "families of architectures",
                "timm",
                unseen=found.band.unseen,
                version=found.run.version,
                note="image models, one picture at a time" if alone else busy,
            )
        )
    return made


SOURCES = (
    Source(
        "help.toml",
        {
            "help": _github(
                "HayeonLee/HELP", "45f70eb", "MIT", "HELP: measured latencies of NAS-Bench-201, FBNet and OFA"
            )
        },
        "Three search spaces on graphics cards, processors and phones, operator by operator.",
        of_help,
    ),
    Source(
        "ncnn.toml",
        {"ncnn": _github("Tencent/ncnn", "a4d2ea1", "BSD-3-Clause", "ncnn, benchmark/README.md")},
        "About thirty networks on each device, of which totals are known; sent in by many people.",
        of_ncnn,
    ),
    Source(
        "mlperf_tiny.toml",
        {
            "mlperf_tiny": "MLPerf Tiny, results of rounds 0.7 to 1.3,"
            " https://github.com/mlcommons/tiny_results_v1.3, commit cd605ea,"
            " and tiny_results_v1.2, commit cadb362, and tiny_results_v1.1, commit c32ef94,"
            " and tiny_results_v1.0, commit c7761cf, Apache-2.0"
        },
        "Three or four networks on each board.",
        of_boards,
    ),
    Source(
        "tinyengine.toml",
        {"tinyengine": _github("mit-han-lab/tinyengine", "47bb283", "MIT", "TinyEngine, README.md")},
        "Eight or nine networks with four engines on one board.",
        of_tiny_engine,
    ),
    Source(
        "hailo.toml",
        {"hailo": _github("hailo-ai/hailo_model_zoo", "c83fc03", "MIT", "Hailo Model Zoo")},
        "Frames a second of the networks of Hailo's model zoo.",
        of_hailo,
    ),
    Source(
        "neusight.toml",
        {"neusight": _github("sitar-lab/NeuSight", "6945927", "MIT", "NeuSight, operators and networks")},
        "Graphics cards, from single operators and a few language models on each.",
        of_neusight,
    ),
    Source(
        "timm.toml",
        {
            "timm": _github(
                "huggingface/pytorch-image-models", "aa4b585", "Apache-2.0", "timm, results/benchmark-*"
            )
        },
        "About 1,450 image models on each device, traced by sizeup itself.",
        of_timm,
    ),
    Source(
        "vidur.toml",
        {"vidur": _github("microsoft/vidur", "7d47513", "MIT", "Vidur, data/profiling")},
        "Single kernels of language models in half precision.",
        of_vidur,
    ),
)


def files(folder: Path, models: Path, only: str = "") -> Iterator[tuple[Source, list[Shipped]]]:
    """Every file with its fits."""
    from latency.truth import own_trace

    for source in SOURCES:
        if source.make is of_timm and not own_trace.PATH.is_file():
            continue  # the file that is there stays: it takes half an hour to trace all models
        if only in source.file:
            yield source, source.make(folder, models)
