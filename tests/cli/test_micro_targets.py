"""What the commands print for targets that run TFLite Micro, next to the real interpreter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

from cli.running import Run
from formats.tflite.factory import File, options
from micro_interpreter import measure, runs
from micro_mutations import mutations

pytestmark = pytest.mark.extras


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("SVDF", "without options"),
        ("MAXIMUM", "of 1 inputs"),
        ("CONV_2D", "of axis 7"),
        ("BATCH_MATMUL", "of scale -0.5"),
    ],
)
def test_a_file_that_ends_the_interpreter_cannot_run(run: Run, tmp_path: Path, name: str, note: str) -> None:
    case = next(case for case in mutations() if case.name == name and note in case.note)
    assert runs([case.pack()]) == [False]
    ended = run("check", _file(tmp_path, case.pack()), "-d", "stm32f746/tflm")
    assert ended.code == 1
    assert f"its {name} kernel" in " ".join(ended.out.split())


def _image_model(signature: list[int]) -> bytes:
    """A convolution of images, with its sizes recorded as 1."""
    file = File()
    image = file.main.tensor("image", (1, 1, 1, 3), shapeSignature=signature)
    weights = file.main.tensor("w", (8, 3, 3, 3), data=np.ones((8, 3, 3, 3), np.float32))
    result = file.main.tensor("y", (1, 1, 1, 8), shapeSignature=[*signature[:-1], 8])
    file.main.op("CONV_2D", [image, weights], [result], options("Conv2DOptions", strideH=1, strideW=1))
    file.main.ends([image], [result])
    return file.pack()


def test_free_height_and_width_recorded_as_1_leave_the_verdict_undetermined(run: Run, tmp_path: Path) -> None:
    path = _file(tmp_path, _image_model([-1, -1, -1, 3]))
    ended = run("check", path, "-d", "stm32f746/tflm")
    assert ended.code == 3
    words = " ".join(ended.out.split())
    assert "UNDETERMINED" in words
    assert "no fixed size (?x?x?x3), and all amounts are those of 1x1x1x3" in words
    assert "--input image:1x1x1x3 if that is it" in words
    assert run("check", path, "-d", "stm32f746/tflm", "--input", "image:1x1x1x3").code == 0
    assert run("check", path, "--macs", "1M").code == 3
    assert run("check", path, "--params", "1M").code == 0


def test_a_free_batch_alone_leaves_the_verdict(run: Run, tmp_path: Path) -> None:
    ended = run("check", _file(tmp_path, _image_model([-1, 1, 1, 3])), "-d", "stm32f746/tflm")
    assert (ended.code, ended.out.split()[0]) == (0, "YES:")


def test_a_flash_size_may_be_in_mb(run: Run, keywords: Path) -> None:
    ended = run("check", keywords, "-d", "stm32f746/tflm", "--flash", "4.1MB", "--json")
    assert ended.code == 0
    limits = {limit["name"]: limit for limit in json.loads(ended.out)["limits"]}
    assert limits["flash"]["limit"] == 4_100_000


@pytest.mark.parametrize(
    "command", [("--fits", "64KiB"), ("--weights", "200KiB"), ("--front", "loss,weights")]
)
def test_precisions_without_kernels_are_not_offered(run: Run, shared: Path, command: tuple[str, ...]) -> None:
    """TFLite Micro has no kernels for fp16 and int2."""
    path = shared / "models" / "mlperf_ad01_fp32.tflite"
    ended = run("precision", path, *command, "-d", "stm32f746/tflm", "--json", "--sensitivity", "analytic")
    assert ended.code == 0
    chosen = {*re.findall(r'"((?:fp|int)\d+)"', ended.out)}
    assert chosen
    assert chosen <= {"fp32", "int16", "int8", "int4"}


def test_tensors_that_no_operator_uses_are_in_the_arena(run: Run, tmp_path: Path) -> None:
    file = File()
    ends = [file.main.tensor(name, (1, 96)) for name in "xy"]
    file.main.tensor("leftover", (1, 96, 96))
    file.main.op("RELU", ends[:1], ends[1:])
    file.main.ends(ends[:1], ends[1:])
    path = _file(tmp_path, file.pack())
    head = measure([path])[0].head
    assert head >= 4 * 96 * 96
    plan, report = (" ".join(run(command, path).out.split()) for command in ("plan", "analyze"))
    assert f"{head:,} B head" in plan
    assert f"{head:,} B head" in report
    limits = json.loads(run("check", path, "-d", "stm32f746/tflm", "--json").out)["limits"]
    assert limits[0]["need_low"] > head
    assert "no operator uses 1 tensor of 36,864 B: only the arena of TFLite Micro contains them" in plan


def test_a_file_that_cannot_run_is_not_said_to_be_too_large(run: Run, tmp_path: Path) -> None:
    """Branches that another schedule would shorten, with an operator that has no kernel."""
    file = File()
    source = file.main.tensor("x", (1, 4096))
    wide = [file.main.tensor(f"wide{index}", (1, 4096)) for index in range(4)]
    small = [file.main.tensor(f"small{index}", (1, 1)) for index in range(4)]
    result = file.main.tensor("y", (1, 1))
    axis = file.main.tensor("axis", (1,), "INT32", np.array([1], np.int32))
    for each in wide:
        file.main.op("GELU", [source], [each], options("GeluOptions"))
    for each, mean in zip(wide, small, strict=True):
        file.main.op("MEAN", [each, axis], [mean], options("ReducerOptions", keepDims=True))
    file.main.op("ADD_N", small, [result])
    file.main.ends([source], [result])
    path = _file(tmp_path, file.pack())
    assert runs([path.read_bytes()]) == [False]
    ended = run("check", path, "-d", "stm32f746/tflm", "--ram", "64KiB")
    assert ended.code == 1
    assert ended.out.splitlines()[0] == "NO: model (tflite) cannot run on stm32f746/tflm"
    assert "no kernel for GELU" in ended.out
    assert "emed" not in ended.out  # neither a remedy nor that there is none
    verdict = run("check", path, "-d", "stm32f746/tflm", "--ram", "64KiB", "--json")
    assert json.loads(verdict.out)["verdict"] == "does not fit"


def test_an_unknown_flash_size_names_what_to_type_and_what_fits(run: Run, keywords: Path) -> None:
    ended = run("check", keywords, "-d", "esp32-s3")
    assert ended.code == 3
    lines = ended.out.splitlines()
    assert lines[1] == "  fits         RAM (up to 34.7 KiB of 512 KiB)"
    assert "give that of your board, e.g. --flash 8MB" in " ".join(ended.out.split())
    assert run("check", keywords, "-d", "esp32-s3", "--flash", "8MB").code == 0
