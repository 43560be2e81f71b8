"""Networks of search spaces in the calibrations, against the same networks recorded in torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("scipy", reason="fits need scipy")
pytest.importorskip("torch", reason="networks are built in torch")

import torch
from torch import nn

import sizeup
from fitting.spaces import cells, fbnet, once_for_all, work_of_networks
from sizeup.latency import Work, execution_of

pytestmark = pytest.mark.extras

ARCH = "|nor_conv_3x3~0|+|none~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|"


def block(channels: int, channels_out: int, taps: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(channels, channels_out, taps, stride, taps // 2, bias=False)
    return nn.Sequential(nn.ReLU(), conv, nn.BatchNorm2d(channels_out))


class Zero(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mul(0.0)


def operator(name: str, channels: int) -> nn.Module:
    modules: dict[str, nn.Module] = {
        "none": Zero(),
        "skip_connect": nn.Identity(),
        "avg_pool_3x3": nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        "nor_conv_3x3": block(channels, channels, 3),
        "nor_conv_1x1": block(channels, channels, 1),
    }
    return modules[name]


class Cell(nn.Module):
    def __init__(self, arch: str, channels: int) -> None:
        super().__init__()
        nodes = [[each.split("~") for each in part.strip("|").split("|")] for part in arch.split("+")]
        self.sources = [[int(source) for _, source in node] for node in nodes]
        edges = ([operator(name, channels) for name, _ in node] for node in nodes)
        self.edges: Any = nn.ModuleList(nn.ModuleList(node) for node in edges)

    def forward(self, x: Any) -> Any:
        values = [x]
        for sources, edges in zip(self.sources, self.edges, strict=True):
            terms = [edge(values[source]) for source, edge in zip(sources, edges, strict=True)]
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            values.append(total)
        return values[-1]


class Reduction(nn.Module):
    def __init__(self, channels: int, channels_out: int) -> None:
        super().__init__()
        self.body = nn.Sequential(block(channels, channels_out, 3, 2), block(channels_out, channels_out, 3))
        self.shortcut = nn.Sequential(nn.AvgPool2d(2, 2), nn.Conv2d(channels, channels_out, 1, bias=False))

    def forward(self, x: Any) -> Any:
        return self.shortcut(x) + self.body(x)


def network(arch: str) -> nn.Module:
    """NAS-Bench-201's skeleton, as its paper gives it."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)]
    for channels in (16, 32, 64):
        layers += [Reduction(channels // 2, channels)] if channels > 16 else []
        layers += [Cell(arch, channels) for _ in range(5)]
    head = [nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*layers, *head).eval()


def kernels(work: Work) -> Counter[tuple[object, ...]]:
    result: Counter[tuple[object, ...]] = Counter()
    columns = (work.macs, work.read, work.written, work.weights, work.length, work.columns, work.rows)
    for index, count in enumerate(work.count.tolist()):
        if count:
            numbers = tuple(float(column[index]) for column in columns)
            result[(work.names[work.class_index[index]], *numbers)] += int(count)
    return result


def test_a_cell_runs_the_kernels_that_eager_torch_runs() -> None:
    recorded = execution_of(sizeup.count(network(ARCH), inputs=[torch.zeros(1, 3, 32, 32)])).work
    assert recorded.names
    assert kernels(work_of_networks([cells(ARCH)])) == kernels(recorded)


# MACs and parameters of these networks in HELP's tables.
FBNET = (
    "k5_e6,skip,k3_e1_g2,skip,k5_e1,skip,skip,skip,k5_e6,k5_e1,k3_e1_g2,k5_e1,k5_e6,k3_e6,k3_e3,k5_e6,k3_e6,"
)
FBNET += "k3_e3,k5_e1,k3_e3,k5_e1,k5_e1_g2"
OFA = '{"ks":[7,5,5,5,7,7,5,7,5,7,3,7,5,3,7,3,5,3,5,3],"e":[6,4,4,6,6,3,4,3,3,6,3,3,3,6,3,4,6,4,3,6],'
OFA += '"d":[2,2,2,2,3],"r":204}'


def test_blocks_cost_what_their_table_tells() -> None:
    result = fbnet(FBNET)
    assert (result.macs, result.parameters) == (67_605_376, 1_790_500)
    result = once_for_all(OFA)
    assert (result.macs, result.parameters) == (305_047_776, 6_132_040)


def test_a_file_has_folded_norms_away_and_runs_what_leads_to_the_result() -> None:
    names = {kernel.name for kernel in cells(ARCH, folded=True).kernels}
    assert "batch_norm" not in names
    eager, folded = (cells(ARCH, folded=each).kernels for each in (False, True))
    assert folded.total() < eager.total()
