"""Kernels of timm's models as sizeup finds them, against a table that others traced operator by operator."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the table is a Parquet file")
pytest.importorskip("torch")
if find_spec("timm") is None:  # importing it needs torchvision to be imported as sizeup does
    pytest.skip("timm is not installed", allow_module_level=True)

from latency.truth.image_fits import fitted
from latency.truth.own_trace import COLUMNS, PATH, PRODUCTS, as_work, graphs, rows_of
from latency.truth.tables import Table, read

# Of each kind of architecture one that is small.
MODELS = (
    ("resnet50", 160),
    ("vgg11", 224),
    ("mobilenetv3_large_100", 224),
    ("efficientnet_b0", 224),
    ("regnety_002", 224),
    ("densenet121", 224),
    ("hgnetv2_b0", 224),
    ("convnext_atto", 224),
    ("vit_small_patch16_224", 224),
    ("swin_tiny_patch4_window7_224", 224),
    ("cait_xxs24_224", 224),
    ("levit_128s", 224),
    ("resmlp_12_224", 224),
)
# Classes of ours, and what the table calls the same.
SAME = {
    "convolution": (PRODUCTS - {"linear"}, {"convkxk", "conv1x1", "convdw", "convgrp"}),
    "matrix product": ({"linear", "matmul"}, {"linear", "mm", "bmm"}),
    "attention": ({"attention", "attention_masked", "attention_apart"}, {"sdpa"}),
    "batch norm": ({"batch_norm"}, {"bn"}),
    "layer norm": ({"layer_norm", "layer_norm_strided"}, {"ln"}),
    "softmax": ({"softmax"}, {"softmax"}),
    "activation": ({"activation", "activation@exponential"}, {"act"}),
}


class Traced(NamedTuple):
    """One model by both: MACs, weights of products, and kernels by what they are."""

    macs: tuple[float, float]
    weights: tuple[float, float]
    kernels: tuple[Counter[str], Counter[str]]


@cache
def ours(model: str, size: int) -> Table:
    ((_, graph),) = graphs(model, [size])
    columns = zip(*((model, size, *row) for row in rows_of(graph)), strict=True)
    return Table({name: np.array(column) for name, column in zip(COLUMNS, columns, strict=True)})


@cache
def others(folder: Path) -> Table:
    return read(folder / "truth" / "timm_traced_ops.parquet")


def both(shared: Path, model: str, size: int) -> Traced:
    mine, table = ours(model, size), others(shared)
    mine = mine.where(mine.words("way") == "eager")
    theirs = table.where((table.words("model") == model) & (table.numbers("img") == size))
    products = np.isin(theirs.words("cls"), ["conv1x1", "convdw", "convgrp", "convkxk", "linear"])
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for place, (rows, result) in enumerate(zip((mine, theirs), counts, strict=True)):
        for name, classes in SAME.items():
            result[name] = int(rows.numbers("count")[np.isin(rows.words("cls"), [*classes[place]])].sum())
    macs = [float((rows.numbers("macs") * rows.numbers("count")).sum()) for rows in (mine, theirs)]
    held = float((theirs.numbers("w_e") * theirs.numbers("count"))[products].sum())
    return Traced((macs[0], macs[1]), (float(as_work(mine, "eager", 4).matrix_weights[0]), held), counts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Mapping deprecated model name")
@pytest.mark.parametrize(("model", "size"), MODELS)
def test_macs_weights_and_kernels_are_those_of_an_independent_trace(
    model: str, size: int, shared: Path
) -> None:
    result = both(shared, model, size)
    assert result.macs[0] == pytest.approx(result.macs[1], rel=0.005)
    assert result.weights[0] == pytest.approx(result.weights[1], rel=0.01)
    assert +result.kernels[0] == +result.kernels[1]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "size"), MODELS)
def test_a_compiler_runs_the_same_products_in_fewer_kernels_that_move_less(model: str, size: int) -> None:
    eager, compiled = (as_work(ours(model, size), way, 4).work for way in ("eager", "inductor"))
    assert compiled.totals(compiled.macs) == pytest.approx(eager.totals(eager.macs))
    assert compiled.count.sum() < eager.count.sum()
    assert compiled.totals(compiled.traffic) < eager.totals(eager.traffic)


@pytest.mark.slow
@pytest.mark.skipif(not PATH.exists(), reason="benchmarks/trace_timm.py has not been run")
def test_a_fit_that_may_ship_knows_its_classes_by_their_number_type(shared: Path) -> None:
    result = fitted("4090 eager", PATH, shared / "truth")
    assert {"conv.fp16", "linear.fp16", "attention.fp16", "layer_norm_strided.fp16"} <= set(
        result.rates.classes
    )
    assert result.error < 9.5
    assert result.interval.low < 0 < result.interval.high
    assert all(
        rate.launch == 0 for rate in result.rates.classes.values()
    )  # not separable from work at batch 1,000
