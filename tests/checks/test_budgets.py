"""budgets.toml: what it says, what it refuses, and what it makes of models."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path

import pytest

import sizeup
from sizeup.checks import read_budgets
from sizeup.checks.budgets import matches
from sizeup.errors import BudgetError

pytestmark = pytest.mark.extras


@pytest.fixture
def folder(shared: Path, tmp_path: Path) -> Path:
    """A team's models and, beside them, room for a file of budgets."""
    models = tmp_path / "models"
    models.mkdir()
    for name in ("mlperf_kws_int8.tflite", "tflm_hello_int8.tflite"):
        shutil.copy(shared / "models" / name, models / name)
    return tmp_path


def _write(folder: Path, text: str) -> Path:
    path = folder / "budgets.toml"
    path.write_text(text, "utf-8")
    return path


def test_every_model_that_a_pattern_names_is_held_to_all_its_budgets(folder: Path) -> None:
    path = _write(
        folder,
        """
        [[budget]]
        models = "models/*.tflite"
        params = "100 k"

        [[budget]]
        models = ["models/mlperf_*.tflite"]
        name = "keywords"
        macs = "1 M"
        arena = "32 KiB"
        """,
    )
    found = {Path(each.model).stem: each for each in sizeup.check_budgets(path)}
    assert {name: each.fits for name, each in found.items()} == {
        "mlperf_kws_int8": False,
        "tflm_hello_int8": True,
    }
    kept = {limit.name: limit.fits for limit in found["mlperf_kws_int8"].limits}
    assert kept == {"params": True, "macs": False, "arena": True}
    assert found["mlperf_kws_int8"].budgets == ("models/*.tflite", "keywords")
    macs = next(each for each in found["mlperf_kws_int8"].limits if each.name == "macs")
    assert (macs.need, macs.of) == (2_656_768, "keywords")
    assert macs.largest[0].amount == 512_000


