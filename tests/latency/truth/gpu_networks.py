"""NeuSight's networks on graphics cards, rebuilt from configurations and estimated from timed operators.

float32, eager PyTorch, one inference without a KV cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sizeup
from latency.truth.effects import Effect, from_effects
from latency.truth.gpu_operators import PRODUCTS, TRAIN, Fitted, rates_of
from latency.truth.judge import Outcome, plain_sum, with_others
from latency.truth.splits import every
from latency.truth.tables import Table, Words, read
from sizeup.latency import (
    PredictionInterval,
    Rate,
    Rates,
    kernels,
    prediction_interval,
    seconds,
    stack,
    work_of,
)
from sizeup.latency.work import Floats, Work

if TYPE_CHECKING:
    import torch

    from sizeup.cost import Cost


def _gpt(width: int, layers: int, heads: int, positions: int) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "n_embd": width,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": positions,
        "vocab_size": 50_257,
    }


# The sizes are those of NeuSight's configurations (MIT); its "XL" is wider than the GPT-3 of that name.
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "bert_large": {
            "architectures": ["BertForSequenceClassification"],
            "model_type": "bert",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
        "gpt2_large": _gpt(1280, 36, 20, 1024),
        "gpt3_xl": _gpt(3072, 24, 24, 2048),
        "gpt3_27": _gpt(2560, 32, 32, 2048),
        "opt_13": {
            "architectures": ["OPTForCausalLM"],
            "model_type": "opt",
            "hidden_size": 2048,
            "word_embed_proj_dim": 2048,
            "ffn_dim": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "max_position_embeddings": 2048,
            "vocab_size": 50_272,
        },
        "switchxl4": {
            "d_model": 1024,
            "d_ff": 16_384,
            "d_kv": 128,
            "num_heads": 32,
            "num_layers": 24,
            "num_decoder_layers": 24,
            "num_sparse_encoder_layers": 12,
            "num_sparse_decoder_layers": 12,
            "num_experts": 4,
            "expert_capacity": 64,
            "vocab_size": 32_128,
        },
    }
)
LENGTHS = MappingProxyType(
    {
        "bert_large": 512,
        "gpt2_large": 1024,
        "gpt3_xl": 2048,
        "gpt3_27": 2048,
        "opt_13": 2048,
        "switchxl4": 512,
    }
)
# Every token of the measured inputs is the same word, so most of them choose the same expert: on such inputs
# a small network of this kind uses 1.6 of its 4 experts a layer, each for as many tokens as it may take.
_BUSY_EXPERTS = 2


@cache
def counted(name: str) -> Cost:
    """One sequence of the measured length through the network."""
    shape = ((1, LENGTHS[name]), "int64")
    if name == "switchxl4":
        inputs = {"input_ids": shape, "attention_mask": shape, "decoder_input_ids": shape}
        return sizeup.count(_switch(dict(CONFIGURATIONS[name])), inputs=inputs)
    inputs = {"input_ids": shape}
    if name == "bert_large":  # the original adds a mask of ones if there is none
        inputs["attention_mask"] = shape
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json"
        path.write_text(json.dumps({**CONFIGURATIONS[name], "_attn_implementation": "eager"}))
        return sizeup.count(f"hf:{path}", inputs=inputs)


def _switch(settings: dict[str, Any]) -> torch.nn.Module:
    """A switch transformer whose experts take a fixed number of tokens, no matter which."""
    import torch
    import transformers

    class Sparse(torch.nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.classifier = layer.router.classifier
            self.experts = layer.experts

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            batch, tokens, width = states.shape
            share = torch.softmax(self.classifier(states), -1).max(-1, keepdim=True).values
            taken = batch * settings["expert_capacity"]
            output = states.clone().view(-1, width)
            for expert in list(self.experts.values())[:_BUSY_EXPERTS]:
                output = torch.cat([expert(output[:taken]), output[taken:]])
            return share * output.view(batch, tokens, width)

    config = transformers.SwitchTransformersConfig(**settings, use_cache=False)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = transformers.SwitchTransformersForConditionalGeneration(config)
    for layer in model.modules():
        if getattr(layer, "is_sparse", False) and hasattr(layer, "mlp"):
            layer.mlp = Sparse(layer.mlp)
    module: torch.nn.Module = model
    return module.train(False)


class Measured(NamedTuple):
    """The inference cases: work at the measured batch, seconds, and whose they are."""

    work: Work
    seconds: Floats
    networks: Words
    devices: Words


def cases(folder: Path) -> Table:
    """The rows of NeuSight's 82 inference cases: one card, no compiler."""
    table = read(folder / "neusight_e2e.csv")
    return table.where((table.words("mode") == "inf") & (table.words("option") == ""))


