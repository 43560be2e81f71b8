"""`sizeup devices` as its users meet it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import sizeup
from sizeup.cli import main

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command line in this process, 80 columns wide, without user files."""
    for name in ("FORCE_COLOR", "NO_COLOR", "SIZEUP_TARGETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")

    def ended(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["devices", *arguments])
        captured = capfd.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    return ended


def row(out: str, name: str) -> list[str]:
    return next(line for line in out.splitlines() if line.endswith(f"  {name}")).split()


def test_all_devices_are_listed_by_kind(run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    headings = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert headings[:3] == ["microcontrollers", "single-board computers", "phones"]
    assert " ".join(row(out, "stm32f746")) == "432 M - 216 M 320 KiB 1.00 MiB cal stm32f746"
    assert row(out, "snapdragon-8-elite-gen-5")[-2].endswith("?")  # not verified
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert "192 KiB (128 KiB)" in out
    assert "RAM: total (largest bank)" in out.splitlines()


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("option", [[], ["--boards"]])
def test_names_are_printed_whole(
    run: Run, monkeypatch: pytest.MonkeyPatch, option: list[str], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(*option)
    assert "…" not in out
    names = [each.name for each in (sizeup.boards() if option else sizeup.devices())]
    assert set(names) <= set(out.split())
    tables = [line for line in out.splitlines() if line.startswith("  ")]
    assert max(map(len, tables)) <= width
    assert ("columns hidden: " in out) == (width == 60)


def test_a_kind_and_a_word_narrow_the_list(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run("stm32", "--kind", "mcu")
    assert "stm32f746" in out
    assert "stm32mp157" not in out
    assert "rtx" not in out
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = run("--kind", "GPU")
    # 165.2 TFLOPS of fp16 are 82.6e12 MACs; 660.6 TOPS of int8 over 1008 GB/s are 655 FLOP/B.
    expected = ["330", "T", "82.6", "T", "41.3", "T", "24.0", "GiB", "1.01", "TB/s", "655", "cal", "rtx-4090"]
    assert row(out, "rtx-4090") == expected


def test_one_device_is_printed_in_full_with_sources(run: Run) -> None:
    code, out, _ = run("STM32F746NG")
    assert code == 0
    joined = " ".join(out.split())
    for part in (
        "stm32f746: STM32F746NG (microcontroller, STMicroelectronics)",
        "cpu Cortex-M7 (Armv7E-M) at 216 MHz",
        "int8 432 MMAC/s",
        "peak from derived: cores x clock x MACs per cycle of Cortex-M7",
        "ram DTCM + SRAM1 + SRAM2, 320 KiB; 64 + 240 + 16 KiB",
        "flash flash, 1.00 MiB",
        "runtimes tflm-cmsis-nn: TensorFlow Lite for Microcontrollers with CMSIS-NN (default)",
        "aliases",
        "source STM32F745/746 datasheet (DS10916), https://www.st.com/",
        ", recorded on 2026-11-15 file",
        "data verified on 2026-11-15",
        "latency tflm-cmsis-nn: ",
        "file stm32.toml",
    ):
        assert part in joined


def test_power_and_bandwidth_are_printed_with_their_own_source(run: Run) -> None:
    _, out, _ = run("rpi5")
    joined = " ".join(out.split())
    assert "LPDDR4X, 8.00 GiB at 17.1 GB/s" in joined
    assert "from derived: 32 bit x 4267 MT/s" in joined
    assert "power 4 W typical; 800 mA from derived: typical bare-board active current" in joined


def test_json_holds_raw_numbers_and_null_for_the_unknown(run: Run) -> None:
    code, out, err = run("--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["schema_version"] == 2
    devices = {device["name"]: device for device in data["devices"]}
    assert len(devices) >= 60
    assert devices["stm32f746"]["verified"] == "2026-11-15"
    assert {"tflm", "tensorrt"} <= {runtime["name"] for runtime in data["runtimes"]}
    board = devices["stm32f746"]
    assert (board["ram_bytes"], board["flash_bytes"]) == (327680, 1048576)
    assert board["bandwidth_bytes_per_second"] is None
    assert board["units"][0]["clock_hz"] == 216e6
    assert board["units"][0]["macs_per_second"]["int8"] == 432e6
    assert board["power"] is None
    assert devices["rtx-4090"]["power"]["tdp_watts"] == 450


def test_json_of_one_device_holds_its_runtimes_alone(run: Run) -> None:
    data = json.loads(run("hailo-8", "--json")[1])
    assert [device["name"] for device in data["devices"]] == ["hailo-8"]
    assert [runtime["name"] for runtime in data["runtimes"]] == ["hailort"]


def test_a_kind_without_devices_of_that_word_is_an_error(run: Run) -> None:
    code, out, err = run("rpi5", "--kind", "gpu")
    assert (code, out) == (2, "")
    assert err == "sizeup: rpi5 is not a device of kind gpu\n"


def test_the_standing_of_each_target_is_listed(run: Run) -> None:
    data = json.loads(run("rpi5", "--json")[1])
    standings = {standing["target"]: standing for standing in data["standings"]}
    assert set(standings) == {f"rpi5/{name}" for name in data["devices"][0]["runtimes"]}
    assert standings["rpi5/ncnn"]["best"] == "calibrated"
    assert standings["rpi5/ncnn"]["by_precision"]["fp32"] == "calibrated"
    assert standings["rpi5/ncnn"]["verified"] == data["devices"][0]["verified"]
    printed = " ".join(run("rpi5")[1].split())
    assert " ncnn: calibrated at fp32, fp16, int8; " in printed
    assert "data not verified" in " ".join(run("apollo4")[1].split())


def test_a_runtime_that_does_not_run_on_a_device_has_no_standing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[device]]\nname = "mine"\ntitle = "Mine"\nlike = "rpi5"\nruntimes = ["ort", "qnn"]\n')
    code, out, _ = run(str(path), "--json")
    assert code == 0
    assert [standing["target"] for standing in json.loads(out)["standings"]] == ["mine/ort"]
    assert run(str(path))[0] == 0


def test_unknown_names_end_with_the_nearest(run: Run) -> None:
    code, out, err = run("stm32f745")
    assert (code, out) == (2, "")
    assert err.startswith("sizeup: unknown device 'stm32f745'; nearest: ")
    assert "stm32f746" in err
    code, _, err = run("--kind", "gpo")
    assert (code, err) == (2, "sizeup: unknown device kind 'gpo'; nearest: gpu\n")


def test_an_own_file_with_a_slip_is_one_line_and_no_traceback(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[device]]\nname = "mine"\nlike = "rpi5"\ntilte = "Mine"\n', "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(path))
    code, out, err = run("mine")
    assert (code, out) == (2, "")
    assert err == f"sizeup: {path}: device mine: unknown key 'tilte'; nearest: title\n"


def test_clusters_are_listed_and_shown_with_their_links_and_sources(run: Run) -> None:
    assert row(run()[1], "dgx-h100")[1:-1] == ["8", "80.0", "GiB", "450", "GB/s", "50.0", "GB/s"]
    assert "dgx-h100" not in run("--kind", "gpu")[1]
    code, out, _ = run("dgx-h100")
    assert code == 0
    assert out.startswith("dgx-h100: NVIDIA DGX H100 (cluster)\n")
    text = " ".join(out.split())
    for part in ("8 x h100-sxm", "nvlink4, 450 GB/s", "ndr400, 50.0 GB/s", "source https://docs.nvidia.com/"):
        assert part in text
    (cluster,) = json.loads(run("2xdgx-h100", "--json")[1])["clusters"]
    assert (cluster["nodes"], cluster["devices_per_node"], cluster["device"]) == (2, 8, "h100-sxm")
    assert cluster["network"]["bytes_per_second"] == 50e9
    assert "infrastructure" in cluster["network"]["source"]


def test_a_cluster_file_is_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rack.toml"
    path.write_text('[cluster]\nname = "rack"\n[[node]]\ndevices = { name = "l4", count = 4 }\n', "utf-8")
    code, out, _ = run(str(path))
    assert code == 0
    assert "4 x l4" in out
    assert "the link between the 4 devices of a node" in out


def test_the_page_of_devices_is_current(run: Run) -> None:
    kept = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    assert run("--markdown")[1] == kept, "run: sizeup devices --markdown > docs/devices.md"


def test_the_page_of_boards_is_current(run: Run) -> None:
    page = (ROOT / "docs" / "board-list.md").read_text(encoding="utf-8")
    assert run("--boards", "--markdown")[1] == page, (
        "run: sizeup devices --boards --markdown > docs/board-list.md"
    )


def test_boards_are_listed_within_80_columns_and_printed_in_full(run: Run) -> None:
    code, out, _ = run("--boards")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in out  # names are complete, to be copied
    # 261,632 B usable less 64 KiB of reserve are 191.5 KiB.
    assert row(out, "nano33ble") == ["192", "KiB", "960", "KiB", "-", "nrf52840", "nano33ble"]
    assert row(out, "rpi5-4gb") == ["4.00", "GiB", "rpi5", "rpi5-4gb"]
    _, out, _ = run("nano-33-ble")
    assert out.startswith("nano33ble: Arduino Nano 33 BLE (Arduino)")
    assert "linker_script.ld" in "".join(line.strip() for line in out.splitlines())
    content = json.loads(run("--boards", "--json")[1])
    pico = next(each for each in content["boards"] if each["name"] == "pico")
    assert (pico["ram_limit_bytes"], pico["flash_limit_bytes"]) == (264 << 10, 2 << 20)
    assert pico["usable"] is None
    code, _, err = run("--boards", "nanoo33ble")
    assert code == 2
    assert "unknown board 'nanoo33ble'; nearest: nano33ble" in err


def test_the_example_of_the_page_is_a_good_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    path = tmp_path / "page.toml"
    path.write_text(example, "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(path))
    device = json.loads(run("Board 7", "--json")[1])["devices"][0]
    assert device["units"][0]["macs_per_second"]["fp32"] == 180e6
    assert device["memories"][1]["bytes_per_second"] == 200e6
    assert device["vendor"] == "STMicroelectronics"
    assert (device["recorded"], device["verified"]) == ("2026-11-15", None)


def test_help_holds_an_example(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "Example: sizeup devices stm32f746" in out


def test_a_device_is_printed_with_its_calibrations(run: Run) -> None:
    _, out, _ = run("rpi5")
    joined = " ".join(out.split())
    printed = r"calibrated ncnn: 34 measurements in fp32, int8; MAPE \d+\.\d %, (.*?) held out"
    match = re.search(printed, joined)
    assert match is not None
    assert match[1] == "architecture families"
    assert "https://github.com/Tencent/ncnn" in joined
    _, out, _ = run("rpi5", "--json")
    fits = {fit["target"]: fit for fit in json.loads(out)["calibrations"]}
    assert set(fits) == {"rpi5/ncnn", "rpi5/ncnn-vulkan"}
    assert fits["rpi5/ncnn"]["threads"] == 4
    assert fits["rpi5/ncnn"]["rates"]["pooled"]["mac"] > 0
    _, out, _ = run("stm32g474")
    assert "  measured " not in out


@pytest.mark.parametrize(
    ("name", "kind"),
    [("phone", "phone"), ("Phones", "phone"), ("npu", "npu"), ("GPUs", "gpu"), ("mcu", "microcontroller")],
)
def test_a_kind_as_a_name_lists_that_kind(run: Run, name: str, kind: str) -> None:
    """As part of a name, `phone` matches chips of an iPhone only."""
    code, out, _ = run(name)
    assert code == 0
    assert out == run("--kind", kind)[1]


def test_two_targets_with_a_comma_are_not_a_device_to_add(run: Run) -> None:
    _, _, err = run("rtx4090,pixel-8")
    assert "one target is given at a time" in err
    assert "--template" not in err
