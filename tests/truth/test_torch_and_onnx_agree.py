"""A network and its ONNX exports have the same MACs and parameters, to the digit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from formats.onnx.exporting import by_export, by_tracing, with_distinct_weights
from formats.onnx.making import count
from sizeup import cost, formats
from sizeup.formats.torch.zoo import import_torchvision

TOKENS = 128


class Bert(nn.Module):
    """BERT-base with its pooler, as plain tensors in and out."""

    def __init__(self) -> None:
        import_torchvision()  # transformers imports it too, and cannot where it needs help
        from transformers import BertConfig, BertModel

        super().__init__()
        self.bert = BertModel(BertConfig())  # type: ignore[no-untyped-call]

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = self.bert(input_ids=tokens, attention_mask=mask).pooler_output
        return result


def image() -> tuple[Tensor, ...]:
    return (torch.zeros(1, 3, 224, 224),)


def text() -> tuple[Tensor, ...]:
    return torch.zeros(1, TOKENS, dtype=torch.int64), torch.ones(1, TOKENS, dtype=torch.int64)


@dataclass(frozen=True)
class Network:
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    macs: int
    params: int


def torchvision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        library: Any = import_torchvision()
        if library is None:
            pytest.skip("torchvision is not installed")
        network: nn.Module = getattr(library.models, name)()
        return network

    return make


# Embeddings: vocabulary, positions and kinds of 768, and a norm; twelve layers; the pooler.
BERT_LAYER = 4 * (768**2 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
BERT_PARAMS = (30522 + 512 + 2 + 2) * 768 + 12 * BERT_LAYER + 768**2 + 768
NETWORKS = {
    "resnet50": Network(torchvision("resnet50"), image, 4_089_184_256, 25_557_032),
    "mobilenet_v2": Network(torchvision("mobilenet_v2"), image, 300_774_272, 3_504_872),
    "vit_b_16": Network(torchvision("vit_b_16"), image, 17_563_828_224, 86_567_656),
    # B (18432 S^2 + 84934656 S + 589824) for one sequence of 128.
    "bert": Network(Bert, text, 18432 * TOKENS**2 + 84934656 * TOKENS + 589824, BERT_PARAMS),
}


@cache
def made(name: str) -> nn.Module:
    return with_distinct_weights(NETWORKS[name].make()).eval()


def check(counted: cost.Cost, name: str) -> None:
    assert counted.known.all(), counted.reasons
    assert (counted.total_macs, counted.total_params) == (NETWORKS[name].macs, NETWORKS[name].params)


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_gives_the_known_answer(name: str) -> None:
    check(cost.count(formats.load(made(name), inputs=NETWORKS[name].inputs())), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_newer_exporter_gives_the_same(name: str) -> None:
    check(count(by_export(made(name), NETWORKS[name].inputs(), optimize=False)), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_older_exporter_gives_the_same(name: str) -> None:
    # Otherwise norms are folded into convolutions, see below.
    kept = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    check(count(by_tracing(made(name), NETWORKS[name].inputs(), **kept)), name)


@pytest.mark.parametrize("exporter", [by_export, by_tracing])
def test_folded_norms_leave_one_number_a_channel(exporter: Callable[..., Any]) -> None:
    """Scale and shift of a norm become the weights and one bias of the convolution before it."""
    network = made("mobilenet_v2")
    channels = sum(each.num_features for each in network.modules() if isinstance(each, nn.BatchNorm2d))
    counted = count(exporter(network, image()))
    assert counted.total_macs == NETWORKS["mobilenet_v2"].macs
    assert counted.total_params == NETWORKS["mobilenet_v2"].params - channels
    assert channels == 17_056


def test_modules_cost_the_same_in_both() -> None:
    """Rolled up by module, the numbers of the export are those of the network."""
    network = made("resnet50")
    ours = by_module(cost.count(formats.load(network, inputs=image())))
    theirs = by_module(count(by_tracing(network, image(), training=torch.onnx.TrainingMode.PRESERVE)))
    assert ours == theirs
    # The first stage: 56 x 56 positions; three blocks of 64 -> 64 -> 64 (3x3) -> 256, the first of them
    # from 64 channels with a projection, the others from 256.
    first = 64 * 64 + 64 * 64 * 9 + 64 * 256 + 64 * 256
    assert theirs["layer1"] == 56 * 56 * (first + 2 * (256 * 64 + 64 * 64 * 9 + 64 * 256))


def by_module(counted: cost.Cost) -> dict[str, int]:
    sums: dict[str, int] = {}
    for op, macs in zip(counted.graph.ops, counted.macs.tolist(), strict=True):
        if macs:
            module = op.scope.partition(".")[0]
            sums[module] = sums.get(module, 0) + macs
    return sums
