"""Names in a model that would steer a terminal, a build's log or a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.running import Run
from log_commands import commands

pytestmark = pytest.mark.extras

EVIL = "::error::hostile\n::add-mask::e%0A\x1b[31mred\x07\x1b]0;title\x07\u202eabc\r##[error]"
EVIL += "##vso[task.prependpath]x\n--- group\n##teamcity[x]\nsection_start:1:x\r\x1b[0K"
FORMULA = "=HYPERLINK(1)"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every name that an ONNX file has is hostile."""
    onnx = pytest.importorskip("onnx")
    floats = onnx.TensorProto.FLOAT
    weight = onnx.helper.make_tensor(f"{EVIL}w", floats, [8, 8], [0.5] * 64)
    nodes = [
        onnx.helper.make_node("MatMul", [f"{EVIL}x", f"{EVIL}w"], [f"{EVIL}h"], name=FORMULA),
        onnx.helper.make_node(f"{EVIL}Op", [f"{EVIL}h"], [f"{EVIL}g"], name=f"{EVIL}2", domain=EVIL),
        onnx.helper.make_node("Relu", [f"{EVIL}h"], [f"{EVIL}y"], name=f"{EVIL}3"),
    ]
    ends = [onnx.helper.make_tensor_value_info(f"{EVIL}{name}", floats, [1, 8]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, EVIL, ends[:1], ends[1:], [weight])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(EVIL, 1)]
    path = tmp_path_factory.mktemp("hostile") / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), path)
    return path


@pytest.mark.parametrize(
    "command",
    [
        "analyze MODEL",
        "analyze MODEL --by kind",
        "analyze MODEL --by tree",
        "analyze MODEL -d rpi5/ort",
        "analyze MODEL --strict",
        "compare MODEL MODEL --all",
        "compare MODEL MODEL --markdown",
        "check MODEL --macs 1 --no-remedies",
        "check MODEL --macs 1 --no-remedies --markdown",
        "explain MODEL 1",
        "explain MODEL nothing",
        "plan MODEL",
        "tradeoff MODEL --precisions int8",
    ],
)
def test_no_name_steers_a_terminal_or_a_log(run: Run, model: Path, command: str) -> None:
    done = run(*(model if word == "MODEL" else word for word in command.split()))
    text = done.out + done.err
    assert text
    assert [
        letter for letter in text.replace("\u200b", "") if not letter.isprintable() and letter != "\n"
    ] == []
    assert commands(text) == []


VERBS = ("analyze", "check", "compare", "plan", "tradeoff", "precision")


@pytest.mark.parametrize("verb", VERBS)
def test_json_is_no_command_and_names_are_unchanged(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "##vso[task.prependpath]::error::.onnx"
    onnx = pytest.importorskip("onnx")
    known = onnx.load(model)
    del known.graph.node[1]  # the operator without a cost rule, which has no memory plan
    onnx.save(known, path)
    options = {"compare": [path.name], "check": ["--macs", "1"], "tradeoff": ["--precisions", "int8"]}
    options |= {"precision": ["--weights", "1MiB"]}
    done = run(verb, path.name, *options.get(verb, []), "--json", "-o", "out.json")
    texts = [done.out, *(each.read_text("utf-8") for each in tmp_path.glob("out.json"))]
    assert commands(done.err) == []
    for text in texts:
        assert commands(text) == []
        assert "##" not in text
        assert "::" not in text
        names = list(_strings(json.loads(text)))
        if verb in ("analyze", "compare", "plan"):
            assert any(EVIL in name for name in names)
        else:
            assert any(path.stem in name for name in names) or text is not done.out


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _strings(each)


def test_no_report_of_a_check_is_a_command(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps print them, or hand them on."""
    monkeypatch.chdir(tmp_path)
    name = "##vso[task.prependpath]x ##[error]y.onnx"
    (tmp_path / name).write_bytes(model.read_bytes())
    reports = ["c.json", "c.md", "c.xml", "c.codequality.json"]
    written = [word for report in reports for word in ("-o", report)]
    for further in ([], ["--json"]):
        done = run("check", name, "--macs", "1", "--no-remedies", "--github", "--strict", *further, *written)
        assert done.code == 1
        assert commands("".join((tmp_path / each).read_text("utf-8") for each in reports)) == []
        stop, go, *annotations = commands(done.out + done.err)
        assert stop == f"::stop-commands::{go[2:-2]}"
        assert [line.split()[0] for line in annotations] == ["::error", "::warning"]
        assert not [line for line in annotations if "##vso[" in line or "##[" in line]


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "x\n::error::hostile.onnx", "--macs", "1"],
        ["check", "--budget", "##vso[task.prependpath]x"],
        ["check", "--macs", "##[error]", "x.onnx"],
        ["analyze", "hf:\r::error::x"],
        ["##teamcity[x]"],
        ["analyze", "--##vso[x]"],
    ],
)
def test_no_error_is_a_command(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert done.err
    assert commands(done.out + done.err) == []


def test_what_libraries_print_is_no_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of a factory stands for a library that prints a name from a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "import os, sys\ndef made():\n for out in (sys.stdout, sys.stderr):\n  print('##vso[x]', file=out)\n"
    )
    text += " os.write(2, b'::error::native\\n')\n raise ValueError('\\n::error::raised')\n"
    (tmp_path / "printing_factory.py").write_text(text, "utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run("analyze", "printing_factory:made")
    assert done.code == 2
    assert commands(done.out) == []
    stop, native, go = commands(done.err)
    assert [stop, native] == [f"::stop-commands::{go[2:-2]}", "::error::native"]


def test_annotations_are_the_only_commands(run: Run, model: Path) -> None:
    done = run("check", model, "--macs", "1", "--no-remedies", "--github")
    stop, *_, go, annotation = [line for line in done.out.splitlines() if line.startswith("::")]
    token = stop.removeprefix("::stop-commands::")
    assert go == f"::{token}::"
    assert annotation.startswith("::error file=")
    assert "##[" not in done.out.partition(go)[0]


# As in EVIL, with a space in each command.
EVIL_CELL = ": :error::hostile\n: :add-mask::e%0A\x1b[31mred\x07\x1b]0;title\x07\u202eabc\r## [error]"
EVIL_CELL += "## vso[task.prependpath]x\n --- group\n## teamcity[x]\nsection_start:1:x\r \x1b[0K"


@pytest.mark.parametrize(
    ("options", "formula", "evil"), [([], f"'{FORMULA}", EVIL_CELL), (["--raw-csv"], FORMULA, EVIL)]
)
def test_formulas_and_commands_in_csv_files_are_neutralized_by_default(
    run: Run, model: Path, tmp_path: Path, options: list[str], formula: str, evil: str
) -> None:
    path = tmp_path / "report.csv"
    assert run("analyze", model, "-o", path, *options).code == 0
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [formula, f"{evil}2", f"{evil}3"]
    assert rows[0]["macs"] == "64"


@pytest.mark.parametrize("verb", ["analyze", "plan", "compare", "tradeoff", "precision", "query"])
def test_every_verb_that_writes_csv_can_leave_texts_unchanged(run: Run, verb: str) -> None:
    assert "--raw-csv" in run(verb, "--help").out
