"""Files in a folder of targets that cannot be read, what calibrations write, and device files in Python."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sizeup
from cli.running import run_command
from sizeup import targets
from sizeup.errors import TargetError, TargetWarning, WriteError
from sizeup.results.check import Check
from sizeup.settings import parse_toml
from sizeup.targets import write

CALIBRATION = """\
# Written by sizeup calibrate, which replaces it; your own devices belong in another file.

[[fit]]
name = "rpi5/ort"
precisions = ["fp32"]
measurements = 5
error = 0.1
held_out = "networks"
source = "measured: here"
recorded = "2026-01-01"

[fit.band]
low = -0.1
high = 0.1

[fit.rates]
pooled = { mac = RATE, byte = 0.0, launch = 0.0 }
"""
DEVICE = '[[device]]\nname = "mine"\ntitle = "Mine"\nlike = "stm32f746"\naliases = [\n  "my own",\n]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder of targets, with one good file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    home = tmp_path / "config" / "sizeup" / "targets"
    home.mkdir(parents=True)
    (home / "good.toml").write_text(
        DEVICE.replace("mine", "good").replace("Mine", "Good").replace("my own", "own")
    )
    targets.clear_cache()
    yield home
    monkeypatch.undo()
    targets.clear_cache()


BROKEN = {
    "a number of NumPy": CALIBRATION.replace("RATE", "np.float64(7.75e-10)"),
    "half a file": DEVICE + "[[device",
    "an unknown key": DEVICE + '[[devcie]]\nname = "b"\n',
    "a name twice": DEVICE + DEVICE,
    "a name of another file": DEVICE + '[[device]]\nname = "good"\n',
    "a table without a name": DEVICE + "[[device]]\n",
    "no text": "\udcff",
    "a wrong value": DEVICE + 'kind = "toaster"\n',
    "a loop": DEVICE.replace("stm32f746", "mine"),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_one_file_that_cannot_be_read_stops_no_other_target(folder: Path, text: str) -> None:
    path = folder / "odd.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    ended = run_command("devices", "good", "--json")
    assert ended.returncode == 0
    targets.clear_cache()
    ended = run_command("devices", "--json")  # all of them
    assert (ended.returncode, '"good"' in ended.stdout) == (0, True)
    lines = ended.stderr.splitlines()
    assert [
        line for line in lines if line.startswith(f"warning: {path}: ") and line.endswith("is ignored")
    ] == lines
    assert len(lines) == 1
    targets.clear_cache()
    assert run_command("devices", "--json", "--quiet").stderr == ""


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "broken link"])
def test_files_without_an_end_are_ignored(folder: Path, kind: str) -> None:
    path = folder / "odd.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "link to a device" else folder / "nowhere")
    with pytest.warns(TargetWarning, match=r"odd\.toml: .*; this file is ignored"):
        assert targets.target("good/tflm").name == "good/tflm"
    assert "good" in targets.names_of_kind("device")


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("a number of NumPy", "rpi5/ort"),
        ("a number of NumPy", "Raspberry Pi 5/ort"),
        ("half a file", "mine"),
        ("half a file", "MY OWN"),
        ("half a file", "Mine/tflm"),
        ("a name twice", "mine"),
        ("a wrong value", "mine"),
        ("a loop", "mine"),
        ("an unknown key", "mine"),
        ("an unknown key", "b"),
    ],
)
def test_what_such_a_file_describes_is_refused_with_the_reason(folder: Path, case: str, name: str) -> None:
    (folder / "odd.toml").write_text(BROKEN[case])
    text = name if "/" in name else f"{name}/tflm"
    ended = run_command("analyze", "absent.onnx", "-d", text)
    assert ended.returncode == 2
    assert f"sizeup: {folder / 'odd.toml'}: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_file_that_cannot_be_read_does_not_leave_the_shipped_device(folder: Path) -> None:
    """It may have corrected its memory."""
    (folder / "odd.toml").write_text(DEVICE.replace('"mine"', '"stm32f746"') + "[[device")
    with pytest.warns(TargetWarning), pytest.raises(TargetError, match=r"odd\.toml: not a TOML file"):
        targets.target("stm32f746/tflm")
    with pytest.raises(TargetError, match=r"odd\.toml: not a TOML file"):
        targets.target("DISCO-F746NG/tflm")
    with pytest.raises(TargetError, match=r"unknown device 'nothing'; .*; ignored: .*odd\.toml$"):
        targets.target("nothing")


def test_a_file_that_was_named_is_read_or_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.parent / "named.toml"
    path.write_text(BROKEN["half a file"])
    for text in (str(path), f"{path}:stm32f746/tflm"):
        assert f"sizeup: {path}: not a TOML file" in run_command("analyze", "a.onnx", "-d", text).stderr
        with pytest.raises(TargetError, match="not a TOML file"):
            sizeup.analyze("a.onnx", target=text)
    monkeypatch.setenv(targets.VARIABLE, str(path))
    with pytest.raises(TargetError, match="not a TOML file"):
        targets.target("good/tflm")


_names = st.text(max_size=6).filter(lambda name: name not in ("name",))
_scalars = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(
        [np.float64(7.75e-10), np.float32(0.1), np.int64(5), np.bool_(True), np.float16(2), np.uint8(3)]
    )
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=10,
)


def plain(value: Any) -> Any:
    """The same without NumPy and without surrogates."""
    if isinstance(value, dict):
        return {text(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return text(value) if isinstance(value, str) else value


def text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


@given(st.dictionaries(_names, _values, max_size=5))
def test_every_table_is_read_as_it_was_written(values: dict[str, Any]) -> None:
    expected = plain(values)
    if len(expected) == len(values):
        assert parse_toml(write._table("fit", values)) == {"fit": [expected]}


@pytest.mark.parametrize("number", [math.nan, math.inf, np.float64("nan"), np.float32("-inf")])
def test_a_rate_that_is_not_finite_is_not_written(number: float) -> None:
    with pytest.raises(TargetError, match="it must be finite"):
        write._table("fit", {"name": "a", "rates": {"mac": number}})


def _calibration(rate: Any) -> dict[str, Any]:
    table: dict[str, Any] = parse_toml(CALIBRATION.replace("RATE", "0"))["fit"][0]
    return table | {"rates": {"pooled": {"mac": rate, "byte": np.float32(0.5), "launch": np.int64(1)}}}


def test_a_calibration_of_numpy_is_read_again(folder: Path) -> None:
    write.save(folder / "rpi5.toml", _calibration(np.float64(7.75e-10)), None)
    targets.clear_cache()
    calibration = targets.current_catalog().calibration(targets.target("rpi5/ort"))
    assert calibration is not None
    assert calibration.rates["pooled"] == {"mac": 7.75e-10, "byte": 0.5, "launch": 1}


@pytest.mark.parametrize("rate", ["np.float64(7.75e-10)", -1.0, "text"])
def test_a_file_that_could_not_be_read_again_replaces_nothing(folder: Path, rate: Any) -> None:
    path = folder / "rpi5.toml"
    write.save(path, _calibration(1e-9), None)
    before = path.read_bytes()
    with pytest.raises(
        WriteError, match=r"rpi5\.toml: not written, because sizeup could not read it: .*mac is"
    ):
        write.save(path, _calibration(rate), None)
    assert path.read_bytes() == before
    assert sorted(folder.iterdir()) == [folder / "good.toml", path]


@pytest.mark.extras
@pytest.mark.parametrize("named", ["FILE", "FILE:mine/tflm", "FILE/tflm"])
def test_a_device_file_is_a_target_in_python(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    shutil.copyfile(Path(sizeup.__file__).parent / "cli" / "sample.tflite", tmp_path / "m.tflite")
    path = tmp_path / "board.toml"
    fit = CALIBRATION.partition("\n\n")[2].replace("rpi5/ort", "mine/tflm").replace("fp32", "int8")
    path.write_text(DEVICE.replace("aliases", "runtimes = ['tflm']\naliases") + fit.replace("RATE", "5e-8"))
    monkeypatch.chdir(tmp_path)
    text = named.replace("FILE", "board.toml")
    report = sizeup.analyze("m.tflite", target=text)
    estimate = sizeup.estimate("m.tflite", text)
    check = sizeup.check("m.tflite", text)
    assert isinstance(check, Check)
    assert report.latency is not None
    assert report.latency.basis == estimate.basis == "calibrated"  # by the table of that file
    sizeup.plan("m.tflite", target=text)
    for command, result in (("analyze", report), ("check", check)):
        printed = run_command(command, "m.tflite", "-d", text, "--json").stdout
        assert '"mine/tflm"' in printed
        assert result.target is not None
        assert getattr(result.target, "name", result.target) == "mine/tflm"
    with pytest.raises(TargetError, match=r"absent\.toml: no such device file"):
        sizeup.analyze("m.tflite", target="absent.toml")


def test_a_budget_file_cannot_name_a_device_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text(DEVICE)
    (tmp_path / "budgets.toml").write_text(
        f'[[budget]]\nmodels = "a.onnx"\ntarget = "{tmp_path}/board.toml"\n'
    )
    with pytest.raises(TargetError):
        sizeup.check_budgets(tmp_path / "budgets.toml")
