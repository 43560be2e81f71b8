"""`sizeup calibrate` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from cli.running import run_command as run
from cli.test_plan import lines
from sizeup.calibration.networks import networks
from sizeup.latency import estimate
from sizeup.targets import clear_cache, target

pytest.importorskip("onnx")

from sizeup.calibration.write_onnx import onnx_model

pytestmark = pytest.mark.extras


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Measurements of eight networks: a nanosecond for every hundred MACs, and 20 microseconds."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    rows = ["model,latency_us"]
    for sketch in [each for each in networks() if each.precision == "fp32" and each.family in ("kxk", "1x1")][
        :8
    ]:
        path = tmp_path / f"{sketch.name.replace(' ', '_')}.onnx"
        path.write_bytes(onnx_model(sketch).SerializeToString())
        rows.append(f"{path.name},{sizeup.count(path).total_macs / 1e5 + 20}")
    (tmp_path / "times.csv").write_text("\n".join(rows) + "\n")
    clear_cache()
    return tmp_path / "times.csv"


def test_a_calibrated_target_can_be_named_at_once(table: Path) -> None:
    done = run("calibrate", "--csv", table, "--device", "my-board", "--runtime", "ort")
    shown = lines(done)
    assert shown[0] == "my-board/ort"
    text = " ".join(shown)
    assert "8 networks or kernels in fp32" in text
    assert "%, network held out" in text
    assert "next sizeup analyze MODEL -d my-board/ort" in text
    assert "error measured estimated largest errors" in text
    file = table.parent / "settings/sizeup/targets/my-board.toml"
    assert file.is_file()
    clear_cache()
    model = table.parent / "kxk_2_fp32.onnx"
    result = estimate(sizeup.count(model), target("my-board/ort"))
    assert result.basis == "calibrated"
    assert result.seconds == pytest.approx(sizeup.count(model).total_macs / 1e11 + 2e-5, rel=0.15)
    assert result.low is not None
    assert result.low <= result.seconds <= (result.high or 0)


def test_json_is_alone_on_stdout(table: Path) -> None:
    out = table.parent / "own.toml"
    done = run("calibrate", "--csv", table, "--device", "my-board", "--json", "-o", out)
    result = json.loads(done.stdout)
    assert (result["target"], result["file"], result["measurements"]) == ("my-board/ort", str(out), 8)
    assert len(result["judged"]) == 8


def test_a_second_runtime_joins_the_first_and_a_repeat_replaces_it(table: Path) -> None:
    for runtime in ("ort", "litert-xnnpack", "ort"):
        run("calibrate", "--csv", table, "--device", "my-board", "--runtime", runtime)
    clear_cache()
    from sizeup.targets import current_catalog

    names = [each.name for each in current_catalog().calibrations() if each.name.startswith("my-board")]
    assert sorted(names) == ["my-board/litert-xnnpack", "my-board/ort"]


def test_a_fit_of_a_known_device_describes_no_other_one(table: Path) -> None:
    run("calibrate", "--csv", table, "--device", "i7-12700h", "--runtime", "ort")
    text = (table.parent / "settings/sizeup/targets/i7-12700h.toml").read_text()
    assert "[[device]]" not in text
    clear_cache()
    assert (
        estimate(sizeup.count(table.parent / "kxk_2_fp32.onnx"), target("i7-12700h/ort")).calibration
        is not None
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--csv", "absent.csv"), "absent.csv: no such file"),
        (("--runtime", "nothing"), "unknown runtime 'nothing'"),
        (("--csv", "TABLE", "--device", "a/b"), "is not a device name"),
        (("--csv", "TABLE", "--profile", "x", "--model", "y"), "a table or a profile, not both"),
        (("--profile", "x"), "a profile and its model must be passed together"),
        (("--csv", "TABLE", "-o", "TABLE"), "is an input, which is not overwritten"),
        (("--csv", "TABLE", "--device", "i7-12700h", "--runtime", "tensorrt"), "does not run on"),
    ],
)
def test_errors_are_printed_on_one_line(table: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run("calibrate", *(str(table) if each == "TABLE" else each for each in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_of_somebody_else_is_not_written_over(table: Path) -> None:
    own = table.parent / "own.toml"
    own.write_text("[sources]\n")
    done = run("calibrate", "--csv", table, "-o", own)
    assert done.returncode == 2
    assert "not written by sizeup, so it is not overwritten" in done.stderr
    assert own.read_text() == "[sources]\n"


def test_four_measurements_are_refused(table: Path) -> None:
    table.write_text("\n".join(table.read_text().splitlines()[:5]) + "\n")
    done = run("calibrate", "--csv", table)
    assert done.returncode == 2
    assert "4 measurements cannot calibrate a target: at least 5" in done.stderr
