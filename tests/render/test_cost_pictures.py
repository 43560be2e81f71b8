"""The roofline and the cost by module, read back from the figures and judged by hand counts."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import sizeup
from networks import three_convolutions, with_unknown
from sizeup.errors import SizeupError
from sizeup.graph import Graph

Figure: TypeAlias = Any

pytestmark = pytest.mark.extras

# By hand: 3->32 3x3, depthwise 32 3x3 and 32->64 1x1 at 32x32 places, inputs, outputs and weights at 4 bytes.
PLACES = 32 * 32
MACS = [PLACES * 32 * 27, PLACES * 32 * 9, PLACES * 64 * 32]
BYTES = [
    4 * (3 * 64 * 64 + 32 * PLACES + 864),
    4 * (32 * PLACES + 32 * PLACES + 288),
    4 * (32 * PLACES + 64 * PLACES + 2048),
]


def figure_of(report: sizeup.Report, kind: str) -> Figure:
    from sizeup.render.plots import canvas, modules, roofline

    with canvas.house_style():
        draw = {"roofline": roofline.roofline_picture, "modules": modules.modules_picture}
        return draw[kind](report)


def text_of(figure: Figure) -> list[str]:
    from matplotlib.text import Text

    visible = [each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()]
    return [each.get_text() for each in visible]


def test_points_are_where_macs_bytes_and_seconds_put_them() -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi4/litert")
    figure = figure_of(report, "roofline")
    (axes,) = figure.axes
    drawn = sorted(tuple(point) for each in axes.collections for point in each.get_offsets().tolist())
    expected = []
    for row, macs, moved in zip(report.ops, MACS, BYTES, strict=True):
        assert row.ms is not None
        expected.append((2 * macs / moved, macs / (row.ms / 1e3)))
    assert drawn == [pytest.approx(each) for each in sorted(expected)]
    colors = {str(each.get_gid()): len(each.get_offsets()) for each in axes.collections}
    bounds = [row.bound_by for row in report.ops]
    assert colors == {f"points {each}": bounds.count(each) for each in bounds}


def test_roofs_are_those_of_the_data_sheet() -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi4/litert")
    target = sizeup.target("rpi4/litert")
    peak, bandwidth = target.peak("fp32"), target.device.bandwidth
    assert peak is not None
    assert bandwidth is not None
    (axes,) = figure_of(report, "roofline").axes
    lines = {str(line.get_gid()): line.get_xydata().tolist() for line in axes.lines}
    assert lines["roof fp32"] == [[2 * peak / bandwidth, peak], [axes.get_xlim()[1], peak]]
    (left, low), (right, high) = lines["memory"]
    # FLOPs per byte across and MACs a second up: half the bandwidth.
    assert low / left == pytest.approx(bandwidth / 2)
    assert high / right == pytest.approx(bandwidth / 2)
    assert high == peak
    # No point of an estimate from the data sheet is above its roof.
    for each in axes.collections:
        for across, up in each.get_offsets().tolist():
            assert up <= min(across / 2 * bandwidth, peak) * (1 + 1e-9)


def test_bars_of_modules_are_the_sums_of_their_operators() -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi4/litert")
    figure = figure_of(report, "modules")
    widths = {}
    for axes in figure.axes:
        (container,) = axes.containers
        widths[axes.texts[0].get_text().partition(":")[0]] = [bar.get_width() for bar in container]
    times = [row.ms for row in report.ops]
    assert widths == {
        "time": pytest.approx([each / 1e3 for each in times if each is not None]),
        "MACs": MACS,
        "parameters": [864, 288, 2048],
        "bytes moved": BYTES,
    }
    words = text_of(figure)
    assert [each for each in words if each in ("stem.conv", "body.depthwise", "body.pointwise")] == [
        "stem.conv",
        "body.depthwise",
        "body.pointwise",
    ]
    assert "MACs: 3.28 M" in words
    assert "2.10 M (64.0 %)" in words


def test_what_is_not_known_is_a_question_mark_and_not_nothing() -> None:
    report = sizeup.analyze(with_unknown(), target="rpi4/litert")
    words = text_of(figure_of(report, "modules"))
    assert "?: 2 operators are not counted" in words
    assert "MACs: 885 k + ?" in words
    assert "?" in words
    words = text_of(figure_of(report, "roofline"))
    assert "2 operators are unknown: their time is missing, at least in part" in words


def cases() -> list[tuple[Graph | str, str]]:
    from render.test_plots import hostile, many

    return [
        (three_convolutions(), "rtx4090/torch-inductor"),
        (with_unknown(), "rpi4/litert"),
        (hostile(), "n100/openvino"),
        (many(400), "rtx4090/torch-eager"),
        ("torchvision:mobilenet_v2", "stm32f746/tflm"),
        ("torchvision:resnet18", "a100/torch-eager"),
    ]


@pytest.mark.parametrize("kind", ["roofline", "modules"])
@pytest.mark.parametrize("case", range(6))
def test_no_text_leaves_the_picture_or_covers_another(case: int, kind: str) -> None:
    source, target = cases()[case]
    figure = figure_of(sizeup.analyze(source, target=target), kind)
    from matplotlib.text import Text

    canvas = figure.canvas
    canvas.draw()  # which puts the words of axes in their places
    texts = [each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()]
    extents = [(each.get_text(), each.get_window_extent(canvas.get_renderer())) for each in texts]
    width, height = canvas.get_width_height()
    for text, box in extents:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for (one, first), (other, second) in combinations(extents, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        up = min(first.y1, second.y1) - max(first.y0, second.y0)
        # Boxes of text have a little air around the letters.
        assert across <= 2 or up <= 2, (one, other)


def test_the_name_of_the_file_says_what_is_drawn(tmp_path: Path) -> None:
    report = sizeup.analyze(three_convolutions(), target="rpi4/litert")
    for name, gid in (("a.roofline.svg", "roof fp32"), ("a.modules.svg", "bars"), ("v1.0.svg", "peak")):
        path = report.plot(tmp_path / name)
        assert f'id="{gid}' in path.read_text("utf-8"), name
    assert report.plot_roofline(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert report.plot_modules(tmp_path / "y.png").read_bytes().startswith(b"\x89PNG")


def test_a_roofline_without_a_target_is_refused(tmp_path: Path) -> None:
    report = sizeup.analyze(three_convolutions())
    with pytest.raises(
        SizeupError, match=r"needs a latency estimate on a target \(no target device was given\)"
    ):
        report.plot(tmp_path / "a.roofline.png")
    assert not (tmp_path / "a.roofline.png").exists()
