"""A recording between two decoding steps changes neither the cache nor the next output."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

import sizeup
from sizeup.formats.torch.zoo import import_torchvision

pytest.importorskip("transformers")

VOCABULARY = 64
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": VOCABULARY}
ATTENTION = {**SIZES, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


def _transformers() -> Any:
    import_torchvision()  # transformers imports it too, and cannot where it needs help
    import transformers

    return transformers


def _llama() -> Any:
    library = _transformers()
    return library.LlamaForCausalLM(library.LlamaConfig(**ATTENTION))


def _mistral() -> Any:
    library = _transformers()
    return library.MistralForCausalLM(library.MistralConfig(**ATTENTION, sliding_window=4))


def _mamba() -> Any:
    library = _transformers()
    return library.MambaForCausalLM(library.MambaConfig(**SIZES, state_size=4))


def _mamba2() -> Any:
    library = _transformers()
    config = library.Mamba2Config(**SIZES, state_size=4, num_heads=4, head_dim=16, n_groups=1)
    return library.Mamba2ForCausalLM(config)


def _dynamic(_: Any) -> Any:
    return _transformers().DynamicCache()


def _by_config(module: Any) -> Any:
    return _transformers().DynamicCache(config=module.config)


def _static(module: Any) -> Any:
    return _transformers().StaticCache(config=module.config, max_cache_len=16)


def _created_by_the_model(_: Any) -> None:
    return None


CASES = {
    "Llama, dynamic": (_llama, _dynamic, "past_key_values"),
    "Llama, by configuration": (_llama, _by_config, "past_key_values"),
    "Llama, static": (_llama, _static, "past_key_values"),
    "Mistral, sliding window": (_mistral, _by_config, "past_key_values"),
    "Mistral, static sliding window": (_mistral, _static, "past_key_values"),
    "Mamba": (_mamba, _created_by_the_model, "cache_params"),
    "Mamba-2": (_mamba2, _created_by_the_model, "cache_params"),
}


def _decode(
    module: Any, make_cache: Callable[[Any], Any], keyword: str, analyze: Callable[..., object] | None
) -> list[Any]:
    """Return the logits of a prompt and three steps, with a recording before each step."""
    cache = make_cache(module)
    prompt = torch.tensor([[3, 1, 4, 1, 5]])
    known = {} if cache is None else {keyword: cache}
    with torch.no_grad():
        output = module(input_ids=prompt, use_cache=True, **known)
        cache, logits = output[keyword], [output.logits]
        for _ in range(3):
            step = {"input_ids": logits[-1][:, -1:].argmax(-1), "use_cache": True, keyword: cache}
            if analyze is not None:
                analyze(module, kwargs=step)
            logits.append(module(**step).logits)
    return logits


def _same(
    module: Any, make_cache: Callable[[Any], Any], keyword: str, analyze: Callable[..., object]
) -> None:
    expected = _decode(module, make_cache, keyword, None)
    logits = _decode(module, make_cache, keyword, analyze)
    assert not any(isinstance(each, FakeTensor) for each in logits)
    assert all(torch.equal(a, b) for a, b in zip(expected, logits, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_decoding_continues_as_without_a_recording(name: str) -> None:
    make, make_cache, keyword = CASES[name]
    before = [item for item in gc.get_objects() if type(item) is FakeTensor]
    torch.manual_seed(0)
    _same(make().eval(), make_cache, keyword, sizeup.analyze)
    gc.collect()
    assert len([item for item in gc.get_objects() if type(item) is FakeTensor]) == len(before)


class Reading(torch.nn.Module):
    """Decodes, and reads a value of the cache: it is recorded with real data."""

    def __init__(self) -> None:
        super().__init__()
        self.model = _llama()
        self.config = self.model.config

    def forward(self, **kwargs: Any) -> Any:
        output = self.model(**kwargs)
        if float(output.past_key_values.layers[0].keys.detach().sum()) > 1e9:
            raise RuntimeError
        return output


@pytest.mark.parametrize("make_cache", [_dynamic, _static])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_run_with_real_data_does_not_extend_the_cache(
    make_cache: Callable[[Any], Any], gradients: bool
) -> None:
    torch.manual_seed(0)
    module = Reading().eval()
    notes: list[str] = []

    def analyze(module: Any, kwargs: Any) -> None:
        with torch.set_grad_enabled(gradients):
            notes.extend(sizeup.analyze(module, kwargs=kwargs).notes)

    _same(module, make_cache, "past_key_values", analyze)
    assert sum("real data" in note for note in notes) == 3


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # raised by torch for fake tensors
def test_a_cache_with_an_autograd_graph_is_left_alone() -> None:
    torch.manual_seed(0)
    module = Reading().eval()
    cache = module(input_ids=torch.tensor([[3, 1, 4]]), use_cache=True).past_key_values
    keys = cache.layers[0].keys
    values = keys.detach().clone()
    assert keys.grad_fn is not None
    sizeup.analyze(module, kwargs={"input_ids": torch.tensor([[5]]), "past_key_values": cache})
    assert cache.layers[0].keys is keys
    assert torch.equal(keys, values)
    keys.sum().backward()  # the graph is intact


def test_legacy_pairs_of_keys_and_values_are_left_alone() -> None:
    class Attending(torch.nn.Module):
        def forward(self, x: Any, past: list[tuple[Any, Any]]) -> Any:
            keys, values = past[0]
            past[0] = (torch.cat([keys, x], 1), torch.cat([values, x], 1))
            past.append((x, x))
            keys.add_(1)
            return torch.nn.functional.scaled_dot_product_attention(x, *past[0])

    past = [(torch.ones(1, 3, 4), torch.ones(1, 3, 4))]
    pair = past[0]
    sizeup.analyze(Attending(), inputs=(torch.ones(1, 1, 4), past))
    assert past == [pair]
    assert past[0] is pair
    assert torch.equal(pair[0], torch.ones(1, 3, 4))


def test_the_cache_of_an_encoder_and_decoder_is_left_alone() -> None:
    library = _transformers()
    torch.manual_seed(0)
    config = library.BartConfig(
        vocab_size=VOCABULARY, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
    )  # fmt: skip
    module = library.BartForConditionalGeneration(config).eval()
    prompt = {"input_ids": torch.tensor([[3, 1, 4]]), "use_cache": True}

    def decode(analyze: bool) -> list[Any]:
        with torch.no_grad():
            output = module(**prompt, decoder_input_ids=torch.tensor([[2, 7]]))
            logits = [output.logits]
            for token in (9, 11):
                step = {**prompt, "decoder_input_ids": torch.tensor([[token]])}
                step["past_key_values"] = output.past_key_values
                if analyze:
                    sizeup.analyze(module, kwargs=step)
                logits.append(module(**step).logits)
        return logits

    assert all(torch.equal(a, b) for a, b in zip(decode(False), decode(True), strict=True))
