"""Calibration from tables and profiles, valid and invalid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sizeup.calibration.calibrate import from_profile, from_table
from sizeup.errors import SizeupError
from sizeup.runtimes import read_profile

pytest.importorskip("onnx")

from sizeup.calibration.networks import networks
from sizeup.calibration.write_onnx import onnx_model

pytestmark = pytest.mark.extras

BENCHMARK = """\
INFO: Inference timings in us: Init: 5142, First inference: 3312, Inference (avg): 990.25
============================== Run Order ==============================
\t             [node type]\t  [first]\t [avg ms]\t [%]\t  [cdf%]\t  [mem KB]\t[times called]\t[Name]
\t                 CONV_2D\t    0.401\t    0.300\t 30.000%\t 30.000%\t     0.000\t        1\t[model/conv]:0
\t       DEPTHWISE_CONV_2D\t    0.120\t    0.100\t 10.000%\t 40.000%\t     0.000\t        1\t[model/dw]:1

============================== Top by Computation Time ==============================
"""
AVERAGES = """\
-----------------  ------------  ------------  ------------  ------------  ------------  ------------
             Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
-----------------  ------------  ------------  ------------  ------------  ------------  ------------
     aten::conv2d         0.5 %       5.000us         90.0%       1.800ms     900.000us             2
       aten::relu         5.0 %     100.000us         10.0%     200.000us     100.000us             2