@cache
def measured(folder: Path) -> Measured:
    """The inference cases with their networks rebuilt."""
    table = cases(folder)
    names = table.words("model_name")
    if any(LENGTHS[name] != length for name, length in zip(names, table.numbers("seqlen"), strict=True)):
        raise ValueError("a network was measured at another length than it was rebuilt for")
    work = stack([work_of(counted(name)) for name in names.tolist()]).at_batch(table.numbers("batch"))
    times = table.numbers("label_all_e2e_latency") / 1e3
    return Measured(work, times, names, np.char.replace(table.words("device"), "_", " "))


class Parts(NamedTuple):
    """Seconds of each case in matrix products, and in memory-bound kernels."""

    products: Floats
    rest: Floats

    @property
    def total(self) -> Floats:
        """Seconds of one inference."""
        return self.products + self.rest


@cache
def from_operators(folder: Path, splits: tuple[str, ...] = TRAIN) -> Parts:
    """Each case from operators: those timed on its card in these splits, else on other cards."""
    work, _, _, devices = measured(folder)
    parts = Parts(np.zeros(work.networks), np.zeros(work.networks))
    for device in np.unique(devices).tolist():
        here = np.flatnonzero(devices == device)
        rates, own = rates_of(folder, device, splits), work.select(here)
        parts.products[here] = own.totals(np.where(own.macs > 0, kernels(rates, own).seconds, 0.0))
        parts.rest[here] = seconds(rates, own) - parts.products[here]
    return parts


def slowness(parts: Parts, times: Floats) -> Floats:
    """The slowdown of matrix products against the estimate, in logarithms.

    A card's timed operators give the rate of memory-bound kernels to 1 %, but not of products, because the
    clock drops in long runs. So the entire error of a network is attributed to its products.
    """
    left = np.maximum(times - parts.rest, 0.1 * times)
    return np.asarray(np.log(left / parts.products), np.float64)


def corrected(parts: Parts, times: Floats, networks: Words, devices: Words) -> Floats:
    """Estimates with products as slow as in other networks on the card, shrunk towards all cards."""
    estimated = np.zeros(len(times))
    off = slowness(parts, times)
    for name in np.unique(networks):
        here = networks == name
        known, query = Effect(devices[~here], 1.0), Effect(devices[here], 1.0)
        slower = np.exp(from_effects([known], off[~here], [query]))
        estimated[here] = parts.rest[here] + parts.products[here] * slower
    return estimated


def operators_alone(folder: Path, splits: tuple[str, ...] = TRAIN) -> Outcome:
    """Without any network; the interval is from the errors on other cards."""
    samples = measured(folder)
    name = "NeuSight, timed operators only" if splits else "NeuSight, card held out"
    estimated = from_operators(folder, splits).total
    return with_others(name, estimated, samples.seconds, every(samples.devices), alike=True)


def network_held_out(folder: Path, splits: tuple[str, ...] = TRAIN) -> Outcome:
    """From operators, and from other networks on the same card."""
    work, times, networks, devices = measured(folder)
    estimated = corrected(from_operators(folder, splits), times, networks, devices)
    stated = with_others("NeuSight, network held out", estimated, times, every(networks), alike=True)
    baseline = np.zeros(len(times))
    for name, device in {*zip(networks.tolist(), devices.tolist(), strict=True)}:
        there = devices == device
        seen, unseen = np.flatnonzero(there & (networks != name)), np.flatnonzero(there & (networks == name))
        baseline[unseen] = plain_sum(work, times, seen, unseen)
    return Outcome(stated.name, estimated, times, stated.low, stated.high, baseline)


def fits(folder: Path) -> dict[str, Fitted]:
    """The rates of each card with measured networks: of its operators, with products as slow as in networks.

    The error is that of its networks, each held out in turn. The interval is that of all cards, because one
    card has too few networks, or wider if the errors of the card are larger.
    """
    _, times, networks, devices = measured(folder)
    splits = (*TRAIN, "test")
    off = network_held_out(folder, splits).estimated
    shared = prediction_interval(off, times, every(networks))
    known = Effect(devices, 1.0)
    slower = np.exp(from_effects([known], slowness(from_operators(folder, splits), times), [known]))
    calibrations = {}
    for device in np.unique(devices).tolist():
        here = devices == device
        own = prediction_interval(off[here], times[here])
        stated = PredictionInterval(min(shared.low, own.low), max(shared.high, own.high))
        error = float(100 * np.abs(off[here] / times[here] - 1).mean())
        rates = _scaled(rates_of(folder, device, splits), float(slower[here][0]))
        calibrations[device] = Fitted(rates, stated, error, int(here.sum()))
    return calibrations


def _scaled(rates: Rates, times: float) -> Rates:
    """The rates with matrix products slower by a factor."""

    def slower(rate: Rate) -> Rate:
        return Rate(rate.mac * times, rate.byte * times, rate.launch)

    products = {name: slower(rate) for name, rate in rates.classes.items() if name in PRODUCTS}
    return replace(rates, classes={**rates.classes, **products})
