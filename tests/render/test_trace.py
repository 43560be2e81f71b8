"""Traces: what Perfetto's own trace processor makes of them, against the estimate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sizeup
from networks import three_convolutions, with_unknown
from sizeup.dtypes import dtype
from sizeup.errors import SizeupError
from sizeup.graph import Constant, Graph, GraphBuilder
from trace_engine import Engine, engine, missing

FLOAT = dtype("float32")


def residual() -> Graph:
    """Two blocks of convolution, batch norm, ReLU and an addition, each in its own module."""
    builder = GraphBuilder("residual", "torch")
    x = builder.input("x", (1, 8, 16, 16), FLOAT)
    for block in ("layers.0", "layers.1"):
        start = x
        for number in (1, 2):
            weight = builder.tensor(
                f"{block}.conv{number}.weight", (8, 8, 3, 3), FLOAT, Constant("parameter")
            )
            for kind, inputs, attrs in (
                ("conv", [weight], {"out_channels": 8, "kernel": (3, 3)}),
                ("batch_norm", [], {}),
                ("relu", [], {}),
            ):
                output = builder.tensor(f"{block}.{kind}{number}.out", (1, 8, 16, 16), FLOAT)
                builder.op(kind, [x, *inputs], [output], attrs, source=kind, scope=f"{block}.{kind}{number}")
                x = output
        output = builder.tensor(f"{block}.sum", (1, 8, 16, 16), FLOAT)
        builder.op("add", [x, start], [output], source="add", scope=block)
        x = output
    builder.outputs.append(x)
    return builder.freeze()


def events(report: sizeup.Report, folder: Path) -> list[dict[str, Any]]:
    path = folder / "model.trace.json"
    report.save(path)
    trace: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["traceEvents"]
    return trace


def nanoseconds(microseconds: float) -> int:
    return round(1000 * microseconds)


# An inference of these takes from 1 us to 0.5 s; the third has an overhead outside kernels, the fourth and
# fifth fuse operators, the last has a table of times for products alone.
TARGETS = (
    "rtx4090/torch-inductor",
    "rpi4/litert",
    "v100-sxm2/torch-eager",
    "rpi5/ort",
    "rpi5/litert-xnnpack",
    "stm32f746/tflm",
    None,
)


def report_on(graph: Graph, target: str | None) -> sizeup.Report:
    return sizeup.analyze(graph, target=target, basis=None if target else "coefficients")


@pytest.mark.parametrize("target", TARGETS)
def test_slices_sum_to_the_estimate_and_each_is_as_long_as_its_operator_takes(
    target: str | None, tmp_path: Path
) -> None:
    report = report_on(residual(), target)
    assert report.latency is not None
    timed = [each for each in events(report, tmp_path) if each["ph"] == "X" and each["cat"] != "module"]
    assert sum(nanoseconds(each["dur"]) for each in timed) == round(1e9 * report.latency.seconds)
    end = 0
    for each in timed:
        assert nanoseconds(each["ts"]) == end
        end += nanoseconds(each["dur"])
    by_operator: dict[int, float] = defaultdict(float)
    for each in timed:
        assert nanoseconds(each["dur"]) == pytest.approx(1e6 * each["args"]["ms"], abs=1)
        if each["cat"] == "kernel":
            by_operator[each["args"]["operator"]] += each["args"]["ms"]
    expected = {row.index: row.ms for row in report.ops if row.ms}
    assert by_operator == pytest.approx(expected)


def test_fused_operators_are_listed_in_the_slice_of_their_kernel(tmp_path: Path) -> None:
    report = report_on(residual(), "n100/openvino")
    slices = [each for each in events(report, tmp_path) if each.get("cat") == "kernel"]
    texts = [int(text.split()[0]) for each in slices for text in each["args"].get("fused", ())]
    named = [each["args"]["operator"] for each in slices]
    assert texts
    assert sorted(texts + named) == list(range(len(report.ops)))
    assert sum(each["args"]["macs"] for each in slices) == report.totals.macs


def test_an_operator_that_is_not_known_is_marked_and_not_left_out(tmp_path: Path) -> None:
    report = report_on(with_unknown(), "rpi4/litert")
    processor = events(report, tmp_path)
    texts = [text for each in processor for text in each["args"].get("unknown", ())]
    marks = {each["args"]["operator"] for each in processor if each["ph"] == "i"}
    assert "1 mylib.fancy y: no cost rule for mylib.fancy" in texts
    assert marks | {int(text.split()[0]) for text in texts} == set(report.cost.reasons)
    (key,) = {key for each in processor if each["ph"] == "C" for key in each["args"]}
    assert key == "bytes at least"


def test_a_trace_without_times_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.trace.json"
    with pytest.raises(SizeupError, match=r"a trace needs a latency estimate.*no target device was given"):
        sizeup.analyze(three_convolutions()).save(path)
    builder = GraphBuilder("relu alone")
    x = builder.input("x", (8,), FLOAT)
    builder.op("relu", [x], [builder.tensor("y", (8,), FLOAT)])
    timeless = sizeup.analyze(builder.freeze(), basis="coefficients")
    with pytest.raises(SizeupError, match="no operator has a known latency"):
        timeless.save(path)
    assert not path.exists()


@pytest.fixture(scope="module")
def perfetto() -> Iterator[Engine]:
    """Perfetto's trace processor."""
    if missing():
        pytest.skip(f"not installed: {missing()}")
    with engine() as engine_:
        yield engine_


