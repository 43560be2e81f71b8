"""Typed access to the settings of a config.json, which remembers what was read.

The content is untrusted. A setting that was not read, and that is not known to leave sizes unchanged, is
refused by name: its size would be counted as zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sizeup.errors import CorruptModel, LoadError
from sizeup.units import quoted

MOST_SIZE = 1 << 24  # of a dimension of a weight; published vocabularies end at 262,144
MOST_REPEATS = 20_000  # experts and heads; the largest published model has 896 experts
MOST_LAYERS = 500  # the largest published model has 126; every layer is built
MOST_TOKENS = 1 << 40

# Settings that change no size: ids, initialization, positions, activation functions, generation, training.
_NEUTRAL = re.compile(
    r"architectures|auto_map|model_type|transformers_version|(_|)name_or_path|torch_dtype|dtype|use_cache"
    r"|quantization_config|compression_config|tie_encoder_decoder|tokenizer_class|task_specific_params"
    r"|(\w+_)?(token_id|token_index|tokens_id)|(\w+_)?dropout(_\w+)?|(hidden|mlp_hidden|mamba_hidden)_act|hidden_activation"
    r"|projector_hidden_act|activation_function|initializer_(range|factor)|(\w+_)?(eps|epsilon)|pretraining_tp"
    r"|rope_\w+|\w*_?rope_theta|rotary_\w+|partial_rotary_factor|max_position_embeddings|original_max_position_embeddings"
    r"|initial_context_length|\w*_?layernorm_epsilon|norm_topk_prob|routed_scaling_factor|scoring_func|topk_method|n_group"
    r"|topk_group|num_expert_group|use_grouped_topk|moe_renormalize|aux_loss_alpha|seq_aux|router_aux_loss_coef|ep_size"
    r"|output_(router_logits|attentions|hidden_states|scores)|(query_pre_)?attn_(scalar|logit_softcapping)"
    r"|query_pre_attn_scalar|(final|attn)_logit_softcapping|swiglu_(limit|alpha)|embedding_multiplier"
    r"|logits_scaling|residual_multiplier|attention_multiplier|num_logits_to_keep|rescale_prenorm_residual|residual_in_fp32"
    r"|time_step_(floor|limit|max|min|rank)|chunk_size|use_mamba_kernels|mamba_ssm_dtype|mamba_ssm_cache_dtype|mscale\w*"
    r"|vision_(end|start)_token_id|vision_feature_\w+|vision_soft_tokens_per_image|mm_tokens_per_image|image_\w+|video_\w+"
    r"|is_decoder|chunk_size_feed_forward|return_dict(_in_generate)?|torchscript"
    r"|bad_words_ids|begin_suppress_tokens|suppress_tokens|decoder_start_token_id|diversity_penalty|do_sample"
    r"|early_stopping|encoder_no_repeat_ngram_size|exponential_decay_length_penalty|finetuning_task|length_penalty"
    r"|max_length|min_length|no_repeat_ngram_size|num_beam_groups|num_beams|num_return_sequences|prefix|problem_type"
    r"|remove_invalid_values|repetition_penalty|sep_token_id|temperature|tf_legacy_loss|top_k|top_p"
    r"|typical_p|use_bfloat16|ignore_index|id2label|label2id|_attn_implementation"
    r"|attention_value_scale|indexer_rope_interleave|moe_router_dtype|moe_shared_expert_overlap"
    r"|hc_eps|hc_sinkhorn_iters|compress_rope_theta|process_image_mode|use_bidirectional_attention|moe_router_scaling_factor"
    r"|use_gemma_norm|norm_eps|expand|boi_token_index|eoi_token_index|use_unified_vision_chunk|no_rope_layers"
    r"|no_rope_layer_interval|attn_temperature_tuning|floor_scale|attn_scale|moe_router_activation_func|output_gate_type|router_jitter_noise|default_output_length"
)


class Settings:
    """The settings of one object of a configuration; `path` is its place in the file, e.g. `text_config.`."""

    def __init__(self, content: Mapping[str, Any], source: str, path: str = "") -> None:
        self.content = content
        self.source = source
        self.path = path
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self.content.get(name) is not None

    def _value(self, name: str) -> Any:
        self._read.add(name)
        return self.content.get(name)

    def skip(self, *names: str) -> None:
        """Mark settings as read that repeat others or do not apply to this architecture."""
        self._read.update(names)

    def size(self, *names: str, default: int | None = None) -> int:
        """The first of these settings that is present: a dimension, at least 1."""
        return self._integer(names, 1, MOST_SIZE, default)

    def count(self, *names: str, default: int | None = None) -> int:
        """The first of these settings that is present: a number of layers, experts or heads, at least 0."""
        return self._integer(names, 0, MOST_REPEATS, default)

    def tokens(self, *names: str, default: int | None = None) -> int:
        """The first of these settings that is present: a number of tokens."""
        return self._integer(names, 0, MOST_TOKENS, default)

    def _integer(self, names: tuple[str, ...], low: int, high: int, default: int | None) -> int:
        for name in names:
            value = self._value(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise self.error(f"{name} is {quoted(value)}, not an integer from {low} to {high:,}")
            self._read.update(names)
            return value
        if default is None:
            raise self.error(f"{names[0]} is missing")
        return default

    def flag(self, name: str, default: bool = False) -> bool:
        """Whether a setting is true."""
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"{name} is {quoted(value)}, not true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """A setting that is a string."""
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(f"{name} is {quoted(value)}, not a string")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A setting that is a list of at most 20,000 values; None if absent."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > MOST_REPEATS:
            raise self.error(f"{name} is not a list of at most {MOST_REPEATS:,} values")
        return value

    def layers(self, name: str, layers: int) -> set[int] | None:
        """A setting that lists some of the layers, which are numbered from 0; None if absent."""
        values = self.items(name)
        for value in values or ():
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < layers:
                raise self.error(f"{name} has {quoted(value)}, not a layer from 0 to {layers - 1:,}")
        return None if values is None else set(values)

    def per_layer(self, name: str, layers: int) -> list[Any] | None:
        """A setting with one value per layer; None if absent."""
        values = self.items(name)
        if values is not None and len(values) != layers:
            raise self.error(f"{name} has {len(values):,} values for {layers:,} layers")
        return values

    def nested(self, name: str) -> Settings | None:
        """A setting that is an object; None if absent."""
        value = self._value(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{name} is {quoted(value)}, not an object")
        return Settings(value, self.source, f"{self.path}{name}.")

    def error(self, problem: str) -> CorruptModel:
        """The error for a value that is invalid."""
        return CorruptModel(f"{self.source}: {self.path}{problem}")

    def unsupported(self, problem: str) -> LoadError:
        """The error for a value that is valid and that sizeup cannot size."""
        return LoadError(f"{self.source}: {self.path}{problem}; sizeup does not guess sizes")

    def refuse_unread(self) -> None:
        """Raise LoadError for the first setting that was not read and may change sizes."""
        for name, value in self.content.items():
            is_off = value is None or value is False or value == [] or value == {}
            if not is_off and name not in self._read and not _NEUTRAL.fullmatch(name):
                raise self.unsupported(f"{quoted(name)} is an unknown setting that may change sizes")
