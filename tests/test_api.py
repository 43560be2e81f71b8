from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sizeup
from networks import three_convolutions, with_unknown
from sizeup import errors
from sizeup.errors import RuleError


def test_verbs_take_a_graph() -> None:
    graph = three_convolutions()
    assert sizeup.load(graph) is graph
    assert sizeup.count(graph).total_macs == 3_276_800
    assert sizeup.analyze(graph).totals.params == 3_200


def test_strict_names_what_is_not_counted() -> None:
    assert sizeup.analyze(three_convolutions(), strict=True).coverage == 1
    with pytest.raises(sizeup.Incomplete, match=r"2 of 3 operators are not counted: .*mylib\.fancy"):
        sizeup.analyze(with_unknown(), strict=True)


def test_unknown_precision_is_refused_before_anything_is_read() -> None:
    with pytest.raises(sizeup.SizeupError, match="unknown precision 'fp33'; known: fp64"):
        sizeup.analyze("nowhere.onnx", precision="fp33")


def test_graph_has_no_digest_and_a_file_has_its_own(shared: Path) -> None:
    assert sizeup.analyze(three_convolutions()).sha256 is None
    pytest.importorskip("ai_edge_litert")
    path = shared / "models" / "tflm_hello_int8.tflite"
    assert sizeup.analyze(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_rules_are_read_from_a_file_only_if_it_is_one(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such file"):
        sizeup.load_rules(tmp_path / "rules.py")
    text = tmp_path / "rules.txt"
    text.write_text("")
    with pytest.raises(RuleError, match=r"give a \.py file with cost rules"):
        sizeup.load_rules(text)


def test_public_names_are_exactly_those_declared() -> None:
    for name in sizeup.__all__:
        assert getattr(sizeup, name) is not None
    assert sorted(dir(sizeup)) == sorted(sizeup.__all__)
    assert set(sizeup._MODULES) == set(sizeup.__all__) - {"__version__", "precision"}
    with pytest.raises(AttributeError, match="no attribute 'analyse'"):
        _ = sizeup.analyse  # type: ignore[attr-defined] # that is the point


@pytest.mark.parametrize(("old", "new"), sizeup._DEPRECATED.items())
def test_a_deprecated_name_works_and_names_its_replacement(old: str, new: str) -> None:
    module, _, name = f"sizeup.{new}".rpartition(".")
    expected = rf"^sizeup\.{old} is deprecated and will be removed in 0\.11; use sizeup\.{re.escape(new)}$"
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=expected) as caught:
            value = getattr(sizeup, old)
        assert value is getattr(import_module(module), name)
    assert {Path(each.filename).name for each in caught} == {"test_api.py"}  # the user's line
    assert old not in sizeup.__all__


def test_deprecated_names_are_removed_with_the_version_that_was_announced() -> None:
    removal, today = (tuple(map(int, text.split(".")[:2])) for text in (sizeup._REMOVAL, sizeup.__version__))
    assert today < removal


def test_every_error_is_a_public_name() -> None:
    defined = {
        name for name, each in vars(errors).items() if getattr(each, "__module__", "") == errors.__name__
    }
    assert {"SizeupError", "LoadError", "InvalidGraph", "CorruptStore", "WorkerFailed"} <= defined
    assert defined - set(sizeup.__all__) == set()


def test_counting_and_json_need_only_numpy() -> None:
    code = (
        "import json, sys, sizeup\n"
        "from sizeup.dtypes import dtype\n"
        "builder = sizeup.GraphBuilder('tiny')\n"
        "x = builder.input('x', (3,), dtype('float32'))\n"
        "builder.op('relu', [x], [builder.tensor('y', (3,), dtype('float32'))])\n"
        "report = sizeup.analyze(builder.freeze())\n"
        "print(json.dumps([report.to_dict()['totals']['elementwise_ops'], sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    operations, modules = json.loads(done.stdout)
    assert operations == 3
    assert not {"torch", "onnx", "ai_edge_litert", "rich", "typer", "pandas"} & set(modules)
