"""The sources of measurements with a suitable license, and how each is calibrated and held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from fitting import hailo, named, ncnn, tiny, vidur
from fitting.forms import SIMPLE, FormChoice, fit_totals
from fitting.help_fits import of_help
from fitting.intervals import HeldOut, Pool, held_out, interval_of_few_networks, pools_by_runtime
from fitting.measured import Measured, no_faster, target_of
from fitting.shipped import Shipped, Source, github, shipped_calibration
from latency.truth.splits import every, folds
from sizeup.latency import (
    FitOptions,
    PredictionInterval,
    Rate,
    Rates,
    dtype_of,
    fit_rates,
    held_out_estimates,
    unseen_spread,
)
from sizeup.latency.work import Floats

# A calibration with a larger MAPE on held-out networks is no better than a data sheet, and is not shipped.
WORST = 0.5


def _precisions(samples: Measured) -> list[str]:
    return sorted({dtype_of(name) for name in samples.work.names})


def of_ncnn(folder: Path, models: Path) -> list[Shipped]:
    """Architecture families held out, in all precisions."""
    pools, forms = ncnn_pools(folder), ncnn_forms(folder)
    return [_ncnn_fit(each, pool, forms[name]) for name, pool in pools.items() for each in pool.targets]


@cache
def ncnn_pools(folder: Path) -> dict[str, Pool]:
    """The targets of each runtime, architecture families held out."""
    forms = ncnn_forms(folder)
    return pools_by_runtime(
        held_out(each, choice.rates) for choice in forms.values() for each in choice.targets
    )


@cache
def ncnn_forms(folder: Path) -> dict[str, FormChoice]:
    """The form of the calibrations of each runtime."""
    targets: dict[str, list[Measured]] = {}
    for samples in map(ncnn.by_family, ncnn.measured(folder)):
        targets.setdefault(samples.target.runtime.name, []).append(samples)
    return {name: FormChoice(members, FitOptions(), fit_totals) for name, members in targets.items()}


def _ncnn_fit(each: HeldOut, pool: Pool, choice: FormChoice) -> Shipped:
    samples = each.samples
    note = "ncnn computes float networks in fp16 if the processor supports it"
    if samples.target.runtime.name == "ncnn-vulkan":
        note = "ncnn computes float networks in fp16 if the card supports it"
    calibration = shipped_calibration(
        samples.target.name,
        _precisions(samples),
        no_faster(choice.rates(samples.work, samples.seconds), samples.target),
        each.estimated,
        samples.seconds,
        "architecture families",
        "ncnn",
        threads=samples.threads,
        note=note,
    )
    return replace(calibration, interval=pool.interval(each))


BY_MACS = (
    "only a rate per MAC, so other operators take 0 s; the interval comes from errors of MLPerf Tiny"
    " networks on all devices"
)


def of_boards(folder: Path, models: Path) -> list[Shipped]:
    """Seconds per MAC, because four networks determine no more; each network held out in turn."""
    interval = board_interval(folder, models)
    calibrations = [by_macs(each, "mlperf_tiny", BY_MACS) for each in tiny.measured(folder, models)]
    return [replace(calibration, interval=interval) for calibration in calibrations]


def of_tiny_engine(folder: Path, models: Path) -> list[Shipped]:
    """Each network held out in turn; only MACs are known of the networks."""
    interval = board_interval(folder, models)
    calibrations = [by_macs(each, "tinyengine", BY_MACS) for each in tiny.tiny_engine(folder)]
    return [replace(calibration, interval=interval) for calibration in calibrations]


def board_interval(folder: Path, models: Path, network: str | None = None) -> PredictionInterval:
    """The interval over all devices, because one device has too few errors; without a network if given.

    Results of other versions of the runtime belong to the errors, because a user may run any of them.
    """
    others = {
        (samples.target.name, name): estimate
        for samples in tiny.measured(folder, models)
        for name, estimate in zip(samples.group.tolist(), from_others(samples).tolist(), strict=True)
    }
    rows = [each for each in tiny.results(folder) if each.network != network]
    errors = [np.log(each.seconds / others[each.target.name, each.network]) for each in rows]
    return interval_of_few_networks(np.array(errors), np.array([each.network for each in rows]))


def per_mac(samples: Measured) -> Floats:
    """Seconds per MAC of each network."""
    return samples.seconds / samples.work.totals(samples.work.macs)


def from_others(samples: Measured) -> Floats:
    """Each network estimated by the median seconds per MAC of the others."""
    rates = per_mac(samples)
    others = [np.median(np.delete(rates, index)) for index in range(len(rates))]
    return np.array(others) * samples.work.totals(samples.work.macs)


def by_macs(samples: Measured, source: str, note: str) -> Shipped:
    """A calibration by the median seconds per MAC, each network held out in turn."""
    rates = Rates(Rate(float(np.median(per_mac(samples))), 0.0, 0.0))
    return shipped_calibration(
        samples.target.name,
        ["int8"],
        rates,
        from_others(samples),
        samples.seconds,
        "networks",
        source,
        version=samples.version,
        note=note,
    )


def of_hailo(folder: Path, models: Path) -> list[Shipped]:
    """Architecture families held out."""
    form = replace(SIMPLE, launching=False)
    calibrations = []
    for samples in hailo.measured(folder):
        estimated = held_out_estimates(samples.work, samples.seconds, folds(samples.group), form)
        rates = no_faster(fit_rates(samples.work, samples.seconds, form), samples.target)
        note = "frames per second of a pipeline, which are no latency"
        calibration = shipped_calibration(
            samples.target.name,
            ["int8"],
            rates,
            estimated,
            samples.seconds,
            "architecture families",
            "hailo",
            note=note,
        )
        calibrations.append(replace(calibration, quantity="throughput"))
    return calibrations


def of_vidur(folder: Path, models: Path) -> list[Shipped]:
    """Language models of the same sizes held out together."""
    detailed = FitOptions(by_class=True, power=4, saturating=True)
    calibrations = []
    for samples in vidur.measured(folder):
        fold = every(samples.group)
        form = FormChoice([samples], detailed).form()
        estimated = held_out_estimates(samples.work, samples.seconds, fold, form)
        rates = no_faster(fit_rates(samples.work, samples.seconds, form), samples.target)
        note = "single kernels of eight language models, without attention"
        calibrations.append(
            shipped_calibration(
                samples.target.name,
                ["fp16"],
                rates,
                estimated,
                samples.seconds,
                "language models",
                "vidur",
                groups=fold,
                unseen=unseen_spread(rates, samples.work),
                note=note,
            )
        )
    return calibrations


def of_neusight(folder: Path, models: Path) -> list[Shipped]:
    """Single operators of each card, with matrix products scaled to entire networks; networks held out."""
    from latency.truth import gpu_networks  # late: it builds networks in torch
    from latency.truth.gpu_operators import TRAIN

    _, times, _, devices = gpu_networks.measured(folder)
    estimated = gpu_networks.network_held_out(folder, (*TRAIN, "test")).estimated
    calibrations = []
    for device, card in gpu_networks.fits(folder).items():
        target, is_on_device = target_of(device, "torch-eager"), devices == device
        if target is not None:
            note = "float32 language models at large batches; operators were timed separately"
            pair = (estimated[is_on_device], times[is_on_device])
            own = shipped_calibration(
                target.name, ["fp32"], card.rates, *pair, "networks", "neusight", note=note
            )
            interval = replace(card.interval, unseen=_UNSEEN_SPREAD)
            rates = no_faster(_with_linear_mac(card.rates), target)
            calibrations.append(replace(own, interval=interval, rates=rates))
    return calibrations


# Spread of the classes' rates around the pooled rate on the cards of the search spaces, in logarithms.
_UNSEEN_SPREAD = 1.0


def _with_linear_mac(rates: Rates) -> Rates:
    """With the MAC rate of `linear` for classes that were not measured: some pooled rates have no MACs."""
    return replace(rates, pooled=replace(rates.pooled, mac=rates.of("linear").mac))


# Of several PyTorch versions on one device, only the newest is used.
_TIMM_LEFT_OUT = ("4090 eager, 2.4", "4090 inductor, 2.4", "PRO 6000 inductor, bf16")


def of_timm(folder: Path, models: Path) -> list[Shipped]:
    """Image models in PyTorch, traced by sizeup; architecture families held out."""
    from latency.truth import image_fits, own_trace

    calibrations = []
    for name, samples in image_fits.fits(own_trace.PATH, folder).items():
        target = target_of(samples.run.device, samples.run.runtime)
        if target is None or name in _TIMM_LEFT_OUT:
            continue
        is_single = samples.batches == (1, 1)
        low, high = samples.batches
        batches = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        busy = f"image models at batches of {batches}; launches and work are not separable"
        calibrations.append(
            shipped_calibration(
                target.name,
                (samples.run.precision,),
                no_faster(samples.rates, target),
                samples.estimated,
                samples.seconds,
                "architecture families",
                "timm",
                unseen=samples.interval.unseen,
                version=samples.run.version,
                note="image models at batch 1" if is_single else busy,
            )
        )
    return calibrations


SOURCES = (
    Source(
        "help.toml",
        {
            "help": github(
                "HayeonLee/HELP", "45f70eb", "MIT", "HELP: measured latencies of NAS-Bench-201, FBNet and OFA"
            )
        },
        "Three search spaces on graphics cards, processors and phones, one kernel per operator.",
        of_help,
    ),
    Source(
        "ncnn.toml",
        {"ncnn": github("Tencent/ncnn", "a4d2ea1", "BSD-3-Clause", "ncnn, benchmark/README.md")},
        "About 30 networks per device, of which only totals are known; user submissions.",
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
        "Three or four networks per device.",
        of_boards,
    ),
    Source(
        "tinyengine.toml",
        {"tinyengine": github("mit-han-lab/tinyengine", "47bb283", "MIT", "TinyEngine, README.md")},
        "Eight or nine networks with four engines on one device.",
        of_tiny_engine,
    ),
    Source(
        "hailo.toml",
        {"hailo": github("hailo-ai/hailo_model_zoo", "c83fc03", "MIT", "Hailo Model Zoo")},
        "Frames per second of the networks of Hailo's model zoo.",
        of_hailo,
    ),
    Source(
        "neusight.toml",
        {"neusight": github("sitar-lab/NeuSight", "6945927", "MIT", "NeuSight, operators and networks")},
        "Graphics cards, from single operators and a few language models per card.",
        of_neusight,
    ),
    Source(
        "timm.toml",
        {
            "timm": github(
                "huggingface/pytorch-image-models", "aa4b585", "Apache-2.0", "timm, results/benchmark-*"
            )
        },
        "About 1,450 image models per device, traced by sizeup.",
        of_timm,
    ),
    Source(
        "vidur.toml",
        {"vidur": github("microsoft/vidur", "7d47513", "MIT", "Vidur, data/profiling")},
        "Single kernels of language models in half precision.",
        of_vidur,
    ),
    *named.SOURCES,
)


def files(folder: Path, models: Path, only: str = "") -> Iterator[tuple[Source, list[Shipped]]]:
    """The files with their calibrations."""
    from latency.truth import own_trace

    for source in SOURCES:
        if source.make is of_timm and not own_trace.PATH.is_file():
            continue  # tracing all models takes half an hour, so the existing file is kept
        if only in source.file:
            yield source, source.make(folder, models)
