"""tflite-tools, row by row: its commands, tables, files and numbers."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from formats.tflite.factory import File, options, quantized
from old_texts import blocks, prompts, text
from rewrite.test_branches import branches
from sizeup.compat.tflite_tools import TFLiteModel, main
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras

# Names, shapes and numbers of the text's example; the weights have the numbers that are left.
EXAMPLE = {
    1: ("Conv1/Relu", (1, 30, 30, 16)),
    2: ("Conv1_input", (1, 32, 32, 3)),
    4: ("Conv2/Relu", (1, 28, 28, 16)),
    5: ("FC2/BiasAdd", (1, 10)),
    7: ("FC2/Softmax", (1, 10)),
    8: ("activation/Relu", (1, 128)),
    9: ("max_pooling2d/MaxPool", (1, 14, 14, 16)),
}
WEIGHTS = {0: (16, 3, 3, 3), 3: (16, 3, 3, 16), 6: (10, 128), 10: (128, 3136)}
SCHEDULE = [
    ("Conv1/Relu", {1, 2}, 17_472),
    ("Conv2/Relu", {1, 4}, 26_944),
    ("max_pooling2d/MaxPool", {4, 9}, 15_680),
    ("activation/Relu", {8, 9}, 3_264),
    ("FC2/BiasAdd", {8, 5}, 138),
    ("FC2/Softmax", {5, 7}, 20),
]


def example() -> bytes:
    """The network of the text's example output, uint8, with its tensors under its numbers."""
    file, scale = File(), quantized([0.05], [128])
    generator = np.random.default_rng(0)
    for number in range(11):
        if number in EXAMPLE:
            name, shape = EXAMPLE[number]
            file.main.tensor(name, shape, "UINT8", quantization=scale)
        else:
            numbers = generator.integers(100, 156, WEIGHTS[number]).astype(np.uint8)
            fine = quantized([0.002], [128])
            file.main.tensor(f"weights {number}", WEIGHTS[number], "UINT8", numbers, quantization=fine)
    bias = {
        size: file.main.tensor(f"bias {size}", (size,), "INT32", np.arange(size, dtype=np.int32))
        for size in (16, 128, 10)
    }
    conv = options("Conv2DOptions", strideH=1, strideW=1, padding=1, fusedActivationFunction=1)
    pool = options("Pool2DOptions", strideH=2, strideW=2, filterHeight=2, filterWidth=2, padding=1)
    file.main.op("CONV_2D", [2, 0, bias[16]], [1], conv)
    file.main.op("CONV_2D", [1, 3, bias[16]], [4], conv)
    file.main.op("MAX_POOL_2D", [4], [9], pool)
    file.main.op("FULLY_CONNECTED", [9, 10, bias[128]], [8], options("FullyConnectedOptions"))
    file.main.op("FULLY_CONNECTED", [8, 6, bias[10]], [5], options("FullyConnectedOptions"))
    file.main.op("SOFTMAX", [5], [7], options("SoftmaxOptions", beta=1.0))
    file.main.ends([2], [7])
    return file.pack()


