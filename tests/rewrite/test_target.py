"""`optimize` for a target: the arena with its kernels becomes smaller, or the file stays as it is."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sizeup
from boards import build_of, measurements
from sizeup.backends.tflm.file_arena import tflm_arena
from sizeup.cli import app
from sizeup.rewrite.verify import is_equal
from sizeup.runtimes import random_samples, run

pytestmark = pytest.mark.extras

TARGETS = {"m4": "stm32f446/tflm-cmsis-nn", "m55": "apollo510/tflm-cmsis-nn"}
# Files that TFLite Micro with CMSIS-NN does not run: there is no arena to compare.
REFUSED = {
    "mlperf_kws_fp32", "mp_face_detection_full_range_sparse", "mp_hand_landmark_full",
    "mp_palm_detection_lite", "mp_selfie_segmentation", "swiftnet_vww_uint8", "tflm_person_detect_vela",
}  # fmt: skip
OptimizeFor = Callable[[str, str], tuple[int, int]]  # by model and core
SMALL = ("mlperf_kws_int8", "mlperf_vww96_int8", "pmw_alexa", "tflm_hello_int8", "tflm_micro_speech")


@cache
def _board_arenas(shared: Path) -> dict[tuple[str, str], int]:
    """The smallest arena of the original with CMSIS-NN, by model and core, as measured."""
    return {
        (row["model"], row["core"]): int(row["smallest_arena"])
        for row in measurements(shared)
        if row["kernels"] == "cmsis-nn" and row["smallest_arena"]
    }


def _arena(path: Path, core: str, kernels: str = "cmsis-nn") -> tuple[int, int | None]:
    """Head and smallest arena of a file; tests/backends/tflm/test_boards.py compares both with boards."""
    build = build_of(core, kernels)
    arena = tflm_arena(sizeup.load(path), build)
    assert arena is not None
    return arena.head_bytes, arena.arena_bytes()


def test_files_of_optimize_have_the_arena_of_the_boards(shared: Path, tmp_path: Path) -> None:
    """All rows of 14 files, written again: head and smallest arena on four cores with both libraries."""
    files = defaultdict(list)
    with (shared / "boards" / "optimized_files.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            files[row["model"], row["written_by"]].append(row)
    assert sum(map(len, files.values())) == 112
    wrong = []
    for (model, command), rows in files.items():
        source, out = shared / "models" / f"{model}.tflite", tmp_path / "out.tflite"
        sizeup.optimize(source, out, overlap="--overlap" in command, verify=False)
        for row in rows:
            figures = (
                *_arena(source, row["core"], row["kernels"]),
                *_arena(out, row["core"], row["kernels"]),
            )
            columns = ("head_original", "smallest_arena_original", "head", "smallest_arena")
            if figures != tuple(int(row[column]) for column in columns):
                wrong.append((model, command, row["core"], row["kernels"], figures))
    assert not wrong


@pytest.fixture(scope="module")
def optimize_for(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> OptimizeFor:
    """Optimizes a file once per core: the arena before, as measured on a board, and after.

    The outputs of a changed file are equal.
    """
    folder = tmp_path_factory.mktemp("optimized")

    @cache
    def arenas(name: str, core: str) -> tuple[int, int]:
        source, out = shared / "models" / f"{name}.tflite", folder / f"{core}.tflite"
        result = sizeup.optimize(source, out, target=TARGETS[core], verify=False, time_limit=5)
        before, (_, after) = _board_arenas(shared)[name, core], _arena(out, core)
        assert after is not None
        assert [(arena.before_bytes, arena.after_bytes) for arena in result.arenas] == [(before, after)]
        assert result.changed == (out.read_bytes() != source.read_bytes()) == (after < before)
        assert result.changed or any("no change reduces the arena" in note for note in result.notes)
        if result.changed:
            samples = random_samples(sizeup.load(source), 3, seed=5)
            assert is_equal(run("tflm", source, samples), run("tflm", out, samples))
        return before, after

    return arenas


@pytest.mark.extras
@pytest.mark.parametrize("core", TARGETS)
def test_no_file_gets_worse_with_the_kernels_of_the_target(optimize_for: OptimizeFor, core: str) -> None:
    arenas = {name: optimize_for(name, core) for name in SMALL}
    assert all(after <= before for before, after in arenas.values())
    assert arenas["mlperf_vww96_int8"][1] < arenas["mlperf_vww96_int8"][0]


@pytest.mark.extras
@pytest.mark.slow
@pytest.mark.parametrize("core", TARGETS)
def test_no_real_file_gets_worse(shared: Path, tmp_path: Path, optimize_for: OptimizeFor, core: str) -> None:
    for path in sorted((shared / "models").glob("*.tflite")):
        if path.stem in REFUSED:
            with pytest.raises(sizeup.WriteError, match="TFLite Micro cannot run this file"):
                sizeup.optimize(path, tmp_path / "out.tflite", target=TARGETS[core], verify=False)
        else:
            before, after = optimize_for(path.stem, core)
            assert after <= before, path.stem


@pytest.mark.extras
def test_a_plan_has_space_for_the_scratch_of_the_target(optimize_for: OptimizeFor) -> None:
    """The plan for the reference kernels needs 18,240 B on an M4 and 25,984 B on an M55, as measured."""
    assert optimize_for("pmw_alexa", "m4")[1] < 18_240
    assert optimize_for("pmw_alexa", "m55") == (24_768, 24_768)


def test_a_loss_with_cmsis_nn_is_in_every_line_that_shows_a_gain(shared: Path, tmp_path: Path) -> None:
    command = ["optimize", str(shared / "models/pmw_alexa.tflite"), "-o", str(tmp_path / "out.tflite")]
    shown = CliRunner().invoke(app, [*command, "--no-verify"], env={"COLUMNS": "80"}).stdout
    gains = [
        line for line in shown.splitlines() if line.startswith("  arena") and "-" in line.partition("B")[2]
    ]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "arena, reference 16,272 B 15,936 B -2.1 % (Helium +4.9 %)" in lines
    assert "arena, cmsis-nn, Helium 24,768 B 25,984 B +4.9 %" in lines
    assert len(gains) >= 3
    assert all("Helium +4.9 %" in line for line in gains)
    data = json.loads(CliRunner().invoke(app, [*command, "--no-verify", "--json"]).stdout)
    assert data["target"] is None
    assert [tuple(arena.values()) for arena in data["arenas"]] == [
        ("reference", "", 16_272, 15_936),
        ("cmsis-nn", "", 16_304, 16_048),
        ("cmsis-nn", "dsp", 18_240, 18_240),
        ("cmsis-nn", "mve", 24_768, 25_984),
    ]


def test_a_plan_with_overlaps_has_no_arena_with_cmsis_nn(shared: Path, tmp_path: Path) -> None:
    source = shared / "models/mlperf_strww_int8.tflite"
    result = sizeup.optimize(source, tmp_path / "out.tflite", overlap=True, verify=False)
    assert result.overlaps > 0
    assert [arena.kernels for arena in result.arenas] == ["reference"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("apollo510/tflm-cmsis-nn", "cmsis-nn kernels may compute wrong outputs"),
        ("esp32-s3/tflm-esp-nn", "esp-nn kernels may compute wrong outputs"),
        ("rpi5/litert", "litert does not use plans stored in files"),
    ],
)
def test_overlaps_are_refused_for_other_kernels(
    shared: Path, tmp_path: Path, target: str, message: str
) -> None:
    source, out = shared / "models/mlperf_kws_int8.tflite", tmp_path / "out.tflite"
    command = ["optimize", str(source), "-o", str(out), "--overlap", "-d", target, "--no-verify"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert not out.exists()
    result = sizeup.optimize(source, out, overlap=True, target="stm32f446/tflm", verify=False)
    assert result.overlaps > 0
    with pytest.raises(sizeup.WriteError, match="start from the original file"):
        sizeup.optimize(out, tmp_path / "again.tflite", target="apollo510/tflm-cmsis-nn", verify=False)


def test_a_runtime_without_stored_plans_gets_none(shared: Path, tmp_path: Path) -> None:
    source = shared / "models/swiftnet_vww_int8conv.tflite"
    result = sizeup.optimize(source, tmp_path / "out.tflite", target="rpi5/litert", verify=False)
    assert "no memory plan was written: litert does not use plans stored in files" in result.notes
    assert result.before.peak_bytes is not None
    assert result.after.peak_bytes is not None
    assert result.after.peak_bytes < result.before.peak_bytes
    assert (result.has_new_plan, result.arenas) == (False, ())
    planned = sizeup.optimize(
        shared / "models/mlperf_vww96_int8.tflite",
        tmp_path / "out.tflite",
        target="rpi5/litert",
        verify=False,
    )
    assert not planned.changed


def test_esp_nn_has_its_scratch_in_the_arena(shared: Path, tmp_path: Path) -> None:
    """The head cannot be below the largest scratch of ESP-NN with the tensors of its operator."""
    source, out = shared / "models/pmw_alexa.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(source, out, target="esp32-s3/tflm-esp-nn", verify=False)
    reference = sizeup.optimize(source, out, target="stm32f446/tflm", verify=False)
    (with_scratch,), (without,) = result.arenas, reference.arenas
    assert with_scratch.before_bytes - without.before_bytes > 10_000
    assert with_scratch.after_bytes <= with_scratch.before_bytes


def test_the_memory_of_an_ethos_u_is_planned_by_its_compiler(shared: Path) -> None:
    source = shared / "models/tflm_hello_int8.tflite"
    with pytest.raises(sizeup.WriteError, match="optimize -d ethos-u55-128 writes the compiled file"):
        sizeup.plan(source, target="ethos-u55-128")


def test_a_file_that_the_runtime_does_not_read_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "net.onnx"
    source.write_bytes(b"")
    with pytest.raises(sizeup.WriteError, match=r"tflm does not run \.onnx files"):
        sizeup.optimize(source, tmp_path / "out.onnx", target="stm32f446/tflm", verify=False)


def test_remedies_are_those_of_the_target(shared: Path) -> None:
    """The plan for the reference kernels would need more: no rewritten file is a remedy."""
    alexa = shared / "models/pmw_alexa.tflite"
    on_m55 = sizeup.check(alexa, "apollo510/tflm-cmsis-nn", ram=24_000)
    assert not any("optimize" in remedy.command for remedy in on_m55.remedies)
    on_m4 = sizeup.check(alexa, "stm32f446/tflm-cmsis-nn", ram=18_000)
    commands = [remedy.command for remedy in on_m4.remedies if "optimize" in remedy.command]
    assert len(commands) == 1
    assert "-d stm32f446/tflm-cmsis-nn" in commands[0]
    refused = sizeup.check(shared / "models/swiftnet_vww_uint8.tflite", "stm32f446/tflm-cmsis-nn")
    assert refused.fits is False
    assert not any("optimize" in remedy.command for remedy in refused.remedies)


@pytest.mark.parametrize(
    ("name", "core", "head"),
    [("pmw_alexa", "m55", 12_080), ("mlperf_kws_int8", "m55", 20_464), ("mlperf_vww96_int8", "m55", 55_296)],
)
def test_a_plan_contains_the_scratch_of_the_target(shared: Path, name: str, core: str, head: int) -> None:
    """Heads as measured: of the original if it is optimal, for the last one of the file of `optimize`."""
    plan = sizeup.plan(shared / "models" / f"{name}.tflite", target=TARGETS[core])
    assert (plan.plan_bytes, plan.status, plan.alignment) == (head, "optimal", 16)
    assert plan.to_dict()["target"] == TARGETS[core]
    assert not any("not in this plan" in note for note in plan.notes)
    assert any(tensor.name.startswith("scratch of ") for tensor in plan.planned_tensors())


@pytest.mark.parametrize("core", TARGETS)
def test_optimize_is_mentioned_only_if_the_plan_for_the_target_is_smaller(shared: Path, core: str) -> None:
    command = ["plan", str(shared / "models/pmw_alexa.tflite"), "-d", TARGETS[core]]
    shown = " ".join(CliRunner().invoke(app, command, env={"COLUMNS": "200"}).stdout.split())
    assert ("may reduce it" in shown) == (core == "m4")
    assert (f"sizeup optimize -d {TARGETS[core]} may reduce it" in shown) == (core == "m4")


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("mlperf_kws_int8", "rpi5/litert", "needs TFLite Micro and a .tflite file"),
        ("swiftnet_vww_uint8", "apollo510/tflm-cmsis-nn", "cannot run this file"),
    ],
)
def test_a_plan_for_a_target_that_does_not_run_the_file_is_refused(
    shared: Path, name: str, target: str, message: str
) -> None:
    with pytest.raises(sizeup.SizeupError, match=message):
        sizeup.plan(shared / "models" / f"{name}.tflite", target=target)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"split": True}, {"overlap": True}], ids=["strips", "overlap"])
def test_a_busy_machine_writes_the_same_file(shared: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    """Two workers of a solver find one of several plans of the same size, whichever is first."""
    source = shared / "models" / "mlperf_vww96_int8.tflite"
    idle, busy = tmp_path / "idle.tflite", tmp_path / "busy.tflite"
    sizeup.optimize(source, idle, verify=False, **options)
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        sizeup.optimize(source, busy, verify=False, **options)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert idle.read_bytes() == busy.read_bytes()
