"""Print the parameters of Hugging Face configurations, counted by transformers on the meta device.

    python tools/language_model_totals.py FOLDER

The output is the table `transformers` of tests/truth/language_model_totals.toml. A model type that
transformers does not have is reported on stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_STORAGE = ("quantization_config", "auto_map")


def total(config: dict[str, Any]) -> int:
    """The number of parameters of the model that a configuration describes."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText

    for part in (config, config.get("text_config") or {}):
        for key in _STORAGE:
            part.pop(key, None)
    if config["model_type"] == "kimi_k2":  # the same architecture, see `architectures`
        config["model_type"] = "deepseek_v3"
    settings = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    has_tower = bool(config.get("vision_config"))
    with torch.device("meta"):
        builder: Any = AutoModelForImageTextToText if has_tower else AutoModelForCausalLM
        model = builder.from_config(settings)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def main(folder: Path) -> None:
    """Print one line per configuration."""
    for file in sorted(folder.glob("*_config.json")):
        if file.name.endswith("hf_quant_config.json"):
            continue
        try:
            count = total(json.loads(file.read_text("utf-8")))
        except KeyError as error:
            print(f"{file.name}: {error} is not a model type of transformers", file=sys.stderr)
            continue
        print(f'"{file.name.removesuffix("_config.json")}" = {count:_}', flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
