"""The page in a real browser: its texts, plots and controls, compared with independent counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sizeup
from browser import PICTURES, Opened, Page, titles_in_sight
from networks import chain, looping, three_convolutions, with_unknown
from sizeup import units
from sizeup.dtypes import dtype
from sizeup.graph import Constant, Graph, GraphBuilder

pytestmark = pytest.mark.extras
FLOAT = dtype("float32")
Open = Callable[..., Opened]

HOSTILE = (
    "</script><script>window.broken = 1</script>",
    '<img src=x onerror="window.broken = 1">',
    "%{x} <b>bold</b> <a href='javascript:1'>",
    "卷积/输出",
    "مرحبا",
    "a\nb\x1b[31m",
    "\udc80",
    "constructor",
    "x" * 900,
    "",
)


def hostile() -> Graph:
    """Convolutions in a row whose tensors, operators and modules are called what may break a page."""
    builder = GraphBuilder('<i>model</i> "&amp;"', "onnx")
    x = builder.input(HOSTILE[0], (1, 4, 8, 8), FLOAT)
    for name in HOSTILE:
        weight = builder.tensor(f"{name}.weight", (4, 4, 1, 1), FLOAT, Constant("parameter"))
        output = builder.tensor(name, (1, 4, 8, 8), FLOAT)
        builder.op("conv", [x, weight], [output], {"out_channels": 4}, name=name, scope=name, source="Conv")
        x = output
    builder.op(HOSTILE[1], [x], [builder.tensor("", (3,), FLOAT)], source=HOSTILE[1], name=HOSTILE[1])
    builder.outputs.append(x)
    builder.note(HOSTILE[1])
    return builder.freeze()


def nameless() -> Graph:
    """One operator, and no name for anything."""
    builder = GraphBuilder("")
    x = builder.input("", (10,), FLOAT)
    y = builder.tensor("", (10,), FLOAT)
    builder.op("relu", [x], [y])
    builder.outputs.append(y)
    return builder.freeze()


def sound(shown: Opened) -> None:
    """No complaint, no request, nothing wider than the window."""
    assert shown.complaints == []
    assert shown.requests == []
    assert shown.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def rows(page: Page, place: str = "#operator-table") -> list[list[str]]:
    """The texts of the rows that are in the table now."""
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    shown: list[list[str]] = page.eval_on_selector_all(f"{place} tbody tr[data-row]", script)
    return shown


def overlaps(page: Page, selector: str) -> list[str]:
    """Texts of a selector whose boxes cover one another."""
    shown: list[str] = page.evaluate(
        """selector => {
          const boxes = [...document.querySelectorAll(selector)]
            .map(each => [each.textContent, each.getBoundingClientRect()])
            .filter(([, box]) => box.width && box.height);
          const cross = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
            && a.top < b.bottom - 1 && b.top < a.bottom - 1;
          const bad = [];
          boxes.forEach(([text, a], place) => boxes.slice(place + 1).forEach(([other, b]) => {
            if (cross(a, b)) bad.push(`${text} | ${other}`);
          }));
          return bad;
        }""",
        selector,
    )
    return shown


GRAPHS = [
    three_convolutions(),
    with_unknown(),
    hostile(),
    nameless(),
    looping(3),
    chain(45),
    GraphBuilder("empty").freeze(),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: re.sub(r"\W+", "_", graph.name) or "nameless")
@pytest.mark.parametrize("target", [None, "stm32f746/tflm"])
def test_any_graph_opens_without_complaint(graph: Graph, target: str | None, show: Open) -> None:
    shown = show(sizeup.analyze(graph, target=target), width=900)
    sound(shown)
    assert shown.page.evaluate("window.broken") is None
    assert shown.page.inner_text("h1") != ""
    assert len(rows(shown.page)) == min(len(graph.ops), 29)  # rows of 32 pixels in 34 rem, and twelve beyond


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "target"), [("mlperf_vww96_int8.tflite", "stm32f746"), ("mp_hand_landmark_full.tflite", None)]
)
def test_nothing_overlaps_or_is_cut_off_at_any_width(
    name: str, target: str | None, scheme: str, width: int, show: Open, shared: Path
) -> None:
    report = sizeup.analyze(shared / "models" / name, target=target)
    shown = show(report, width=width, color_scheme=scheme)
    sound(shown)
    shown.picture(f"{Path(name).stem}-{scheme}-{width}")
    for selector in (
        ".page-head h1, .page-head button, #verdict strong",
        ".numbers dt, .numbers dd",
        ".result dt",
    ):
        assert overlaps(shown.page, selector) == []
    clipped = """selector => [...document.querySelectorAll(selector)]
      .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"""
    assert (
        shown.page.evaluate(clipped, ".numbers dd, .numbers dt, h1, h2, .verdict, .result dd, figcaption")
        == []
    )
    dark = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(255, 255, 255)") == (scheme == "light")


def test_telephone_shows_names_macs_and_times_first(show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="stm32f746")
    page = show(report, width=390).page
    assert titles_in_sight(page, "#operator-table") == ["#", "name", "MACs", "time"]
    # A long name is shown by its end, which distinguishes it from its neighbors.
    cell = page.locator("#operator-table tr[data-row='1'] th")
    assert (
        cell.evaluate("each => each.scrollWidth > each.clientWidth && getComputedStyle(each).direction")
        == "rtl"
    )
    assert cell.inner_text() == report.ops[1].name


def test_boxes_of_modules_have_no_label_that_says_nothing(show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mp_hand_landmark_full.tflite", target="rpi5/litert")
    for width in (1440, 390):
        page = show(report, width=width).page
        widths = page.evaluate(
            """() => [...document.querySelectorAll("#icicle .box span")].filter(each => each.textContent)
              .map(each => [each.textContent.length, each.scrollWidth, each.clientWidth])"""
        )
        assert len(widths) > 1
        for letters, needed, available in widths:
            assert available * letters >= min(letters, 3) * needed, (letters, needed, available)


@pytest.mark.parametrize("width", [1440, 390])
def test_labels_of_the_roofline_cover_no_button_and_no_point(width: int, show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="rpi5/litert")
    page = show(report, width=width).page
    page.hover("#roofline-plot .nsewdrag")
    labels = "#roofline-plot .annotation-text"
    assert len(page.query_selector_all(labels)) > 1
    for others in ("#roofline-plot .modebar-btn", "#roofline-plot .point"):
        assert len(page.query_selector_all(others)) > 1
        within = set(overlaps(page, others))  # points may cover points
        assert [each for each in overlaps(page, f"{labels}, {others}") if each not in within] == []


@pytest.mark.parametrize("width", [1440, 390])
def test_the_type_of_a_layer_is_read_in_full(width: int, show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="stm32f746")
    page = show(report, width=width).page
    ends = """() => { const box = document.querySelector(".scroll td select");
      const text = document.createElement("span");
      text.style.font = getComputedStyle(box).font;
      text.textContent = box.selectedOptions[0].textContent;
      document.body.append(text);
      return [text.getBoundingClientRect().width + 20, box.getBoundingClientRect().width,
        box.getBoundingClientRect().right, box.closest(".scroll").getBoundingClientRect().right]; }"""
    needed, wide, right, edge = page.evaluate(ends)
    assert needed <= wide
    assert right <= edge


def test_the_verdict_comes_first_and_says_what_fits(show: Open, shared: Path) -> None:
    path = shared / "models" / "mlperf_vww96_int8.tflite"
    arena = 100_720  # bytes of the smallest arena in which it ran on an emulated Cortex-M4 with CMSIS-NN
    small = show(sizeup.analyze(path, target="stm32f746")).page
    assert small.inner_text("#verdict strong") == "Fits on STM32F746NG"
    assert units.size(arena) in small.inner_text("#verdict")
    device = sizeup.analyze(shared / "models" / "tflm_mobilenetv2_224.tflite", target="stm32f746")
    large = show(device).page
    verdict = large.inner_text("#verdict strong")
    assert re.fullmatch(
        r"Does not fit on STM32F746NG: needs \S+ MiB \S+, has \S+ [KM]iB(; needs .+)?", verdict
    )
    none = show(sizeup.analyze(path)).page
    assert none.inner_text("#verdict strong") == "No target given"
    unread = show(sizeup.analyze(with_unknown(), target="stm32f746")).page
    assert unread.inner_text("#verdict strong").startswith("May or may not fit on")


def test_unknown_operators_are_listed_and_never_zero(show: Open) -> None:
    page = show(sizeup.analyze(with_unknown())).page
    assert "1 of 3 operators counted" in page.inner_text("#receipt")
    assert "mylib.fancy" in page.inner_text(".receipt-table")
    assert "no cost rule for mylib.fancy" in page.inner_text(".receipt-table")
    page.click("#operator-table th:has-text('MACs') button")
    macs = [row[5] for row in rows(page)]
    assert macs == ["885 k", "?", "?"]
    page.click("#operator-table th:has-text('MACs') button")
    assert [row[5] for row in rows(page)] == ["885 k", "?", "?"]  # what is not known comes last either way


def box(page: Page, tensor: str) -> tuple[float, float]:
    """The middle of a tensor's box in the map of the arena."""
    place: list[float] = page.evaluate(
        """tensor => {
          const { memory, tensors } = sizeup.data;
          const first = box => memory.tensors.items[memory.tensors.first[box]];
          const box = memory.size.findIndex((_, each) => tensors.name[first(each)] === tensor);
          const drawn = document.querySelectorAll("#memory-plot .barlayer .point path")[box];
          drawn.scrollIntoView({ block: "center" });
          const at = drawn.getBoundingClientRect();
          return [at.x + at.width / 2, at.y + at.height / 2];
        }""",
        tensor,
    )
    return place[0], place[1]


