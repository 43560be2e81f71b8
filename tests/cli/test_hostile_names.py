"""Names in a model that would steer a terminal, a build's log or a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cli.running import Run

pytestmark = pytest.mark.extras

EVIL = "::error::hostile\n::add-mask::e%0A\x1b[31mred\x07\x1b]0;title\x07\u202eabc\r##[error]"
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
    assert [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line] == []


def test_annotations_are_the_only_commands(run: Run, model: Path) -> None:
    done = run("check", model, "--macs", "1", "--no-remedies", "--github")
    stop, *_, go, annotation = [line for line in done.out.splitlines() if line.startswith("::")]
    token = stop.removeprefix("::stop-commands::")
    assert go == f"::{token}::"
    assert annotation.startswith("::error file=")
    assert "##[" not in done.out.partition(go)[0]


@pytest.mark.parametrize(("options", "expected"), [([], f"'{FORMULA}"), (["--raw-csv"], FORMULA)])
def test_formulas_in_csv_files_are_neutralized_by_default(
    run: Run, model: Path, tmp_path: Path, options: list[str], expected: str
) -> None:
    path = tmp_path / "report.csv"
    assert run("analyze", model, "-o", path, *options).code == 0
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [expected, f"{EVIL}2", f"{EVIL}3"]
    assert rows[0]["macs"] == "64"


@pytest.mark.parametrize("verb", ["analyze", "plan", "compare", "tradeoff", "precision", "query"])
def test_every_verb_that_writes_csv_can_leave_texts_unchanged(run: Run, verb: str) -> None:
    assert "--raw-csv" in run(verb, "--help").out
