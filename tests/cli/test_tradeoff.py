"""`sizeup tradeoff` from the command line to the table, as its users meet it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cli.running import run_command as run

pytestmark = pytest.mark.extras

PRECISIONS = "fp32,fp16,int8,int4"


class Digits(NamedTuple):
    """An exported network that was trained on digits, test images with labels, and its real accuracy."""

    model: Path
    data: Path
    accuracy: float


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    import onnx
    import torch

    from formats.onnx.exporting import by_tracing
    from precision import digits as networks

    folder = tmp_path_factory.mktemp("digits")
    _, test = networks.split()
    module = networks.folded()
    model = by_tracing(
        module, (torch.from_numpy(test.images[:2]),), input_names=["x"], dynamic_axes={"x": {0: "batch"}}
    )
    onnx.save(model, folder / "digits.onnx")
    np.savez(folder / "test.npz", x=test.images, y=test.labels)
    return Digits(folder / "digits.onnx", folder / "test.npz", networks.accuracy(module))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_digits_from_the_command_to_the_table(digits: Digits, tmp_path: Path) -> None:
    budgets = digits.model.parent / "budgets.toml"
    budgets.write_text(
        '[[budget]]\nname = "small"\nmodels = "*.onnx"\nweights = "20 KiB"\n'
        '[[budget]]\nname = "large"\nmodels = "*.onnx"\nweights = "1 MiB"\n'
        '[[budget]]\nname = "board"\nmodels = "*.onnx"\ntarget = "stm32f746/tflm"\n'
    )
    table, plain, page = tmp_path / "table.csv", tmp_path / "table.json", tmp_path / "table.md"
    done = run(
        *(
            "tradeoff",
            digits.model,
            "-d",
            "i5-13600k/openvino",
            "--precisions",
            PRECISIONS,
            "--batch",
            "1,64",
        ),
        *("--data", digits.data, "--budgets", budgets, "-o", table, "-o", plain, "-o", page),
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "digits")
    rows = {(row["precision"], row["batch"]): row for row in rows_of(table)}
    assert list(rows) == [(each, batch) for batch in ("1", "64") for each in ("fp32", "fp16", "int8")]
    assert float(rows["fp32", "1"]["accuracy"]) == digits.accuracy
    # int8 costs this network no accuracy: with 599 images the standard error is 0.5 %.
    assert abs(float(rows["int8", "1"]["accuracy"]) - digits.accuracy) < 0.015
    wide, narrow = rows["fp32", "64"], rows["int8", "64"]
    for row in (wide, narrow):
        low, middle, high = (float(row[f"latency{each}_ms"]) for each in ("_low", "", "_high"))
        assert low < middle < high
        assert row["latency_basis"] == "roofline"
        assert float(row["energy_j"]) > 0
        assert float(row["memory_mb"]) * 1e6 == int(row["weight_bytes"]) + int(row["activation_bytes"])
    assert float(narrow["latency_ms"]) < float(wide["latency_ms"])
    assert [rows[each, "1"]["accepted_by"] for each in ("fp32", "int8")] == [
        "large, board",
        "small, large, board",
    ]
    # TFLite Micro on that board has no kernels for fp16, however small the network is.
    assert rows["fp16", "1"]["accepted_by"] == "small, large"
    assert [rows[each, "1"]["accepted"] for each in ("fp32", "int8")] == ["False", "True"]
    content = json.loads(plain.read_text("utf-8"))
    reason = "openvino has no int4 kernels for 4 conv layers"
    assert {(each["precision"], each["reason"]) for each in content["unsupported"]} == {("int4", reason)}
    assert reason in page.read_text("utf-8")
    assert "unsupported  int4: openvino has no int4 kernels" in done.stdout


def test_a_tflite_file_with_generated_data(shared: Path, tmp_path: Path) -> None:
    model, data, table = shared / "models/mlperf_kws_fp32.tflite", tmp_path / "x.npz", tmp_path / "table.csv"
    generator = np.random.default_rng(0)
    x = generator.normal(size=(24, 49, 10, 1)).astype(np.float32)
    np.savez(data, x=x)
    arguments = ("tradeoff", model, "-d", "stm32f746/tflm", "--precisions", PRECISIONS, "--batch", "1,8")
    done = run(*arguments, "--data", data, "-o", table, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = rows_of(table)
    assert [(row["precision"], row["batch"]) for row in rows] == [
        (each, "1") for each in ("fp32", "int8", "int4")
    ]
    # There are no labels, so it is not called accuracy.
    assert [row["accuracy"] for row in rows] == ["", "", ""]
    assert [float(row["agreement"]) for row in rows[:1]] == [1.0]
    assert all(0 <= float(row["agreement"]) <= 1 for row in rows)
    assert "with the float network's top class" in " ".join(done.stdout.split())
    assert "tflm has no kernels for fp16" in done.stdout
    assert "batch 8: mlperf_kws_fp32.tflite" in done.stdout
    np.savez(data, x=x, y=np.zeros(len(x), np.int64))
    done = run(
        "tradeoff", model, "--precisions", "int8", "--data", data, "-o", table, XDG_CACHE_HOME=str(tmp_path)
    )
    (row,) = rows_of(table)
    assert (row["agreement"], 0 <= float(row["accuracy"]) <= 1) == ("", True)


def test_what_cannot_be_measured_says_so_in_one_line(digits: Digits, shared: Path, tmp_path: Path) -> None:
    cut, words = tmp_path / "cut.npz", tmp_path / "words.npz"
    cut.write_bytes(digits.data.read_bytes()[:3000])
    with np.load(digits.data) as content:
        np.savez(words, x=content["x"], y=content["y"].astype(str))
    quantized, keywords = shared / "models/mlperf_kws_int8.tflite", tmp_path / "k.npz"
    np.savez(keywords, x=np.zeros((2, 49, 10, 1), np.float32))
    for model, data, message in (
        (digits.model, cut, "cannot be read as data"),
        (digits.model, words, "labels (y) must be class indices"),
        (quantized, keywords, "layers are already int8"),
    ):
        done = run("tradeoff", model, "--data", data, XDG_CACHE_HOME=str(tmp_path))
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_pt2_file_runs_only_if_it_is_trusted(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 3)), (torch.zeros(2, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    np.savez(tmp_path / "x.npz", x=np.eye(4, dtype=np.float32))
    arguments = ("tradeoff", tmp_path / "net.pt2", "--precisions", "fp32,int8", "--data", tmp_path / "x.npz")
    refused = run(*arguments, XDG_CACHE_HOME=str(tmp_path))
    assert (refused.returncode, "add --trust" in refused.stderr) == (2, True)
    done = run(*arguments, "--trust", "--json", XDG_CACHE_HOME=str(tmp_path))
    assert json.loads(done.stdout)["points"][0]["agreement"] == 1.0
