"""The hardware module: what it did, with numbers from running it."""

from __future__ import annotations

import dataclasses
import inspect
import struct
from pathlib import Path
from typing import Any

import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore] # no types of its own
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import old_texts
from conftest import ROOT
from sizeup.compat import hardware
from sizeup.compat.hardware import (
    LayerEstimate,
    estimate_layerwise_stats,
    precision_tradeoff_table,
    save_hardware_artifacts,
    summarize_hardware,
)
from sizeup.formats.torch.networks import SmallCNN
from sizeup.formats.torch.networks.definitions import mobile_net_v3

COLUMNS = ["layer", "output_elements", "parameter_bytes", "activation_bytes", "macs"]
SUMMARY = [
    "estimated_total_bytes",
    "estimated_total_macs",
    "achieved_bandwidth_gbps",
    "configured_memory_bandwidth_gbps",
    "bandwidth_utilization",
    "achieved_gmacs",
]
TRADEOFFS = [
    "precision",
    "accuracy_mean",
    "latency_ms_mean",
    "memory_mb_mean",
    "energy_proxy_j_mean",
    "accepted_ratio",
]
FILES = {
    "layerwise_breakdown.csv",
    "precision_tradeoffs.csv",
    "hardware_summary.csv",
    "layerwise_activation_memory.png",
    "layerwise_macs.png",
}


def sweep() -> Any:
    return pandas.DataFrame(
        {
            "precision": ["fp32", "fp16", "fp32", "fp16", "int8"],
            "accuracy": [0.98, 0.96, 0.94, 0.95, 0.9],
            "latency_ms": [10.0, 4.0, 14.0, 6.0, 20.0],
            "memory_mb": [2.0, 1.0, 4.0, 1.5, 0.5],
            "energy_proxy_j": [1.0, 0.5, 3.0, 0.25, 0.125],
            "accepted": [True, False, True, True, False],
            "run": ["a", "b", "c", "d", "e"],
        }
    )


def artifacts(folder: Any, model: Any = None, shape: tuple[int, ...] = (1, 28, 28)) -> Any:
    table = estimate_layerwise_stats(model or SmallCNN(), 1, shape)
    summary = summarize_hardware(table, 10.0, 12.8)
    save_hardware_artifacts(folder, table, precision_tradeoff_table(sweep()), summary)
    return table


def test_s4_1_layer_estimate() -> None:
    assert [each.name for each in dataclasses.fields(LayerEstimate)] == COLUMNS
    made = LayerEstimate("conv1", 12544, 640, 50176, macs=112896)
    assert list(vars(made)) == COLUMNS
    assert made.macs == 112896


def test_s4_2_estimate_layerwise_stats() -> None:
    table = estimate_layerwise_stats(SmallCNN(), 1)
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == COLUMNS
    assert [str(table[name].dtype) for name in COLUMNS[1:]] == ["int64"] * 4
    pandas.testing.assert_frame_equal(
        table, estimate_layerwise_stats(SmallCNN(), batch_size=1, input_shape=(1, 28, 28))
    )


def test_s4_3_summarize_hardware_guards_a_latency_of_zero() -> None:
    table = estimate_layerwise_stats(SmallCNN(), 1)
    assert list(summarize_hardware(table, 10.0, 12.8)) == SUMMARY
    with pytest.warns(UserWarning, match="0 ms is no latency"):
        guarded = summarize_hardware(table, 0.0, 12.8)
    # The tool divided by a nanosecond instead.
    assert guarded["achieved_bandwidth_gbps"] == pytest.approx(157264)
    assert guarded["achieved_gmacs"] == pytest.approx(1031744)


def test_s4_4_precision_tradeoff_table() -> None:
    table = precision_tradeoff_table(sweep())
    assert list(table.columns) == TRADEOFFS
    expected = [
        ["fp16", 0.955, 5.0, 1.25, 0.375, 0.5],
        ["fp32", 0.96, 12.0, 3.0, 2.0, 1.0],
        ["int8", 0.9, 20.0, 0.5, 0.125, 0.0],
    ]
    for row, wanted in zip(table.itertuples(index=False), expected, strict=True):
        assert row[0] == wanted[0]
        assert list(row[1:]) == pytest.approx(wanted[1:])
    assert list(table.index) == [0, 1, 2]


def png_size_and_resolution(path: Path) -> tuple[int, int, int]:
    """Width, height and pixels a metre, from the chunks of the file."""
    content = path.read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    place = content.index(b"pHYs") + 4
    return width, height, struct.unpack(">I", content[place : place + 4])[0]


