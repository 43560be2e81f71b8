"""What is run on a mutant of a settings file."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sizeup
from fuzzing.tflite_models import chain
from sizeup import cost
from sizeup.cost import Cost
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.mixed_precision.precision_map import apply_precision
from sizeup.render.data.devices import calibration_to_dict, runtime_to_dict
from sizeup.render.data.devices import to_dict as device_to_dict
from sizeup.render.data.report import to_dict
from sizeup.results.report import report_of
from sizeup.sweeps.expand import models_of
from sizeup.sweeps.spec import read_spec
from sizeup.targets import VARIABLE, Catalog, catalog, target_files

_MOST_MODELS = 50
# The runtime of all graphics cards that a file of theirs names.
_RUNTIME = """\
[[runtime]]
name = "torch-eager"
title = "PyTorch"
units = ["gpu"]
dtypes = ["fp64", "fp32", "fp16", "bf16"]
fuses = []
in_place = []
overhead = "5 us"
source = "measured: by hand"
"""


@functools.cache
def _graph() -> Graph:
    return sizeup.load(chain())


@functools.cache
def _cost() -> Cost:
    return cost.count(_graph())


def devices(path: Path) -> Any:
    """Every device and runtime of a file; latency and fit verdict of a small network on each pair."""
    with _alone(path):
        return _described(catalog.current_catalog())


def _described(found: Catalog) -> Any:
    data: dict[str, Any] = {"devices": [device_to_dict(each) for each in found.devices()]}
    data["runtimes"] = [runtime_to_dict(each) for each in found.runtimes()]
    data["fits"] = [calibration_to_dict(each) for each in found.calibrations()]
    data["slowdowns"] = [(each.compute, each.low, each.high) for each in found.slowdowns()]
    pairs = [f"{each.name}/{name}" for each in found.devices() for name in each.runtimes]
    data["pairs"] = [_on_target(name) for name in pairs[:4]]
    return data


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Have targets of one file only: those that come with sizeup take a hundred times longer to parse."""
    empty = path.parent / "empty"
    empty.mkdir(exist_ok=True)
    (empty / "runtimes.toml").write_text(_RUNTIME, "utf-8")
    shipped = [(catalog, "BUILT_IN"), (catalog, "FITS"), (target_files, "BUILT_IN")]
    with ExitStack() as patches:
        patches.enter_context(patch.dict(os.environ, {VARIABLE: str(path)}))
        for module, name in shipped:
            patches.enter_context(patch.object(module, name, empty))
        catalog.clear_cache()
        try:
            yield
        finally:
            catalog.clear_cache()


def _on_target(name: str) -> Any:
    try:
        report = report_of(_graph(), _cost(), None, latency=sizeup.estimate(_cost(), name))
        checked = sizeup.check(_graph(), name, arena="64 KiB", remedies=False)
    except SizeupError:
        return None
    return to_dict(report), checked.to_dict()


def budgets(path: Path) -> Any:
    """The verdicts of a file of budgets on one network beside it."""
    _add_model(path.parent)
    checks = [each.to_dict() for each in sizeup.check_budgets(path)]
    # Growth may be below zero.
    return [limit for each in checks for limit in each["limits"] if limit["unit"] != "share"]


def _add_model(folder: Path) -> None:
    """The network that budgets and sweeps name, and its baseline."""
    model = folder / "net.tflite"
    if not model.exists():
        model.write_bytes(chain())
        sizeup.analyze(model).save(folder / "net.json")


def sweeps(path: Path) -> Any:
    """What a sweep asks, and the first models that it names."""
    _add_model(path.parent)
    spec = read_spec(path)
    asked = [(each.batch, each.shapes) for each in spec.point_set.points]
    if not spec.generate and not any(":" in each for each in spec.models):
        asked += [(1, each.name) for each in itertools.islice(models_of(spec), _MOST_MODELS)]
    return [batch for batch, _ in asked if batch is not None]


def coefficients(path: Path) -> Any:
    """The latency of a small network by a table of coefficients."""
    latency = sizeup.estimate(_cost(), coefficients=path)
    return to_dict(report_of(_graph(), _cost(), None, latency=latency))


def precisions(path: Path) -> Any:
    """A small network at the precisions of a map."""
    graph, asked = apply_precision(_graph(), path)
    return to_dict(report_of(graph, cost.count(graph), asked))
