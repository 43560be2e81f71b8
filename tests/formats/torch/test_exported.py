"""Exported programs: symbolic dimensions, module paths, tied weights, and malicious files."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import sizeup
from cases import TiedEmbedding
from sizeup.errors import CorruptModel, UnboundDimension


class Net(nn.Module):
    """Two layers, one of them inside another module."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 6, bias=False), nn.ReLU())
        self.head = nn.Linear(6, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.block(x))
        return result


@pytest.fixture
def free(tmp_path: Path) -> Path:
    """A program with a symbolic batch."""
    program = torch.export.export(
        Net(), (torch.zeros(3, 8),), dynamic_shapes=({0: Dim("batch", min=1, max=99)},)
    )
    path = tmp_path / "free.pt2"
    torch.export.save(program, path)
    return path


def test_a_symbolic_dimension_must_be_bound(free: Path) -> None:
    with pytest.raises(UnboundDimension, match=r"--bind x\.0=1"):
        sizeup.load(free)


def test_a_free_dimension_is_bound_by_axis_symbol_or_shape(free: Path) -> None:
    with pytest.raises(UnboundDimension) as error_info:
        sizeup.load(free)
    symbol = str(error_info.value).partition("symbol ")[2].partition(")")[0]
    per_row = 8 * 6 + 6 * 4
    assert sizeup.count(free, bind={"x.0": 5}).total_macs == 5 * per_row
    assert sizeup.count(free, bind={symbol: 7}).total_macs == 7 * per_row
    assert sizeup.count(free, inputs={"x": (9, 8)}).total_macs == 9 * per_row
    assert sizeup.count(free, inputs=((11, 8),)).total_macs == 11 * per_row


def test_a_wrong_binding_is_an_error(free: Path) -> None:
    with pytest.raises(sizeup.LoadError, match=r"no dimension named width; .*--bind x\.0=1"):
        sizeup.load(free, bind={"width": 3})
    with pytest.raises(sizeup.LoadError, match="no input 'y'"):
        sizeup.load(free, inputs={"y": (9, 8)})


def test_module_paths_and_order_are_those_of_the_eager_run() -> None:
    module = Net()
    eager = sizeup.load(module, inputs=((3, 8),))
    exported = sizeup.load(torch.export.export(module, (torch.zeros(3, 8),)))
    steps = [(op.kind, op.scope) for op in eager.ops]
    assert steps == [("matmul", "block.0"), ("relu", "block.1"), ("matmul", "head")]
    assert [(op.kind, op.scope) for op in exported.ops] == steps


def test_tied_weights_are_one_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tied.pt2"
    program = torch.export.export(TiedEmbedding(), (torch.zeros(1, 5, dtype=torch.int64),))
    torch.export.save(program, path)
    assert sizeup.count(path).total_params == 256_000


class _Harm:
    """Creates a file when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.mark,)


def _rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for entry in old.namelist():
            content = change(entry, old.read(entry))
            if content is not None:
                new.writestr(entry, content)


def test_a_pickle_inside_is_never_run(free: Path, tmp_path: Path) -> None:
    mark, target = tmp_path / "ran", tmp_path / "harm.pt2"
    buffer = io.BytesIO()
    torch.save(_Harm(mark), buffer)

    def change(entry: str, content: bytes) -> bytes:
        return buffer.getvalue() if entry.endswith("sample_inputs/model.pt") else content

    _rewritten(free, target, change)
    assert sizeup.count(target, bind={"x.0": 1}).total_macs == 8 * 6 + 6 * 4
    assert not mark.exists()


def test_pickled_weights_are_refused(free: Path, tmp_path: Path) -> None:
    mark, target = tmp_path / "ran", tmp_path / "harm.pt2"

    def change(entry: str, content: bytes) -> bytes:
        if entry.endswith("model_weights_config.json"):
            return content.replace(b'"use_pickle": false', b'"use_pickle": true')
        return pickle.dumps(_Harm(mark)) if entry.endswith("weight_0") else content

    _rewritten(free, target, change)
    with pytest.raises(sizeup.LoadError, match="pickled weights"):
        sizeup.load(target, bind={"x.0": 1})
    assert not mark.exists()


def test_an_expression_that_is_code_is_refused(free: Path, tmp_path: Path) -> None:
    mark, target = tmp_path / "ran", tmp_path / "harm.pt2"
    attacks = (f"open('{mark}', 'w')", "__import__('os').getpid()", "().__class__", "eval('x')")
    for attack in attacks:

        def change(entry: str, content: bytes, attack: str = attack) -> bytes:
            if not entry.endswith("models/model.json"):
                return content
            program = json.loads(content)
            _replace_expressions(program, attack)
            return json.dumps(program).encode()

        _rewritten(free, target, change)
        with pytest.raises(CorruptModel, match="not a plain size expression"):
            sizeup.load(target, bind={"x.0": 1})
        assert not mark.exists()


def _replace_expressions(item: object, attack: str) -> None:
    if isinstance(item, dict):
        if "expr_str" in item:
            item["expr_str"] = attack
        for value in item.values():
            _replace_expressions(value, attack)
    elif isinstance(item, list):
        for value in item:
            _replace_expressions(value, attack)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"hello"], ids=["empty", "cut", "text"])
def test_a_file_that_is_no_archive_is_corrupt(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(content)
    with pytest.raises(CorruptModel, match=r"broken\.pt2"):
        sizeup.load(path)


def test_a_cut_archive_is_corrupt(free: Path, tmp_path: Path) -> None:
    whole = free.read_bytes()
    path = tmp_path / "cut.pt2"
    for part in (0.2, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * part)])
        with pytest.raises(CorruptModel):
            sizeup.load(path, bind={"x.0": 1})