def command(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sizeup.compat.tflite_tools", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def as_sets(table: str) -> str:
    """A text whose working sets are written in the order of their numbers, however wide that makes them."""

    def ordered(found: re.Match[str]) -> str:
        return str(sorted(map(int, found[1].split(", "))))

    return re.sub(r"\[(\d[\d, ]*)\]", ordered, table)


def test_s1_1_the_commands_of_the_text_run(shared: Path, tmp_path: Path) -> None:
    for name in ("quantized_model", "example_model"):
        (tmp_path / f"{name}.tflite").write_bytes(example())
    said = prompts(text(shared, 1), "tflite_tools.py")
    assert [sorted(each for each in one if each.startswith("-")) for one in said] == [
        ["--help"],
        ["-i", "-o"],
        ["--plot", "-i"],
    ]
    usage, analysis, plot = (command(arguments, tmp_path) for arguments in said)
    for flag in ("-i INPUT_PATH", "-o OUTPUT_PATH", "--clusters CLUSTERS", "--optimize"):
        assert flag in usage
    assert "--csv CSV_OUTPUT_FOLDER" in usage
    assert "--plot PLOT_FILE" in usage
    assert "Current peak memory usage: 26,944 B" in analysis
    assert "Plotting operator memory usage to example_working_set.png" in plot
    assert (tmp_path / "quantized_model_optimized.tflite").read_bytes() == example()
    assert (tmp_path / "example_working_set.png").read_bytes().startswith(b"\x89PNG")


def test_s1_2_tensor_table_without_weights(capsys: pytest.CaptureFixture[str]) -> None:
    model = TFLiteModel(example())
    found = {number: (tensor.name, tensor.shape) for number, tensor, _ in model.tensors()}
    assert found == EXAMPLE
    model.print_model_analysis()
    assert "weights 0" not in capsys.readouterr().out


def test_s1_3_schedule_and_peak() -> None:
    model = TFLiteModel(example())
    assert [(step.name, set(step.working_set), step.bytes) for step in model.schedule()] == SCHEDULE
    assert model.peak_memory_usage() == 26_944


def test_s1_4_the_example_output_to_the_letter(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = (block for block in blocks(text(shared, 1), "") if "Tensor information" in block)
    expected = as_sets(shown.split("\n\n", 1)[1]).split()
    path = tmp_path / "quantized_model.tflite"
    path.write_bytes(example())
    main(["-i", str(path)])
    assert as_sets(capsys.readouterr().out).split() == expected
    assert len(expected) > 100


def test_s1_5_csv_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = tmp_path / "model.tflite", tmp_path / "new" / "folder"
    path.write_bytes(example())
    main(["-i", str(path), "--csv", str(folder)])
    assert sorted(each.name for each in folder.iterdir()) == [
        "execution_schedule_info.csv",
        "tensor_details.csv",
    ]
    with (folder / "tensor_details.csv").open(newline="", encoding="utf-8") as file:
        details = list(csv.reader(file))
    assert details[:2] == [["Id", "Name", "Shape", "Size"], ["1", "Conv1/Relu", "1 30 30 16", "14400"]]
    assert len(details) == 1 + len(EXAMPLE)
    with (folder / "execution_schedule_info.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["Operator", "Working set", "Memory use"]
    assert [(name, set(map(int, held.split())), int(size)) for name, held, size in rows] == SCHEDULE
    assert "Tensor information" not in capsys.readouterr().out


def test_s1_6_stacked_bars(tmp_path: Path) -> None:
    path = tmp_path / "bars.svg"
    TFLiteModel(branches()).plot_memory_usage(path)
    drawn = path.read_text(encoding="utf-8")
    for part in ("inputs", "outputs", "others"):
        assert f'id="{part}' in drawn


def test_s1_7_branches_and_swiftnet(shared: Path, tmp_path: Path) -> None:
    model = TFLiteModel(branches())
    assert model.peak_memory_usage() == 2_100
    best, order = model.compute_best_peak_memory_usage()
    assert (best, sorted(order)) == (1_110, [0, 1, 2, 3, 4])
    source, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(branches())
    main(["-i", str(source), "-o", str(out), "--optimize"])
    assert TFLiteModel.load_from_file(out).peak_memory_usage() == 1_110
    samples = random_samples(model.graph, 5, seed=1)
    before, after = (run("litert", path, samples) for path in (source, out))
    assert before.distinct_outputs == 5
    assert is_equal(before, after)
    swiftnet = TFLiteModel.load_from_file(shared / "models" / "swiftnet_vww_uint8.tflite")
    assert swiftnet.peak_memory_usage() == 351_232
    swiftnet.optimize_memory()
    assert swiftnet.peak_memory_usage() == 301_056


def test_s1_8_already_optimal(capsys: pytest.CaptureFixture[str]) -> None:
    model = TFLiteModel(example())
    model.optimize_memory()
    assert capsys.readouterr().out == "The model already has optimal operator order.\n"
    assert model.model_bytes == example()


def test_s1_9_clusters(tmp_path: Path) -> None:
    path, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(example())
    main(["-i", str(path), "-o", str(out), "--clusters", "4"])
    before, after = TFLiteModel(example()).graph, TFLiteModel.load_from_file(out).graph
    clustered = 0
    for old, new in zip(before.tensors, after.tensors, strict=True):
        if old.data is None or old.data.read is None or new.data is None or new.data.read is None:
            continue
        was, now = old.data.read(), new.data.read()
        if "bias" in old.name:
            assert np.array_equal(was, now)
        else:
            assert len(np.unique(was)) > 4 >= len(np.unique(now))
            clustered += 1
    assert clustered == 4


def test_s1_10_the_class() -> None:
    promised = "load_from_file write_to_file cluster_weights optimize_memory peak_memory_usage"
    promised += " compute_best_peak_memory_usage print_model_analysis output_model_analysis_to_csv"
    for name in (*promised.split(), "plot_memory_usage"):
        assert callable(getattr(TFLiteModel, name))


def test_s1_11_what_the_original_could_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    file = File()
    data = file.main.tensor(None, (1, 8), "INT8", quantization=quantized([0.1]))
    axis = file.main.tensor("axis", (), "INT32", np.array(1, np.int32))
    halves = [file.main.tensor(None, (1, 4), "INT8", quantization=quantized([0.1])) for _ in range(2)]
    dead = file.main.tensor("dead", (1, 4), "INT8", quantization=quantized([0.1]))
    out = file.main.tensor("out", (1, 4), "INT8", quantization=quantized([0.1]))
    file.main.op("SPLIT", [axis, data], halves, options("SplitOptions", numSplits=2))
    file.main.op("RELU", [halves[0]], [dead])
    file.main.op("RELU", [halves[1]], [out])
    file.main.ends([data], [out])
    model = TFLiteModel(file.pack())
    assert [step.bytes for step in model.schedule()] == [16, 12, 8]
    assert model.peak_memory_usage() == 16
    model.print_model_analysis()
    model.cluster_weights(2)
    assert "(operator 0)" in capsys.readouterr().out


def test_s1_a_missing_or_broken_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.tflite").write_bytes(b"nothing of the kind")
    for name in ("missing.tflite", "broken.tflite"):
        with pytest.raises(SystemExit) as ended:
            main(["-i", str(tmp_path / name)])
        assert ended.value.code == 2
        assert "tflite_tools.py: error: " in capsys.readouterr().err


def test_s1_12_optional_inputs() -> None:
    model = TFLiteModel(branches())  # its layers have no bias: input -1
    assert any(-1 in op.inputs for op in model.graph.ops)
    assert [step.bytes for step in model.schedule()] == [1_100, 2_100, 2_010, 1_020, 30]
