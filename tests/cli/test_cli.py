"""The command line as its users meet it: what is printed where, and with which code it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sizeup
from blessed import assert_golden
from cli.running import Ended, Run

ROOT = Path(__file__).resolve().parents[2]
VERBS = (
    "analyze",
    "calibrate",
    "check",
    "compare",
    "demo",
    "devices",
    "explain",
    "llm",
    "measure",
    "ops",
    "optimize",
    "plan",
    "precision",
    "query",
    "sweep",
    "tradeoff",
)


def process(*arguments: str, **environment: str) -> Ended:
    """Run the command line in a subprocess."""
    done = subprocess.run(
        [sys.executable, "-m", "sizeup", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def opaque(shared: Path) -> Path:
    """A real model with an operator that only its compiler knows."""
    pytest.importorskip("ai_edge_litert")
    return shared / "models" / "tflm_person_detect_vela.tflite"


def test_alone_it_says_what_to_type(run: Run) -> None:
    ended = run()
    assert ended.code == 0
    shown = [line for line in ended.out.splitlines() if line.startswith("  sizeup ")]
    assert {line.split()[1] for line in shown} <= set(VERBS)
    assert {"check", "analyze", "compare", "sweep"} <= {line.split()[1] for line in shown}
    # What each does stands in one column.
    assert len({len(line) - len(line.split("  ")[-1].lstrip()) for line in shown}) == 1
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize("verb", [[], *([name] for name in VERBS)], ids=str)
def test_help_has_an_example(run: Run, verb: list[str]) -> None:
    ended = run(*verb, "--help")
    assert ended.code == 0
    assert "Example: sizeup " in ended.out


def test_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version").out == f"sizeup {sizeup.__version__}\n"


def test_help_needs_no_heavy_package() -> None:
    code = (
        "import sys\n"
        "from sizeup.cli import main\n"
        "try:\n    main(['analyze', '--help'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'numpy', 'torch', 'onnx', 'pandas', 'ai_edge_litert'}\n"
        "print(*sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze", "nowhere.onnx"], "no such file"),
        (["analyze", "README.md"], "unknown model format"),
        (["analyze", "."], "is a folder"),
        (["explain", "nowhere.tflite", "0"], "no such file"),
        (["ops", "Convv"], "nearest: Conv"),
        (["analyze", "x.onnx", "--rules", "nowhere.py"], "nowhere.py: no such file"),
        (["analyze", "x.onnx", "-o", "report.docx"], ".json, .csv, .md, .html"),
    ],
)
def test_bad_input_exits_2_with_one_line_on_stderr(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(ROOT)
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.startswith("sizeup: ")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze"],
        ["analyse", "x.onnx"],
        ["analyze", "x.onnx", "--by", "color"],
        ["analyze", "x.onnx", "--bind", "batch"],
        ["analyze", "x.onnx", "--bind", "batch=many"],
        ["analyze", "x.onnx", "--input", "x:1x3xH"],
        ["analyze", "x.onnx", "--input", "x:1x3:float33"],
        ["analyze", "x.onnx", "--top", "0"],
        ["analyze", "x.onnx", "--depth", "2", "--by", "op"],
    ],
    ids=str,
)
def test_wrong_usage_exits_2_and_prints_no_result(run: Run, arguments: list[str]) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err


@pytest.mark.parametrize("precision", ["fp33", "INT9"])
def test_unknown_precision_lists_those_there_are(run: Run, precision: str) -> None:
    ended = run("analyze", "x.onnx", "--precision", precision)
    assert ended.code == 2
    assert "int8" in ended.err


def test_interruption_exits_130(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("raise KeyboardInterrupt")
    ended = run("ops", "--rules", rules)
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err


def test_fault_of_our_own_does_not_look_like_a_failed_check(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("import sizeup.render.console.ops\nsizeup.render.console.ops.find = None")
    import sizeup.render.console.ops as reference

    kept = reference.find
    try:
        ended = run("ops", "--rules", rules)
    finally:
        reference.find = kept
    assert ended.code == 70
    assert "please report" in ended.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def (", "SyntaxError"),
        ("import no_such_package", "no_such_package"),
        ("import sizeup\n@sizeup.op_rule('conv')\ndef again(call): return 1", "already"),
    ],
)
def test_broken_rules_are_named_without_a_traceback(
    run: Run, tmp_path: Path, text: str, message: str
) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(text)
    ended = run("ops", "--rules", rules)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.skipif(os.name == "nt", reason="pipes break differently there")
@pytest.mark.parametrize("arguments", [["ops"], ["ops", "--markdown"]], ids=str)
def test_closed_pipe_is_met_quietly(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "sizeup", *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_shell_completes_verbs() -> None:
    ended = process(_SIZEUP_COMPLETE="complete_bash", COMP_WORDS="sizeup an", COMP_CWORD="1")
    assert ended.out.split() == ["analyze"]


@pytest.mark.slow
def test_colors_are_left_out_where_they_are_not_wanted() -> None:
    plain = process("ops", "Conv")
    colorful = process("ops", "Conv", FORCE_COLOR="1", TERM="xterm-256color")
    unwanted = process("ops", "Conv", FORCE_COLOR="1", TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b[" not in plain.out
    assert "\x1b[36m" in colorful.out
    assert "\x1b[36m" not in unwanted.out


def test_ops_finds_a_rule_under_any_of_its_names(run: Run) -> None:
    for name in ("conv", "Conv", "CONV_2D", "aten.conv2d"):
        ended = run("ops", name)
        assert ended.code == 0
        assert "filter taps x input channels" in ended.out
    assert "hardswish" in run("ops", "hard*").out
    assert "svdf" in run("ops", "recurrent").out


def test_ops_lists_every_kind_within_80_columns(run: Run) -> None:
    out = run("ops").out
    for kind in ("conv", "attention", "lstm", "softmax", "embedding"):
        assert f"  {kind} " in out
    assert max(map(len, out.splitlines())) <= 80


def test_operator_reference_of_the_docs_is_current() -> None:
    output = process("ops", "--markdown")
    kept = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert output.out == kept, "run: sizeup ops --markdown > docs/operators.md"


def test_rules_from_a_file_appear_in_the_reference(tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "import sizeup\n\n"
        "@sizeup.op_rule('fancy', torch=('mylib.fancy',))\n"
        "def fancy(call):\n"
        '    """Nine for each output number."""\n'
        "    return 9 * call.output.elements\n"
    )
    assert "Nine for each output number." in process("ops", "mylib.fancy", "--rules", str(rules)).out


@pytest.mark.extras
@pytest.mark.parametrize("width", ["80", "160"])
def test_report_of_a_real_model_is_kept(
    run: Run, keywords: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    ended = run("analyze", keywords)
    assert (ended.code, ended.err) == (0, "")
    assert_golden(f"{keywords.stem}.{width}.txt", ended.out)


@pytest.mark.extras
def test_json_alone_is_on_stdout(run: Run, keywords: Path, tmp_path: Path) -> None:
    chatty = tmp_path / "chatty.py"
    chatty.write_text("print('hello from the rules')")
    ended = run("analyze", keywords, "--json", "--rules", chatty)
    data = json.loads(ended.out)
    # By hand: 49x10 to 25x5 by 10x4 taps and 64 filters, four depthwise-separable blocks, 64 to 12.
    positions = 25 * 5
    assert data["totals"]["macs"] == positions * (64 * 40 + 4 * (64 * 9 + 64 * 64)) + 64 * 12
    assert data["coverage"]["share"] == 1
    assert "hello from the rules" in ended.err


@pytest.mark.extras
def test_digest_is_that_of_the_file(run: Run, keywords: Path, shared: Path) -> None:
    lines = (shared / "models" / "SHA256SUMS").read_text().splitlines()
    kept = {name: digest for digest, name in (line.split() for line in lines)}
    digest = json.loads(run("analyze", keywords, "--json").out)["model"]["sha256"]
    assert digest == kept[keywords.name]


@pytest.mark.extras
def test_files_are_written_beside_the_table(run: Run, keywords: Path, tmp_path: Path) -> None:
    targets = [tmp_path / f"report{suffix}" for suffix in (".json", ".csv", ".md", ".html")]
    ended = run("analyze", keywords, *(each for path in targets for each in ("-o", path)))
    assert ended.code == 0
    assert "13 of 13 operators counted" in ended.out
    assert json.loads(targets[0].read_text())["coverage"]["ops"] == 13
    assert len(targets[1].read_text().splitlines()) == 14
    assert "13 of 13 operators counted" in targets[2].read_text()
    assert "13 of 13 operators counted" in targets[3].read_text("utf-8")


@pytest.mark.extras
def test_rows_are_those_requested(run: Run, keywords: Path) -> None:
    kinds = run("analyze", keywords, "--by", "kind").out
    assert "conv" in kinds
    assert "functional_1" not in kinds.partition("\n\n")[2]
    assert "functional_1 " in run("analyze", keywords, "--depth", "1").out
    assert "(11 more operators)" in run("analyze", keywords, "--by", "op", "--top", "2").out


@pytest.mark.extras
def test_precision_prices_the_bytes(run: Run, keywords: Path) -> None:
    wide = json.loads(run("analyze", keywords, "--json", "--precision", "fp32").out)
    assert wide["totals"]["weight_bytes"] == 4 * wide["totals"]["params"]
    assert {op["precision"] for op in wide["ops"]} == {"fp32"}


@pytest.mark.extras
def test_unknown_operator_is_shown_and_strict_exits_3(run: Run, opaque: Path, tmp_path: Path) -> None:
    ended = run("analyze", opaque)
    assert ended.code == 0
    assert "0 of 1 operator counted" in ended.out
    assert "1 x ethos-u: no cost rule for ethos-u" in ended.out
    strict = run("analyze", opaque, "--strict", "--json", "-o", tmp_path / "report.json")
    assert (strict.code, strict.out) == (3, "")
    assert "ethos-u" in strict.err
    assert not (tmp_path / "report.json").exists()


@pytest.mark.slow
@pytest.mark.extras
def test_rule_of_a_user_makes_it_complete(opaque: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "import sizeup\n\n"
        "@sizeup.op_rule('ethos-u', tflite=('ethos-u',))\n"
        "def compiled(call: sizeup.Call) -> sizeup.Dim:\n"
        '    """What the compiler reported."""\n'
        "    return 7_157_888\n"
    )
    ended = process("analyze", str(opaque), "--strict", "--rules", str(rules))
    assert (ended.code, ended.err) == (0, "")
    assert "7,157,888" in ended.out
    explained = process("explain", str(opaque), "0", "--rules", str(rules))
    assert "What the compiler reported." in explained.out


@pytest.mark.extras
def test_explanation_of_a_real_operator_is_kept(run: Run, keywords: Path) -> None:
    ended = run("explain", keywords, "0")
    assert (ended.code, ended.err) == (0, "")
    assert_golden(f"{keywords.stem}.explain.txt", ended.out)


@pytest.mark.extras
def test_explaining_a_name_that_is_not_there_exits_2_with_the_nearest(run: Run, keywords: Path) -> None:
    ended = run("explain", keywords, "functional_1/activaton_3")
    assert (ended.code, ended.out) == (2, "")
    assert "functional_1/activation_3" in ended.err
