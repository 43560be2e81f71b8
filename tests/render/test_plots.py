"""Pictures: what is drawn is read back from the figure and judged by counting from the definition."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import sizeup
from by_hand import in_use, spans
from memory.memory_graphs import branches
from networks import with_unknown
from sizeup.dtypes import dtype
from sizeup.errors import MissingLibrary, SizeupError
from sizeup.graph import Constant, Graph, GraphBuilder, RecordedRun

# A figure of matplotlib, looked into by attributes of which its types know little.
Figure: TypeAlias = Any

pytestmark = pytest.mark.extras

HOSTILE = (
    "$\\frac{1}{0}$",
    "a_b^c",
    "$",
    "卷积/输出",
    "имя",
    "x" * 900,
    "",
    "a\nb\x1b[31m",
    "\udc80",
    "🦜",
    "مرحبا",
)


def hostile() -> Graph:
    """A chain whose tensors, operators and kinds are named to break a renderer."""
    builder = GraphBuilder("$model_{1$ 网络" + "n" * 300, "onnx")
    last = builder.input(HOSTILE[0], (0,), dtype("int4"))
    for number, name in enumerate(HOSTILE):
        new = builder.tensor(name, (7 * number + 1,), dtype("int4" if number % 2 else "float32"))
        builder.op("$kind_" + name if number == 3 else "relu", [last], [new], name=name[::-1], source="$s$")
        last = new
    builder.outputs.append(last)
    return builder.freeze()


def many(count: int) -> Graph:
    """A chain with links back, its sizes random."""
    chance = random.Random(7)
    builder = GraphBuilder(f"{count} operators")
    tensors = [builder.input("x", (4096,), dtype("int8"))]
    for number in range(count):
        new = builder.tensor(f"block_{number // 10}/out_{number}", (chance.randint(1, 4096),), dtype("int8"))
        builder.op("add", {tensors[-1], chance.choice(tensors[-30:])}, [new])
        tensors.append(new)
    builder.outputs.append(tensors[-1])
    return builder.freeze()


def memory_figure(source: Any) -> Figure:
    from sizeup.render.plots import canvas, pictures

    with canvas.house_style():
        return pictures.memory_picture(sizeup.analyze(source))


def plan_figure(plan: sizeup.Plan) -> Figure:
    from sizeup.render.plots import canvas, pictures

    with canvas.house_style():
        return pictures.plan_picture(plan)


def bars(figure: Figure) -> dict[str, list[float]]:
    """The height of each part at every operator, from the extent of its patch."""
    from matplotlib.patches import StepPatch

    tops: dict[str, list[float]] = {}
    for axes in figure.axes:
        for patch in axes.patches:
            if isinstance(patch, StepPatch):
                values, edges, baseline = patch.get_data()
                assert baseline == 0
                shown = [
                    (value, (left + right) / 2)
                    for value, left, right in zip(values, edges[:-1], edges[1:], strict=True)
                    if value == value
                ]
                assert [place for _, place in shown] == pytest.approx(range(len(shown)))
                tops[str(patch.get_gid())] = [value for value, _ in shown]
    outputs = [top - below for top, below in zip(tops["outputs"], tops["inputs"], strict=True)]
    others = [top - below for top, below in zip(tops["others"], tops["outputs"], strict=True)]
    return {"inputs": tops["inputs"], "outputs": outputs, "others": others}


def boxes(figure: Figure) -> list[tuple[float, float, float, float]]:
    """(left, bottom, right, top) of every box of the map."""
    live_spans = []
    for collection in figure.axes[0].collections:
        for path in collection.get_paths():
            across, up = path.vertices[:, 0], path.vertices[:, 1]
            live_spans.append((across.min(), up.min(), across.max(), up.max()))
    return live_spans


def marked(figure: Figure, name: str) -> list[tuple[float, float]]:
    """Where the lines of that name are, across and up, in every panel."""
    lines = [line for axes in figure.axes for line in axes.lines if line.get_gid() == name]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]


def texts(figure: Figure) -> list[Any]:
    from matplotlib.text import Text

    return [each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()]


@pytest.mark.parametrize(
    "graph", [branches(), hostile(), many(60), many(400)], ids=lambda graph: graph.name[:12]
)
def test_bars_add_up_to_what_is_in_use(graph: Graph) -> None:
    figure = memory_figure(graph)
    parts, live_spans = bars(figure), spans(graph)
    expected = in_use(graph)
    for step, op in enumerate(graph.ops):
        read = sum(live_spans[identity].bytes for identity in set(op.inputs))
        tensors = sum(live_spans[identity].bytes for identity in op.outputs)
        assert [parts[name][step] for name in ("inputs", "outputs", "others")] == pytest.approx(
            [read, tensors, expected[step] - read - tensors]
        )
    [(peak, _)] = marked(figure, "peak")
    assert expected[int(peak)] == max(expected)
    assert marked(figure, "peak mark") == [(peak, max(expected))]


@pytest.mark.parametrize(
    ("name", "live"),
    # The column `live` of models/README.md
    [("swiftnet_vww_uint8", 351_232), ("mlperf_vww96_int8", 55_296), ("te_mcunetv2_large", 2_451_840)],
)
def test_the_highest_bar_of_a_real_file_is_its_known_peak(shared: Path, name: str, live: int) -> None:
    figure = memory_figure(shared / f"models/{name}.tflite")
    parts = bars(figure)
    sums = [sum(each) for each in zip(*parts.values(), strict=True)]
    assert max(sums) == live
    assert sums[int(marked(figure, "peak")[0][0])] == live


def test_beyond_the_pixels_the_highest_of_several_is_drawn() -> None:
    graph = many(5000)
    figure = memory_figure(graph)
    expected = in_use_at_scale(graph)
    from matplotlib.patches import StepPatch

    [others] = [p for p in figure.axes[0].patches if isinstance(p, StepPatch) and p.get_gid() == "others"]
    values, edges, _ = others.get_data()
    width = int(edges[1] - edges[0])
    assert 1 < width < 10
    assert values.tolist() == [max(expected[at : at + width]) for at in range(0, 5000, width)]
    assert any(f"maximum of every {width}" in text.get_text() for text in texts(figure))


def in_use_at_scale(graph: Graph) -> list[int]:
    """As `in_use`, in time that grows with the operators alone."""
    last = {identity: step for step, op in enumerate(graph.ops) for identity in (*op.inputs, *op.outputs)}
    last |= dict.fromkeys(graph.outputs, len(graph.ops) - 1)
    sizes = [(tensor.shape or (0,))[0] for tensor in graph.tensors]
    live, live_spans = sum(sizes[identity] for identity in graph.inputs), []
    for step, op in enumerate(graph.ops):
        live += sum(sizes[identity] for identity in op.outputs)
        live_spans.append(live)
        live -= sum(sizes[identity] for identity in {*op.inputs, *op.outputs} if last[identity] == step)
    return live_spans


@pytest.mark.parametrize(
    "graph", [branches(), hostile(), many(60), many(1000)], ids=lambda graph: graph.name[:12]
)
def test_boxes_are_where_the_plan_puts_tensors(graph: Graph) -> None:
    plan = sizeup.plan(graph, time_limit=2)
    figure = plan_figure(plan)
    live_spans = spans(graph, plan.schedule) if len(graph.ops) < 100 else None
    drawn = boxes(figure)
    if live_spans is not None:
        expected = [
            (span.first - 0.5, plan.offsets[identity], span.last + 0.5, plan.offsets[identity] + span.bytes)
            for identity, span in live_spans.items()
            if span.bytes
        ]
        assert sorted(drawn) == sorted(expected)
        assert not [
            pair
            for pair in combinations(drawn, 2)
            if max(pair[0][0], pair[1][0]) < min(pair[0][2], pair[1][2])
            and max(pair[0][1], pair[1][1]) < min(pair[0][3], pair[1][3])
        ]
    assert max(top for _, _, _, top in drawn) <= plan.plan_bytes
    assert [up for _, up in marked(figure, "arena")] == [plan.plan_bytes]
    above, below = marked(figure, "peak")
    assert above[0] == below[0] == plan.peak_step
    live = in_use_at_scale(graph) if live_spans is None else in_use(graph, plan.schedule)
    if not plan.moved_ops:
        assert live[int(above[0])] == max(live)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_the_peak_of_swiftnet_is_marked_where_the_plan_has_it(shared: Path) -> None:
    plan = sizeup.plan(shared / "models/swiftnet_vww_uint8.tflite")
    figure = plan_figure(plan)
    sums = [sum(each) for each in zip(*bars(figure).values(), strict=True)]
    assert max(sums) == sums[int(marked(figure, "peak")[0][0])] == 301_056
    assert marked(figure, "arena")[0][1] == 301_056
    words = " ".join(text.get_text() for text in texts(figure))
    assert (
        "301,056 B, -14.3 % from at least 351,232 B in the original order; proven optimal: no plan" in words
    )
    assert "peak of the original order 351,232 B" in words


@pytest.mark.parametrize(
    "make",
    [
        lambda: plan_figure(sizeup.plan(branches())),
        lambda: plan_figure(sizeup.plan(hostile())),
        lambda: plan_figure(sizeup.plan(many(1000), time_limit=2)),
        lambda: memory_figure(many(64)),
        lambda: memory_figure(with_unknown()),
    ],
    ids=["branches", "hostile", "thousand", "named", "unknown"],
)
def test_no_text_is_cut_off_or_covers_another(make: Any) -> None:
    figure = make()
    figure.canvas.draw()  # which puts the words of axes in their places
    renderer = figure.canvas.get_renderer()
    extents = [(text.get_text(), text.get_window_extent(renderer)) for text in texts(figure)]
    assert len(extents) > 10
    page = figure.bbox
    for words, box in extents:
        assert box.x0 >= 0, words
        assert box.x1 <= page.width, words
        assert box.y0 >= 0, words
        assert box.y1 <= page.height, words
    for (one, here), (other, there) in combinations(extents, 2):
        across = min(here.x1, there.x1) - max(here.x0, there.x0)
        up = min(here.y1, there.y1) - max(here.y0, there.y0)
        # Boxes of text have a little air around the letters.
        assert across <= 2 or up <= 2, (one, other)


def test_missing_sizes_are_said_in_the_picture() -> None:
    words = [text.get_text() for text in texts(memory_figure(with_unknown()))]
    assert any("the peak is a lower bound: the size of 1 tensor depends on data" in text for text in words)


def convolution() -> Graph:
    """A convolution as torch ran it, with copies of its kernel."""
    builder = GraphBuilder("one convolution", "torch")
    numbers = dtype("float32")
    x, y = (builder.tensor(name, (1, 64, 28, 28), numbers) for name in ("x", "y"))
    builder.inputs.append(x)
    w = builder.tensor("w", (64, 64, 3, 3), numbers, Constant("parameter"))
    attrs = {"groups": 1, "kernel": (3, 3), "out_channels": 64}
    builder.op("conv", [x, w], [y], attrs, source="aten.conv2d", name="conv2d")
    builder.outputs.append(y)
    builder.run = RecordedRun((0, 1, -1), (0, 0))
    return builder.freeze()


def test_what_a_kernel_takes_has_a_color_of_its_own_where_there_is_any() -> None:
    from matplotlib.patches import StepPatch

    for graph, is_there in ((convolution(), True), (branches(), False)):
        figure = memory_figure(graph)
        patches = [each for each in figure.axes[0].patches if isinstance(each, StepPatch)]
        heights = {str(each.get_gid()): each.get_data()[0][0] for each in patches}
        assert ("workspace" in heights) is is_there
        words = [text.get_text() for text in texts(figure)]
        assert ("kernel workspace" in words) is is_there
        if is_there:
            # Copies of 64 x 28 x 28 numbers in and out and of 64 x 64 x 9 weights, before there is an output.
            assert heights["workspace"] - heights["outputs"] == (64 * 784 + 64 * 64 * 9) * 4
            assert heights["others"] == heights["workspace"]


def test_a_box_is_called_what_the_list_calls_it_or_a_part_of_that() -> None:
    plan = sizeup.plan(many(40), time_limit=1)
    figure = plan_figure(plan)
    in_boxes = {text.get_text().split("\n")[0] for text in figure.axes[0].texts}
    names = {tensor.name for tensor in plan.graph.tensors}
    labels = [label for label in in_boxes if label.startswith(("block_", "out_"))]
    assert labels
    assert all(any(label in name for name in names) for label in labels)


def test_no_box_has_a_letter_for_a_name() -> None:
    from sizeup.render.plots.canvas import Canvas, Names

    names = Names(Canvas(1), ["layers/1/c", "layers/2/c", "layers/3/d", "x"])
    shown = [names.fitted("layers/2/c", width, 7.0) for width in range(0, 400, 5)]
    assert {each for each in shown if 0 < len(each) < 4} == set()
    assert shown[-1] == "layers/2/c"
    assert names.fitted("x", 100, 7.0) == "x"


def pixels(path: Path) -> tuple[int, int]:
    """Width and height in the header of a PNG file."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def colors(path: Path) -> set[tuple[int, ...]]:
    from matplotlib.image import imread

    image = (imread(path)[::4, ::4, :3] * 255).astype(int)
    return {tuple(pixel) for pixel in image.reshape(-1, 3).tolist()}


