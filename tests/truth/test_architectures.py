"""Families of timm and architectures of transformers: all operators known, MACs as torch's own counter says.

The second opinion is torch.utils.flop_counter, which shares no code with sizeup. It takes longer than sizeup:
its MACs are read from docs/zoo.md if the versions of that page are installed; test_zoo.py runs a sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sizeup
from sizeup.formats.torch.huggingface import build_configuration
from sizeup.formats.torch.sources import build
from sizeup.formats.torch.zoo import BuiltModel
from zoo import recorded_macs
from zoo_models import DEFAULT, models, second_opinion

# One model of each family of timm, and of each architecture of transformers with default settings.
TIMM = [model.name for model in models() if model.library == "timm"]
TRANSFORMERS = [
    model.name for model in models() if model.library == "transformers" and model.config is DEFAULT
]

RECORDED = recorded_macs()

# What stays unknown, and its operators: docs/counting.md lists them with their share.
PARTLY_KNOWN = {"fnet": {"aten._fft_c2c"}}

# Warnings of the model libraries about their own code.
pytestmark = pytest.mark.filterwarnings("ignore")


def _second_opinion(source: str, build_model: Callable[[], BuiltModel]) -> int:
    return RECORDED[source] if source in RECORDED else second_opinion(build_model())


@pytest.mark.parametrize("name", TIMM)
def test_timm_family_is_known_and_right(name: str) -> None:
    cost = sizeup.count(f"timm:{name}")
    assert not cost.reasons
    assert cost.total_macs == _second_opinion(f"timm:{name}", lambda: build(f"timm:{name}", {}))


def _configuration(folder: Path, kind: str, **settings: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **settings}))
    return path


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers_architecture_is_known_and_right(kind: str, tmp_path: Path) -> None:
    path = _configuration(tmp_path, kind)
    cost = sizeup.count(f"hf:{path}")
    assert not cost.reasons
    assert cost.total_macs == _second_opinion(
        f"transformers:{kind}", lambda: build_configuration(str(path), {})
    )


@pytest.mark.parametrize("kind", PARTLY_KNOWN)
def test_what_is_not_known_is_named(kind: str, tmp_path: Path) -> None:
    report = sizeup.analyze(f"hf:{_configuration(tmp_path, kind)}")
    assert report.coverage < 1
    assert {row.source for row in report.ops if not row.known} == PARTLY_KNOWN[kind]


def test_as_many_families_as_promised() -> None:
    assert len(TIMM) == len(set(TIMM)) >= 60
    assert len(TRANSFORMERS) == len(set(TRANSFORMERS)) >= 40
