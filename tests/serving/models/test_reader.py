"""Reading configurations: what is refused, what is told apart, and precision by module."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from language_model_configs import CONFIGS, architecture
from sizeup.errors import CorruptModel, LoadError, SizeupError
from sizeup.formats.quantization_config import parse_quantization
from sizeup.serving.models.reader import MODEL_TYPES, architecture_of, read

_LLAMA = CONFIGS["Llama-3.1-8B"]
# Qwen3-235B-A22B, as its config.json states it.
_EXPERTS = {
    "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 94,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 12288,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "torch_dtype": "bfloat16",
}  # fmt: skip


def _write(folder: Path, config: dict[str, Any], quantization: dict[str, Any] | None = None) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    if quantization is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": quantization}))
    return path


def test_a_setting_that_may_change_sizes_is_refused_by_name() -> None:
    with pytest.raises(LoadError, match="'memory_slots' is an unknown setting that may change sizes"):
        architecture_of({**_LLAMA, "memory_slots": 4}, "config.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("is_encoder_decoder", True),
        ("add_cross_attention", True),
        ("cross_attention_hidden_size", 64),
        ("pruned_heads", {"0": [1]}),
        ("expert_dtype", "fp4"),
    ],
)
def test_general_settings_that_change_sizes_are_not_neutral(name: str, value: Any) -> None:
    with pytest.raises(LoadError, match=f"'{name}' is an unknown setting that may change sizes"):
        architecture_of({**_LLAMA, name: value}, "config.json")


@pytest.mark.parametrize("name", ["LlamaForSequenceClassification", "LlamaForQuestionAnswering"])
def test_a_model_with_another_head_is_refused(name: str) -> None:
    with pytest.raises(LoadError, match="no causal language model"):
        architecture_of({**_LLAMA, "architectures": [name]}, "config.json")


def test_layers_before_max_window_layers_have_no_window() -> None:
    config = {**_LLAMA, "model_type": "qwen2", "sliding_window": 1024, "max_window_layers": 28}
    windows = [
        [layer.attention.window for layer in architecture_of(each, "config.json").layers]
        for each in ({**config, "use_sliding_window": True}, config)
    ]
    assert windows == [[0] * 28 + [1024] * 4, [0] * 32]


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 131_072}, 524_288),
        ({"type": "yarn", "factor": 0.5, "original_max_position_embeddings": 131_072}, 131_072),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 131_072}, 131_072),
        ({"rope_type": "yarn", "factor": math.inf, "original_max_position_embeddings": 8192}, 131_072),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10**400}, 131_072),
    ],
)
def test_yarn_extends_the_context(scaling: dict[str, Any], context: int) -> None:
    assert architecture_of({**_LLAMA, "rope_scaling": scaling}, "config.json").max_context == context


def test_more_experts_per_token_than_experts_are_refused() -> None:
    config = {**CONFIGS["Mixtral-8x7B"], "num_experts_per_tok": 9}
    with pytest.raises(CorruptModel, match="9 experts per token, of 8"):
        architecture_of(config, "config.json")


@pytest.mark.parametrize("value", [[[1]], ["1"], [True], [-1], [94], {"1": 1}])
def test_a_list_of_layers_names_layers_of_the_model(value: Any) -> None:
    config = {**_EXPERTS, "mlp_only_layers": value}
    with pytest.raises(CorruptModel, match=r"mlp_only_layers (has .+, not a layer|is not a list)"):
        architecture_of(config, "config.json")


def test_layers_in_mlp_only_layers_are_dense() -> None:
    sparse, mixed = (
        architecture_of({**_EXPERTS, "mlp_only_layers": layers}, "config.json").parameters
        for layers in ([], [0, 93])
    )
    hidden, width, count = 4096, 1536, 128
    assert sparse - mixed == 2 * (count * 3 * hidden * width + hidden * count - 3 * hidden * 12288)


@pytest.mark.parametrize("value", [None, False, [], {}])
def test_an_unknown_setting_that_is_off_is_accepted(value: Any) -> None:
    assert architecture_of({**_LLAMA, "memory_slots": value}, "config.json").parameters == 8_030_261_248


def test_a_configuration_without_a_model_type_is_no_language_model() -> None:
    with pytest.raises(LoadError, match=r"c\.json: no model_type; give the config.json of a language model"):
        architecture_of({"version": 1, "layers": []}, "c.json")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_key_value_heads", 7, "num_attention_heads 32 is not a multiple of 7 key-value heads"),
        ("num_key_value_heads", 64, "num_attention_heads 32 is not a multiple of 64 key-value heads"),
        ("hidden_size", 0, "hidden_size is 0"),
        ("hidden_size", True, "hidden_size is True"),
        ("hidden_size", "4096", "hidden_size is '4096'"),
        ("num_hidden_layers", 10**9, "num_hidden_layers is 1000000000"),
        ("num_hidden_layers", 0, "num_hidden_layers is 0"),
        ("vocab_size", None, "vocab_size is missing"),
        ("layer_types", ["full_attention"], "layer_types has 1 values for 32 layers"),
        ("layer_types", ["lightning"] * 32, "unknown attention kind 'lightning'"),
        ("torch_dtype", "float4", "torch_dtype 'float4' is unknown"),
        ("attention_bias", 1, "attention_bias is 1, not true or false"),
        ("vision_config", {"depth": 2}, "unknown vision tower"),
        ("audio_config", {"depth": 2}, "unknown audio tower"),
    ],
)
def test_invalid_settings_are_refused_by_name(key: str, value: Any, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        architecture_of({**_LLAMA, key: value}, "config.json")


def test_a_configuration_of_diffusers_is_refused_by_its_class() -> None:
    with pytest.raises(LoadError, match=r"'FluxTransformer2DModel' is a class of diffusers, not a language"):
        architecture_of({"_class_name": "FluxTransformer2DModel", "num_layers": 19}, "config.json")


def test_a_model_with_more_parameters_than_any_is_refused() -> None:
    config = {**_LLAMA, "hidden_size": 1 << 24, "intermediate_size": 1 << 24}
    with pytest.raises(CorruptModel, match="more than"):
        architecture_of(config, "config.json")


def test_equal_layers_are_one_object() -> None:
    assert len({id(layer) for layer in architecture("Llama-3.1-405B").layers}) == 1
    assert len({id(layer) for layer in architecture("Gemma-3-27B").layers}) == 2


def test_a_tied_head_has_macs_and_no_parameters() -> None:
    tied = architecture_of({**_LLAMA, "tie_word_embeddings": True}, "config.json")
    assert tied.parameters == 8_030_261_248 - 128256 * 4096
    assert tied.head[-1].macs == 128256 * 4096


def test_a_missing_dtype_is_16_bits_with_a_caveat() -> None:
    config = {key: value for key, value in _LLAMA.items() if key != "torch_dtype"}
    model = architecture_of(config, "config.json")
    assert model.stored_bytes == 2 * 8_030_261_248
    assert model.caveats == (
        "the configuration states no dtype: bf16 assumed for weights that are not quantized",
    )


def test_modules_that_a_quantization_ignores_keep_16_bits(tmp_path: Path) -> None:
    quantization = {
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head", "*.0.mlp*"],
    }
    model = read(_write(tmp_path, _LLAMA, quantization))
    kept, quantized = ({weight.name: weight for weight in layer.weights} for layer in model.layers[:2])
    assert kept["mlp.up_proj"].stored_bytes == 2 * 14336 * 4096
    assert quantized["mlp.up_proj"].stored_bytes in range(14336 * 4096, 14336 * 4096 + 9)
    assert kept["self_attn.q_proj"].precision == quantized["self_attn.q_proj"].precision == "fp8 per tensor"
    assert model.head[-1].precision == "bf16"
    assert model.kv_dtype == "fp8"


def test_weights_replace_the_precision_of_the_checkpoint() -> None:
    body = 6_979_321_856
    rest = 2 * (8_030_261_248 - body)
    expected = {
        "bf16": 16,
        "fp8": 8,
        "int8": 8,
        "int4": 4 + 16 / 128,
        "mxfp4": 4 + 8 / 32,
        "mxfp8": 8 + 8 / 32,
    }
    for precision, bits in expected.items():
        assert architecture("Llama-3.1-8B", precision).stored_bytes == rest + body * bits / 8, precision
    scales = 32 * 7 * 4  # one per tensor
    assert architecture("Llama-3.1-8B", "nvfp4").stored_bytes == rest + body * 4.5 / 8 + scales
    with pytest.raises(SizeupError, match="weight precision 'fp5' is unknown"):
        architecture("Llama-3.1-8B", "fp5")


def test_an_unknown_quantization_is_refused_unless_replaced(tmp_path: Path) -> None:
    path = _write(tmp_path, {**_LLAMA, "quantization_config": {"quant_method": "secret"}})
    with pytest.raises(LoadError, match="quantization 'secret' is not supported; --weights PRECISION"):
        read(path)
    assert read(path, "bf16").stored_bytes == 2 * 8_030_261_248


def test_a_folder_is_read_by_its_config(tmp_path: Path) -> None:
    _write(tmp_path, _LLAMA)
    assert read(tmp_path).name == tmp_path.name
    assert read(f"hf:{tmp_path / 'config.json'}").parameters == 8_030_261_248


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(CONFIGS)), st.data())
def test_any_value_of_a_setting_is_read_or_refused(name: str, data: st.DataObject) -> None:
    config = dict(CONFIGS[name])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=3, unique=True)):
        config[key] = data.draw(_VALUES)
    try:
        model = architecture_of(config, "config.json")
    except SizeupError:
        return
    assert model.parameters > 0
    assert model.stored_bytes > 0
    assert all(math.isfinite(weight.stored_bytes) for weight in model.weights())


def test_every_model_type_has_a_reader_with_a_first_sentence() -> None:
    for name, entry in MODEL_TYPES.items():
        assert entry.family.__doc__, name


@pytest.mark.parametrize(
    ("quantization", "is_stated"),
    [
        ({"quant_method": "fp8"}, False),
        ({"quant_method": "fp8", "modules_to_not_convert": ["model"]}, True),
    ],
)
def test_a_quantization_that_matches_no_module_is_stated(
    quantization: dict[str, Any], is_stated: bool
) -> None:
    model = architecture_of(CONFIGS["Llama-3.1-8B"], "x", parse_quantization(quantization))
    stated = [text for text in model.caveats if "matches no module: all weights are counted in bf16" in text]
    assert len(stated) == is_stated
    assert all("'fp8'" in text for text in stated)