def loaded(engine_: Engine, path: Path) -> Engine:
    engine_.load(path.read_bytes())
    problems = engine_.query("select name, value from stats where value != 0 and severity != 'info'")
    assert problems == []
    return engine_


@pytest.mark.extras
@pytest.mark.parametrize("target", TARGETS)
def test_perfetto_reads_the_slices_as_they_were_meant(
    perfetto: Engine, target: str | None, tmp_path: Path
) -> None:
    report = report_on(residual(), target)
    written = [each for each in events(report, tmp_path) if each["ph"] == "X"]
    processor = loaded(perfetto, tmp_path / "model.trace.json")
    slices = processor.query(
        "select s.name, s.category, s.ts, s.dur, p.name as parent,"
        " extract_arg(s.arg_set_id, 'args.scope') as scope,"
        " extract_arg(p.arg_set_id, 'args.module') as module"
        " from slice s left join slice p on s.parent_id = p.id order by s.id"
    )
    assert [(each["name"], each["category"], each["ts"], each["dur"]) for each in slices] == [
        (each["name"], each["cat"], nanoseconds(each["ts"]), nanoseconds(each["dur"])) for each in written
    ]
    assert report.latency is not None
    total = processor.query("select sum(dur) as total from slice where category in ('kernel', 'run')")[0][
        "total"
    ]
    assert total == round(1e9 * report.latency.seconds)
    for each in slices:
        if each["category"] == "kernel":
            assert each["module"] == each["scope"]
        elif each["parent"] is not None:
            assert each["parent"] in ("layers", "layers.0", "layers.1")


@pytest.mark.extras
@pytest.mark.parametrize("target", TARGETS)
def test_perfetto_counts_live_bytes_up_to_the_peak(
    perfetto: Engine, target: str | None, tmp_path: Path
) -> None:
    report = report_on(residual(), target)
    report.save(tmp_path / "model.trace.json")
    processor = loaded(perfetto, tmp_path / "model.trace.json")
    (track,) = processor.query(
        "select t.name as name, max(c.value) as peak from counter c"
        " join counter_track t on c.track_id = t.id group by t.name"
    )
    # By hand: the start of a block waits while a batch norm or a ReLU has an input and an output of 8 KiB.
    assert track["name"] == "live bytes"
    assert track["peak"] == report.memory.usage.peak_bytes == 3 * 4 * 8 * 16 * 16


@pytest.mark.extras
def test_perfetto_shows_model_target_and_basis(perfetto: Engine, tmp_path: Path) -> None:
    sizeup.analyze(three_convolutions(), target="rpi4/litert").save(tmp_path / "model.trace.json")
    processor = loaded(perfetto, tmp_path / "model.trace.json")
    names = [each["name"] for each in processor.query("select name from process where name is not null")]
    assert len(names) == 1
    assert names[0].startswith("three_convolutions (torch) on rpi4/litert: ")
    assert names[0].endswith("roofline")
    threads = processor.query("select name from thread where name is not null")
    assert threads == [{"name": "estimated kernels"}]


@pytest.mark.extras
def test_perfetto_reads_names_that_are_meant_to_break_it(perfetto: Engine, tmp_path: Path) -> None:
    builder = GraphBuilder('a"b\\c</script>\x00网络', "onnx")
    last = builder.input("x", (64,), FLOAT)
    names = ("卷积/输出", "a\nb\x1b[31m", "\udc80", "🦜", "'; drop table slice; --", "x" * 5000, "")
    for name in names:
        new = builder.tensor(name, (64,), FLOAT)
        builder.op("relu", [last], [new], source=name, scope=name)
        last = new
    builder.outputs.append(last)
    report = sizeup.analyze(builder.freeze(), target="rpi4/litert")
    report.save(tmp_path / "model.trace.json")
    processor = loaded(perfetto, tmp_path / "model.trace.json")
    assert processor.query("select count(*) as count from slice where category = 'kernel'") == [
        {"count": len(names)}
    ]


@pytest.mark.extras
def test_perfetto_reads_traces_of_real_files(perfetto: Engine, shared: Path, tmp_path: Path) -> None:
    for name, target in (
        ("mlperf_vww96_int8", "stm32f746/tflm"),
        ("tflm_mobilenetv2_224", "rpi4/litert-xnnpack"),
        ("mp_selfie_segmentation", "rpi4/litert"),
    ):
        report = sizeup.analyze(shared / "models" / f"{name}.tflite", target=target)
        path = tmp_path / f"{name}.trace.json"
        report.save(path)
        processor = loaded(perfetto, path)
        assert report.latency is not None
        (row,) = processor.query("select sum(dur) as total from slice where category in ('kernel', 'run')")
        assert row["total"] == round(1e9 * report.latency.seconds)
        (row,) = processor.query("select max(value) as peak from counter")
        assert row["peak"] == report.memory.usage.peak_bytes
