"""Networks on graphics cards: rebuilt as they were measured, and judged on what their estimates never saw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the tables of measurements are Parquet files")
pytest.importorskip("scipy", reason="fits need scipy")
pytest.importorskip("transformers", reason="the networks are rebuilt from its configurations")

from latency.truth import gpu_networks
from latency.truth.gpu_networks import LENGTHS, cases, corrected, counted, measured
from latency.truth.gpu_operators import fits, like_networks, operators, rates_of, sheets, work
from sizeup.latency import rates_from, seconds

# Width, layers, vocabulary, and the rows of a table of positions: all are four times as wide inside.
DECODERS = {
    "gpt2_large": (1280, 36, 50_257, 1024),
    "gpt3_xl": (3072, 24, 50_257, 2048),
    "gpt3_27": (2560, 32, 50_257, 2048),
    "opt_13": (2048, 24, 50_272, 2050),  # two positions for padding
}


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "truth"


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_its_closed_form(name: str) -> None:
    width, layers, vocabulary, positions = DECODERS[name]
    tokens = LENGTHS[name]
    macs = layers * (12 * tokens * width**2 + 2 * tokens**2 * width) + tokens * width * vocabulary
    layer = 12 * width**2 + 9 * width + 4 * width  # matrices, their biases, two norms
    params = layers * layer + 2 * width + (vocabulary + positions) * width
    assert counted(name).total_macs == macs
    assert counted(name).total_params == params


def test_bert_is_its_closed_form() -> None:
    tokens, width, layers = LENGTHS["bert_large"], 1024, 24
    blocks = layers * (12 * tokens * width**2 + 2 * tokens**2 * width)
    assert counted("bert_large").total_macs == blocks + width**2 + 2 * width  # the first token is classified


def test_the_switch_transformer_is_its_closed_form() -> None:
    tokens, width, inner, hidden, experts, taken = 512, 1024, 32 * 128, 16_384, 2, 64
    attention = 72 * (4 * tokens * width * inner + 2 * tokens**2 * inner)  # encoder, decoder, and across
    dense = 24 * 2 * tokens * width * hidden
    sparse = 24 * (experts * 2 * taken * width * hidden + tokens * width * 4)
    assert counted("switchxl4").total_macs == attention + dense + sparse + tokens * width * 32_128


def test_the_cases_are_those_of_its_authors(folder: Path) -> None:
    table = cases(folder)
    label, learned, roofline = (
        table.numbers(f"{each}_all_e2e_latency") for each in ("label", "neusight", "roofline")
    )
    off = np.abs(learned / label - 1)
    assert len(table) == 82
    assert (round(100 * off.mean(), 1), round(100 * (off < 0.1).mean())) == (9.4, 68)
    assert round(100 * np.nanmean(np.abs(roofline / label - 1)), 1) == 31.2


def test_rebuilt_networks_have_the_authors_own_roofline(folder: Path) -> None:
    # Their roofline is computed from their own trace, so it judges MACs and traffic, not times.
    results, roofline = measured(folder), cases(folder).numbers("roofline_all_e2e_latency") / 1e3
    kernels = results.work
    sheet = [sheets(folder)[each] for each in results.devices.tolist()]
    peak, bandwidth = np.array([s.peak for s in sheet]), np.array([s.bandwidth for s in sheet])
    taken = np.maximum(2 * kernels.macs / peak[kernels.network], kernels.traffic / bandwidth[kernels.network])
    ratio = kernels.totals(taken) / roofline
    # They list the H100 twice, with different peaks.
    judged = ~np.isnan(roofline) & (results.devices != "NVIDIA H100 80GB HBM3")
    plain = judged & ~np.isin(results.networks, ["opt_13", "switchxl4"])
    assert plain.sum() == 31
    assert np.abs(ratio[plain] - 1).max() < 0.02
    # Their trace of OPT leaves out a pass over the scores; a switch transformer's experts are run by chance.
    assert np.abs(np.median(ratio[judged & ~plain]) - 1) < 0.06


def test_the_time_of_a_network_does_not_move_its_own_estimate(folder: Path) -> None:
    _, times, networks, devices = measured(folder)
    here = networks == "gpt3_xl"
    estimated = gpu_networks.from_operators(folder)
    before = corrected(estimated, times, networks, devices)
    after = corrected(estimated, np.where(here, 2 * times, times), networks, devices)
    assert (before[here] == after[here]).all()
    assert (before[~here] < after[~here]).any()


def test_a_card_that_is_held_out_is_estimated_without_its_operators(folder: Path) -> None:
    seen, unseen = rates_of(folder, "Tesla T4"), rates_of(folder, "Tesla T4", splits=())
    assert seen.classes["linear"] != unseen.classes["linear"]
    sheet = sheets(folder)
    # The P4 is the one other card that lives on its slot: the T4 is as far below its own peak.
    p4 = rates_of(folder, "Tesla P4").classes["linear"].mac
    assert unseen.classes["linear"].mac == pytest.approx(p4 * sheet["Tesla P4"].peak / sheet["Tesla T4"].peak)


@pytest.mark.slow
def test_fits_of_cards_estimate_operators_whose_shapes_they_never_saw(folder: Path) -> None:
    results = fits(folder)
    assert set(results) == {
        "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA L4",
        "Tesla P100-PCIE-16GB", "Tesla P4", "Tesla T4", "Tesla V100-PCIE-32GB",
    }  # fmt: skip
    for device, fitted in results.items():
        assert rates_from(fitted.rates.to_dict()) == fitted.rates
        assert fitted.error < (40 if device == "Tesla P4" else 20)
        table = operators(folder)
        table = table.where((table.words("device") == device) & like_networks(table))
        assert fitted.networks == len(table)
        off = np.log(table.numbers("latency_ms") / 1e3 / seconds(fitted.rates, work(table)))
        inside = (off >= fitted.interval.low) & (off <= fitted.interval.high)
        assert 0.85 < inside.mean() < 0.95


def test_a_card_is_fitted_to_its_operators_and_as_fast_as_its_networks(folder: Path) -> None:
    results = gpu_networks.fits(folder)
    kernels, times, _, devices = measured(folder)
    assert set(results) == set(devices.tolist())
    for device, fitted in results.items():
        here = np.flatnonzero(devices == device)
        assert rates_from(fitted.rates.to_dict()) == fitted.rates
        assert fitted.networks == len(here)
        ratio = seconds(fitted.rates, kernels.select(here)) / times[here]
        # Neither fast nor slow on the whole, and seen networks are no further off than unseen ones.
        assert abs(np.log(ratio).mean()) < 0.1
        assert 100 * np.abs(ratio - 1).mean() < fitted.error + 0.5