def one_operator() -> Graph:
    builder = GraphBuilder("one")
    x, y = builder.input("x", (100,), dtype("int4")), builder.tensor("y", (7,), dtype("int4"))
    builder.op("relu", [x], [y])
    builder.outputs.append(y)
    return builder.freeze()


@pytest.mark.parametrize(
    "graph", [one_operator(), branches(), hostile(), many(300)], ids=lambda graph: graph.name[:12]
)
def test_png_and_svg_are_written_in_the_promised_size(graph: Graph, tmp_path: Path) -> None:
    plan, report = sizeup.plan(graph, time_limit=1), sizeup.analyze(graph)
    assert plan.plot(tmp_path / "plan.png") == tmp_path / "plan.png"
    assert report.plot_memory(str(tmp_path / "memory.PNG")) == tmp_path / "memory.PNG"
    for name, least in (("plan.png", 1500), ("memory.PNG", 800)):
        width, height = pixels(tmp_path / name)
        assert width == 1980
        assert least < height < 2.4 * least
        live_spans = colors(tmp_path / name)
        assert (255, 255, 255) in live_spans
        assert {(0x44, 0x77, 0xAA), (0xEE, 0x88, 0x66)} <= live_spans or graph.name == "one"
    plan.plot(tmp_path / "plan.svg")
    root = ElementTree.parse(tmp_path / "plan.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    first = (tmp_path / "plan.svg").read_bytes()
    plan.plot(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_bytes() == first


def test_a_model_without_operators_is_said_to_have_none(tmp_path: Path) -> None:
    builder = GraphBuilder("nothing")
    builder.outputs.append(builder.input("x", (3,), dtype("int8")))
    graph = builder.freeze()
    sizeup.plan(graph).plot(tmp_path / "plan.png")
    assert any("no operators" in text.get_text() for text in texts(plan_figure(sizeup.plan(graph))))
    assert any("no operators" in text.get_text() for text in texts(memory_figure(graph)))


def test_settings_of_the_user_neither_matter_nor_change(tmp_path: Path) -> None:
    from matplotlib import rc_context, rcParams

    plan = sizeup.plan(branches())
    plan.plot(tmp_path / "before.svg")
    theirs: Any = {
        "text.usetex": True,
        "axes.facecolor": "black",
        "font.family": ["serif"],
        "svg.hashsalt": "theirs",
    }
    with rc_context(theirs):
        plan.plot(tmp_path / "after.svg")
        assert {name: rcParams[name] for name in theirs} == theirs
    assert (tmp_path / "after.svg").read_bytes() == (tmp_path / "before.svg").read_bytes()


def test_drawing_needs_no_display_and_no_global_figure(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]; import sizeup; from memory.memory_graphs import branches\n"
        "sizeup.plan(branches()).plot(sys.argv[1])\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    here = str(Path(__file__).parents[1])
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "plan.png"), here]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": "", "HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert pixels(tmp_path / "plan.png")[0] == 1980


def test_other_endings_and_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    plan = sizeup.plan(branches())
    with pytest.raises(SizeupError, match=r"written as \.png, \.svg"):
        plan.plot(tmp_path / "plan.jpg")
    with pytest.raises(SizeupError, match=": no such folder"):
        plan.plot(tmp_path / "nowhere" / "plan.png")


def test_without_matplotlib_the_line_that_installs_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (sizeup.plan(branches()).plot, sizeup.analyze(branches()).plot_memory):
        with pytest.raises(MissingLibrary, match=r"pip install 'sizeup\[plot\]'"):
            draw(tmp_path / "plan.png")
    assert list(tmp_path.iterdir()) == []