def test_hover_names_the_tensor_and_click_follows_it(show: Open) -> None:
    shown = show(sizeup.analyze(three_convolutions()))
    page = shown.page
    page.mouse.move(*box(page, "stem.conv.out"))
    page.wait_for_selector("#memory-plot .hovertext")
    hover = page.text_content("#memory-plot .hoverlayer")
    # 32 x 32 x 32 floats, made by operator 0 and read by operator 1.
    for words in ("stem.conv.out", "1x32x32x32 fp32", "128 KiB (131,072 B)", "from operator 0 to 1"):
        assert words in hover
    page.mouse.click(*box(page, "stem.conv.out"))
    assert page.inner_text("#followed h3") == "stem.conv.out"
    assert page.inner_text("#followed dd.ops >> nth=0") == "#0 conv"
    assert page.inner_text("#followed dd.ops >> nth=1") == "#1 conv"
    marks = page.eval_on_selector_all(
        "#operator-table tr[data-row]", "rows => rows.map(row => row.className)"
    )
    assert marks == ["maker", "reader", ""]
    assert page.locator("#memory-plot .shapelayer path").count() == 2
    page.click("text=Clear selection")
    assert page.locator("#operator-table tr.maker, #operator-table tr.reader").count() == 0
    sound(shown)


def test_a_tensor_is_followed_by_keyboard_too(show: Open) -> None:
    page = show(sizeup.analyze(three_convolutions())).page
    page.focus("#follow")
    page.keyboard.type("body.depthwise.out")
    page.keyboard.press("Enter")
    assert page.inner_text("#followed h3") == "body.depthwise.out"
    page.check("#only-followed")
    assert [row[0] for row in rows(page)] == ["1", "2"]


