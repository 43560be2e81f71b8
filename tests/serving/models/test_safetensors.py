"""Stored bytes from the headers of safetensors files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.serving.models.reader import read

_CONFIG = {
    "model_type": "mixtral",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "vocab_size": 32,
    "torch_dtype": "bfloat16",
}


def _tensors(bits: int = 16) -> dict[str, int]:
    """Names and bytes of a checkpoint whose experts have other bits and a scale of 4 bytes."""
    sizes = {"model.embed_tokens.weight": 512, "lm_head.weight": 512, "model.norm.weight": 16}
    for layer in range(2):
        path = f"model.layers.{layer}"
        sizes |= {f"{path}.{name}.weight": 16 for name in ("input_layernorm", "post_attention_layernorm")}
        attention = {"q_proj": 128, "k_proj": 64, "v_proj": 64, "o_proj": 128}
        sizes |= {f"{path}.self_attn.{name}.weight": size for name, size in attention.items()}
        sizes[f"{path}.block_sparse_moe.gate.weight"] = 32
        for expert in range(2):
            for name in ("w1", "w2", "w3"):
                module = f"{path}.block_sparse_moe.experts.{expert}.{name}"
                sizes |= {f"{module}.weight": 128 * bits // 8, f"{module}.weight_scale": 4}
    return sizes


def _write(path: Path, sizes: dict[str, int]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def _checkpoint(folder: Path, sizes: dict[str, int]) -> Path:
    (folder / "config.json").write_text(json.dumps(_CONFIG))
    names = sorted(sizes)
    for part, chosen in enumerate((names[::2], names[1::2])):
        _write(folder / f"model-{part}.safetensors", {name: sizes[name] for name in chosen})
    return folder


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_the_bytes_of_layers_are_those_of_the_files(tmp_path: Path, bits: int) -> None:
    model = read(_checkpoint(tmp_path, _tensors(bits)))
    assert model.stored_bytes == sum(_tensors(bits).values())
    by_name = {weight.name: weight for weight in model.layers[0].weights}
    assert by_name["mlp.experts.gate_up_proj"].stored_bytes == 2 * 2 * (128 * bits // 8 + 4)
    assert len(set(map(id, model.layers))) == 1
    assert model.caveats == ()


def test_the_embedding_and_the_head_are_those_of_the_files(tmp_path: Path) -> None:
    sizes = {**_tensors(), "model.embed_tokens.weight": 1024, "lm_head.weight": 1024}
    assert read(_checkpoint(tmp_path, sizes)).stored_bytes == sum(sizes.values())


def test_a_header_whose_bytes_are_not_those_of_its_shape_is_refused(tmp_path: Path) -> None:
    entry = {"dtype": "BF16", "shape": [8, 8], "data_offsets": [0, 1]}
    text = json.dumps({"model.norm.weight": entry}).encode()
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG))
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(CorruptModel, match="data_offsets that do not match its shape"):
        read(tmp_path)


def test_headers_of_a_folder_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _checkpoint(tmp_path, _tensors())
    monkeypatch.setattr("sizeup.serving.models.safetensors._MOST_HEADERS", 4000)
    with pytest.raises(LoadError, match="headers of more than"):
        read(folder)


def test_files_with_other_modules_leave_the_configuration_with_a_caveat(tmp_path: Path) -> None:
    sizes = {name.replace("self_attn", "attn"): size for name, size in _tensors().items()}
    model = read(_checkpoint(tmp_path, sizes))
    assert model.stored_bytes == 2 * model.parameters
    assert "safetensors files name other modules" in model.caveats[-1]


def test_a_precision_that_is_asked_for_ignores_the_files(tmp_path: Path) -> None:
    model = read(_checkpoint(tmp_path, _tensors(8)), "bf16")
    assert model.stored_bytes == 2 * model.parameters


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a safetensors header has"),
        (struct.pack("<Q", 1 << 40), "a safetensors header has"),
        (struct.pack("<Q", 100) + b"{}", "ends within its header"),
        (struct.pack("<Q", 2) + b"[]", "not an object"),
        (struct.pack("<Q", 2) + b"{x", "not JSON"),
        (struct.pack("<Q", 13) + b'{"a": {"b":1}}'[:13], "not JSON"),
        (struct.pack("<Q", 8) + b'{"a": 1}', "no valid data_offsets"),
    ],
)
def test_corrupt_headers_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG))
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CorruptModel, match=message):
        read(tmp_path)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_header_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_CONFIG))
    name = data.draw(st.sampled_from(sorted(_tensors())))
    offset = st.one_of(st.integers(-5, 2**70), st.none(), st.booleans(), st.floats(), st.text(max_size=2))
    header = {
        name: {"data_offsets": data.draw(st.lists(offset, max_size=3))},
        data.draw(st.text(max_size=12)): data.draw(st.one_of(st.none(), st.integers(), st.just({}))),
    }
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    try:
        assert read(tmp_path).stored_bytes > 0
    except SizeupError:
        pass
