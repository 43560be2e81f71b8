"""Models on an Ethos-U: the figures are those of Vela's own command line, and there are no others."""

from __future__ import annotations

import csv
import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sizeup
from sizeup.backends.tflm.kernel import Call
from sizeup.backends.tflm.kernels import ETHOS_U, KERNELS
from sizeup.backends.tflm.layout import FIRMWARE
from sizeup.errors import RunFailed
from sizeup.render.console.check import reasons
from sizeup.runtimes import vela
from sizeup.runtimes.vela import VelaOptions, compile_for_npu

pytestmark = pytest.mark.extras

FILES = (
    *("tflm_hello_int8", "tflm_micro_speech", "mlperf_kws_int8", "mlperf_strww_int8"),
    *("mlperf_resnet8_int8", "te_vww"),
)
ACCELERATORS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
U55 = VelaOptions("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram")
# Vela's command line, once per file, in one process that loads nothing of sizeup.
COMMANDS = """
import sys
from ethosu.vela import vela
accelerator, folder, *files = sys.argv[1:]
for file in files:
    assert vela.main([file, "--accelerator-config", accelerator, "--output-dir", folder]) == 0
"""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of compilations that the tests of this file share."""
    pytest.importorskip("ethosu", reason="Vela is not installed")
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def models(shared: Path) -> Path:
    return shared / "models"


@pytest.fixture(scope="module")
def reports(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, str]]:
    """The summaries that Vela writes, by accelerator and file."""
    summaries = {}
    for accelerator in ACCELERATORS:
        folder = tmp_path_factory.mktemp(accelerator)
        files = [str(models / f"{name}.tflite") for name in FILES]
        arguments = [sys.executable, "-c", COMMANDS, accelerator, str(folder), *files]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in FILES:
            (path,) = folder.glob(f"{name}_summary_*.csv")
            with path.open(newline="") as file:
                (row,) = csv.DictReader(file)
            compiled = (folder / f"{name}_vela.tflite").stat().st_size
            summaries[accelerator, name] = {**row, "compiled": str(compiled)}
    return summaries


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", FILES)
def test_figures_are_those_of_the_command_line(
    accelerator: str, name: str, models: Path, reports: dict[tuple[str, str], dict[str, str]]
) -> None:
    check = sizeup.check(models / f"{name}.tflite", accelerator, remedies=False)
    assert check.npu is not None
    figures, row = check.to_dict()["npu"]["vela"], reports[accelerator, name]
    for memory in ("sram", "dram", "on_chip_flash", "off_chip_flash"):
        assert figures["memory_bytes"][memory] == 1024 * float(row[f"{memory}_memory_used"]), memory
        assert figures["memory_cycles"][memory] == int(row[f"cycles_{memory}_access"]), memory
    assert figures["npu_cycles"] == int(row["cycles_npu"])
    assert figures["total_cycles"] == int(row["cycles_total"])
    assert figures["ms"] == pytest.approx(1e3 * float(row["inference_time"]), rel=1e-12)
    assert figures["macs"] == int(row["nn_macs"])
    assert figures["npu_ops"] + figures["cpu_ops"] == int(row["passes_before_fusing"])
    assert check.npu.file_bytes == int(row["compiled"])
    ram, flash = check.limits
    assert ram.parts[0].low_bytes == ram.parts[0].high_bytes == figures["memory_bytes"]["sram"]
    assert flash.parts[0].low_bytes == flash.parts[0].high_bytes == int(row["compiled"])


def test_the_latency_and_the_times_of_operators_are_those_of_vela(models: Path) -> None:
    report = sizeup.analyze(models / "mlperf_kws_int8.tflite", target="ethos-u55-128")
    assert report.latency is not None
    assert report.npu is not None
    assert report.npu.compilation is not None
    compilation = report.npu.compilation
    assert (report.latency.basis, report.latency.seconds) == ("vela", compilation.seconds)
    assert (report.latency.low, report.latency.high) == (None, None)
    assert report.op_seconds is not None
    assert report.op_seconds.sum() == pytest.approx(compilation.total_cycles / compilation.clock_hz)
    assert report.latency_details is not None
    assert report.latency_details.throughput is None
    assert report.memory.arena is None
    assert report.roofline is None


def test_operators_on_the_cpu_have_a_reason_and_no_time(models: Path) -> None:
    report = sizeup.analyze(models / "te_vww.tflite", target="ethos-u55-128")
    assert report.latency is None
    assert "3 operators of the model run on the CPU, whose time is not known" in report.no_latency_reason
    assert report.npu is not None
    assert report.npu.compilation is not None
    operators = report.npu.compilation.cpu_operators
    assert sorted(each.operator for each in operators) == ["DEQUANTIZE", "MEAN", "QUANTIZE"]
    assert all(each.reason for each in operators)


def test_an_unquantized_model_is_not_an_npu_model(models: Path) -> None:
    check = sizeup.check(models / "mlperf_kws_fp32.tflite", "ethos-u55-128", ram="1 MiB", flash="1 MiB")
    assert check.fits is False
    assert check.unsupported_reason is not None
    assert check.unsupported_reason.startswith("not an NPU model: Vela leaves all 13 operators to the CPU")
    assert [(limit.need_low, limit.need_high) for limit in check.limits] == [(None, None)] * 2
    report = sizeup.analyze(models / "mlperf_kws_fp32.tflite", target="ethos-u55-128")
    assert report.latency is None
    assert "not an NPU model" in report.no_latency_reason


def test_the_reason_against_an_npu_is_stated_once(models: Path) -> None:
    file = models / "mlperf_kws_fp32.tflite"
    check = sizeup.check(file, "ethos-u55-128", latency="1 ms", remedies=False)
    assert sum("leaves all 13" in finding.text for finding in reasons(check)) == 1


def test_tensors_before_compilation_are_not_those_in_the_memory_of_the_npu(
    models: Path, tmp_path: Path
) -> None:
    file = models / "tflm_micro_speech.tflite"
    check = sizeup.check(file, "corstone-310", remedies=False)
    assert check.peak_tensors == ()
    assert check.limits[0].largest == ()
    assert any("256 MACs are assumed" in text for text in check.limits[0].assumptions)
    sizeup.analyze(file, target="corstone-310").save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "no plan needs less" not in page
    assert "for the model as it is, without an NPU" in page
    assert "size of the memory unknown<br><small>" in page


def test_without_vela_nothing_is_known(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vela, "installed_version", lambda: None)
    file = models / "mlperf_kws_int8.tflite"
    check = sizeup.check(file, "alif-e7", latency="1 s")
    assert check.fits is None
    for limit in check.limits:
        assert (limit.need, limit.need_low, limit.need_high, limit.parts) == (None, None, None, ())
        assert "pip install 'sizeup[ethos-u]'" in limit.unknown[0]
    report = sizeup.analyze(file, target="alif-e7")
    assert report.latency is None
    assert "pip install 'sizeup[ethos-u]'" in report.no_latency_reason
    assert report.memory.arena is None


@pytest.mark.parametrize("basis", ["roofline", "calibrated", "coefficients", "instructions"])
def test_no_other_basis_estimates_an_ethos_u(models: Path, basis: sizeup.latency.Basis) -> None:
    with pytest.raises(sizeup.TargetError, match="which Vela estimates"):
        sizeup.estimate(models / "mlperf_kws_int8.tflite", "ethos-u55-128", basis=basis)


def test_only_an_ethos_u_has_the_basis_vela(models: Path) -> None:
    with pytest.raises(sizeup.TargetError, match="only targets with an Ethos-U"):
        sizeup.estimate(models / "mlperf_kws_int8.tflite", "stm32f746", basis="vela")


def test_another_precision_than_that_of_the_file_is_undetermined(models: Path) -> None:
    check = sizeup.check(models / "mlperf_kws_fp32.tflite", "ethos-u55-128", precision="int8")
    assert check.fits is None
    assert all("quantize it" in limit.unknown[0] and limit.need is None for limit in check.limits)


def test_a_compiled_file_is_judged_as_it_is(models: Path) -> None:
    """It is for 256 MACs: the lowest 4 bits of its configuration word, 0x3008, are the logarithm."""
    file = models / "tflm_person_detect_vela.tflite"
    check = sizeup.check(file, "ethos-u55-256", ram="80 KiB", flash="512 KiB")
    assert check.fits is True
    assert check.npu is not None
    assert check.npu.is_compiled_file
    assert check.limits[1].parts[0].low_bytes == file.stat().st_size
    assert sizeup.check(file, "ethos-u55-256", ram="72 KiB", flash="512 KiB").fits is False
    refused = sizeup.check(file, "ethos-u55-128", ram="1 MiB", flash="1 MiB")
    assert refused.fits is False
    assert "compiled for ethos-u55-256" in str(refused.unsupported_reason)
    report = sizeup.analyze(file, target="ethos-u55-256")
    assert report.latency is None
    assert "compiled already" in report.no_latency_reason


@pytest.mark.parametrize(("offset", "content"), [(0, b"XXXX"), (11, b"\xf0")])
def test_a_command_stream_without_a_header_is_refused(
    models: Path, tmp_path: Path, offset: int, content: bytes
) -> None:
    """The driver compares the magic number and the configuration before it runs a stream."""
    data = (models / "tflm_person_detect_vela.tflite").read_bytes()
    start = data.index(b"COP1") + offset
    file = tmp_path / "damaged.tflite"
    file.write_bytes(data[:start] + content + data[start + len(content) :])
    check = sizeup.check(file, "ethos-u55-256", ram="1 MiB", flash="1 MiB")
    assert check.fits is False
    assert "no header of an Ethos-U" in str(check.unsupported_reason)


def test_the_kernel_of_the_npu_requests_an_address_and_a_size_per_tensor(models: Path) -> None:
    graph = sizeup.load(models / "tflm_person_detect_vela.tflite")
    (op,) = graph.ops
    tensors = len(op.inputs) + len(op.outputs)
    memory = KERNELS[ETHOS_U].memory
    assert memory is not None
    assert memory.prepare is not None
    assert memory.prepare(Call(op, graph.tensors, FIRMWARE)).scratch == (8 * tensors, 4 * tensors)


def test_the_clock_of_the_device_replaces_that_of_the_configuration(models: Path) -> None:
    check = sizeup.check(models / "tflm_micro_speech.tflite", "alif-e7")
    assert check.fits is True
    assert check.npu is not None
    assert check.npu.compilation is not None
    compilation = check.npu.compilation
    assert (compilation.accelerator, compilation.clock_hz) == ("ethos-u55-256", 400e6)
    assert compilation.seconds == pytest.approx(compilation.total_cycles / 400e6)


def test_a_file_that_crashes_vela_is_refused_by_the_worker(models: Path, tmp_path: Path) -> None:
    file = tmp_path / "cut.tflite"
    file.write_bytes((models / "te_vww.tflite").read_bytes()[:3000])
    with pytest.raises(RunFailed, match=r"^Vela "):
        compile_for_npu(file, U55)


def test_a_compilation_beyond_its_time_limit_is_undetermined(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    limited = functools.partial(compile_for_npu, seconds=0.01)
    monkeypatch.setattr("sizeup.runtimes.vela.compile_for_npu", limited)
    check = sizeup.check(models / "tflm_hello_int8.tflite", "ethos-u55-128", ram="1 MiB", flash="1 MiB")
    assert check.fits is None
    assert all("took longer than 0.01 s" in item.unknown[0] and item.need is None for item in check.limits)


def test_a_compilation_beyond_its_memory_limit_is_undetermined(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    limited = functools.partial(compile_for_npu, memory_bytes=8 << 20)
    monkeypatch.setattr("sizeup.runtimes.vela.compile_for_npu", limited)
    check = sizeup.check(models / "tflm_hello_int8.tflite", "ethos-u55-128", ram="1 MiB", flash="1 MiB")
    assert check.fits is None
    assert all("takes more than 8.00 MiB" in item.unknown[0] and item.need is None for item in check.limits)
    assert not list(tmp_path.rglob("*.json"))


def test_a_file_that_changes_meanwhile_does_not_enter_the_cache(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, other = tmp_path / "model.tflite", models / "tflm_micro_speech.tflite"
    shutil.copyfile(models / "tflm_hello_int8.tflite", file)

    def changed(digest: str) -> None:
        shutil.copyfile(other, file)

    with monkeypatch.context() as patch:
        patch.setattr(vela, "_read", changed)
        first = compile_for_npu(file, U55)
    assert first == compile_for_npu(models / "tflm_hello_int8.tflite", U55)
    assert first.macs < compile_for_npu(file, U55).macs


def test_a_compilation_is_read_from_the_cache_if_it_is_whole(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = models / "tflm_hello_int8.tflite"
    first = compile_for_npu(file, U55)

    def fail(*_: object) -> None:
        raise AssertionError("a worker was started")

    with monkeypatch.context() as patch:
        patch.setattr(vela, "Supervisor", fail)
        assert compile_for_npu(file, U55) == first
        (stored,) = (tmp_path / "sizeup/vela").glob("*.tflite")
        figures = stored.with_suffix(".json")
        whole, text = stored.read_bytes(), figures.read_text("utf-8")
        changed = text.replace(f'"total_cycles": {first.total_cycles}', '"total_cycles": 1')
        assert changed != text
        for content, report in (
            (whole[:-1], text),
            (whole, text[:-1]),
            (whole, changed),
        ):
            stored.write_bytes(content)
            figures.write_text(report, "utf-8")
            with pytest.raises(AssertionError, match="a worker was started"):
                compile_for_npu(file, U55)
    shutil.rmtree(tmp_path / "sizeup")
    (tmp_path / "sizeup").write_text("")  # no folder can be made here
    assert compile_for_npu(file, U55) == first


def test_optimize_keeps_the_compiled_file(models: Path, tmp_path: Path) -> None:
    file, out = models / "tflm_micro_speech.tflite", tmp_path / "out.tflite"
    result = sizeup.optimize(file, out, target="ethos-u55-128")
    assert result.compilation is not None
    assert out.read_bytes() == result.compilation.content
    assert result.to_dict()["vela"]["memory_bytes"]["sram"] == result.compilation.memory_bytes["sram"]
    with pytest.raises(sizeup.WriteError, match="compiled by Vela already"):
        sizeup.optimize(out, tmp_path / "again.tflite", target="ethos-u55-128")
    with pytest.raises(sizeup.WriteError, match="not an NPU model"):
        sizeup.optimize(models / "mlperf_kws_fp32.tflite", tmp_path / "fp32.tflite", target="ethos-u55-128")


def test_pages_and_comparisons_have_the_figures(models: Path, tmp_path: Path) -> None:
    a, b = models / "mlperf_kws_int8.tflite", models / "tflm_micro_speech.tflite"
    comparison = sizeup.compare(a, b, target="ethos-u55-128")
    totals = {total.name: total for total in comparison.totals}
    assert comparison.a.npu is not None
    assert comparison.a.npu.compilation is not None
    sram = comparison.a.npu.compilation.memory_bytes["sram"]
    assert totals["npu_sram_bytes"].a == sram
    assert totals["npu_cycles"].a == comparison.a.npu.compilation.total_cycles
    assert comparison.verdict == "perhaps faster"
    comparison.a.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<section id="npu"' in page
    assert f"SRAM {sram:,} B" in page
