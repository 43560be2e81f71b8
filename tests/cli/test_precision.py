"""`sizeup precision` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sizeup
from cli.running import run_command as run
from cli.test_plan import lines
from networks import FLOAT
from sizeup.errors import WriteError
from sizeup.graph import Constant

pytestmark = pytest.mark.extras


@pytest.fixture
def resnet(shared: Path) -> Path:
    return shared / "models" / "mlperf_resnet8_fp32.tflite"


def test_the_choice_comes_first_then_what_it_takes(resnet: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "mixed.json"
    shown = lines(
        run("precision", resnet, "--weights", "150KiB", "--activations", "100KiB", "-o", mapping, "-q")
    )
    assert shown[0] == "mlperf_resnet8_fp32 (tflite)"
    assert shown[1].startswith("assignment ")
    text = " ".join(shown)
    assert "proven optimal: no assignment has a lower loss" in text
    assert "not measured" in text
    assert "binding weights" in text
    content = json.loads(run("analyze", resnet, "--precision", mapping, "--json").stdout)
    assert content["totals"]["weight_bytes"] <= 150 * 1024
    assert content["memory"]["peak_bytes"] <= 100 * 1024


def test_json_has_figures_and_layers(resnet: Path) -> None:
    content = json.loads(
        run("precision", resnet, "--weights", "100KiB", "--precisions", "fp32,int8", "--json").stdout
    )
    assert content["figures"]["weight_bytes"] <= 102_400 < content["original"]["weight_bytes"]
    assert content["binding"] == ["weight_bytes"]
    assert {each["precision"] for each in content["layers"]} <= {"fp32", "int8"}
    assert content["loss"] == pytest.approx(sum(each["loss"] for each in content["layers"]))


def test_a_recipe_is_written_for_the_quantizer_of_the_format(resnet: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    done = run("precision", resnet, "--weights", "150KiB", "--precisions", "fp32,int8", "--recipe", recipe)
    assert done.returncode == 0
    rules = json.loads(recipe.read_text())
    assert isinstance(rules, list)
    assert {"regex", "operation", "algorithm_key"} <= set(rules[0])


def test_a_front_is_listed_between_two_quantities(resnet: Path, tmp_path: Path) -> None:
    table = tmp_path / "front.csv"
    shown = lines(
        run(
            "precision",
            resnet,
            "--front",
            "loss,weights",
            "--precisions",
            "fp32,int8,int4",
            "-o",
            table,
            "-q",
        )
    )
    assert shown[1].startswith("front ")
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    losses, flash = [float(row[0]) for row in rows], [int(row[1]) for row in rows]
    assert len(rows) >= 5
    assert flash == sorted(flash)
    assert losses == sorted(losses, reverse=True)


def test_losses_may_be_given(resnet: Path, tmp_path: Path) -> None:
    layers = json.loads(run("precision", resnet, "--json").stdout)["layers"]
    losses = tmp_path / "losses.json"
    losses.write_text(
        json.dumps({each["name"]: {"fp32": 0, "int8": 1 + each["op"]} for each in layers}), "utf-8"
    )
    arguments = (
        "precision",
        resnet,
        "--precisions",
        "fp32,int8",
        "--losses",
        losses,
        "--weights",
        "250KiB",
        "--json",
    )
    content = json.loads(run(*arguments).stdout)
    assert content["loss_basis"] == "from the given losses"
    assert content["loss"] == int(content["loss"])


def test_types_that_fit_are_starred_and_those_that_never_do_are_warned_of(resnet: Path) -> None:
    shown = lines(run("precision", resnet, "--fits", "16KiB"))
    assert any(line.startswith("warning ") for line in shown) is False
    assert any("16.0 KiB*" in line for line in shown)
    tight = lines(run("precision", resnet, "--fits", "3KiB"))
    assert any("fit at no precision" in line for line in tight)


def test_working_set_needs_no_quotes(resnet: Path) -> None:
    hyphenated, spaced = (
        run("precision", resnet, "--fits", "16KiB", "--measure", name).stdout
        for name in ("working-set", "working set")
    )
    assert "working set" in hyphenated
    assert hyphenated == spaced


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--weights", "1KiB"), "; the minimum is"),
        (("--weights", "1KiB", "--precisions", "int8"), "KiB or more, or narrower --precisions"),
        (("--weights", "1 kg"), "--weights 1 kg: not a size; use e.g. 320KiB"),
        (("--front", "loss,speed"), "a front needs two of"),
        (("--latency", "1ms"), "needs a target (-d)"),
        (("--precisions", "int9"), "unknown precision"),
        (("--fits", "1KiB", "--measure", "weight"), "unknown measure"),
        (("-d", "rpi5/litert", "--precisions", "int2"), "has no kernels for any of int2"),
        (("-o", "mixed.csv"), "use this extension"),
        (("--losses", "nothing.json"), "nothing.json: no such file"),
    ],
)
def test_errors_are_printed_on_one_line(arguments: tuple[str, ...], message: str, resnet: Path) -> None:
    done = run("precision", resnet, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_map_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    """Its names are longer than a file of settings may be."""
    builder = sizeup.GraphBuilder("m")
    x = builder.input("x", (1, 4), FLOAT)
    for number in range(20):
        weight = builder.tensor(f"w{number}", (4, 4), FLOAT, Constant("parameter"))
        y = builder.tensor(f"y{number}", (1, 4), FLOAT)
        builder.op("matmul", [x, weight], [y], name="n" * 1_000_000 + str(number))
        x = y
    builder.outputs.append(x)
    chosen = sizeup.precision.choose(builder.freeze(), weights="500B", sensitivity="analytic")
    mapping = tmp_path / "map.json"
    with pytest.raises(WriteError, match=r"not written, because sizeup could not read it: .*larger than"):
        chosen.save(mapping)
    assert not mapping.exists()
