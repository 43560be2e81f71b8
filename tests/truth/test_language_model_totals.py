"""Parameters of published configurations against transformers' own count, or the published total."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sizeup.errors import LoadError
from sizeup.serving.models.reader import read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOTALS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("language_model_totals.toml").read_text("utf-8")
)


def _config(shared: Path, name: str) -> Path:
    return shared / "llm" / "configs" / f"{name}_config.json"


@pytest.mark.parametrize("name", TOTALS["transformers"])
def test_parameters_equal_those_of_transformers(name: str, shared: Path) -> None:
    assert read(_config(shared, name)).parameters == TOTALS["transformers"][name]


@pytest.mark.parametrize("name", TOTALS["published"])
def test_parameters_with_prediction_layers_equal_the_published_total(name: str, shared: Path) -> None:
    model = read(_config(shared, name))
    predicted = sum(part.parameters for part in model.parts if part.kind == "mtp")
    assert model.parameters + predicted == TOTALS["published"][name]


@pytest.mark.parametrize("name", TOTALS["refused"])
def test_unknown_model_types_are_refused_by_name(name: str, shared: Path) -> None:
    with pytest.raises(LoadError, match=f"model type '{TOTALS['refused'][name]}' is not supported"):
        read(_config(shared, name))


def test_every_configuration_is_counted_or_refused(shared: Path) -> None:
    files = (shared / "llm" / "configs").glob("*_config.json")
    names = {file.name.removesuffix("_config.json") for file in files if "hf_quant" not in file.name}
    assert names == {name for table in TOTALS.values() for name in table}
    assert len(TOTALS["transformers"]) + len(TOTALS["published"]) >= 75
