"""Other precisions in the page, compared with `sizeup.analyze` of the same map; no code is shared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sizeup
from browser import Browser, Page, chromium, opened
from networks import looping, three_convolutions, tied_embedding
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder, Quant
from sizeup.render.html import data_of

pytestmark = pytest.mark.extras


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page whose data are replaced by those of one model after the other."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    sizeup.analyze(three_convolutions()).save(path)
    with chromium() as browser:
        yield opened(browser, path).page


@pytest.fixture(scope="module")
def browser(page: Page) -> Browser:
    return page.context.browser


def mixtures(data: dict[str, Any], count: int) -> Iterator[dict[int, int]]:
    """Every layer at the narrowest type, one layer alone, then many at types by chance."""
    layers, offered = data["layers"], data["offered"]
    yield dict.fromkeys(layers, offered[-1])
    yield {layers[len(layers) // 2]: offered[-1]}
    chance = random.Random(7)
    for share in [0.15, 0.5, 0.9][:count]:
        yield {op: chance.choice(offered) for op in layers if chance.random() < share} or {
            layers[0]: offered[0]
        }


def in_page(page: Page, data: dict[str, Any], chosen: dict[int, int]) -> dict[str, Any]:
    shown: dict[str, Any] = page.evaluate(
        "([data, chosen]) => sizeup.precisionMap(data, new Map(chosen))",
        [data, [list(each) for each in chosen.items()]],
    )
    return shown


def apart(source: Any, data: dict[str, Any], chosen: dict[int, int], target: str | None) -> sizeup.Report:
    mapping = {f"#{op}": data["types"][code]["name"] for op, code in chosen.items()}
    return sizeup.analyze(source, precision=mapping, target=target, basis=data["latency"].get("basis"))


def assert_same(page: Page, source: Graph, target: str | None, count: int = 3, slack: float = 1e-6) -> None:
    """Bytes are equal; seconds too, except for conversions that prevent fusion."""
    data = data_of(sizeup.analyze(source, target=target))
    what_if = data["what_if"]
    assert what_if is not None
    for chosen in mixtures(what_if, count):
        shown, report = in_page(page, data, chosen), apart(source, what_if, chosen, target)
        totals = report.totals
        assert [shown["weights"], shown["read"], shown["written"], shown["peak"]] == [
            totals.weight_bytes,
            totals.read_bytes,
            totals.written_bytes,
            report.memory.peak_bytes,
        ], chosen
        if report.latency is not None:
            seconds = shown["latency"]["seconds"]
            assert seconds == pytest.approx(report.latency.seconds, rel=slack)


def with_narrow_weights() -> Graph:
    """Two products of floats with weights of 8 bits, as dynamic quantization leaves them."""
    builder = GraphBuilder("narrow")
    x = builder.input("x", (1, 64), dtype("float32"))
    for name in ("one", "two"):
        scale = Quant(np.ones(1), np.zeros(1))
        w = builder.tensor(f"{name}.weight", (64, 64), dtype("int8"), Constant("parameter"), scale)
        y = builder.tensor(f"{name}.out", (1, 64), dtype("float32"))
        builder.op("matmul", [x, w], [y], {"contracted": (1,)}, name=name)
        x = y
    builder.outputs.append(x)
    return builder.freeze()


def with_stored_scales() -> Graph:
    """Two products with weights of 8-bit floats and of 4-bit integers, whose scales are read with them."""
    builder = GraphBuilder("scales")
    x = builder.input("x", (1, 64), dtype("bfloat16"))
    for name, kind, elements in (("one", "float8_e4m3fn", 64 * 64), ("two", "int4", 64 * 32)):
        data = Constant("parameter", stored_bytes=elements + 516, scale_bytes=516)
        w = builder.tensor(f"{name}.weight", (64, 64), dtype(kind), data)
        y = builder.tensor(f"{name}.out", (1, 64), dtype("bfloat16"))
        builder.op("matmul", [x, w], [y], {"contracted": (1,)}, name=name)
        x = y
    builder.outputs.append(x)
    return builder.freeze()


BY_HAND = [three_convolutions(), tied_embedding(), with_narrow_weights(), with_stored_scales()]


@pytest.mark.parametrize("graph", BY_HAND, ids=lambda graph: graph.name)
@pytest.mark.parametrize("target", [None, "stm32f746/tflm", "rtx4090/torch-eager"])
def test_graphs_made_by_hand_agree(graph: Graph, target: str | None, page: Page) -> None:
    assert_same(page, graph, target)


REAL = [
    "mlperf_kws_int8",
    "mlperf_vww96_fp32",
    "mp_hand_landmark_full",
    "mp_face_detection_full_range_sparse",  # weights are unpacked from half precision and from a sparse form
    "tflm_mnist_lstm_int8",
    "tflm_dtln",
    "tflm_micro_speech",
    "mp_selfie_segmentation",
]


@pytest.mark.parametrize("name", REAL)
def test_real_files_agree_to_the_byte_and_the_microsecond(name: str, page: Page, shared: Path) -> None:
    assert_same(page, sizeup.load(shared / "models" / f"{name}.tflite"), "stm32f746/tflm")


@pytest.fixture(scope="module")
def resnet() -> Graph:
    return sizeup.load("torchvision:resnet50")


def test_a_page_on_resnet_50_stays_below_two_megabytes(resnet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    sizeup.analyze(resnet, target="rpi5/ort").save(path)
    assert 1_200_000 < path.stat().st_size < 2_000_000


def test_recorded_modules_agree_where_views_and_branches_meet(resnet: Graph, page: Page) -> None:
    assert_same(page, resnet, "rtx4090/torch-eager", 1)


def test_a_runtime_that_merges_operators_is_priced_nearly_exactly(resnet: Graph, page: Page) -> None:
    assert_same(page, resnet, "ryzen-9-7950x/openvino", 2, slack=0.06)


def test_one_layer_is_priced_nearly_exactly_even_then(resnet: Graph, page: Page) -> None:
    data = data_of(sizeup.analyze(resnet, target="ryzen-9-7950x/openvino"))
    what_if = data["what_if"]
    assert what_if["latency"]["merges"]
    for op in what_if["layers"][::18]:
        chosen = {op: what_if["offered"][-1]}
        shown, report = in_page(page, data, chosen), apart(resnet, what_if, chosen, "ryzen-9-7950x/openvino")
        assert report.latency is not None
        assert shown["latency"]["seconds"] == pytest.approx(report.latency.seconds, rel=0.03)


def test_control_flow_has_no_layer_to_choose(page: Page) -> None:
    assert data_of(sizeup.analyze(looping(3)))["what_if"] is None


def value(page: Page, key: str) -> float:
    return float(page.get_attribute(f"#what-if dd[data-key={key}]", "data-value"))


def test_the_switch_of_all_layers_changes_what_it_should(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    sizeup.analyze(three_convolutions(), target="stm32f746/tflm").save(path)
    shown = opened(browser, path)
    page = shown.page
    # 3,200 parameters of four bytes; x is 3 x 64 x 64 floats, others 32 or 64 channels of 32 x 32.
    assert value(page, "weights") == 12_800
    assert value(page, "peak") == (32 + 64) * 1024 * 4
    page.select_option("#all-types", label="int8")
    assert value(page, "weights") == 3_200
    assert value(page, "peak") == (32 + 64) * 1024
    assert value(page, "read") == 3 * 64 * 64 + 32 * 1024 * 2 + 3_200
    assert value(page, "written") == (32 + 32 + 64) * 1024
    # Not every type was measured on this target, so the page goes by the data sheet.
    known = sizeup.estimate(three_convolutions(), "stm32f746/tflm", precision={"*": "int8"}, basis="roofline")
    assert value(page, "latency") == pytest.approx(known.seconds, rel=1e-6)
    assert "No conversion" in page.inner_text("#what-if-summary")
    assert page.inner_text("#what-if-mapping") == 'sizeup.analyze(model, precision={"*":"int8"})'
    page.click("#what-if >> text=Reset")
    assert value(page, "weights") == 12_800
    assert shown.complaints == []
    page.close()


def test_a_latency_on_another_basis_is_labeled_with_it(
    browser: Browser, tmp_path: Path, shared: Path
) -> None:
    """The top of the page has 65.2 ms of a calibration, which covers only int8."""
    path = tmp_path / "report.html"
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="stm32f746")
    assert report.latency is not None
    assert report.latency.basis == "calibrated"
    report.save(path)
    page = opened(browser, path).page
    assert "Latency (data sheet)" in page.inner_text("#what-if")
    words = page.inner_text("#what-if dd[data-key=latency]")
    assert words.count("at least 17.3 ms") == 2
    assert "originally at least 17.3 ms" in words
    assert "does not compare with the one at the top" in page.inner_text("#what-if-summary")
    page.select_option("#all-types", label="int4")
    assert "at least" in page.inner_text("#what-if dd[data-key=latency] strong")
    page.click("#what-if >> text=Reset")
    page.select_option("#layer-table select[data-op='0']", label="int4")
    assert "at least" in page.inner_text("#what-if dd[data-key=latency] strong")
    page.close()


def test_a_latency_with_an_interval_is_no_lower_bound(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report = sizeup.analyze(three_convolutions(), target="rpi5/litert", precision="int8")
    assert report.latency is not None
    assert report.latency.low is not None
    report.save(path)
    page = opened(browser, path).page
    assert "at least" not in page.inner_text("#what-if dd[data-key=latency]")
    assert "does not compare" not in page.inner_text("#what-if-summary")
    page.close()


def test_a_report_at_one_precision_starts_from_it(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report = sizeup.analyze(three_convolutions(), target="rpi5/ort", precision="int8", basis="roofline")
    report.save(path)
    page = opened(browser, path).page
    assert value(page, "weights") == 3_200
    assert report.latency is not None
    assert value(page, "latency") == pytest.approx(report.latency.seconds, rel=1e-6)
    assert "all at int8 3.12 KiB" in page.inner_text("#what-if")
    page.select_option("#layer-table select[data-op='0']", label="fp16")
    assert value(page, "weights") == 2 * 864 + 4 * 288 + 4 * 2048
    page.close()


def test_the_switch_of_one_layer_counts_its_conversions(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    sizeup.analyze(three_convolutions()).save(path)
    page = opened(browser, path).page
    page.select_option("#layer-table select[data-op='1']", label="int8")
    # What enters the layer is made as floats and converted; so is what leaves it, for the last layer.
    between = 32 * 1024
    assert value(page, "weights") == 4 * 864 + 288 + 4 * 2048
    assert value(page, "written") == 4 * between + between + between + 4 * between + 4 * 64 * 1024
    assert "2 conversions between precisions, which move 320 KiB" in page.inner_text("#what-if-summary")
    assert page.input_value("#all-types") == ""
    assert page.inner_text("#what-if-mapping") == 'sizeup.analyze(model, precision={"#1":"int8"})'
    page.close()
