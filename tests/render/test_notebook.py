"""Reports in a notebook: what is drawn is read back, run in a real kernel and shown by a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import sizeup
from browser import chromium, opened
from by_hand import in_use
from memory.memory_graphs import branches
from networks import three_convolutions, with_unknown
from sizeup import units
from sizeup.dtypes import dtype
from sizeup.graph import Graph, GraphBuilder

SPACE = "{http://www.w3.org/2000/svg}"


def pictures(report: sizeup.Report) -> list[ElementTree.Element]:
    """The pictures of a report, which must be well-formed."""
    return [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", report._repr_html_())]


def words(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SPACE}text")]


def hostile() -> Graph:
    """Names that would end a text, an attribute or the picture, were they not escaped."""
    names = (
        "</text><script>alert(1)</script>",
        '" onload="alert(1)',
        "a&b;<&amp;>",
        "x" * 900,
        "a\x1bb\x00",
        "卷积",
    )
    builder = GraphBuilder(names[0] + names[1], "onnx")
    last = builder.input("x", (4,), dtype("float32"))
    for name in names:
        new = builder.tensor(name, (4,), dtype("float32"))
        builder.op("relu", [last], [new], name=name, scope=f"{name}.{name}")
        last = new
    builder.outputs.append(last)
    return builder.freeze()


def test_the_curve_of_memory_is_as_high_as_what_is_in_use_at_every_operator() -> None:
    graph = branches()
    memory = pictures(sizeup.analyze(graph))[0]
    path = next(each for each in memory.iter(f"{SPACE}path") if each.get("fill", "").startswith("#"))
    expected = in_use(graph)
    match = re.fullmatch(r"M([\d.]+),([\d.]+)((?:V[\d.]+H[\d.]+)+)V([\d.]+)Z", path.get("d", ""))
    assert match is not None
    floor = float(match[2])
    tops = [floor - float(each) for each in re.findall(r"V([\d.]+)H", match[3])]
    assert [each / max(tops) for each in tops] == pytest.approx(
        [each / max(expected) for each in expected], abs=2e-3
    )
    assert words(memory)[0].startswith(f"peak {units.size(max(expected))} in operator ")


def test_bars_of_modules_are_as_long_as_their_macs() -> None:
    _, modules = pictures(sizeup.analyze(three_convolutions()))
    bars = [float(each.get("width", "")) for each in modules.iter(f"{SPACE}rect")]
    # 32 x 27, 32 x 9 and 64 x 32 MACs at each of 1,024 places.
    assert [each / bars[2] for each in bars] == pytest.approx([27 / 64, 9 / 64, 1], abs=1e-3)
    shown = words(modules)
    assert shown[0] == "MACs by module"
    assert shown[1:] == [
        "stem.conv", "885 k (27.0 %)", "body.depthwise", "295 k (9.0 %)", "body.pointwise", "2.10 M (64.0 %)",
    ]  # fmt: skip


def test_with_a_target_modules_are_ranked_by_time() -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi4/litert")
    modules = pictures(report)[1]
    assert words(modules)[0] == "time by module"
    bars = sorted(float(each.get("width", "")) for each in modules.iter(f"{SPACE}rect"))
    times = sorted(row.ms for row in report.ops if row.ms is not None)
    assert [each / bars[-1] for each in bars] == pytest.approx([each / times[-1] for each in times], abs=1e-3)


def test_what_is_not_known_is_a_question_mark() -> None:
    (modules,) = pictures(sizeup.analyze(with_unknown()))  # what is in memory is not known either
    assert "?" in words(modules)


def test_names_of_a_file_cannot_break_out_of_the_page() -> None:
    report = sizeup.analyze(hostile(), target="n100/openvino")
    html = report._repr_html_()
    assert "<script" not in html
    assert 'onload="' not in html
    assert "\x1b" not in html
    assert len(pictures(report)) == 2
    assert max(len(each) for picture in pictures(report) for each in words(picture)) < 120


def test_a_model_of_many_operators_stays_a_small_page() -> None:
    builder = GraphBuilder("many")
    last = builder.input("x", (64,), dtype("float32"))
    for number in range(20_000):
        new = builder.tensor(f"t{number}", (64,), dtype("float32"))
        builder.op("relu", [last], [new], scope=f"block.{number}")
        last = new
    builder.outputs.append(last)
    assert len(sizeup.analyze(builder.freeze())._repr_html_()) < 60_000


def test_no_picture_needs_matplotlib() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.path.insert(0, sys.argv[1])\n"
        "import sizeup\nfrom networks import three_convolutions\n"
        "assert sizeup.analyze(three_convolutions())._repr_html_().count('<svg') == 2"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent.parent)], check=True)


@pytest.mark.extras
def test_a_plan_and_a_report_become_data_frames() -> None:
    report, plan = sizeup.analyze(branches()), sizeup.plan(branches())
    assert report.to_pandas()["live_bytes"].tolist() == in_use(branches())
    table = plan.to_pandas()
    assert table["offset"].tolist() == [each for each in plan.offsets if each >= 0]
    assert (table["offset"] + table["bytes"]).max() == plan.plan_bytes


NOTEBOOK = """\
import sizeup
report = sizeup.analyze({model!r}, target="stm32f746/tflm")
report"""


@pytest.mark.extras
def test_three_lines_of_a_notebook_give_a_picture(shared: Path, tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    model = shared / "models" / "mlperf_kws_int8.tflite"
    cells = [NOTEBOOK.format(model=str(model)), "report.to_pandas().head(2)", "report"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    first, frame, again = (cell["outputs"] for cell in notebook["cells"])
    for outputs in (first, again):
        (output,) = outputs
        assert output["output_type"] == "execute_result"
        html = output["data"]["text/html"]
        assert html.count("<svg") == 2
        assert "peak 15.6 KiB" in html
        assert "Report on mlperf_kws_int8" in output["data"]["text/plain"]
    assert "live_bytes" in frame[0]["data"]["text/html"]


MEASURE = """() => Array.from(document.querySelectorAll('svg')).map(svg => {
  const box = each => { const r = each.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  return {frame: box(svg), texts: Array.from(svg.querySelectorAll('text')).map(each =>
    ({words: each.textContent, box: box(each), color: getComputedStyle(each).fill}))};
})"""


@pytest.mark.extras
@pytest.mark.parametrize("theme", [("#ffffff", "rgb(17, 17, 17)"), ("#111111", "rgb(232, 232, 232)")])
def test_a_browser_shows_all_words_apart_and_in_the_color_of_the_page(
    theme: tuple[str, str], tmp_path: Path
) -> None:
    reports = [
        sizeup.analyze(each, target="n100/openvino") for each in (three_convolutions(), hostile(), branches())
    ]
    background, ink = theme
    page_of = "<hr>".join(report._repr_html_() for report in reports)
    path = tmp_path / "page.html"
    path.write_text(
        f"<meta charset=utf-8><body style='background:{background};color:{ink}'>{page_of}", "utf-8"
    )
    with chromium() as browser:
        shown = opened(browser, path, width=900)
        match: list[dict[str, Any]] = shown.page.evaluate(MEASURE)
        shown.picture(f"notebook {background[1:]}")
    assert shown.complaints == []
    assert shown.requests == []
    assert len(match) == 6
    for picture in match:
        left, top, right, bottom = picture["frame"]
        for text in picture["texts"]:
            assert text["color"] == ink
            assert left <= text["box"][0] < text["box"][2] <= right, text
            assert top <= text["box"][1] < text["box"][3] <= bottom, text
        boxes = [each["box"] for each in picture["texts"]]
        for place, one in enumerate(boxes):
            for other in boxes[place + 1 :]:
                across = min(one[2], other[2]) - max(one[0], other[0])
                down = min(one[3], other[3]) - max(one[1], other[1])
                assert across <= 1 or down <= 2


@pytest.mark.extras
def test_rows_are_one_line_and_fit_a_page_where_notebooks_let_cells_wrap(
    shared: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ai_edge_litert")
    report = sizeup.analyze(shared / "models" / "tflm_person_detect.tflite", target="stm32f746/tflm")
    path = tmp_path / "page.html"
    style = "td, th { white-space: normal; padding: 4px 8px; font: 13px sans-serif }"  # as Jupyter has it
    path.write_text(
        f"<meta charset=utf-8><style>{style}</style><body style='width:900px'>{report._repr_html_()}", "utf-8"
    )
    with chromium() as browser:
        page = opened(browser, path, width=940).page
        rows = page.locator("div > table tr")
        heights = rows.evaluate_all("rows => rows.map(each => each.getBoundingClientRect().height)")
        table = page.locator("div > table").bounding_box()
        titles = rows.first.locator("th").all_inner_texts()
    assert len(heights) == 33  # titles, 31 operators, total
    assert max(heights) < 30
    assert {"name", "MACs", "time"} <= set(titles)
    assert table is not None
    assert table["width"] <= 900