def test_views_are_followed_with_what_they_show(show: Open) -> None:
    builder = GraphBuilder("views")
    x = builder.input("x", (4, 4), FLOAT)
    flat = builder.tensor("flat", (16,), FLOAT)
    builder.op("reshape", [x], [flat])
    y = builder.tensor("y", (16,), FLOAT)
    builder.op("relu", [flat], [y])
    builder.outputs.append(y)
    page = show(sizeup.analyze(builder.freeze())).page
    page.mouse.click(*box(page, "x"))
    assert "1 alias" in page.inner_text("#followed")
    marks = page.eval_on_selector_all(
        "#operator-table tr[data-row]", "rows => rows.map(row => row.className)"
    )
    assert marks == ["maker", "reader"]


def test_sorting_and_filtering_agree_with_the_report(show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="stm32f746")
    page = show(report, height=1600).page
    head = "#operator-table th:has-text('{}')"
    for title, key in (
        ("MACs", "macs"),
        ("time", "ms"),
        ("written", "written_bytes"),
        ("live", "live_bytes"),
    ):
        page.click(head.format(title) + " button")
        assert page.get_attribute(head.format(title), "aria-sort") == "descending"
        shown = [int(row[0]) for row in rows(page)]
        expected = sorted(range(len(report.ops)), key=lambda op: -(getattr(report.ops[op], key) or 0))
        assert shown == expected[: len(shown)]
    page.click(head.format("live") + " button")
    assert page.get_attribute(head.format("live"), "aria-sort") == "ascending"
    page.click(head.format("#") + " button")
    page.fill("#operator-table input[type=search]", "matmul")
    kinds = [op.index for op in report.ops if "matmul" in f"{op.op_kind} {op.name} {op.scope}".lower()]
    assert [int(row[0]) for row in rows(page)] == sorted(kinds, reverse=True)
    assert f"{len(kinds)} of {len(report.ops)} operators" in page.inner_text("#operator-table .table-count")
    page.fill("#operator-table input[type=search]", "nothing is called so")
    assert rows(page) == []


