"""`sizeup check` as its users meet it: the answer first, the exit codes, and what is written."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cli.running import Run

pytestmark = pytest.mark.extras


def test_what_fits_says_yes_first_and_ends_with_0(run: Run, keywords: Path) -> None:
    ended = run("check", keywords, "-d", "stm32f746/tflm")
    assert ended.code == 0
    first, *rest = ended.out.splitlines()
    assert first == "YES: mlperf_kws_int8 (tflite) fits on stm32f746/tflm"
    row = next(line for line in rest if "RAM" in line)
    assert row.split() == [
        "22.2",
        "KiB",
        "320",
        "KiB",
        "298",
        "KiB",
        "(93",
        "%)",
        "ok",
        "RAM",
        "(STM32F746NG)",
    ]
    assert all(len(line) <= 80 for line in rest if not line.lstrip().startswith("$"))


def test_what_does_not_fit_says_no_by_how_much_and_ends_with_1(run: Run, keywords: Path) -> None:
    ended = run("check", keywords, "-d", "stm32f746/tflm", "--ram", "20KiB", "--no-remedies")
    assert ended.code == 1
    assert ended.out.startswith("NO: mlperf_kws_int8 (tflite) does not fit on stm32f746/tflm\n")
    assert "RAM: 22.2 KiB, 2.25 KiB (11.2 %) more than the 20.0 KiB" in " ".join(ended.out.split())
    assert "live at peak" in ended.out
    assert ended.out.count("functional_1/activa...l_1/conv2d/Conv2D1") == 1


def test_the_next_step_is_the_list_of_boards_if_no_remedy_is_enough(run: Run, keywords: Path) -> None:
    limits = ("--ram", "4KiB", "--no-run")
    command = f"sizeup devices --for {keywords} lists the boards that it fits on"
    assert run("check", keywords, "-d", "stm32f746/tflm", *limits).out.splitlines()[-1] == command
    # A remedy fits, the model fits, the target is no microcontroller, or remedies are not wanted.
    for arguments in (
        ("-d", "stm32f746/tflm", "--ram", "21KiB", "--no-run"),
        ("-d", "stm32f746/tflm", "--no-run"),
        ("-d", "rpi5/litert", *limits),
        ("-d", "stm32f746/tflm", *limits, "--no-remedies"),
    ):
        assert "sizeup devices" not in run("check", keywords, *arguments).out, arguments


def test_the_heading_of_remedies_is_true_of_those_with_unverified_outputs(run: Run, keywords: Path) -> None:
    out = run("check", keywords, "-d", "stm32f746/tflm", "--ram", "21KiB", "--no-run").out
    assert "\nRemedies, each checked again:\n" in out


def test_no_remedy_without_a_solver_says_what_was_not_tried(
    run: Run, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ortools")
    model = shared / "models" / "pmw_alexa.tflite"
    arguments = ("check", model, "-d", "stm32f446/tflm-cmsis-nn", "--ram", "17500B")
    caveat = "no solver is installed; to search for a smaller memory plan: pip install 'sizeup[solve]'"
    assert caveat not in " ".join(run(*arguments).out.split())
    monkeypatch.setitem(sys.modules, "ortools", None)
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    out = " ".join(run(*arguments).out.split())
    assert caveat in out
    assert "No remedy found: no change that was tried" in out


def test_where_nothing_helps_that_is_said(run: Run, keywords: Path) -> None:
    # The input of a file is fixed, and neither its order nor its types change MACs.
    arguments = ("check", keywords, "--macs", "1M")
    assert "No remedy found: no change that was tried reduces the need of this model." in run(*arguments).out
    assert "no change that was tried" in run(*arguments, "--markdown").out
    assert "no change that was tried" not in run(*arguments, "--no-remedies").out
    assert "no change that was tried" not in run("check", keywords, "--macs", "1G").out


def test_an_undetermined_verdict_ends_with_3(run: Run, keywords: Path) -> None:
    ended = run("check", keywords, "-d", "rp2040/tflm")
    assert ended.code == 3
    assert ended.out.startswith("UNDETERMINED: mlperf_kws_int8 (tflite) may or may not fit on rp2040/tflm\n")
    assert "is not known; give that of your board, e.g. --flash 8MB" in " ".join(ended.out.split())
    assert run("check", keywords, "-d", "rp2040/tflm", "--flash", "2MiB").code == 0


def test_a_limit_that_is_exceeded_goes_before_one_that_is_open(run: Run, keywords: Path) -> None:
    assert run("check", keywords, "-d", "rp2040/tflm", "--macs", "1", "--no-remedies").code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.tflite", "-d", "stm32f746"], "no such file"),
        (["-d", "stm32f746"], "give a MODEL with -d TARGET, or --budget FILE"),
        (["KWS"], "give a target (-d TARGET)"),
        (["KWS", "-d", "stm32f764"], "nearest: "),
        (["KWS", "-d", "stm32f746", "--ram", "lots"], "--ram lots: not a size; use e.g. 320KiB"),
        (["KWS", "-d", "stm32f746", "--latency", "20"], "--latency 20: give a unit, e.g. 20ms"),
        (["KWS", "-d", "stm32f746", "--latency", "soon"], "--latency soon: not a time; use e.g. 20ms"),
        (["KWS", "-d", "stm32f746", "--energy", "3"], "--energy 3: give a unit, e.g. 3mJ"),
        (["KWS", "-d", "stm32f746", "--macs", "few"], "--macs few: not a count; use e.g. 20M"),
        (["KWS", "-d", "stm32f746", "--ram", "64k"], "--ram 64k: not a size; use 64KB or 64KiB"),
        (["KWS", "-d", "stm32f746", "--flash", "4mb"], "--flash 4mb: not a size; use 4MB or 4MiB"),
        (["KWS", "--arena", "64 kib"], "--arena 64 kib: not a size; use 64KiB"),
        (["KWS", "-d", "stm32f746", "--latency", "20MS"], "--latency 20MS: not a time; use 20ms"),
        (["KWS", "-d", "stm32f746", "-o", "check.pdf"], "one of these extensions"),
        (["KWS", "-d", "stm32f746", "-o", "nowhere/check.md"], "no such folder"),
        (["KWS", "-d", "stm32f746", "--junit", "check.json"], "JUnit files end in .xml"),
        (["--budget", "missing.toml"], "missing.toml: no such file"),
        (["KWS", "--budget", "b.toml", "-d", "stm32f746"], 'set target = "..." in b.toml'),
        (["KWS", "--budget", "b.toml", "--macs", "1M"], 'set macs = "..." in b.toml'),
        (
            ["KWS", "--budget", "b.toml", "--bind", "N=1"],
            "--bind cannot be combined with --budget; set bind = {...} in b.toml",
        ),
    ],
)
def test_bad_input_ends_with_2_and_one_line(
    arguments: list[str],
    words: str,
    run: Run,
    keywords: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = [str(keywords) if each == "KWS" else each for each in arguments]
    ended = run("check", *source)
    assert ended.code == 2
    assert words in " ".join(ended.err.replace("│", " ").split())
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_operators_without_a_rule_are_printed_and_strict_ends_with_3(run: Run, shared: Path) -> None:
    path = shared / "models" / "tflm_person_detect_vela.tflite"
    plain = run("check", path, "--params", "1M")
    assert plain.code == 0
    assert "1 operator is not counted" in plain.out
    assert run("check", path, "--params", "1M", "--strict").code == 3
    assert run("check", path, "--macs", "1M").code == 3


def test_json_stands_alone_on_stdout(run: Run, keywords: Path) -> None:
    ended = run("check", keywords, "-d", "stm32f746/tflm", "--json")
    result = json.loads(ended.out)
    assert (result["schema_version"], result["fits"], result["target"]) == (2, True, "stm32f746/tflm")
    assert [each["name"] for each in result["limits"]] == ["ram", "flash"]
    several = json.loads(run("check", keywords, keywords, "--params", "1M", "--json").out)
    assert len(several["checks"]) == 2


def test_files_are_written_beside_what_is_printed(run: Run, keywords: Path, tmp_path: Path) -> None:
    xml, text = tmp_path / "check.xml", tmp_path / "check.md"
    ended = run("check", keywords, "--macs", "1M", "--no-remedies", "--junit", xml, "-o", text, "--github")
    assert ended.code == 1
    assert "::error file=" in ended.out
    assert ElementTree.parse(xml).getroot().attrib["failures"] == "1"
    assert "**over**" in text.read_text("utf-8")
    printed = run("check", keywords, "--macs", "1M", "--no-remedies", "--markdown")
    assert printed.out == text.read_text("utf-8")


def test_an_arena_without_a_target_is_that_of_the_reference_kernels(run: Run, shared: Path) -> None:
    """CMSIS-NN needs 18,240 B for this file, the reference kernels 16,272 B."""
    path = shared / "models" / "pmw_alexa.tflite"
    text = " ".join(run("check", path, "--arena", "17KiB", "--no-remedies").out.split())
    assert "assumed arena with TFLite Micro's reference kernels: CMSIS-NN and others may need more" in text
    assert "16,272 B on a 32-bit processor with reference kernels:" in run("analyze", path).out
    named = run("check", path, "--arena", "17KiB", "-d", "stm32f746", "--no-remedies", "--json")
    assert (named.code, "reference kernels" in named.out) == (1, False)


def test_budgets_are_judged_and_summed_up(run: Run, keywords: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budgets.toml"
    budget.write_text(
        '[[budget]]\nmodels = "*.tflite"\nmacs = "1M"\nlayers.conv = { macs = "100k" }\n', "utf-8"
    )
    (tmp_path / "kws.tflite").write_bytes(keywords.read_bytes())
    (tmp_path / "again.tflite").write_bytes(keywords.read_bytes())
    ended = run("check", "--budget", budget)
    assert ended.code == 1
    models = f"{tmp_path / 'again.tflite'}, {tmp_path / 'kws.tflite'}"
    assert ended.out.startswith(f"NO: 0 of 2 models fit, 2 do not ({models})\n")
    text = " ".join(ended.out.split())
    assert "MACs: 2.66 M, 1.66 M (166 %) more than the 1.00 M of *.tflite; largest:" in text
    assert "MACs of layer 'conv': 512 k" in text


def test_github_takes_nothing_that_is_printed_for_people_as_a_command(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    _save_named("::add-mask::" + "s" * 28, path)
    lines = run("check", path, "--macs", "1", "--no-remedies", "--github").out.splitlines()
    result = re.fullmatch("::stop-commands::([0-9a-f]{32})", lines[0])
    assert result is not None
    ended = lines.index(f"::{result[1]}::")
    assert any("add-mask::" in line for line in lines[:ended])
    assert [line[:8] for line in lines[ended + 1 :]] == ["::error "]


def _save_named(name: str, path: Path) -> None:
    """A product of a layer that is called so."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    sizes = {"x": (1, 64), "w": (64, 64), "y": (1, 64)}
    ports = {key: helper.make_tensor_value_info(key, TensorProto.FLOAT, each) for key, each in sizes.items()}
    weight = numpy_helper.from_array(np.zeros(sizes["w"], np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name=name)
    graph = helper.make_graph([node], "net", [ports["x"]], [ports["y"]], [weight])
    onnx.save(helper.make_model(graph), path)