def test_a_target_in_a_budget_brings_its_memories(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf*"\ntarget = "stm32f746/tflm"\nram = "20 KiB"')
    (found,) = sizeup.check_budgets(path)
    assert [(each.name, each.most, each.fits) for each in found.limits] == [
        ("ram", 20 << 10, False),
        ("flash", 1 << 20, True),
    ]


def test_growth_is_measured_against_a_report_that_was_kept(folder: Path, shared: Path) -> None:
    small = folder / "models" / "mlperf_resnet8_int8.tflite"
    shutil.copy(shared / "models" / small.name, small)
    sizeup.analyze(small).save(folder / "mlperf_resnet8_int8.json")
    text = """
        [[budget]]
        models = "models/mlperf_resnet8*.tflite"
        baseline = "{stem}.json"
        growth = { macs = "5%", params = "0 %", arena = "1%", weights = "300%" }
        """
    path = _write(folder, text)
    (same,) = sizeup.check_budgets(path)
    assert [each.need for each in same.limits] == [0.0] * 4
    assert same.fits is True
    before = json.loads((folder / "mlperf_resnet8_int8.json").read_text("utf-8"))
    shutil.copy(shared / "models" / "mlperf_resnet_large_int8.tflite", small)
    (grown,) = sizeup.check_budgets(path)
    now = sizeup.analyze(small)
    ratio = {each.name.rpartition(" ")[2]: each.need for each in grown.limits}
    assert ratio["macs"] == pytest.approx(now.totals.macs / before["totals"]["macs"] - 1)
    assert ratio["params"] == pytest.approx(now.totals.params / before["totals"]["params"] - 1)
    assert [each.fits for each in grown.limits][:3] == [False, False, False]


def test_a_baseline_of_another_precision_or_target_says_nothing(folder: Path) -> None:
    model = folder / "models" / "mlperf_kws_int8.tflite"
    sizeup.analyze(model, target="rpi5/litert").save(folder / "base.json")
    text = '[[budget]]\nmodels = "models/mlperf*"\nbaseline = "base.json"\n'
    path = _write(folder, text + 'target = "rpi5/litert"\ngrowth = { latency = "1%", macs = "0%" }')
    (same,) = sizeup.check_budgets(path)
    assert {each.name: each.fits for each in same.limits if "growth" in each.name} == {
        "growth of latency": True,
        "growth of macs": True,
    }
    path = _write(folder, text + 'target = "rpi4/litert"\ngrowth = { latency = "1%" }')
    (other,) = sizeup.check_budgets(path)
    assert other.fits is None
    assert other.limits[-1].unknown == ("the baseline was taken on rpi5/litert, not on rpi4/litert",)
    path = _write(folder, text + 'precision = "fp32"\ngrowth = { weights = "1%" }')
    (wide,) = sizeup.check_budgets(path)
    assert (wide.fits, wide.limits[-1].unknown) == (None, ("the baseline was taken at its own types",))


def test_what_was_nothing_may_not_become_something(folder: Path) -> None:
    model = folder / "models" / "mlperf_kws_int8.tflite"
    sizeup.analyze(model).save(folder / "base.json")
    kept = json.loads((folder / "base.json").read_text("utf-8"))
    kept["totals"]["macs"] = 0
    (folder / "base.json").write_text(json.dumps(kept), "utf-8")
    text = '[[budget]]\nmodels = "models/mlperf*"\nbaseline = "base.json"\ngrowth = { macs = "900%" }'
    (found,) = sizeup.check_budgets(_write(folder, text))
    assert found.fits is False
    assert found.to_dict()["limits"][0]["need"] is None
    found.save(folder / "check.json")


def test_layers_have_limits_of_their_own(folder: Path) -> None:
    path = _write(
        folder,
        """
        [[budget]]
        models = "models/mlperf*"
        layers."conv" = { macs = "512 k", params = "5 k", memory = "16 KiB" }
        layers."*dense*" = { macs = 700 }
        """,
    )
    (found,) = sizeup.check_budgets(path)
    # 125 positions x 64 x 64 for a pointwise convolution; 64 x 12 for the last layer.
    assert {each.name: (each.need, each.fits) for each in found.limits} == {
        "macs of layer 'conv'": (512_000, True),
        "params of layer 'conv'": (4160, True),
        "memory of layer 'conv'": (16_000, True),
        "macs of layer '*dense*'": (768, False),
    }


def test_a_layer_that_does_not_exist_is_an_error_with_a_suggestion(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf*"\nlayers = { "cnov" = { macs = 1 } }')
    with pytest.raises(BudgetError, match=r"no layer of mlperf_kws_int8 is called 'cnov'; nearest: conv"):
        sizeup.check_budgets(path)


def test_a_pattern_that_names_no_file_is_an_error_with_a_suggestion(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf_kws_int.tflite"\nmacs = 1')
    with pytest.raises(BudgetError, match=r"nearest: models/mlperf_kws_int8\.tflite"):
        sizeup.check_budgets(path)
    with pytest.raises(BudgetError, match="no file matches"):
        sizeup.check_budgets(path, [str(folder / "models" / "tflm_hello_int8.tflite")])


def test_a_model_that_no_budget_names_is_an_error(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf*"\nmacs = 1')
    with pytest.raises(BudgetError, match=r"no budget names .*hello.*there are 'models/mlperf\*'"):
        sizeup.check_budgets(path, [str(folder / "models" / "tflm_hello_int8.tflite")])


def test_models_that_are_named_are_checked_and_no_others(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/*"\nparams = "1 M"')
    found = sizeup.check_budgets(path, [str(folder / "models" / "tflm_hello_int8.tflite")])
    assert [each.name for each in found] == ["tflm_hello_int8"]


_HOSTILE = {
    "": "budgets are tables",
    "budget = 3": "budgets are tables",
    "[[budget]]": "models is missing",
    "[[budget]]\nmodels = []\nmacs = 1": "models is missing",
    "[[budget]]\nmodels = [1]\nmacs = 1": "models is missing",
    '[[budget]]\nmodels = "*"': "it limits nothing",
    '[[budget]]\nmodels = "*"\nmcas = 1': "there is no 'mcas'; did you mean 'macs'?",
    '[[budgets]]\nmodels = "*"': "there is no 'budgets'; did you mean 'budget'?",
    '[[budget]]\nmodels = "/etc/*"\nmacs = 1': "leaves the folder",
    '[[budget]]\nmodels = "../*"\nmacs = 1': "leaves the folder",
    '[[budget]]\nmodels = "*"\nmacs = "many"': "'many' is not a count such as '20 M'",
    '[[budget]]\nmodels = "*"\nmacs = ""': "macs is empty",
    '[[budget]]\nmodels = "*"\nmacs = true': "macs is True, not a count",
    '[[budget]]\nmodels = "*"\nmacs = -1': "no amount that a budget could have",
    '[[budget]]\nmodels = "*"\nmacs = nan': "macs is nan",
    '[[budget]]\nmodels = "*"\nmacs = [1]': "not a count",
    '[[budget]]\nmodels = "*"\narena = "64 KB"': "not a size in powers of 1024",
    '[[budget]]\nmodels = "*"\nlatency = "20 ms"': "latency needs a target",
    '[[budget]]\nmodels = "*"\ngrowth = { macs = "5%" }': "a baseline is missing",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\nmacs = 1': "growth is missing",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\ngrowth = { macs = 5 }': "not a share such as '5%'",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\ngrowth = { ram = "5%" }': "growth: there is no 'ram'",
    '[[budget]]\nmodels = "*"\nlayers = 3': "layers is 3, not a table",
    '[[budget]]\nmodels = "*"\nlayers = { conv = 3 }': "layers 'conv'",
    '[[budget]]\nmodels = "*"\nlayers = { conv = { flops = 3 } }': "there is no 'flops'",
    '[[budget]]\nmodels = "*"\nstrict = 1\nmacs = 1': "strict is 1, not true or false",
    '[[budget]]\nmodels = "*"\nbind = { batch = 0 }\nmacs = 1': "not a size such as 1",
    '[[budget]]\nmodels = "*"\ntarget = ["a"]': "target is ['a'], not a text",
    '[[budget]\nmodels = "*"': "not a TOML file",
    '[[budget]]\nmodels = "*"\nx = ' + "[" * 3000 + "]" * 3000: "not a TOML file",
}


@pytest.mark.parametrize("text", _HOSTILE)
def test_a_file_that_makes_no_sense_is_refused_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(BudgetError, match=re.escape(_HOSTILE[text])) as raised:
        read_budgets(path)
    assert str(raised.value).startswith(str(path))


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="cannot be read"):
        read_budgets(tmp_path / "missing.toml")
    with pytest.raises(BudgetError, match="cannot be read"):
        read_budgets(tmp_path)
    (tmp_path / "budgets.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BudgetError, match="not a TOML file"):
        read_budgets(tmp_path / "budgets.toml")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema_version": 1}', "[" * 100_000, '{"schema_version": 9}']
)
def test_a_baseline_that_is_no_report_is_refused(content: str, folder: Path) -> None:
    (folder / "base.json").write_text(content, "utf-8")
    text = '[[budget]]\nmodels = "models/mlperf*"\nbaseline = "base.json"\ngrowth = { macs = "5%" }'
    with pytest.raises(BudgetError, match="base"):
        sizeup.check_budgets(_write(folder, text))
    (folder / "base.json").unlink()
    with pytest.raises(BudgetError, match="sizeup analyze"):
        sizeup.check_budgets(_write(folder, text))


def test_patterns_mean_what_they_mean_to_the_file_system(tmp_path: Path) -> None:
    files = ["f", "a/f", "ab/f", "a/b/f", "a/ab/f", "a/b/ab/f", "b/b/b/f", "a/b/g"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    parts = ("*", "**", "a", "b", "a*", "?", "[!a]")
    heads = [each for length in (1, 2, 3) for each in itertools.product(parts, repeat=length)]
    patterns = ["/".join((*head, last)) for head in heads for last in ("f", "*", "?")]
    assert len(patterns) > 1000
    for pattern in patterns:
        named = {each for each in files if matches(pattern, str(tmp_path / each), tmp_path)}
        there = {each.relative_to(tmp_path).as_posix() for each in tmp_path.glob(pattern) if each.is_file()}
        assert named == there, pattern


def test_a_pattern_without_a_folder_names_files_anywhere(tmp_path: Path) -> None:
    assert matches("*.onnx", str(tmp_path / "deep" / "a.onnx"), tmp_path)
    assert matches("torchvision:resnet50", "torchvision:resnet50", tmp_path)
    assert not matches("*.onnx", "a.tflite", tmp_path)
