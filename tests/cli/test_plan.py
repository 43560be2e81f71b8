"""`sizeup plan`, and pictures, as their users meet them."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest

import sizeup
from cli.running import run_command as run

pytestmark = pytest.mark.extras


@pytest.fixture
def two_branches(tmp_path: Path) -> Path:
    """A file whose order matters."""
    from rewrite.test_branches import branches  # it needs LiteRT, and this file is read without

    path = tmp_path / "branches.tflite"
    path.write_bytes(branches())
    return path


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_the_verdict_comes_first_then_the_peak_then_the_places(shared: Path) -> None:
    shown = lines(run("plan", shared / "models/swiftnet_vww_uint8.tflite"))
    assert shown[0] == "swiftnet_vww_uint8 (tflite)"
    assert shown[1].startswith("memory plan 301,056 B, -14.3 % from at least 351,232 B in the original")
    assert "proven optimal: no plan needs less" in " ".join(shown[1:3])
    text = " ".join(shown)
    assert "peak 351,232 B in the original order, 301,056 B in step" in text
    assert "operators moved; proven optimal: no schedule has a lower peak" in text
    assert (
        "arena 412,976 B on a 32-bit processor with reference kernels: 376,320 B head + 36,652 B tail"
        " + 4 B to round up to 16" in text
    )
    # Its operators are of uint8, the first one is a SPLIT.
    assert "unsupported TFLite Micro does not run this file: its SPLIT kernel takes float32, int8" in text
    assert "sizeup optimize tries" not in text
    assert text.index("live at peak share tensor") < text.index("offset size steps tensor")
    assert "150,528 B 50.0 % input" in text
    assert "-o FILE.csv writes every tensor" in shown[-1]


def test_top_shows_more_buffers(shared: Path) -> None:
    model = shared / "models/mlperf_kws_int8.tflite"
    few, all_of_them = (lines(run("plan", model, "--top", top)) for top in ("3", "500"))
    assert few[-1].startswith("and 10 smaller ones")
    assert len(all_of_them) == len(few) + 10 - 1


def test_nothing_to_gain_is_said_plainly(shared: Path) -> None:
    shown = " ".join(lines(run("plan", shared / "models/mlperf_kws_int8.tflite")))
    assert "memory plan 16,000 B in the original order; proven optimal: no plan needs less" in shown


def test_a_better_plan_than_the_interpreters_own_is_something_to_gain(shared: Path) -> None:
    shown = " ".join(lines(run("plan", shared / "models/mlperf_vww96_int8.tflite")))
    assert "memory plan 55,296 B in the original order, less than TFLite Micro's own plan; proven" in shown
    assert "arena 100,672 B on a 32-bit processor with reference kernels: 73,728 B head + " in shown
    assert "nothing to gain" not in shown


def test_branches_are_planned_in_every_output(two_branches: Path, tmp_path: Path) -> None:
    files = [part for name in ("plan.csv", "plan.json") for part in ("-o", tmp_path / name)]
    done = run("plan", two_branches, "--json", *files, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert (
        result
        == json.loads((tmp_path / "plan.json").read_text("utf-8"))
        == sizeup.plan(two_branches).to_dict()
    )
    assert (result["peak"]["file_schedule_bytes"], result["peak"]["bytes"], result["plan"]["bytes"]) == (
        2_100,
        1_110,
        1_110,
    )
    assert result["plan"]["status"] == "optimal"
    with (tmp_path / "plan.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["name"]: int(row["offset"]) for row in csv.DictReader(file)}
    assert rows == {each["name"]: each["offset"] for each in result["tensors"]}
    as_given = json.loads(run("plan", two_branches, "--json", "--no-reorder", "--alignment", "16").stdout)
    assert as_given["schedule"] == {
        "moved_ops": 0,
        "status": None,
        "lower_bound_bytes": None,
        "ops": [0, 1, 2, 3, 4],
    }
    assert as_given["plan"]["bytes"] == 1008 + 1008 + 112


@pytest.mark.parametrize("verb", ["plan", "analyze"])
def test_pictures_are_drawn_beside_the_usual_output(two_branches: Path, tmp_path: Path, verb: str) -> None:
    done = run(verb, two_branches, "--plot", tmp_path / "a.png", "--plot", tmp_path / "a.svg")
    assert done.stdout == run(verb, two_branches).stdout != ""
    assert [line.partition(" written, ")[0] for line in done.stderr.splitlines()] == [
        str(tmp_path / name) for name in ("a.png", "a.svg")
    ]
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()[:1000]


@pytest.mark.parametrize("verb", ["plan", "analyze"])
def test_what_cannot_be_drawn_is_one_line_and_code_2_before_any_work(tmp_path: Path, verb: str) -> None:
    missing = tmp_path / "there is no such model.tflite"
    done = run(verb, missing, "--plot", tmp_path / "a.gif")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"sizeup: {tmp_path / 'a.gif'}: a picture is written as .png, .svg; use one of these extensions"
    ]
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys; sys.modules['matplotlib'] = None")
    done = run(verb, missing, "--plot", tmp_path / "a.png", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["sizeup: a picture needs matplotlib: pip install 'sizeup[plot]'"]


def test_other_faults_are_one_line_with_their_code(shared: Path, tmp_path: Path) -> None:
    model = shared / "models/mlperf_kws_int8.tflite"
    for arguments in (
        ("plan", tmp_path / "no.tflite"),
        ("plan", model, "-o", tmp_path / "plan.txt"),
        ("plan", model, "-o", tmp_path / "nowhere" / "plan.csv"),
        ("plan", model, "--plot", tmp_path / "nowhere" / "plan.png"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
    assert run("plan", model, "--alignment", "0").returncode == 2


def test_sizes_that_depend_on_data_end_with_code_3(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, [1, None])
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "found", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "found.onnx")
    done = run("plan", tmp_path / "found.onnx")
    assert (done.returncode, done.stdout) == (3, "")
    assert "the size of 1 tensor depends on data: 'y'" in done.stderr
    done = run("analyze", tmp_path / "found.onnx", "--plot", tmp_path / "found.png")
    assert done.returncode == 0
    assert (tmp_path / "found.png").exists()


@pytest.mark.parametrize("verb", ["plan", "analyze"])
@pytest.mark.parametrize("option", ["--plot=nowhere/x.png", "-onowhere/x.csv"])
def test_a_folder_that_is_not_there_is_said_before_anything_is_read(verb: str, option: str) -> None:
    done = run(verb, "neither_is_this.tflite", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(": no such folder\n")


def test_one_place_more_is_one_smaller_one(two_branches: Path) -> None:
    shown = lines(run("plan", two_branches, "--top", "5"))
    assert shown[-1].startswith("and 1 smaller one: ")


def test_a_plan_in_the_file_that_overlaps_is_not_contradicted(shared: Path, tmp_path: Path) -> None:
    output = tmp_path / "overlapping.tflite"
    sizeup.optimize(shared / "models/mlperf_vww96_int8.tflite", output, overlap=True, verify=False)
    shown = " ".join(lines(run("plan", output, "--top", "1")))
    # 55,296 B is the best plan without overlap, by models/README.md; the file's own is smaller.
    assert "55,296 B without overlap; the plan stored in the file overlaps and needs less" in shown
    assert "proven optimal: no plan without overlap needs less" in shown
    assert "nothing to gain" not in shown
    assert "sizeup optimize tries" not in shown
    shipped = json.loads(run("plan", output, "--json").stdout)["tflite_micro"]
    assert shipped["arena_head_bytes"] < 55_296
    assert shipped["overlapping_tensors"] > 0
    assert f"overlap {shipped['overlapping_tensors']} tensors with other live tensors" in shown
    assert "reference kernels only" in shown