-----------------  ------------  ------------  ------------  ------------  ------------  ------------
"""


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    """Six small networks as files next to the table."""
    names = []
    for sketch in [each for each in networks() if each.precision == "fp32" and each.family in ("kxk", "1x1")][
        :6
    ]:
        name = f"{sketch.name.replace(' ', '_')}.onnx"
        (tmp_path / name).write_bytes(onnx_model(sketch).SerializeToString())
        names.append(name)
    return names


def test_a_table_names_models_beside_it_and_its_unit(tmp_path: Path, models: list[str]) -> None:
    table = tmp_path / "times.csv"
    rows = "".join(f"{name},{index + 1.5}\n" for index, name in enumerate(models))
    for column, scale in (("latency_ms", 1e-3), ("Latency [us]", 1e-6), ("seconds", 1.0)):
        table.write_text(f"model,{column}\n{rows}\n")
        assert [each.seconds for each in from_table(table, ())] == pytest.approx(
            [(index + 1.5) * scale for index in range(6)]
        )


def test_a_table_may_say_the_precision_and_what_belongs_together(tmp_path: Path, models: list[str]) -> None:
    table = tmp_path / "times.csv"
    table.write_text(f"model, ms, precision, family\n{models[0]}, 1, int8, tiny\n{models[1]}, 2, ,\n")
    first, second = from_table(table, ())
    assert (first.family, second.family) == ("tiny", models[1])
    assert "conv.int8" in first.work.names
    assert "conv" in second.work.names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,ms\nMODEL,1\n", "no column named model"),
        ("model,time\nMODEL,1\n", "no latency column"),
        ("model,ms,latency_us\nMODEL,1,2\n", "more than one latency column"),
        ("model,ms\n", "no measurements"),
        ("model,ms\nMODEL,soon\n", "line 2: 'soon' is not a number"),
        ("model,ms\nMODEL,-1\n", "line 2: MODEL: latency -0.001 s is out of range"),
        ("model,ms\nMODEL,nan\n", "line 2: MODEL: latency nan s is out of range"),
        ("model,ms\nMODEL,1e400\n", "line 2: MODEL: latency inf s is out of range"),
        ("model,ms\n,1\n", "line 2: the model is missing"),
        ("model,ms\nabsent.onnx,1\n", "line 2: .*no such file"),
        ("model,ms,precision\nMODEL,1,int7\n", "line 2: .*int7"),
        ("model,ms,bind\nMODEL,1,batch\n", "line 2: 'batch' is not NAME=SIZE"),
        (
            "model,ms\nno_such.module:factory,1\n",
            "line 2: 'no_such.module:factory' is not a file, and a table",
        ),
        (
            "model,ms\nMODEL,1\nos:getcwd,1\n",
            "line 3: 'os:getcwd' is not a file, and a table may not name code",
        ),
        ("model,ms\nhttps://example.com/a.onnx,1\n", "line 2: .*example.com/a.onnx: no such file"),
        ("", "no column named model"),
    ],
)
def test_errors_in_a_table_name_its_line(tmp_path: Path, models: list[str], text: str, message: str) -> None:
    table = tmp_path / "times.csv"
    table.write_text(text.replace("MODEL", models[0]))
    with pytest.raises(SizeupError, match=message.replace("MODEL", models[0])):
        from_table(table, ())


def test_code_beside_a_table_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_the_table.py").write_text("from pathlib import Path; Path('ran').touch()\n")
    (tmp_path / "times.csv").write_text("model,ms\nbeside_the_table:factory,1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SizeupError, match=r"line 2: .*may not name code"):
        from_table(tmp_path / "times.csv", ())
    assert not (tmp_path / "ran").exists()


def test_a_table_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(SizeupError, match="cannot be read"):
        from_table(tmp_path / "times.csv", ())


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "profile"
    path.write_text(text)
    return path


def test_benchmark_model_gives_kernels_and_the_whole(tmp_path: Path) -> None:
    profile = read_profile(written(tmp_path, BENCHMARK))
    assert profile.seconds == pytest.approx(990.25e-6)
    assert [(each.name, each.op_kind, round(1e6 * each.seconds)) for each in profile.kernels] == [
        ("model/conv", "CONV_2D", 300),
        ("model/dw", "DEPTHWISE_CONV_2D", 100),
    ]


def test_a_trace_of_torch_gives_the_outermost_operators(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "ts": 10, "dur": 30, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "aten::convolution", "ts": 12, "dur": 20, "tid": 1},
        {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 50, "dur": 5, "tid": 1},
        {"ph": "X", "cat": "python_function", "name": "forward", "ts": 0, "dur": 99, "tid": 1},
    ]
    profile = read_profile(written(tmp_path, json.dumps({"traceEvents": events})))
    assert [(each.op_kind, round(each.seconds * 1e6)) for each in profile.kernels] == [
        ("aten.conv2d", 30),
        ("aten.relu", 5),
    ]


def test_a_table_of_torch_gives_sums_and_calls(tmp_path: Path) -> None:
    profile = read_profile(written(tmp_path, AVERAGES))
    assert [(each.op_kind, round(1e6 * each.seconds), each.calls) for each in profile.kernels] == [
        ("aten.conv2d", 1800, 2),
        ("aten.relu", 200, 2),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "nothing", "[]", "{}", "[1, 2]", '{"traceEvents": 3}', "[{", "Run Order\n\n",
        '[{"cat": "Node", "name": "a_kernel_time", "dur": "x"}]',
        '[{"cat": "Node", "name": "a_kernel_time", "dur": -5, "args": {}}]',
        '[{"cat": "Node", "name": "a_kernel_time", "dur": 1e300, "args": {}}]',
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_profile_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(SizeupError, match=str(tmp_path / "profile")):
        read_profile(written(tmp_path, text))


def test_a_profile_that_onnx_runtime_wrote_is_matched_with_its_model(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from sizeup import formats
    from sizeup.runtimes import random_samples
    from sizeup.targets import runtime

    sketch = next(each for each in networks() if each.family == "residual")
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model(sketch).SerializeToString())
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (sample,) = random_samples(formats.load(path), 1)
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: sample[0]})
    points = from_profile(Path(session.end_profiling()), path, runtime("ort").fusions)
    names = [name for each in points for name in each.work.names]
    assert names.count("conv") >= 10
    assert "linear" in names
    other = tmp_path / "other.onnx"
    turns = next(each for each in networks() if each.family == "turns")
    other.write_bytes(onnx_model(turns).SerializeToString())
    with pytest.raises(SizeupError, match="the profile is not of"):
        from_profile(next(tmp_path.glob("profile*")), other, runtime("ort").fusions)
