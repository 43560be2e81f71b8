"""Capacity as engines allocate it, against logged servers and by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language_model_configs import CONFIGS, architecture
from sizeup.errors import TargetError
from sizeup.serving.memory.capacity import Capacity, Group, Pool, capacity_of
from sizeup.serving.memory.engines import (
    ENGINES,
    GIB,
    driver_memory,
    engine_of,
    sglang_static_fraction,
    vllm_utilization,
)
from sizeup.serving.memory.gpus import gpus_of
from sizeup.serving.memory.layouts import Layout
from sizeup.serving.models.cache import sequence_cost
from sizeup.targets.clusters import cluster

VLLM = ENGINES["vllm"]


@pytest.mark.parametrize(("gib", "logged"), [(64.68, 626_949), (103.92, 1_007_303)])
def test_gemma_4_on_vllm_holds_the_logged_tokens(gib: float, logged: int) -> None:
    """Start-up logs of vLLM 0.24 in github.com/redhat-performance/configiq/issues/112, room to 0.01 GiB."""
    model = architecture("Gemma-4-31B")
    capacity = capacity_of(model, model.layers, VLLM, int(gib * GIB), "bf16", 1)
    assert capacity.tokens(262_144) == pytest.approx(logged, rel=1e-4)
    # Ten layers per group; pages of 262,144 B: 32 tokens of full attention, 16 of windows.
    assert capacity.pools[0].unit_bytes == 10 * 262_144
    assert capacity.pools[0].needed(262_144) == 8192 + 5 * 577


def test_one_kind_of_attention_has_one_group() -> None:
    model = architecture("Llama-3.1-8B")
    capacity = capacity_of(model, model.layers, VLLM, 40 * GIB, "bf16", 1)
    assert capacity.pools == (Pool(40 * GIB // (16 * 131_072), 16 * 131_072, (Group(1, 16),)),)
    assert capacity.max_sequences(4608) == 40 * GIB // (16 * 131_072) // 288
    assert capacity.max_context(1) == 131_072  # the model's limit


def test_a_tensor_group_beyond_the_heads_replicates_the_cache() -> None:
    model = architecture("Llama-3.1-8B")
    eight, sixteen = (
        capacity_of(model, model.layers, VLLM, 40 * GIB, "bf16", group).max_sequences(4608)
        for group in (8, 16)
    )
    assert eight == sixteen


def test_a_state_takes_one_block_per_group_of_layers() -> None:
    """Qwen3-Next: 12 layers of attention, 36 of states; the block is widened to hold a state."""
    model = architecture("Qwen3-Next-80B")
    capacity = capacity_of(model, model.layers, VLLM, 40 * GIB, "bf16", 1)
    (pool,) = capacity.pools
    state, token = 32 * 128 * 128 * 4 + 8192 * 3 * 2, 2 * 2 * 256 * 2
    block = -(-state // (16 * token)) * 16
    assert pool.unit_bytes == 12 * block * token
    assert pool.needed(1) == 1 + 3
    assert pool.needed(10 * block) == 10 + 3


def test_sglang_reserves_memory_by_its_defaults() -> None:
    # 512 + 8192 x 1.5 + 512 x 2 + 8 / 8 x 1024 MiB of 81,920
    assert sglang_static_fraction(80 * GIB, 8, 1, 1) == round((81920 - 14848) / 81920, 3)
    assert sglang_static_fraction(16 * GIB, 1, 1, 1) == round((16384 - 13440) / 16384, 3)


def test_vllm_uses_more_memory_from_version_0_22() -> None:
    assert vllm_utilization("0.21") == 0.90
    assert vllm_utilization("0.22") == 0.92


def test_trtllm_uses_nine_tenths_of_what_is_free() -> None:
    gpu = gpus_of(architecture("Llama-3.1-8B"), Layout(), ENGINES["trtllm"], 80 * GIB, "bf16")[0]
    buffers = gpu.activations + gpu.graphs + gpu.communication + gpu.context + gpu.driver
    assert gpu.cache.expected == int(0.9 * (80 * GIB - gpu.weights_bytes - buffers.expected))


def test_llamacpp_allocates_windows_of_a_context_at_start() -> None:
    model = architecture("gpt-oss-20b")
    capacity = capacity_of(model, model.layers, ENGINES["llamacpp"], 8 * GIB, "bf16", 1)
    needed = capacity.pools[0].needed(8192)
    assert needed == 24_576 * 8192 + 24_576 * 768  # 128 + 512 tokens, in blocks of 256


@pytest.mark.parametrize(
    ("device", "gib", "tokens", "sequences"),
    [("h100-sxm", 80, 8192, 1024), ("a100-80gb-sxm", 80, 2048, 256), ("rtx-4090", 24, 2048, 256)],
)
def test_steps_of_vllm_depend_on_the_device(device: str, gib: int, tokens: int, sequences: int) -> None:
    """`get_batch_defaults` in vllm/engine/arg_utils.py of vLLM 0.24, for the server."""
    engine = VLLM.on(device, gib * GIB)
    assert (engine.batched_tokens, engine.logits) == (tokens, sequences)
    assert f"--max-num-batched-tokens {tokens}" in engine.defaults
    # Widest activations of Llama-3.1-8B: twice 14,336 and the hidden size; logits in 32 bits.
    model = architecture("Llama-3.1-8B")
    (gpu,) = gpus_of(model, Layout(), engine, gib * GIB, "bf16")
    assert gpu.activations.expected == 2 * tokens * (2 * 14_336 + 4096) + 4 * sequences * 128_256


def test_llamacpp_reserves_the_logits_of_a_whole_step_and_no_collectives() -> None:
    """llama.cpp b6000, src/llama-context.cpp: graph_reserve(n_tokens, n_seqs, n_outputs = n_tokens)."""
    model = architecture("Llama-3.1-8B")
    gpus = gpus_of(model, Layout(pipeline=2), ENGINES["llamacpp"], 24 * GIB, "fp16")
    assert gpus[1].activations.expected == 2 * 512 * (2 * 14_336 + 4096) + 4 * 512 * 128_256
    assert [gpu.communication.high for gpu in gpus] == [0, 0]


@pytest.mark.parametrize(
    ("target", "reported"), [("l4", 22.03), ("rtx-3090", 23.68), ("h100", 79.1), ("h200", 139.8)]
)
def test_the_memory_that_pytorch_reports_is_in_the_interval(target: str, reported: float) -> None:
    machine, _ = cluster(target)
    assert machine.memory_bytes is not None
    driver = driver_memory(machine.memory_bytes)
    assert machine.memory_bytes - driver.high <= reported * GIB <= machine.memory_bytes - driver.low


def test_an_unknown_engine_is_refused() -> None:
    assert engine_of("") is VLLM
    with pytest.raises(TargetError, match="serving engine 'ollama' is unknown; use one of vllm, sglang"):
        engine_of("ollama")


def test_weights_that_exceed_a_gpu_leave_no_capacity() -> None:
    gpu = gpus_of(architecture("Llama-3.1-405B"), Layout(8), VLLM, 80 * GIB, "bf16")[0]
    assert gpu.cache.high == 0
    assert gpu.shortfall_bytes > 20 * GIB
    assert gpu.fits(1, 1) == "no"


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(CONFIGS)),
    st.sampled_from(sorted(ENGINES)),
    st.integers(0, 200),
    st.sampled_from(["bf16", "fp8"]),
    st.integers(1, 300),
    st.sampled_from([1, 2, 8]),
)
def test_max_context_is_the_inverse_of_max_sequences(
    name: str, engine: str, gib: int, kv: str, sequences: int, group: int
) -> None:
    model = architecture(name)
    capacity = capacity_of(model, model.layers, ENGINES[engine], gib * GIB, kv, group)
    context = capacity.max_context(sequences)
    if context:
        assert capacity.max_sequences(context) >= sequences
    if context < (model.max_context or 1 << 40):
        assert capacity.max_sequences(context + 1) < sequences
    # Engines never hold more than the bytes of the cache allow.
    held = sequence_cost(model, kv, group).bytes_of(max(context, 1)) * sequences
    assert not context or held <= gib * GIB


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(CONFIGS)), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=5))
def test_arrays_of_tokens_give_the_same_bytes_as_single_ones(name: str, tokens: list[int]) -> None:
    cost = sequence_cost(architecture(name), "bf16")
    columns = cost.bytes_of(np.array(tokens, np.int64))
    assert columns.tolist() == [cost.bytes_of(count) for count in tokens]


def test_results_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Capacity(()).pools = ()  # type: ignore[misc]
