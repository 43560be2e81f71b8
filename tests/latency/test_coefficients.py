"""Milliseconds per 2,000,000 MACs, against hand calculations."""

from __future__ import annotations

from pathlib import Path

import pytest

from latency.test_work import convolution, plain
from networks import tied_embedding
from sizeup.cost import count
from sizeup.dtypes import precision
from sizeup.errors import SizeupError
from sizeup.graph import Graph
from sizeup.latency import layer_times, read_table, table_from
from sizeup.latency.coefficients import DEFAULT


@pytest.mark.parametrize(
    ("graph", "layer"),
    [
        (convolution(16, 32, 3), "conv"),
        (convolution(16, 16, 3, groups=16), "depthwise"),
        (convolution(16, 32, 3, groups=16), "conv"),
        (convolution(16, 16, 3, groups=4), "conv"),
        (tied_embedding(), "linear"),
        (plain("relu", "Relu"), ""),
    ],
)
@pytest.mark.parametrize("name", ["fp32", "fp16", "int8", "int4", "int2"])
def test_a_layer_takes_its_macs_times_its_coefficient(graph: Graph, layer: str, name: str) -> None:
    times = layer_times(count(graph), precision(name))
    assert times.layers[-1] == layer
    expected = count(graph).total_macs / 2_000_000 * (DEFAULT[layer][name] if layer else 0)
    assert times.total == pytest.approx(expected)


def test_the_coefficients_are_those_of_the_table() -> None:
    assert [*DEFAULT["conv"].values()] == [100, 50, 28, 17.4, 11]
    assert [*DEFAULT["depthwise"].values()] == [200, 100, 46, 27, 16.8]
    assert [*DEFAULT["linear"].values()] == [50, 25, 14, 8.7, 5.5]


@pytest.mark.extras
@pytest.mark.parametrize(
    ("pixels", "macs", "milliseconds"), [(224, 87_907_776, 4910.0992), (112, 23_993_664, 1328.8768)]
)
def test_mobilenet_v2_of_half_width_takes_what_it_takes(pixels: int, macs: int, milliseconds: float) -> None:
    pytest.importorskip("torch")
    import sizeup
    from sizeup.formats.torch.zoo import import_torchvision

    library = import_torchvision()
    if library is None:
        pytest.skip("torchvision is not installed")
    model = library.models.mobilenet_v2(weights=None, width_mult=0.5, round_nearest=4, num_classes=100).eval()
    cost = count(sizeup.load(model, inputs=((1, 3, pixels, pixels),)))
    assert cost.total_macs == macs
    assert layer_times(cost, precision("fp32")).total == pytest.approx(milliseconds)


def test_every_operator_may_have_a_precision_of_its_own() -> None:
    cost = count(tied_embedding())
    mixed = layer_times(cost, [precision("fp32"), precision("int8")])
    assert mixed.total == pytest.approx(cost.total_macs / 2e6 * 14)
    with pytest.raises(SizeupError, match="1 precisions for 2 operators"):
        layer_times(cost, [precision("int8")])


@pytest.mark.parametrize(
    ("name", "text"),
    [("own.toml", "[conv]\nint8 = 7\n"), ("own.json", '{"conv": {"int8": 7}}')],
)
def test_a_file_replaces_what_it_names(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    table = read_table(path)
    assert table["conv"]["int8"] == 7
    assert table["conv"]["fp32"] == 100
    assert table["linear"] == DEFAULT["linear"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "one table per layer"),
        ({"conv": 3}, "one table per layer"),
        ({"lstm": {"fp32": 1}}, "unknown layer 'lstm'"),
        ({"Conv": {"fp32": 1}, "conv": {"int8": 1}}, "'Conv' and 'conv' are the same layer"),
        ({"conv": {"float7": 1}}, "unknown precision 'float7'"),
        ({"conv": {"fp32": "fast"}}, "not a number of milliseconds"),
        ({"conv": {"fp32": -1}}, "not a number of milliseconds"),
        ({"conv": {"fp32": True}}, "not a number of milliseconds"),
    ],
)
def test_a_table_that_cannot_be_is_refused(content: object, message: str) -> None:
    with pytest.raises(SizeupError, match=message):
        table_from(content)


@pytest.mark.parametrize("row", ["DWConv", "DepthwiseConv", "depthwise_conv", "Depthwise"])
def test_rows_may_have_the_names_of_older_tables(row: str) -> None:
    table = table_from({"Conv": {"FP32": 3}, row: {"float32": 5}, "Linear": {"int8": 7}})
    assert (table["conv"]["fp32"], table["depthwise"]["fp32"], table["linear"]["int8"]) == (3, 5, 7)
    assert all(set(table[layer]) == set(DEFAULT[layer]) for layer in DEFAULT)


def test_a_wrong_table_in_a_file_is_named_with_the_form(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"lstm": {"fp32": 1}}', "utf-8")
    with pytest.raises(SizeupError, match=r"own\.json: unknown layer 'lstm'.*\{\"conv\": \{\"fp32\": 100"):
        read_table(path)


@pytest.mark.parametrize("text", ["conv = ", " " * (16 << 20) + "\n", None])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "own.toml"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(SizeupError, match=r"own\.toml: not a coefficient table"):
        read_table(path)


def test_a_precision_without_a_coefficient_is_an_error() -> None:
    with pytest.raises(SizeupError, match="no coefficient for conv at fp64; the table has fp32"):
        layer_times(count(convolution(16, 32, 3)), precision("fp64"))
