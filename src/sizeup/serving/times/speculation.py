"""Speculative decoding: a draft proposes tokens, and one step of the model verifies them.

With k draft tokens, each of which is accepted with probability a, a step emits

    E = 1 + a + ... + a^k = (1 - a^(k+1)) / (1 - a)

tokens (Leviathan, Kalman and Matias, 2023, https://arxiv.org/abs/2211.17192, equation 1: acceptances are
independent) and takes one step of the model with k + 1 tokens per sequence, and k steps of the draft. The
acceptance is an input: it depends on texts and on the draft, and no configuration states it.

A draft is a smaller model with the same vocabulary, or the MTP layers of the model, of which one runs per
draft token, with the model's embedding and head. Its weights and its key-value cache are on the same GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sizeup.errors import SizeupError
from sizeup.serving.memory.layouts import Layout, divides_heads
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.steps.step import Demand, Server, demand, seconds, seconds_by_cause
from sizeup.serving.steps.work import Floats, Numbers, divide
from sizeup.serving.times.closed_form import Times, combined, corrected, load, over_batches, times
from sizeup.targets.clusters import Cluster

MTP = "mtp"
_MOST_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft, how many tokens it proposes per step, and how many of them are accepted."""

    step: Architecture  # what a draft step runs
    stored: Architecture  # what it adds to the memory
    tokens: int
    acceptance: float

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step emits on average."""
        return float(sum(self.acceptance**position for position in range(self.tokens + 1)))


def draft_of(
    architecture: Architecture, model: Architecture | None, tokens: int | None, acceptance: float | None
) -> Draft:
    """The draft of a model; `model` is None for its own MTP layers.

    Raises SizeupError if it cannot be its draft, or a number is out of range.
    """
    if tokens is None or not _is_count(tokens):
        raise SizeupError(f"a draft needs draft tokens: give an integer from 1 to {_MOST_TOKENS}")
    if acceptance is None or not _is_share(acceptance):
        raise SizeupError(
            "a draft needs the share of its tokens that are accepted: give acceptance from 0 to 1"
        )
    if model is None:
        step, stored = _prediction_layers(architecture)
        return Draft(step, stored, tokens, float(acceptance))
    if model.vocabulary != architecture.vocabulary:
        raise SizeupError(
            f"draft {model.name} has a vocabulary of {model.vocabulary:,}, and {architecture.name} one of"
            f" {architecture.vocabulary:,}; a draft has the same"
        )
    return Draft(model, model, tokens, float(acceptance))


def _is_count(tokens: object) -> bool:
    return isinstance(tokens, int) and not isinstance(tokens, bool) and 1 <= tokens <= _MOST_TOKENS


def _is_share(acceptance: object) -> bool:
    return isinstance(acceptance, int | float) and not isinstance(acceptance, bool) and 0 <= acceptance <= 1


def _prediction_layers(architecture: Architecture) -> tuple[Architecture, Architecture]:
    part = next((part for part in architecture.parts if part.kind == "mtp"), None)
    if part is None or not part.layers:
        raise SizeupError(f"{architecture.name} has no MTP layers that are described; give a draft model")
    weights = tuple(replace(weight, role="dense") for weight in part.weights)
    stored = replace(architecture, layers=part.layers, embedding=weights, head=(), parts=(), tied_head=False)
    own = weights[: len(weights) // len(part.layers)]
    layer = replace(part.layers[0], weights=(*part.layers[0].weights, *own))
    return replace(architecture, layers=(layer,), parts=()), stored


def with_draft(architecture: Architecture, draft: Draft | None) -> Architecture:
    """The model with the layers and weights of its draft, as a GPU holds them."""
    if draft is None:
        return architecture
    return replace(
        architecture,
        layers=(*architecture.layers, *draft.stored.layers),
        embedding=(*architecture.embedding, *draft.stored.embedding),
        head=(*architecture.head, *draft.stored.head),
    )


def layout_problem(draft: Draft, layout: Layout) -> str:
    """Why a draft is not possible in a layout, or ''."""
    if layout.pipeline > 1:
        return "engines run drafts without pipeline stages"
    if not divides_heads(layout.tensor, draft.step):
        return f"tp{layout.tensor} does not divide the attention heads of the draft, {draft.step.name}"
    return ""


@dataclass(frozen=True, slots=True)
class DraftServer:
    """A draft on the GPUs of its model."""

    draft: Draft
    server: Server


def draft_server(
    draft: Draft | None, server: Server, layout: Layout, cluster: Cluster, kv: str
) -> DraftServer | None:
    """The draft with the rates of the server of its model; None without a draft."""
    if draft is None:
        return None
    own = layout if draft.step.expert_count else replace(layout, expert=1)
    return DraftServer(draft, replace(server, division=divide(draft.step, own, cluster, kv)))


def draft_times(
    server: Server,
    draft: DraftServer | None,
    concurrency: Numbers,
    input: Numbers,
    output: Numbers,
    most: Numbers,
) -> Times:
    """Times as those of `times`, with a draft if there is one."""
    if draft is None:
        return times(server, concurrency, input, output, most)
    context = np.asarray(input, np.float64) + np.asarray(output, np.float64) / 2
    per_step = draft.draft.tokens_per_step

    def even(requests: Floats) -> Times:
        own, other = (load(each, requests, input, output, requests) for each in (server, draft.server))
        step = sum(causes(server, draft, own.running, context).values())
        prefill = seconds(own.prefill, server.rates) + seconds(other.prefill, server.rates)
        return combined(own, server.rates, np.asarray(step) * per_step, prefill, per_step)

    result = over_batches(server.division, even, concurrency, output, most)
    return corrected(server, result, concurrency, input, output)


def causes(server: Server, draft: DraftServer | None, running: Floats, context: Numbers) -> dict[str, Floats]:
    """Seconds per token by cause, without the prefill of other requests; `draft` is that of all its steps."""
    if draft is None:
        return seconds_by_cause(demand(server, running, context), server.rates)
    tokens, per_step = draft.draft.tokens, draft.draft.tokens_per_step
    parts = seconds_by_cause(_verification(server, running, context, tokens), server.rates)
    parts["draft"] = tokens * seconds(demand(draft.server, running, context), server.rates)
    return {name: each / per_step for name, each in parts.items()}


def _verification(server: Server, running: Floats, context: Numbers, tokens: int) -> Demand:
    """The step that verifies draft tokens: it has logits of every position, and is no prompt."""
    steps = demand(server, running, context, tokens + 1)
    products = {
        key: each * (tokens + 1) if key[0] == "head" else each for key, each in steps.products.items()
    }
    return replace(steps, products=products, prompts=np.zeros_like(steps.prompts))
