"""GGUF headers: exact bytes of quantized tensors, cache from metadata, and files that must be refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gguf_files
from gguf_files import Tensor
from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.serving.models import gguf, reader
from sizeup.serving.models.architecture import Architecture
from sizeup.serving.models.cache import sequence_cost
from sizeup.serving.models.gguf_header import BLOCKS, ArrayOf, read_header

Model = tuple[dict[str, Any], list[Tensor]]


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], Architecture]:
    def read_content(content: bytes) -> Architecture:
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return gguf.read(path)

    return read_content


def test_bytes_of_quantized_blocks_are_exact(read: Callable[[bytes], Architecture]) -> None:
    """A block of 256 weights has 144 bytes in q4_K and 210 in q6_K."""
    model = read(gguf_files.gguf(*gguf_files.llama()))
    q4, q6 = 144 / 256, 210 / 256
    layer = 2 * 256 * 4 + (2 * 256 * 256 + 256 * 128 + 2 * 256 * 512) * q4 + (256 * 128 + 256 * 512) * q6
    assert model.stored_bytes == 2 * layer + 256 * 1000 * (q4 + q6) + 256 * 4
    assert model.parameters == 2 * (2 * 256 + 2 * 65536 + 2 * 32768 + 3 * 131072) + 2 * 256000 + 256
    assert (model.name, model.hidden_size, model.vocabulary, model.max_context) == ("Tiny", 256, 1000, 4096)
    assert not model.tied_head
    assert model.layers[0] is model.layers[1]
    # 2 layers x 2 key-value heads x (64 + 64) numbers of 16 bits.
    assert sequence_cost(model, "fp16").bytes_of(1000) == 2 * 2 * 128 * 2 * 1000
    assert sum(layer.macs for layer in model.layers) == 2 * (2 * 65536 + 2 * 32768 + 3 * 131072)


def test_windows_and_experts(read: Callable[[bytes], Architecture]) -> None:
    model = read(gguf_files.gguf(*gguf_files.gpt_oss()))
    assert [layer.attention.window for layer in model.layers] == [128, 0, 128, 0]
    assert model.tied_head
    routed = [weight for weight in model.layers[0].weights if weight.role == "experts"]
    assert sum(weight.stored_bytes for weight in routed) == 3 * 8 * 64 * 96 * 17 // 32
    assert sum(weight.macs for weight in routed) == 3 * 2 * 64 * 96
    # Two layers of all tokens and two of 128, each 2 x 2 x 32 numbers of 16 bits.
    assert sequence_cost(model, "fp16").bytes_of(1000) == 2 * 256 * 1000 + 2 * 256 * 128


def test_latent_attention_caches_one_vector(read: Callable[[bytes], Architecture]) -> None:
    model = read(gguf_files.gguf(*gguf_files.deepseek()))
    assert {layer.attention.kind for layer in model.layers} == {"latent"}
    assert [layer.experts is not None for layer in model.layers] == [False, True]
    assert sequence_cost(model, "fp16").bytes_of(1000) == 2 * (64 + 16) * 2 * 1000
    metadata, tensors = gguf_files.deepseek()
    del metadata["deepseek2.attention.key_length_mla"]
    # llama.cpp decompresses keys and values then: 4 heads of 80 and 64.
    full = read(gguf_files.gguf({**metadata, "deepseek2.attention.head_count_kv": 4}, tensors))
    assert sequence_cost(full, "fp16").bytes_of(1000) == 2 * 4 * (80 + 64) * 2 * 1000


# Bits per weight that llama.cpp's documentation of quantization states.
@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("q4_0", 4.5), ("q4_1", 5.0), ("q5_0", 5.5), ("q5_1", 6.0), ("q8_0", 8.5), ("q2_K", 2.625),
        ("q3_K", 3.4375), ("q4_K", 4.5), ("q5_K", 5.5), ("q6_K", 6.5625), ("iq1_s", 1.5625), ("iq1_m", 1.75),
        ("iq2_xxs", 2.0625), ("iq2_xs", 2.3125), ("iq2_s", 2.5625), ("iq3_xxs", 3.0625), ("iq3_s", 3.4375),
        ("iq4_xs", 4.25), ("iq4_nl", 4.5), ("tq1_0", 1.6875), ("tq2_0", 2.0625), ("mxfp4", 4.25),
        ("nvfp4", 4.5), ("bf16", 16.0),
    ],
)  # fmt: skip
def test_bits_per_weight_are_those_of_the_documentation(name: str, bits: float) -> None:
    (block, size) = next((block, size) for other, block, size in BLOCKS.values() if other == name)
    assert 8 * size / block == bits


def test_the_package_gguf_reads_the_same(tmp_path: Path) -> None:
    package = pytest.importorskip("gguf", reason="gguf is not installed (dependency group oracles)")
    sizes = {int(kind): size for kind, size in package.constants.GGML_QUANT_SIZES.items()}
    assert {kind: (block, size) for kind, (_, block, size) in BLOCKS.items()}.items() <= sizes.items()
    for model in (gguf_files.llama(), gguf_files.gpt_oss(), gguf_files.deepseek()):
        path = tmp_path / "model.gguf"
        writer = package.GGUFWriter(path, model[0]["general.architecture"])
        for key, item in model[0].items():
            if key == "general.architecture":
                continue
            add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
            add.get(type(item), writer.add_array if isinstance(item, list) else writer.add_string)(key, item)
        import numpy as np

        for name, shape, kind in model[1]:
            block, size = sizes[kind]
            rows = (*reversed(shape[1:]), shape[0] // block * size)
            data = np.zeros(rows, np.uint8)
            writer.add_tensor(name, data, raw_dtype=package.GGMLQuantizationType(kind))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        theirs = package.GGUFReader(path)
        ours = read_header(path)
        assert [(each.name, each.shape, each.stored_bytes) for each in ours.tensors] == [
            (each.name, tuple(map(int, each.shape)), each.n_bytes) for each in theirs.tensors
        ]


def test_long_arrays_are_counted_and_not_kept(tmp_path: Path) -> None:
    metadata, tensors = gguf_files.llama()
    metadata["tokenizer.ggml.token_type"] = list(range(30_000))
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.gguf(metadata, tensors))
    header = read_header(path)
    assert header.metadata["tokenizer.ggml.token_type"] == ArrayOf(30_000)
    assert header.metadata["tokenizer.ggml.tokens"] == ArrayOf(3)
    assert header.metadata["tokenizer.ggml.scores"] == [1, 2, 3]


def _changed(**changes: Any) -> bytes:
    metadata, tensors = gguf_files.llama()
    names = {key: f"llama.{key.replace('__', '.')}" for key in changes}
    for key, item in changes.items():
        metadata[names[key]] = item
    return gguf_files.gguf(metadata, tensors)


def _renamed(old: str, new: str) -> bytes:
    metadata, tensors = gguf_files.llama()
    return gguf_files.gguf(metadata, [(name.replace(old, new), shape, kind) for name, shape, kind in tensors])


def _header(tensors: int = 0, keys: int = 0, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


def _tensor(shape: tuple[int, ...], kind: int = 0, name: str = "t") -> bytes:
    return _header(1, 0, gguf_files.gguf({}, [(name, shape, kind)])[24:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "ends within its header"),
        (b"GGML" + bytes(20), "not a GGUF file"),
        (_header(version=1), "GGUF version 1 is not supported"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian GGUF is not supported"),
        (_header(), "architecture None is not supported"),
        (_header(2**63), "9,223,372,036,854,775,808 tensors; at most"),
        (_header(0, 2**40), "keys; at most"),
        (_header(0, 1, struct.pack("<Q", 2**62)), "a text of 4,611,686,018,427,387,904 bytes"),
        (_header(0, 1, gguf_files.text("a") + struct.pack("<I", 99)), "unknown type of value (99)"),
        (_header(0, 1, gguf_files.text("a") + struct.pack("<IIQ", 9, 9, 1)), "unknown or nested type (9)"),
        (
            _header(0, 1, gguf_files.text("a") + struct.pack("<IIQ", 9, 8, 2**60)),
            "more than a header can hold",
        ),
        (_header(0, 1, gguf_files.text("a") + struct.pack("<IIQ", 9, 4, 2**60)), "larger than 128 MiB"),
        (_header(0, 1, gguf_files.text("a") + struct.pack("<IIQ", 9, 8, 5)), "ends within its header"),
        (_header(0, 2, 2 * (gguf_files.text("a") + gguf_files.value(1))), "'a' occurs twice"),
        (_header(0, 1, struct.pack("<Q", 1) + b"\xff"), "not UTF-8"),
        (_tensor(()), "0 dimensions"),
        (_tensor((1, 1, 1, 1, 1)), "5 dimensions"),
        (_tensor((0,)), "0 elements"),
        (_tensor((2**40, 2**40)), "elements, not 1 to"),
        (_tensor((32,), 4), "unknown type 4"),
        (_tensor((33,), 8), "rows of 33, not a multiple of 32 (q8_0)"),
        (_changed(block_count=0), "llama.block_count is 0, not an integer from 1"),
        (_changed(block_count=True), "llama.block_count is True"),
        (_changed(block_count=3), "blk.2: attn_q.weight is missing"),
        (_changed(block_count=1), "tensor 'blk.1.attn_norm.weight' is not known"),
        (_changed(attention__head_count=8), "attn_k.weight is missing or has not the 64 outputs"),
        (_changed(attention__head_count=0), "a layer without attention heads"),
        (_changed(attention__head_count_kv=[1]), "is not a list of 2 integers"),
        (_changed(attention__sliding_window=4096), "which layers of llama have the window of 4,096 tokens"),
        (_changed(ssm__state_size=16), "'llama.ssm.state_size' is an unknown setting"),
        (
            _changed(embedding_length=128, attention__key_length=64),
            "token_embd.weight is missing or not of embedding_length 128",
        ),
        (_changed(expert_count=4, expert_used_count=5), "expert_used_count 5 of 4 experts"),
        (_renamed("ffn_down.", "ffn_side."), "tensor 'ffn_side.weight' is not known"),
        (_renamed("output.weight", "other.weight"), "is not known"),
        (_renamed("ffn_up.", "ffn_up_exps."), "has not the experts of the metadata"),
    ],
)
def test_a_damaged_or_unknown_file_is_refused(
    read: Callable[[bytes], Architecture], content: bytes, message: str
) -> None:
    with pytest.raises(LoadError) as error:
        read(content)
    assert message in str(error.value)


@pytest.mark.parametrize("offset", range(9))
def test_headers_of_any_length_are_read(tmp_path: Path, offset: int) -> None:
    """A number may lie across the end of what was read: real vocabularies take several MB."""
    metadata, tensors = gguf_files.llama()
    tokens = ["x" * (1 << 16)] * 15 + ["y" * (60_000 + offset)] + ["z"] * 2_000
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_files.gguf({**metadata, "tokenizer.ggml.tokens": tokens}, tensors))
    assert path.stat().st_size > 1 << 20
    assert gguf.read(path) == gguf.read(_small(tmp_path))


def _small(folder: Path) -> Path:
    path = folder / "small.gguf"
    path.write_bytes(gguf_files.gguf(*gguf_files.llama()))
    return path


def test_a_part_of_a_model_is_refused(read: Callable[[bytes], Architecture]) -> None:
    metadata, tensors = gguf_files.llama()
    with pytest.raises(LoadError, match="llama-gguf-split --merge"):
        read(gguf_files.gguf({**metadata, "split.count": 3}, tensors))


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "deepseek"])
def test_every_shortened_header_is_refused(read: Callable[[bytes], Architecture], name: str) -> None:
    content = gguf_files.gguf(*getattr(gguf_files, name)())
    read(content)
    for length in range(0, len(content), 7):
        with pytest.raises(CorruptModel, match="ends within its header"):
            read(content[:length])


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no such file"):
        gguf.read(tmp_path / "none.gguf")
    with pytest.raises(LoadError):
        gguf.read(tmp_path)


def test_the_reader_of_models_takes_gguf_files(tmp_path: Path) -> None:
    path = tmp_path / "tiny.GGUF"
    path.write_bytes(gguf_files.gguf(*gguf_files.llama()))
    assert reader.read(path).name == "Tiny"
    with pytest.raises(SizeupError, match="leave out --weights"):
        reader.read(path, weights="fp8")
