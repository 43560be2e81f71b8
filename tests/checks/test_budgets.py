"""Budget files: valid and invalid content, and the checks of models."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from pathlib import Path

import pytest

import sizeup
from sizeup.checks import read_budgets
from sizeup.checks.budgets import parse_budgets
from sizeup.errors import BudgetError

pytestmark = pytest.mark.extras


@pytest.fixture
def folder(shared: Path, tmp_path: Path) -> Path:
    """A folder with models, for a budget file."""
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
    result = {Path(each.model).stem: each for each in sizeup.check_budgets(path)}
    assert {name: each.fits for name, each in result.items()} == {
        "mlperf_kws_int8": False,
        "tflm_hello_int8": True,
    }
    kept = {limit.name: limit.fits for limit in result["mlperf_kws_int8"].limits}
    assert kept == {"params": True, "macs": False, "arena": True}
    assert result["mlperf_kws_int8"].budgets == ("models/*.tflite", "keywords")
    macs = next(each for each in result["mlperf_kws_int8"].limits if each.name == "macs")
    assert (macs.need, macs.source) == (2_656_768, "keywords")
    assert macs.largest[0].amount == 512_000


def test_a_target_in_a_budget_brings_its_memories(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf*"\ntarget = "stm32f746/tflm"\nram = "20 KiB"')
    (result,) = sizeup.check_budgets(path)
    assert [(each.name, each.maximum, each.fits) for each in result.limits] == [
        ("ram", 20 << 10, False),
        ("flash", 1 << 20, True),
    ]


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
    (result,) = sizeup.check_budgets(path)
    # 125 positions x 64 x 64 for a pointwise convolution; 64 x 12 for the last layer.
    assert {each.name: (each.need, each.fits) for each in result.limits} == {
        "macs of layer 'conv'": (512_000, True),
        "params of layer 'conv'": (4160, True),
        "memory of layer 'conv'": (16_000, True),
        "macs of layer '*dense*'": (768, False),
    }


def test_a_layer_that_does_not_exist_is_an_error_with_a_suggestion(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf*"\nlayers = { "cnov" = { macs = 1 } }')
    (result,) = sizeup.check_budgets(path)
    assert re.search(r"no layer of mlperf_kws_int8 matches 'cnov'; nearest: conv", result.error)


def test_a_pattern_that_names_no_file_is_an_error_with_a_suggestion(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf_kws_int.tflite"\nmacs = 1')
    (result,) = sizeup.check_budgets(path)
    assert result.model == "models/mlperf_kws_int.tflite"
    assert "nearest: models/mlperf_kws_int8.tflite" in result.error
    unnamed, unmatched = sizeup.check_budgets(path, [str(folder / "models" / "tflm_hello_int8.tflite")])
    assert "no budget matches" in unnamed.error
    assert "no file matches" in unmatched.error


def test_a_model_that_no_budget_names_is_an_error(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/mlperf*"\nmacs = 1')
    (result,) = sizeup.check_budgets(path, [str(folder / "models" / "tflm_hello_int8.tflite")])
    assert re.search(r"no budget matches .*hello.*; patterns: 'models/mlperf\*'", result.error)


def test_of_many_patterns_three_are_listed(tmp_path: Path) -> None:
    for names, listed in (("abc", "'a', 'b', 'c'"), ("abcde", "'a', 'b', 'c' and 2 more")):
        text = "".join(f'[[budget]]\nmodels = "{name}"\nmacs = 1\n' for name in names)
        with pytest.raises(BudgetError, match=f"patterns: {listed}$"):
            read_budgets(_write(tmp_path, text)).budgets_for(str(tmp_path / "other"))


def test_models_that_are_named_are_checked_and_no_others(folder: Path) -> None:
    path = _write(folder, '[[budget]]\nmodels = "models/*"\nparams = "1 M"')
    result = sizeup.check_budgets(path, [str(folder / "models" / "tflm_hello_int8.tflite")])
    assert [each.name for each in result] == ["tflm_hello_int8"]


_HOSTILE = {
    "": "no budgets; add [[budget]]",
    "budget = 3": "no budgets; add [[budget]]",
    "[[budget]]": "models is missing",
    "[[budget]]\nmodels = []\nmacs = 1": "models is missing",
    "[[budget]]\nmodels = [1]\nmacs = 1": "models is missing",
    '[[budget]]\nmodels = "*"': "no limit; set one of macs",
    '[[budget]]\nmodels = "*"\nmcas = 1': "unknown key 'mcas'; did you mean 'macs'?",
    '[[budgets]]\nmodels = "*"': "unknown key 'budgets'; did you mean 'budget'?",
    '[[budget]]\nmodels = "/etc/*"\nmacs = 1': "is outside the folder",
    '[[budget]]\nmodels = "../*"\nmacs = 1': "is outside the folder",
    '[[budget]]\nmodels = "*"\nmacs = "many"': "macs many: not a count; use e.g. 20M",
    '[[budget]]\nmodels = "*"\nmacs = ""': "macs is empty",
    '[[budget]]\nmodels = "*"\nmacs = true': "macs is True, not a count",
    '[[budget]]\nmodels = "*"\nmacs = -1': "is not a limit; it must be 0 or a positive, finite number",
    '[[budget]]\nmodels = "*"\nmacs = nan': "macs is nan",
    '[[budget]]\nmodels = "*"\nmacs = [1]': "not a count",
    '[[budget]]\nmodels = "*"\narena = "64 kbit"': "arena 64 kbit: not a size; use e.g. 320KiB",
    '[[budget]]\nmodels = "*"\nflash = "4mb"': "flash 4mb: not a size; use 4MB or 4MiB",
    '[[budget]]\nmodels = "*"\nlatency = "20 ms"': "latency needs a target",
    '[[budget]]\nmodels = "*"\nram = "1 MiB"': "ram needs a target",
    '[[budget]]\nmodels = "*"\nenergy = "3 mJ"': "energy needs a target",
    '[[budget]]\nmodels = "*"\nlatency = "20"': "latency 20: give a unit, e.g. 20ms",
    '[[budget]]\nmodels = "*"\nenergy = "3"': "energy 3: give a unit, e.g. 3mJ",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\nmacs = 1': "a baseline needs growth limits",
    '[[budget]]\nmodels = "*"\nbaseline = "../a.json"\ngrowth = { macs = "5%" }': "is outside the folder",
    '[[budget]]\nmodels = "*"\nbaseline = "{stem}"\ngrowth = { macs = "5%" }': "one file for all models",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\ngrowth = { macs = 5 }': "not a share such as '5%'",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\ngrowth = { ram = "5%" }': "growth: unknown key 'ram'",
    '[[budget]]\nmodels = "*"\nbaseline = "a.json"\ngrowth = { flash = "5%" }': "growth: unknown key 'flash'",
    '[[budget]]\nmodels = "*"\nlayers = 3': "layers is 3, not a table",
    '[[budget]]\nmodels = "*"\nlayers = { conv = 3 }': "layers 'conv'",
    '[[budget]]\nmodels = "*"\nlayers = { conv = { flops = 3 } }': "unknown key 'flops'",
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


def test_a_free_dimension_may_be_1(tmp_path: Path) -> None:
    text = '[[budget]]\nmodels = "*"\nbind = { batch = 1 }\nmacs = 1'
    assert read_budgets(_write(tmp_path, text)).budgets[0].bind == {"batch": 1}


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"missing.toml: no such file$"):
        read_budgets(tmp_path / "missing.toml")
    with pytest.raises(BudgetError, match="cannot be read"):
        read_budgets(tmp_path)
    (tmp_path / "budgets.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BudgetError, match="not a TOML file"):
        read_budgets(tmp_path / "budgets.toml")


def matches(pattern: str, model: str | Path, folder: Path) -> bool:
    """Whether a budget with this pattern names a model."""
    text = f"[[budget]]\nmodels = {pattern!r}\nmacs = 1\n"
    return parse_budgets(text, folder / "budgets.toml").has_budget(str(model))


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("**/f", {"f", "a/f", "a/b/f"}),
        ("a/**/f", {"a/f", "a/b/f"}),
        ("a/b/**/f", {"a/b/f"}),
        ("a/b/c/d/**/f", set()),
        ("*/f", {"a/f"}),
    ],
)
def test_two_stars_are_any_number_of_folders(pattern: str, named: set[str], tmp_path: Path) -> None:
    assert {each for each in ("f", "a/f", "a/b/f") if matches(pattern, tmp_path / each, tmp_path)} == named


@pytest.mark.slow
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
        named = {each for each in files if matches(pattern, tmp_path / each, tmp_path)}
        there = {each.relative_to(tmp_path).as_posix() for each in tmp_path.glob(pattern) if each.is_file()}
        assert named == there, pattern


def test_a_pattern_without_a_folder_names_files_anywhere(tmp_path: Path) -> None:
    assert matches("*.onnx", tmp_path / "deep" / "a.onnx", tmp_path)
    assert matches("torchvision:resnet50", "torchvision:resnet50", tmp_path)
    assert not matches("*.onnx", "a.tflite", tmp_path)


@pytest.mark.alone
def test_a_budget_for_each_of_many_models_is_found_in_linear_time(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        names = [f"m{number}.onnx" for number in range(count)]
        text = "".join(f'[[budget]]\nmodels = "{name}"\nmacs = 1\n' for name in names)
        budgets = read_budgets(_write(tmp_path, text))
        began = time.process_time()
        for name in names:
            assert [each.name for each in budgets.budgets_for(str(tmp_path / name))] == [name]
        return time.process_time() - began

    # Quadratic, it would take 64 times as long.
    assert min(seconds(2_000) for _ in range(3)) < 24 * min(seconds(250) for _ in range(3))
