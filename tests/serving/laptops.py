"""A small and a large language model for laptops and phones, and the bytes of the small one by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SMALL = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LLAMA = SMALL | {
    "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
}  # fmt: skip
# Per layer: q and o 256 x 256, k and v 256 x 128, three matrices 256 x 512; norms are 5 x 256.
MATRICES = 2 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512)
VOCABULARY = 2 * 1000 * 256
NORMS = 2 * 5 * 256
BY_HAND = {
    "fp16": 2 * MATRICES + 2 * VOCABULARY + NORMS,
    "int8": MATRICES + VOCABULARY + NORMS,
    "int4": MATRICES // 2 + MATRICES // 128 * 2 + VOCABULARY + NORMS,  # a 16-bit scale per 128 weights
}


def written(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(json.dumps(config), "utf-8")
    return path
