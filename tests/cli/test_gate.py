"""`sizeup check` over several models: each gets a verdict or an error, in every output."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checks.products import save_product
from cli.running import Run

pytestmark = pytest.mark.extras

_LARGE, _UNKNOWN = 100, 4


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three models of 64 MACs, and budgets for every model of the folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "c"):
        save_product(tmp_path / f"{name}.onnx", 8)
    (tmp_path / "budgets.toml").write_text('[[budget]]\nmodels = "*.onnx"\nmacs = 64\n', "utf-8")
    return tmp_path


def test_a_garbage_file_costs_no_other_model_its_verdict(run: Run, registry: Path) -> None:
    (registry / "bad.onnx").write_bytes(b"\x00garbage" * 9)
    outputs = ["-o", "check.json", "-o", "check.md", "--junit", "check.xml", "-o", "check.codequality.json"]
    ended = run("check", "--budget", "budgets.toml", *outputs, "--github")
    assert ended.code == 1
    assert "ERROR: 3 of 4 models fit, 1 could not be checked (bad.onnx)\n" in ended.out
    lines = ended.out.splitlines()
    assert [line for line in lines if line.startswith("YES: ")] == [
        f"YES: {name}.onnx (onnx) is within its limits" for name in "abc"
    ]
    assert "ERROR: bad.onnx could not be checked" in lines
    annotations = [line for line in lines if line.startswith(("::error ", "::warning ", "::notice "))]
    assert len(annotations) == 1
    assert annotations[0].startswith("::error file=bad.onnx,title=bad.onnx%3A error::bad.onnx: not an ONNX")

    data = json.loads((registry / "check.json").read_text("utf-8"))
    assert data["fits"] is False
    assert [(each["model"]["source"], each["fits"], bool(each["error"])) for each in data["checks"]] == [
        ("a.onnx", True, False),
        ("b.onnx", True, False),
        ("bad.onnx", None, True),
        ("c.onnx", True, False),
    ]
    assert data["counts"] == {
        "fits": 3,
        "does not fit": 0,
        "undetermined": 0,
        "error": 1,
        "removed": 0,
        "edited": 0,
        "new": 0,
    }

    suites = ElementTree.parse(registry / "check.xml").getroot()
    assert (suites.attrib["tests"], suites.attrib["errors"], suites.attrib["failures"]) == ("4", "1", "0")
    assert [suite.attrib["name"] for suite in suites if suite.find("testcase/error") is not None] == [
        "bad.onnx"
    ]

    comment = (registry / "check.md").read_text("utf-8")
    assert comment.startswith(
        "## ERROR: 3 of 4 models fit, 1 could not be checked (bad.onnx)\n\n### ERROR: bad.onnx"
    )
    assert [line.split(" | ")[0] for line in comment.splitlines() if "| YES |" in line] == [
        "| a.onnx",
        "| b.onnx",
        "| c.onnx",
    ]
    (issue,) = json.loads((registry / "check.codequality.json").read_text("utf-8"))
    assert issue["description"].startswith("bad.onnx: not an ONNX")
    assert (issue["check_name"], issue["location"]["path"]) == ("sizeup-error", "bad.onnx")


def test_models_of_one_name_in_two_folders_are_distinguished(run: Run, registry: Path) -> None:
    for folder in ("x", "y"):
        save_product(registry / folder / "model.onnx", 8)
    limits = [("first", 64), ("second", 32), ("second", 16)]
    tables = [
        f'[[budget]]\nname = "{name}"\nmodels = "*/model.onnx"\nmacs = {most}\n' for name, most in limits
    ]
    unmatched = '[[budget]]\nmodels = "none/*.onnx"\nparams = 1\n'
    (registry / "budgets.toml").write_text("".join([*tables, unmatched]), "utf-8")
    ended = run("check", "--budget", "budgets.toml", "-o", "check.md", "--junit", "check.xml")
    summary = (
        "NO: 0 of 3 models fit, 2 do not (x/model.onnx, y/model.onnx), 1 could not be checked (none/*.onnx)"
    )
    assert ended.code == 1
    assert " ".join(ended.out.split()).startswith(summary)
    comment = (registry / "check.md").read_text("utf-8")
    for folder in ("x", "y"):
        heading = f"NO: {folder}/model.onnx (onnx) is over its limits"
        assert heading in ended.out
        assert heading in comment
    assert "ERROR: none/*.onnx could not be checked" in ended.out
    cases = [
        (case.attrib["classname"], case.attrib["name"])
        for case in ElementTree.parse("check.xml").iter("testcase")
    ]
    names = ("MACs (first)", "MACs (second)", "MACs (second) #2")
    assert cases == [
        *((f"{folder}/model.onnx", name) for folder in ("x", "y") for name in names),
        ("none/*.onnx", "checked"),
    ]
    alone = run("check", "--budget", "budgets.toml", "x/model.onnx", "--json")
    assert json.loads(alone.out)["checks"][0]["model"]["name"] == "model"


def test_models_that_are_named_one_by_one_are_judged_alike(run: Run, registry: Path) -> None:
    (registry / "bad.onnx").write_bytes(b"garbage")
    ended = run("check", "a.onnx", "bad.onnx", "missing.onnx", "c.onnx", "--macs", "64", "--json")
    assert ended.code == 1
    answers = [each["verdict"] for each in json.loads(ended.out)["checks"]]
    assert answers == ["fits", "error", "error", "fits"]


@pytest.mark.parametrize(
    ("models", "code"),
    [
        (["fits"], 0),
        (["over"], 1),
        (["open"], 3),
        (["bad"], 2),
        (["bad", "bad2"], 2),
        (["fits", "over"], 1),
        (["fits", "open"], 3),
        (["fits", "bad"], 1),
        (["over", "open"], 1),
        (["over", "bad"], 1),
        (["open", "bad"], 1),
        (["fits", "open", "over", "bad"], 1),
    ],
)
def test_exit_codes(models: list[str], code: int, run: Run, tmp_path: Path) -> None:
    save_product(tmp_path / "fits.onnx", 8)
    save_product(tmp_path / "over.onnx", _LARGE)
    _save_uncounted(tmp_path / "open.onnx")
    for name in ("bad", "bad2"):
        (tmp_path / f"{name}.onnx").write_bytes(b"garbage")
    arguments = ["--macs", "64", "--no-remedies"]
    assert run("check", *(tmp_path / f"{name}.onnx" for name in models), *arguments).code == code
    budget = tmp_path / "budgets.toml"
    listed = json.dumps([f"{name}.onnx" for name in models])
    budget.write_text(f"[[budget]]\nmodels = {listed}\nmacs = 64\n", "utf-8")
    assert run("check", "--budget", budget).code == code


def _save_uncounted(path: Path) -> None:
    """An operator of an unknown domain."""
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, _UNKNOWN)) for name in "xy")
    node = helper.make_node("Fancy", ["x"], ["y"], domain="mylib")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mylib", 1)]
    onnx.save(helper.make_model(helper.make_graph([node], "open", [x], [y]), opset_imports=opsets), path)


def test_flags_of_the_command_line_hold_for_every_budget(run: Run, registry: Path) -> None:
    _save_uncounted(registry / "open.onnx")
    budget = '[[budget]]\nmodels = "open.onnx"\nparams = "1M"\n'
    (registry / "budgets.toml").write_text(budget, "utf-8")
    assert run("check", "--budget", "budgets.toml").code == 0
    assert run("check", "--budget", "budgets.toml", "--strict").code == 3
    (registry / "budgets.toml").write_text(f"{budget}strict = true\n", "utf-8")
    assert run("check", "--budget", "budgets.toml", "--expected").code == 3


def test_expected_on_the_command_line_decides_a_budget_of_the_latency(run: Run, registry: Path) -> None:
    save_product(registry / "large.onnx", 2000)
    arguments = ("check", "large.onnx", "-d", "rpi5/litert", "--latency", "1s", "--no-remedies", "--json")
    limits = json.loads(run(*arguments).out)["limits"]
    latency = next(each for each in limits if each["name"] == "latency")
    assert latency["need_low"] < latency["need"] < latency["need_high"]
    allowed = (latency["need"] + latency["need_high"]) / 2
    (registry / "budgets.toml").write_text(
        f'[[budget]]\nmodels = "large.onnx"\ntarget = "rpi5/litert"\nlatency = "{allowed * 1e6:.3f} us"\n',
        "utf-8",
    )
    ended = run("check", "--budget", "budgets.toml")
    assert ended.code == 3
    assert "; expected = true compares the expected " in " ".join(ended.out.split())
    assert run("check", "--budget", "budgets.toml", "--expected").code == 0


def test_the_error_names_the_budget_setting_for_symbolic_dimensions(run: Run, registry: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ("N", "past seq")) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "open.onnx")
    budget = '[[budget]]\nmodels = "open.onnx"\nparams = "1M"\n'
    (registry / "budgets.toml").write_text(budget, "utf-8")
    ended = run("check", "--budget", "budgets.toml")
    setting = 'bind = { N = 1, "past seq" = 1 }'
    assert ended.code == 2
    assert f"add {setting} to the [[budget]]" in " ".join(ended.err.split())
    assert ended.err.count("open.onnx: ") == 1
    assert "--bind" not in ended.err
    (registry / "budgets.toml").write_text(f"{budget}{setting}\n", "utf-8")
    assert run("check", "--budget", "budgets.toml").code == 0


def test_where_nothing_was_judged_errors_go_to_stderr_and_files_are_still_written(
    run: Run, registry: Path
) -> None:
    (registry / "bad.onnx").write_bytes(b"garbage")
    ended = run("check", "bad.onnx", "missing.onnx", "--macs", "64", "--junit", "check.xml")
    assert (ended.code, ended.out) == (2, "")
    lines = [line for line in ended.err.splitlines() if line.startswith("sizeup: ")]
    assert [line.split(":")[1] for line in lines] == [" bad.onnx", " missing.onnx"]
    assert ElementTree.parse("check.xml").getroot().attrib["errors"] == "2"


def test_options_that_are_wrong_for_all_models_are_one_error(run: Run, registry: Path) -> None:
    for wrong in (
        ["-d", "nonesuch"],
        ["--ram", "1KiB"],
        ["--macs", "many"],
        ["--macs", "1", "--precision", "x"],
    ):
        ended = run("check", "a.onnx", "b.onnx", *wrong)
        assert (ended.code, ended.out) == (2, ""), wrong
        assert len([line for line in ended.err.splitlines() if line.startswith("sizeup: ")]) == 1, wrong


def test_a_budget_without_any_file_costs_no_other_its_verdict(run: Run, registry: Path) -> None:
    with (registry / "budgets.toml").open("a", encoding="utf-8") as file:
        file.write('[[budget]]\nmodels = ["gone.onnx", "*.tflite"]\nmacs = 1\n')
    ended = run("check", "--budget", "budgets.toml", "--json")
    checks = json.loads(ended.out)["checks"]
    assert ended.code == 1
    assert [each["model"]["source"] for each in checks if each["error"]] == ["gone.onnx", "*.tflite"]
    assert sum(each["fits"] is True for each in checks) == 3


def test_a_file_that_was_not_fetched_from_git_lfs_is_named_as_such(run: Run, registry: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 4096\n"
    (registry / "b.onnx").write_text(pointer, "utf-8")
    ended = run("check", "--budget", "budgets.toml")
    assert ended.code == 1
    assert "a Git LFS pointer, not the model itself; run: git lfs pull" in " ".join(ended.out.split())


def test_baselines_are_updated_and_what_changed_is_named(run: Run, registry: Path) -> None:
    budgets = registry / "budgets.toml"
    budgets.write_text('[[budget]]\nmodels = "*.onnx"\ngrowth = { macs = "0%" }\n', "utf-8")
    fresh = run("check", "--budget", budgets, "--json")
    assert (fresh.code, json.loads(fresh.out)["counts"]["new"]) == (3, 3)
    ended = run("check", "--budget", "budgets.toml", "--update-baselines")
    assert ended.code == 0
    assert ended.err.splitlines()[0] == "baselines.json: 3 added, 0 changed, 0 removed"
    save_product(registry / "a.onnx", 4)
    save_product(registry / "b.onnx", 16)
    ended = run("check", "--budget", "budgets.toml", "--github")
    assert ended.code == 1
    hint = "baseline can be lowered: MACs 64 to 16; run sizeup check --budget budgets.toml --update-baselines"
    assert hint in " ".join(ended.out.split())
    levels = [
        line.split(" ")[0] for line in ended.out.splitlines() if line.startswith(("::error", "::notice"))
    ]
    assert levels == ["::notice", "::error"]
    (registry / "c.onnx").unlink()
    ended = run("check", "--budget", "budgets.toml", "--update-baselines")
    assert ended.code == 0
    assert ended.err.splitlines()[:3] == [
        "baselines.json: 0 added, 2 changed, 1 removed",
        "  a.onnx: MACs 64 -> 16",
        "  b.onnx: MACs 64 -> 256",
    ]
    assert run("check", "--budget", "budgets.toml").code == 0


def test_an_update_without_growth_limits_states_what_to_add(run: Run, registry: Path) -> None:
    limits = '[[budget]]\nmodels = "*.onnx"\nmacs = "1G"\n'
    (registry / "budgets.toml").write_text(limits, "utf-8")
    ended = run("check", "--budget", "budgets.toml", "--update-baselines")
    assert (ended.code, (registry / "baselines.json").exists()) == (0, False)
    (line,) = ended.err.splitlines()
    assert line.startswith("no baselines were written, because no budget in budgets.toml limits growth;")
    growth = line.partition("add for example ")[2].partition(" to a")[0]
    (registry / "budgets.toml").write_text(f"{limits}{growth}\n", "utf-8")
    assert "3 added" in run("check", "--budget", "budgets.toml", "--update-baselines").err


def test_an_update_lists_no_more_than_20_models_and_every_measure_that_changed(
    run: Run, registry: Path
) -> None:
    for number in range(20):
        save_product(registry / f"m{number:02}.onnx", 8)
    budgets = registry / "budgets.toml"
    budgets.write_text('[[budget]]\nmodels = "*.onnx"\ngrowth = { macs = "0%" }\n', "utf-8")
    run("check", "--budget", "budgets.toml", "--update-baselines")
    growth = 'growth = { macs = "0%", peak = "0%" }'
    budgets.write_text(f'[[budget]]\nmodels = "*.onnx"\n{growth}\n', "utf-8")
    save_product(registry / "a.onnx", 4)
    lines = run("check", "--budget", "budgets.toml", "--update-baselines").err.splitlines()
    assert lines[0] == "baselines.json: 0 added, 23 changed, 0 removed"
    assert lines[1] == "  a.onnx: MACs 64 -> 16, peak none -> 32 B"
    assert lines[20:22] == ["  m16.onnx: peak none -> 64 B", "  and 3 more"]
