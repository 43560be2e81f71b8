"""Malicious .pt2 files: nothing is executed, imported or opened, and memory is bounded."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import sizeup
from exported_programs import Residual
from sizeup.errors import CorruptModel, LoadError, NotTrusted

TESTS = Path(__file__).parents[2]
PROGRAM = "models/model.json"


@pytest.fixture(scope="module")
def benign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small program with a symbolic batch and a branch."""

    class Branching(Residual):
        def forward(self, x: torch.Tensor) -> Any:
            y = super().forward(x).mean((2, 3))
            return torch.cond(y.sum() > 0, lambda a: a + 1, lambda a: a * 2, (y,))

    path = tmp_path_factory.mktemp("benign") / "benign.pt2"
    shapes = ({0: Dim("batch", min=1, max=64)},)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's own
        program = torch.export.export(Branching().eval(), (torch.zeros(2, 3, 8, 8),), dynamic_shapes=shapes)
        torch.export.save(program, path)
    return path


Entries = list[tuple[str, bytes]]


def _entries(path: Path) -> Entries:
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def _write(path: Path, entries: Entries, compression: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # duplicate names are intended
        for name, content in entries:
            archive.writestr(name, content)
    return path


def _changed(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write the file with a modified program."""
    entries = []
    for name, content in _entries(source):
        if name.endswith(PROGRAM):
            program = json.loads(content)
            change(program)
            content = json.dumps(program).encode()
        entries.append((name, content))
    return _write(target, entries)


def _objects(item: Any) -> Iterator[dict[str, Any]]:
    if isinstance(item, dict):
        yield item
        for value in item.values():
            yield from _objects(value)
    elif isinstance(item, list):
        for value in item:
            yield from _objects(value)


def _letters(text: str) -> str:
    """Return a string as an expression without quotes, as an attack on sympy's evaluator."""
    return "+".join(f"(chr)({ord(letter)})" for letter in text)


def _symbolic_code(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    code = f"__import__('os').system('touch {mark}')"
    for place, text in enumerate((f"(eval)({_letters(code)})", f"eval({code!r})", code, "().__class__")):

        def change(program: dict[str, Any], text: str = text) -> None:
            for each in _objects(program):
                if "expr_str" in each:
                    each["expr_str"] = text

        yield _changed(source, folder / f"symbolic_{place}.pt2", change)


def _repeated_names(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    evil = next(iter(_symbolic_code(source, folder, mark)))
    benign = _entries(source)
    name = next(name for name, _ in benign if name.endswith(PROGRAM))
    bad = dict(_entries(evil))[name]
    entries = [(name, bad), (name, bad), *benign]
    yield _write(folder / "repeated.pt2", entries)


def _compiled_library(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    root = _entries(source)[0][0].partition("/")[0]
    library = f"{root}/data/aotinductor/model/evil"
    entries = [
        *_entries(source),
        (f"{library}.wrapper.so", b"\x7fELF not really"),
        (f"{library}.wrapper_metadata.json", b'{"AOTI_DEVICE_KEY": "cpu"}'),
    ]
    yield _write(folder / "library.pt2", entries)
    alone = [each for each in entries if not each[0].endswith(PROGRAM)]
    yield _write(folder / "library_alone.pt2", alone)


def _node(target: str, inputs: list[tuple[str, dict[str, Any]]], *outputs: dict[str, Any]) -> dict[str, Any]:
    """Return a node in the JSON schema."""
    arguments = [{"name": name, "arg": value, "kind": 1} for name, value in inputs]
    return {"target": target, "inputs": arguments, "outputs": list(outputs), "metadata": {}}


def _tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def _callable_arguments(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    text = ("", {"as_string": f"touch {mark}"})
    command = [("", _tensor("x")), ("", {"as_operator": "torch.os.system"}), text]
    nodes = {
        "torch.ops.higher_order.run_with_rng_state": command,
        "torch.ops.higher_order.flat_apply": command,
        "torch.os.system": [text],
    }
    for place, (target, inputs) in enumerate(nodes.items()):

        def change(program: dict[str, Any], target: str = target, inputs: Any = inputs) -> None:
            graph = program["graph_module"]["graph"]
            graph["nodes"].insert(0, _node(target, inputs, _tensor("evil")))
            graph["tensor_values"]["evil"] = graph["tensor_values"]["p_stem_weight"]

        yield _changed(source, folder / f"callable_{place}.pt2", change)


def _guards(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    def change(program: dict[str, Any]) -> None:
        program["guards_code"] = [f"__import__('os').system('touch {mark}') == 0"]

    yield _changed(source, folder / "guards.pt2", change)


def _imported_specification(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    (folder / "evil_module.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    factory = {"default_factory_module": "evil_module", "default_factory_name": "x", "dict_context": []}
    context = {"type": "collections.defaultdict", "context": json.dumps(factory), "children_spec": []}
    tree = json.dumps([1, context])

    def change(program: dict[str, Any]) -> None:
        for each in _objects(program):
            for name in ("in_spec", "out_spec"):
                if name in each:
                    each[name] = tree

    yield _changed(source, folder / "specification.pt2", change)


class _Harm:
    """Creates a file when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.system, (f"touch {self.mark}",)


def _pickles(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    content = io.BytesIO()
    torch.save(_Harm(mark), content)
    entries = _entries(source)
    root = entries[0][0].partition("/")[0]
    harm = pickle.dumps(_Harm(mark))
    attacks: dict[str, Callable[[str, bytes], bytes]] = {
        "sample_inputs.pt2": lambda name, each: content.getvalue() if "sample_inputs" in name else each,
        "weights.pt2": lambda name, each: harm if name.endswith("weight_0") else _pickled(each),
    }
    for name, changed in attacks.items():
        yield _write(folder / name, [(entry, changed(entry, each)) for entry, each in entries])
    yield _write(folder / "objects.pt2", [*entries, (f"{root}/data/constants/custom_obj_0", harm)])


def _pickled(table: bytes) -> bytes:
    return table.replace(b'"use_pickle": false', b'"use_pickle": true')


def _operators(source: Path, folder: Path, mark: Path) -> Iterator[Path]:
    """torch operators that open files, and arithmetic on non-numbers."""
    text, number, yes = {"as_string": str(mark)}, {"as_int": 7}, {"as_bool": True}
    huge, pattern = {"as_int": 10**12}, {"as_string": "%9999999999d"}
    attacks: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
        ("torch.ops.aten.from_file.default", [("filename", text), ("shared", yes), ("size", number)]),
        ("torch.ops.aten._print.default", [("s", text)]),
        ("_operator.mod", [("", pattern), ("", number)]),
        ("_operator.pow", [("", number), ("", huge)]),
        ("_operator.lshift", [("", number), ("", huge)]),
        ("_operator.attrgetter", [("", text)]),
        ("torch.ops.aten.__class__.mro", []),
        ("torch.ops.load_library", [("", text)]),
        ("torch.hub.load", [("", text)]),
        ("math.factorial", [("", huge)]),
    ]  # fmt: skip
    for place, (target, inputs) in enumerate(attacks):

        def change(program: dict[str, Any], target: str = target, inputs: Any = inputs) -> None:
            node = _node(target, inputs, {"as_sym_int": {"as_name": "evil"}})
            program["graph_module"]["graph"]["nodes"].insert(0, node)

        yield _changed(source, folder / f"operator_{place}.pt2", change)


ATTACKS: dict[str, Callable[[Path, Path, Path], Iterator[Path]]] = {
    "symbolic expressions": _symbolic_code,
    "repeated names": _repeated_names,
    "compiled library": _compiled_library,
    "callable arguments": _callable_arguments,
    "guards": _guards,
    "imported specification": _imported_specification,
    "pickles": _pickles,
    "operators": _operators,
}


def test_no_file_makes_python_do_anything_but_read(benign: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    files = [path for attack in ATTACKS.values() for path in attack(benign, tmp_path, mark)]
    inherited = os.environ.get("PYTHONPATH", "")
    run = subprocess.run(
        [sys.executable, TESTS / "audited.py", benign, *files],
        env={
            **os.environ,
            "BIND": '{"x.0": 2}',
            "PYTHONPATH": os.pathsep.join([str(tmp_path), inherited]),
        },
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(rows) == len(files) >= 25
    assert {row["file"]: row["events"] for row in rows if row["events"]} == {}
    assert not mark.exists()


@pytest.mark.parametrize("attack", ["symbolic expressions", "repeated names"])
def test_what_cannot_be_read_is_a_corrupt_model(attack: str, benign: Path, tmp_path: Path) -> None:
    for path in ATTACKS[attack](benign, tmp_path, tmp_path / "ran"):
        if path.name.startswith("symbolic") and attack == "repeated names":
            continue
        with pytest.raises(CorruptModel, match=path.name):
            sizeup.load(path, bind={"x.0": 2})


def test_guards_and_libraries_do_not_change_the_counts(benign: Path, tmp_path: Path) -> None:
    expected = sizeup.count(benign, bind={"x.0": 2}).total_macs
    for attack in ("guards", "imported specification"):
        for path in ATTACKS[attack](benign, tmp_path, tmp_path / "ran"):
            assert sizeup.count(path, bind={"x.0": 2}).total_macs == expected


def test_a_function_that_the_file_names_is_an_unknown_row(benign: Path, tmp_path: Path) -> None:
    for path in _callable_arguments(benign, tmp_path, tmp_path / "ran"):
        assert sizeup.count(path, bind={"x.0": 2}).known.tolist().count(False) >= 1


def test_a_compressed_entry_is_refused(benign: Path, tmp_path: Path) -> None:
    padded = [
        (name, each + b" " * (64 << 20) if name.endswith(PROGRAM) else each)
        for name, each in _entries(benign)
    ]
    path = _write(tmp_path / "bomb.pt2", padded, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(CorruptModel, match="compressed"):
        sizeup.load(path, bind={"x.0": 2})


def test_sizes_that_no_machine_has_are_refused_at_once(benign: Path, tmp_path: Path) -> None:
    big, parts = ("self", _tensor("big")), {"as_tensors": [{"name": "a"}, {"name": "b"}]}
    nodes = {
        "unbind": _node("torch.ops.aten.unbind.int", [big], parts),
        "split": _node("torch.ops.aten.split.Tensor", [big, ("split_size", {"as_int": 1})], parts),
        "chunk": _node("torch.ops.aten.chunk.default", [big, ("chunks", {"as_int": 1 << 40})], parts),
    }
    for name, node in nodes.items():

        def change(program: dict[str, Any], node: dict[str, Any] = node) -> None:
            size = [("size", {"as_ints": [1 << 40]})]
            ones = _node("torch.ops.aten.ones.default", size, _tensor("big"))
            program["graph_module"]["graph"]["nodes"][:0] = [ones, node]

        path = _changed(benign, tmp_path / f"{name}.pt2", change)
        with pytest.raises(CorruptModel, match="but the file declares 2"):
            sizeup.load(path, bind={"x.0": 2})


def test_a_weight_larger_than_its_payload_is_cut(benign: Path, tmp_path: Path) -> None:
    def change(program: dict[str, Any]) -> None:
        meta = program["graph_module"]["graph"]["tensor_values"]["p_stem_weight"]
        meta["sizes"][0] = {"as_int": 1 << 40}

    path = _changed(benign, tmp_path / "large.pt2", change)
    with pytest.raises(CorruptModel, match="conflicting shapes"):
        sizeup.load(path, bind={"x.0": 2})


def test_running_a_file_takes_trust(benign: Path, tmp_path: Path) -> None:
    data = {"x": torch.zeros(2, 3, 8, 8).numpy()}
    with pytest.raises(NotTrusted, match="--trust"):
        sizeup.measure(benign, bind={"x.0": 2})
    with pytest.raises(NotTrusted, match="trusted=True"):
        sizeup.precision.sensitivity(benign, data["x"])
    with pytest.raises(NotTrusted, match="--trust"):
        sizeup.precision.choose(benign, data=data["x"])


def test_deep_control_flow_is_refused(benign: Path, tmp_path: Path) -> None:
    def change(program: dict[str, Any]) -> None:
        graph = program["graph_module"]["graph"]
        node = next(each for each in graph["nodes"] if each["target"].endswith("cond"))
        for _ in range(40):
            inner = json.loads(json.dumps(node))
            body = inner["inputs"][1]["arg"]["as_graph"]["graph"]
            body["nodes"] = [node]
            node = inner
        graph["nodes"] = [node]

    path = _changed(benign, tmp_path / "deep.pt2", change)
    with pytest.raises(LoadError):
        sizeup.load(path, bind={"x.0": 2})


def test_two_directories_in_one_archive_are_refused(benign: Path, tmp_path: Path) -> None:
    """Python reads the directory before the end record, torch the one at the declared offset."""
    small = tmp_path / "small.pt2"
    _changed(benign, small, lambda program: program["graph_module"]["graph"]["nodes"].clear())
    path = tmp_path / "two.pt2"
    path.write_bytes(benign.read_bytes() + small.read_bytes())
    with pytest.raises(CorruptModel, match="directory"):
        sizeup.load(path, bind={"x.0": 2})


@pytest.mark.parametrize("outputs", [[], [{"as_sym_int": {"as_name": "u0"}}]], ids=["none", "a size"])
def test_an_operator_without_tensors_as_outputs_is_an_unknown_row(
    outputs: list[dict[str, Any]], benign: Path, tmp_path: Path
) -> None:
    def change(program: dict[str, Any]) -> None:
        graph = program["graph_module"]["graph"]
        graph["nodes"].insert(0, _node("torch.ops.mylib.work.default", [("a", _tensor("x"))], *outputs))
        graph["sym_int_values"]["u0"] = {"as_expr": {"expr_str": "u0", "hint": None}}

    path = _changed(benign, tmp_path / "hidden.pt2", change)
    known = sizeup.count(path, bind={"x.0": 2}).known.tolist()
    expected = sizeup.count(benign, bind={"x.0": 2}).known.tolist()
    assert known.count(False) == expected.count(False) + 1


def test_values_that_crash_torch_are_refused(benign: Path, tmp_path: Path) -> None:
    arguments = {
        "contiguous.default": [("self", _tensor("x")), ("memory_format", {"as_int": -1})],
        "to.dtype": [("self", _tensor("x")), ("dtype", {"as_int": 1000})],
    }
    for name, inputs in arguments.items():

        def change(program: dict[str, Any], name: str = name, inputs: Any = inputs) -> None:
            node = _node(f"torch.ops.aten.{name}", inputs, _tensor("crash"))
            program["graph_module"]["graph"]["nodes"].insert(0, node)

        path = _changed(benign, tmp_path / f"{name}.pt2", change)
        with pytest.raises(CorruptModel, match="not a"):
            sizeup.load(path, bind={"x.0": 2})


def test_nested_powers_are_refused(benign: Path, tmp_path: Path) -> None:
    text = "2"
    for _ in range(40):
        text = f"Pow({text}, 8)"

    def change(program: dict[str, Any]) -> None:
        sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        sizes[2] = {"as_expr": {"expr_str": text, "hint": None}}

    path = _changed(benign, tmp_path / "power.pt2", change)
    with pytest.raises(CorruptModel, match="64 bits"):
        sizeup.load(path, bind={"x.0": 2})


def test_a_compressed_payload_is_refused(benign: Path, tmp_path: Path) -> None:
    path = tmp_path / "payload.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in _entries(benign):
            is_weight = name.endswith("weight_0")
            archive.writestr(name, content, zipfile.ZIP_DEFLATED if is_weight else zipfile.ZIP_STORED)
    with pytest.raises(CorruptModel, match="compressed or truncated"):
        sizeup.load(path, bind={"x.0": 2})


def test_operators_that_loop_over_their_arguments_are_not_run(benign: Path, tmp_path: Path) -> None:
    huge = {"as_int": 10**9}
    for name, label in (("diff.default", "n"), ("combinations.default", "r")):

        def change(program: dict[str, Any], name: str = name, label: str = label) -> None:
            graph = program["graph_module"]["graph"]
            inputs = [("self", _tensor("x")), (label, huge)]
            graph["nodes"].insert(0, _node(f"torch.ops.aten.{name}", inputs, _tensor("looped")))
            graph["tensor_values"]["looped"] = graph["tensor_values"]["p_stem_weight"]

        path = _changed(benign, tmp_path / f"{name}.pt2", change)
        assert False in sizeup.count(path, bind={"x.0": 2}).known.tolist()


def test_an_input_without_dimensions_is_read(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return x * scale

    path = tmp_path / "scalar.pt2"
    torch.export.save(torch.export.export(Scaled(), (torch.ones(3), torch.tensor(2.0))), path)
    assert sizeup.load(path).tensors[1].shape == ()


def test_branches_of_different_shapes_leave_the_size_unknown() -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(x.sum() > 0, lambda a: a[:1].clone(), lambda a: a.clone(), (x,))
            result: torch.Tensor = y @ x.new_ones(8, 8)
            return result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        cost = sizeup.count(sizeup.load(Branches(), inputs=((4, 8),)))
    assert False in cost.known.tolist()
