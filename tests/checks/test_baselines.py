"""Baselines: one compact file for a registry, what is judged against it, and what breaks it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import sizeup
from checks.products import save_product
from sizeup.checks import read_baselines
from sizeup.errors import BudgetError, SizeupError
from sizeup.render.console.check import notices

pytestmark = pytest.mark.extras


def _registry(folder: Path, **sizes: int) -> Path:
    """Models of size x size MACs, and a budget that allows them no growth."""
    for name, size in sizes.items():
        save_product(folder / "models" / f"{name}.onnx", size)
    path = folder / "budgets.toml"
    path.write_text(
        '[[budget]]\nmodels = "models/*.onnx"\ngrowth = { macs = "0%", params = "10%" }\n', "utf-8"
    )
    return path


def test_an_update_writes_one_short_line_per_model_and_is_then_judged_against(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, b=10, a=8)
    assert all(each.fits for each in sizeup.check_budgets(budgets, update_baselines=True))
    text = (tmp_path / "baselines.json").read_text("utf-8")
    assert text.splitlines() == [
        '{"format": "sizeup baselines", "version": 1, "models": [',
        '{"model": "models/a.onnx", "macs": 64, "params": 64},',
        '{"model": "models/b.onnx", "macs": 100, "params": 100}',
        "]}",
    ]
    for check in sizeup.check_budgets(budgets):
        assert (check.fits, check.no_baseline_reason, [each.need for each in check.limits]) == (
            True,
            "",
            [0.0, 0.0],
        )
    sizeup.check_budgets(budgets, update_baselines=True)
    assert (tmp_path / "baselines.json").read_text("utf-8") == text


def test_growth_is_a_share_of_the_baseline(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, a=20)
    sizeup.check_budgets(budgets, update_baselines=True)
    save_product(tmp_path / "models" / "a.onnx", 21)
    (grown,) = sizeup.check_budgets(budgets)
    # From 400 to 441.
    assert [(each.name, each.need, each.fits) for each in grown.limits] == [
        ("growth of macs", 0.1025, False),
        ("growth of params", 0.1025, False),
    ]
    growth = grown.to_dict()["limits"][0]["growth"]
    assert growth == {"unit": "count", "before": 400, "now": 441}


@pytest.mark.parametrize(("policy", "fits"), [("", None), ("ask", None), ("allow", True), ("deny", False)])
def test_a_model_without_a_baseline_is_new_and_judged_by_the_policy(
    policy: str, fits: bool | None, tmp_path: Path
) -> None:
    budgets = _registry(tmp_path, a=8)
    with budgets.open("a", encoding="utf-8") as file:
        file.write(f'new = "{policy}"\n' if policy else "")
    sizeup.check_budgets(budgets, update_baselines=True)
    save_product(tmp_path / "models" / "b.onnx", 8)
    old, new = sizeup.check_budgets(budgets)
    assert (old.no_baseline_reason, new.fits, new.error) == ("", fits, "")
    assert new.no_baseline_reason.startswith("not in baselines.json; to add it: sizeup check --budget ")
    assert new.to_dict()["no_baseline_reason"] == new.no_baseline_reason


def test_a_baseline_that_can_be_lowered_is_reported_until_it_is(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, a=40)
    sizeup.check_budgets(budgets, update_baselines=True)
    assert list(notices(sizeup.check_budgets(budgets)[0])) == []
    save_product(tmp_path / "models" / "a.onnx", 32)
    (lower,) = sizeup.check_budgets(budgets)
    assert lower.fits is True
    assert [each.text for each in notices(lower)] == [
        (
            "baseline can be lowered: MACs 1.60 k to 1.02 k, parameters 1.60 k to 1.02 k;"
            f" run sizeup check --budget {budgets} --update-baselines"
        )
    ]
    sizeup.check_budgets(budgets, update_baselines=True)
    assert list(notices(sizeup.check_budgets(budgets)[0])) == []


def test_amounts_that_round_to_the_same_are_shown_to_the_last_digit(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, a=1000)
    sizeup.check_budgets(budgets, update_baselines=True)
    path = tmp_path / "baselines.json"
    path.write_text(path.read_text("utf-8").replace('"macs": 1000000', '"macs": 1000001'), "utf-8")
    assert "lowered: MACs 1,000,001 to 1,000,000;" in next(notices(sizeup.check_budgets(budgets)[0])).text


def test_an_update_keeps_the_lines_of_models_that_it_did_not_measure(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, a=8, b=8, c=8, d=8)
    sizeup.check_budgets(budgets, update_baselines=True)
    for name in "bc":
        save_product(tmp_path / "models" / f"{name}.onnx", 4)
    (tmp_path / "models" / "a.onnx").write_bytes(b"garbage")
    (tmp_path / "models" / "d.onnx").unlink()
    sizeup.check_budgets(budgets, [str(tmp_path / "models" / "b.onnx")], update_baselines=True)
    assert _macs(tmp_path) == {"models/a.onnx": 64, "models/b.onnx": 16, "models/c.onnx": 64}
    sizeup.check_budgets(budgets, update_baselines=True)
    assert _macs(tmp_path) == {"models/a.onnx": 64, "models/b.onnx": 16, "models/c.onnx": 16}


def _macs(folder: Path) -> dict[str, int]:
    content = json.loads((folder / "baselines.json").read_text("utf-8"))
    return {each["model"]: each["macs"] for each in content["models"]}


def test_targets_and_precisions_have_lines_of_their_own(shared: Path, tmp_path: Path) -> None:
    shutil.copy(shared / "models" / "mlperf_kws_int8.tflite", tmp_path / "kws.tflite")
    head = '[[budget]]\nmodels = "kws.tflite"\n'
    growth = 'growth = { latency = "1%", arena = "0%" }\n'
    path = tmp_path / "budgets.toml"
    path.write_text(f'{head}target = "rpi5/litert"\n{growth}{head}precision = "fp32"\n{growth}', "utf-8")
    checks = sizeup.check_budgets(path, update_baselines=True)
    lines = json.loads((tmp_path / "baselines.json").read_text("utf-8"))["models"]
    amounts = ("latency", "arena", "digest")
    assert [{key: line[key] for key in line if key not in amounts} for line in lines] == [
        {"model": "kws.tflite", "precision": "fp32"},
        {"model": "kws.tflite", "target": "rpi5/litert"},
    ]
    # An estimate of time needs a target: it is missing, not zero.
    assert ["latency" in line for line in lines] == [False, True]
    # The arena of floats is a range: only an unchanged model is known to have grown by 0.
    assert ["digest" in line for line in lines] == [True, False]
    assert [each.fits for each in checks] == [True, None]
    (other,) = (c for c in sizeup.check_budgets(_retargeted(path)) if c.target == "rpi4/litert")
    assert other.no_baseline_reason


def _retargeted(path: Path) -> Path:
    path.write_text(path.read_text("utf-8").replace("rpi5", "rpi4"), "utf-8")
    return path


def test_what_was_nothing_may_not_become_something(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, a=8)
    sizeup.check_budgets(budgets, update_baselines=True)
    path = tmp_path / "baselines.json"
    path.write_text(path.read_text("utf-8").replace('"macs": 64', '"macs": 0'), "utf-8")
    (result,) = sizeup.check_budgets(budgets)
    assert result.fits is False
    assert result.to_dict()["limits"][0]["need"] is None
    result.save(tmp_path / "check.json")


def test_a_report_of_one_model_is_refused_with_the_command_that_replaces_it(tmp_path: Path) -> None:
    budgets = _registry(tmp_path, a=8)
    sizeup.analyze(tmp_path / "models" / "a.onnx").save(tmp_path / "baselines.json")
    (result,) = sizeup.check_budgets(budgets)
    assert re.search(
        "a report of sizeup analyze, not a baselines file; .* sizeup check --budget .* --update-baselines",
        result.error,
    )
    sizeup.check_budgets(budgets, update_baselines=True)
    assert sizeup.check_budgets(budgets)[0].fits is True


def _with(**amounts: Any) -> str:
    entry = {"model": "a", **amounts}
    return json.dumps({"format": "sizeup baselines", "version": 1, "models": [entry]})


_DAMAGED = {
    "": "not a JSON file",
    "<<<<<<< HEAD": "not a JSON file",
    "[" * 100_000: "not a JSON file",
    "[]": "not a baselines file; delete it, then: COMMAND",
    '{"name": "a package", "version": 1}': "not a baselines file",
    '{"format": "sizeup baselines", "version": 2}': "unknown version 2; update sizeup",
    '{"format": "sizeup baselines", "version": 1}': "'models' is not a list",
    '{"format": "sizeup baselines", "version": 1, "models": [3]}': "entry 1 of models has no 'model'",
    _with(macs="5"): "macs is 5, not a valid amount",
    _with(macs=True): "macs is True, not a valid amount",
    _with(macs=-1): "macs is -1",
    _with(macs=10**400): f"macs is 1{'0' * 39}, not a valid amount",
    _with(macs=float("inf")): "macs is inf",
    _with(macs=float("nan")): "macs is nan",
    _with(macs=5e-324): "macs is 5e-324",
    _with(macs=None): "macs is None",
    _with(bind={"batch": "1"}): "bind a table of sizes",
    _with(target=3): "target and precision must be strings",
    _with().replace("}]", '}, {"model": "a"}]'): "entry 2 of models repeats 'a'",
}


@pytest.mark.parametrize("content", _DAMAGED, ids=range(len(_DAMAGED)))
def test_a_file_that_is_damaged_is_refused_in_one_sentence(content: str, tmp_path: Path) -> None:
    path = tmp_path / "baselines.json"
    path.write_text(content, "utf-8")
    for is_replaced in (False, True):  # an update overwrites nothing that it does not understand
        with pytest.raises(BudgetError, match=re.escape(_DAMAGED[content])) as raised:
            read_baselines(path, "COMMAND", is_replaced=is_replaced)
        assert str(raised.value).startswith(str(path))


def test_a_failed_update_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = _registry(tmp_path, a=8)
    sizeup.check_budgets(budgets, update_baselines=True)
    before = (tmp_path / "baselines.json").read_bytes()
    save_product(tmp_path / "models" / "a.onnx", 4)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(sizeup.SizeupError, match="cannot be written"):
        sizeup.check_budgets(budgets, update_baselines=True)
    assert (tmp_path / "baselines.json").read_bytes() == before
    assert [each.name for each in tmp_path.glob(".baselines*")] == []


@pytest.mark.parametrize("name", ["baselines.json", "folder/new.json"])
def test_baselines_are_not_written_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Wherever the command runs, a link may not leave the folder of the budget file."""
    monkeypatch.chdir(tmp_path)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    budgets = _registry(checkout, a=8)
    budgets.write_text(
        budgets.read_text("utf-8").replace("growth =", f'baseline = "{name}"\ngrowth ='), "utf-8"
    )
    outside = tmp_path / "outside"
    outside.mkdir()
    (checkout / "folder").symlink_to(outside)
    (checkout / "baselines.json").symlink_to(outside / "baselines.json")
    with pytest.raises(SizeupError, match=r"a link leads to|leads outside the folder"):
        sizeup.check_budgets(budgets, update_baselines=True)
    assert list(outside.iterdir()) == []