def test_amounts_read_as_in_every_other_output(show: Open) -> None:
    page = show(sizeup.analyze(three_convolutions())).page
    numbers = [
        0,
        1,
        7,
        999,
        1000,
        1023,
        1024,
        9994,
        9995,
        99949,
        99950,
        999499,
        999500,
        4089184256,
        10**13,
        3 * 10**17,
        3_200,  # 3.125 KiB, between 3.12 and 3.13
        3_328,
        10_752,
        1_005,
        12_250,
        1_012_500,
        100_500,
        101_500,
    ]
    assert page.evaluate("each => each.map(sizeup.words.count)", numbers) == [
        units.count(each) for each in numbers
    ]
    assert page.evaluate("each => each.map(sizeup.words.size)", numbers) == [
        units.size(each) for each in numbers
    ]
    times = [
        3e-10,
        1.234e-9,
        9.994e-7,
        1.5e-6,
        0.000999,
        0.00123,
        0.0999,
        0.9995,
        1.0,
        62.51,
        4000.0,
        0.0625,
        0.1875,
        0.015625,
    ]
    words = page.evaluate("each => each.map(sizeup.words.duration)", times)
    assert words == [units.duration(each) for each in times]


def test_points_of_the_roofline_are_what_operators_attain(show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mlperf_resnet8_fp32.tflite", target="rpi5/litert")
    page = show(report).page
    traces = page.evaluate("document.getElementById('roofline-plot').data")
    points = {
        op: y
        for each in traces
        if "customdata" in each
        for op, y in zip(each["customdata"], each["y"], strict=True)
    }
    across = {
        op: x
        for each in traces
        if "customdata" in each
        for op, x in zip(each["customdata"], each["x"], strict=True)
    }
    assert set(points) == {op.index for op in report.ops if op.macs and op.ms}
    for index, rate in points.items():
        row = report.ops[index]
        assert row.macs is not None
        assert row.ms is not None
        assert rate == pytest.approx(row.macs / (row.ms / 1e3), rel=1e-6)
        assert across[index] == pytest.approx(row.intensity, rel=1e-6)  # FLOP/B, as in the table
    assert report.latency is not None
    assert report.latency.target is not None
    peak = report.latency.target.peak("fp32")
    assert peak is not None
    roofs = [max(each["y"]) for each in traces if each["mode"] == "lines"]
    assert any(roof == pytest.approx(peak) for roof in roofs)
    assert max(points.values()) <= peak


def test_no_plot_offers_to_send_itself_away(show: Open) -> None:
    page = show(sizeup.analyze(three_convolutions(), target="rpi5/ort")).page
    titles = page.eval_on_selector_all(".modebar-btn", "found => found.map(each => each.dataset.title)")
    assert "Zoom" in titles
    assert not any(word in title for title in titles for word in ("Share", "cloud", "Edit"))
    servers = "[...document.querySelectorAll('.plot')].map(each => each._context.plotlyServerURL)"
    assert page.evaluate(servers) == ["", ""]


def test_modules_add_up_and_open(show: Open) -> None:
    report = sizeup.analyze(three_convolutions())
    page = show(report).page
    page.click("#icicle button:text-is('MACs')")
    labels = page.eval_on_selector_all(
        "#icicle .box", "boxes => boxes.map(box => box.getAttribute('aria-label'))"
    )
    # 1,024 positions x 864, then x (288 + 2,048).
    assert "three_convolutions: 3.28 M, 100.0 % of the model, 3 operators" in labels
    assert "stem: 885 k, 27.0 % of the model, 1 operator" in labels
    assert "body: 2.39 M, 73.0 % of the model, 2 operators" in labels
    page.click("#icicle .box[aria-label^='body:']")
    assert page.inner_text("#icicle .trail [aria-current]").endswith("body")
    labels = page.eval_on_selector_all(
        "#icicle .box", "boxes => boxes.map(box => box.getAttribute('aria-label'))"
    )
    assert not any(label.startswith("stem") for label in labels)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.inner_text("#icicle .trail [aria-current]") == "three_convolutions"


def test_the_reader_may_choose_the_colors(show: Open) -> None:
    page = show(sizeup.analyze(three_convolutions(), target="rpi5/ort"), color_scheme="dark").page
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "document.getElementById('roofline-plot').layout.font.color"
    dark = page.evaluate(f"[{paper}, {ink}]")
    page.click("#theme")
    light = page.evaluate(f"[{paper}, {ink}]")
    assert light == ["rgb(255, 255, 255)", "rgb(22, 25, 31)"]
    assert dark != light
    assert page.inner_text("#theme") == "Dark colors"


def test_all_controls_are_reached_by_keyboard(show: Open) -> None:
    page = show(sizeup.analyze(three_convolutions(), target="stm32f746/tflm")).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        key = page.evaluate(
            """() => { const at = document.activeElement; if (at === document.body) return "end";
            const words = at.textContent.slice(0, 30);
            return [at.id, at.tagName, at.getAttribute("aria-label"), words].join("|"); }"""
        )
        if key == "end":
            break
        reached.add(key)
    else:
        pytest.fail("the focus never leaves the page")
    ids = {each.partition("|")[0] for each in reached}
    assert {"theme", "follow", "all-types"} <= ids
    for label in ("Precision of layer stem.conv", "Filter: Operators", "Operators, scrolls"):
        assert any(label in each for each in reached), label
    assert any(each.endswith("|MACs") for each in reached)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(scheme: str, show: Open, shared: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="stm32f746")
    page = show(report, color_scheme=scheme).page
    page.mouse.click(
        *box(page, sizeup.load(shared / "models" / "mlperf_vww96_int8.tflite").tensors[0].name or "")
    )
    shown = axe.Axe().run(page).response["violations"]
    serious = {
        each["id"]: [node["html"][:120] for node in each["nodes"]][:4]
        for each in shown
        if each["impact"] in ("serious", "critical")
    }
    assert serious == {}


def test_it_prints(show: Open, shared: Path) -> None:
    report = sizeup.analyze(shared / "models" / "mlperf_vww96_int8.tflite", target="stm32f746")
    page = show(report).page
    before = page.locator("#operator-table tbody tr[data-row]").count()
    PICTURES.mkdir(parents=True, exist_ok=True)
    printed = page.pdf(path=PICTURES / "printed.pdf", format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 2 <= pages <= 8
    # Afterwards the page is as it was.
    assert page.locator("#operator-table tbody tr[data-row]").count() == before