@pytest.mark.parametrize("make", [str, Path])
def test_s4_5_save_hardware_artifacts(tmp_path: Path, make: type) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    table = artifacts(make(folder))
    assert {path.name for path in folder.iterdir()} == FILES
    for name in ("layerwise_activation_memory.png", "layerwise_macs.png"):
        width, height, per_metre = png_size_and_resolution(folder / name)
        assert (width, height, round(per_metre * 0.0254)) == (1260, 900, 180)
    pandas.testing.assert_frame_equal(pandas.read_csv(folder / "layerwise_breakdown.csv"), table)
    assert list(pandas.read_csv(folder / "precision_tradeoffs.csv").columns) == TRADEOFFS
    summary = pandas.read_csv(folder / "hardware_summary.csv")
    assert list(summary.columns) == SUMMARY
    assert summary["estimated_total_bytes"].tolist() == [157264]
    artifacts(folder)  # a folder that is there is fine


def test_s4_5_the_pictures_are_of_different_things(tmp_path: Path) -> None:
    artifacts(tmp_path)
    memory, macs = (tmp_path / f"layerwise_{name}.png" for name in ("activation_memory", "macs"))
    assert memory.read_bytes() != macs.read_bytes()


def test_s4_5_tables_are_utf_8(tmp_path: Path) -> None:
    model = torch.nn.Sequential()
    model.add_module("größe", torch.nn.Linear(4, 2))
    artifacts(tmp_path, model, (4,))
    assert "größe,2,40,8,8" in (tmp_path / "layerwise_breakdown.csv").read_text("utf-8").splitlines()


def test_s4_6_small_cnn() -> None:
    table = estimate_layerwise_stats(SmallCNN(), 1)
    assert table.to_numpy().tolist() == [
        ["conv1", 12544, 640, 50176, 112896],
        ["conv2", 6272, 18560, 25088, 903168],
        ["classifier", 10, 62760, 40, 15680],
    ]
    summary = summarize_hardware(table, 10.0, 12.8)
    assert summary["estimated_total_bytes"] == 157264
    assert summary["estimated_total_macs"] == 1031744
    assert summary["achieved_bandwidth_gbps"] == pytest.approx(0.0157264, abs=5e-8)
    assert summary["configured_memory_bandwidth_gbps"] == 12.8
    assert summary["bandwidth_utilization"] == pytest.approx(0.001228625, abs=5e-10)
    assert summary["achieved_gmacs"] == pytest.approx(0.1031744, abs=5e-8)
    large = estimate_layerwise_stats(SmallCNN(), 128).set_index("layer")
    assert large.loc["conv2", "macs"] == 115_605_504
    assert large.loc["conv1", "output_elements"] == 128 * 12544
    assert large["parameter_bytes"].tolist() == table["parameter_bytes"].tolist()


def test_s4_7_any_model() -> None:
    model = mobile_net_v3(10, "small").eval()
    seen = {}

    def note(name: str) -> Any:
        return lambda _module, _given, made: seen.update({name: made.numel()})

    for name, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            module.register_forward_hook(note(name))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(2, 3, 64, 64))
    fresh = mobile_net_v3(10, "small")
    table = estimate_layerwise_stats(fresh, 2, (3, 64, 64))
    assert dict(zip(table["layer"], table["output_elements"], strict=True)) == seen
    assert table["macs"].sum() == counter.get_total_flops() // 2
    assert table["parameter_bytes"].sum() == sum(4 * each.numel() for each in fresh.parameters())
    assert fresh.training


def test_s4_7_a_layer_that_runs_twice_owns_its_parameters_once() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = torch.nn.Linear(8, 8, dtype=torch.float16)

        def forward(self, x: Any) -> Any:
            return self.shared(self.shared(x))

    table = estimate_layerwise_stats(Twice(), 1, (8,))
    assert table.to_numpy().tolist() == [["shared", 16, 2 * (64 + 8), 32, 128]]


def test_s4_7_what_is_not_known_is_missing_and_said(tmp_path: Path) -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.second = Unheard()

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    class Unheard(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.matrix_exp(x)

    with pytest.warns(UserWarning, match=r"not known: .*second"):
        table = artifacts(tmp_path, Odd(), (8, 8))
    macs = table.set_index("layer")["macs"]
    assert macs["first"] == 512
    assert pandas.isna(macs["second"])
    assert (tmp_path / "layerwise_macs.png").exists()


def test_s4_names_and_files_of_the_text_are_ours(shared: Path) -> None:
    content = old_texts.text(shared, 4)
    named = {name for name in hardware.__all__ if name in content}
    assert named == set(hardware.__all__)
    assert [key for key in (*SUMMARY, *TRADEOFFS, *FILES) if f"{key}: " not in content] == []
    for function, first in ((estimate_layerwise_stats, "model"), (save_hardware_artifacts, "output_dir")):
        assert next(iter(inspect.signature(function).parameters)) == first


@pytest.mark.parametrize("title", ["Hardware module"])
def test_snippets_of_our_page_run(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = old_texts.section((ROOT / "docs" / "coming-from.md").read_text("utf-8"), title)
    (snippet,) = old_texts.blocks(page, "python")
    exec(compile(snippet, title, "exec"), {"__name__": title})
