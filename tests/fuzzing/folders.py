"""Folders: the store of a sweep, a git repository with a work tree, a network with weights in another file.

An input is JSON with the content of every file by its path, which is written out to run it.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import sizeup
from formats.tflite.factory import File, options
from fuzzing.onnx_models import keep_outside
from fuzzing.texts import anything, changed_tree, json_text
from fuzzing.tflite_models import chain
from fuzzing.values import INTEGERS, TEXTS, changed_bytes
from fuzzing.verdicts import WrongYes
from sizeup.errors import SizeupError

_Files = dict[str, Any]
_TARGETS = ["rpi5/ort", "stm32f746/tflm"]
_VIEWS = ("summary", "fits", "misfits", "fastest", "unknown", "errors", "pareto")
_OUTSIDE = "outside"


def _packed(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _unpacked(text: Any) -> bytes:
    return base64.b64decode(text) if isinstance(text, str) else b""


def _parsed(path: Path) -> _Files:
    """The files of an input; none if a change of raw bytes left no JSON."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(path.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _write(folder: Path, name: str, content: bytes) -> None:
    """Write a file inside a folder; names that lead out of it, or that the system refuses, are left out."""
    with contextlib.suppress(OSError, ValueError):
        path = folder / name
        if folder in Path(os.path.normpath(path)).parents:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


# Stores.


class _Stores:
    """A mutator of the files of a store."""

    def seeds(self, folder: Path) -> list[bytes]:
        """A store with two networks, one of which was evaluated after the sorted table was made."""
        folder.mkdir(exist_ok=True)
        for number, name in enumerate(("net.tflite", "second.tflite")):
            (folder / name).write_bytes(chain() + bytes(8 * number))
            spec = {"models": [str(folder / name)], "targets": _TARGETS}
            with _within(folder):
                sizeup.sweep(spec, "store", in_process=True, compact=not number)
        store = folder / "store"
        files = {
            each.relative_to(store).as_posix(): _packed(each.read_bytes())
            for each in sorted(store.rglob("*"))
            if each.is_file()
        }
        return [json.dumps(files).encode()]

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Change the content or the name of a file, or the tables inside."""
        files = json.loads(content)
        for _ in range(random.choice((1, 1, 2, 3))):
            name = random.choice(list(files))
            random.choice(_changes_of(name))(files, name, random)
        return json_text(files).encode("utf-8", "surrogatepass")


def _changes_of(name: str) -> tuple[Callable[[_Files, str, Random], None], ...]:
    if name.endswith(".parquet"):
        return (_table, _table, _table, _table, _bytes, _move)
    return (_generation, _generation, _bytes, _move) if name.endswith(".json") else (_bytes, _move)


def _bytes(files: _Files, name: str, random: Random) -> None:
    files[name] = _packed(changed_bytes(_unpacked(files[name]), random))


def _move(files: _Files, name: str, random: Random) -> None:
    """Another name, a copy under another one, or none."""
    content = files[name] if random.random() < 0.3 else files.pop(name)
    if random.random() < 0.7:
        folder, _, last = name.rpartition("/")
        new = random.choice(
            (f"{folder}/{random.choice(TEXTS)}", f"{folder}/x{last}", random.choice((*files, name)))
        )
        files[new] = content
    files = files or {"x": ""}


def _generation(files: _Files, name: str, random: Random) -> None:
    """Another current generation: outside the store, of no text, or of no file."""
    current: Any = {}
    if random.random() < 0.9:
        with contextlib.suppress(ValueError):  # an earlier change may have made it no JSON
            current = json.loads(_unpacked(files[name]))
    names = (f"../../{_OUTSIDE}", f"../{_OUTSIDE}", "..", "", ".", "[", "*", "?" * 16, *TEXTS)
    if random.random() < 0.6 and isinstance(current, dict):
        current["generation"] = random.choice((*names, anything(random)))
    else:
        current = changed_tree(current, random)
    files[name] = _packed(json_text(current).encode("utf-8", "surrogatepass"))


def _table(files: _Files, name: str, random: Random) -> None:
    """Another table in the same file: its columns, types, values, rows or metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(io.BytesIO(_unpacked(files[name])))
        changed = _changed_table(table, random)
        out = io.BytesIO()
        parquet.write_table(changed, out)
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError):
        _bytes(files, name, random)
    else:
        files[name] = _packed(out.getvalue())


def _changed_table(table: Any, random: Random) -> Any:
    import pyarrow as pa

    at, choice = random.randrange(table.num_columns), random.randrange(7)
    field = table.schema.field(at)
    if choice == 0:
        return table.remove_column(at)
    if choice == 1:
        return table.rename_columns(
            [random.choice((each, each, "key", "", "model")) for each in table.column_names]
        )
    if choice == 2:
        kind = random.choice(
            (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.binary(), pa.null(), pa.list_(pa.int64()))
        )
        return table.set_column(at, field.name, pa.nulls(table.num_rows, kind))
    if choice == 3:
        return (
            pa.concat_tables([table] * random.choice((0, 2, 50)))
            if random.random() < 0.8
            else table.slice(0, 0)
        )
    if choice == 4:
        texts = (
            b"[]",
            b"[",
            b"[[1]]",
            b"5",
            b'[["a","b","c"]]',
            b'[["a","b","c"],["a","b","d"]]',
            b"[" * 3000,
        )
        return table.replace_schema_metadata({b"sizeup.answers": random.choice(texts)})
    value = random.choice((*INTEGERS, *TEXTS, float("nan"), float("inf"), None, True))
    values = pa.array([value] * table.num_rows)
    return table.set_column(at, field.name, values if choice == 5 else values.cast(field.type))


STORES = _Stores()


def stores(path: Path) -> Any:
    """A view of a store; what lies beside the store is no part of it."""
    top = path.parent / "stores"
    shutil.rmtree(top, ignore_errors=True)
    store, files = top / "in" / "store", _parsed(path)
    store.mkdir(parents=True)
    for name, content in files.items():
        _write(store, name, _unpacked(content))
    for place in (top, top / "in", store):
        _add_other_rows(files, place / _OUTSIDE)
    view = _VIEWS[len(path.read_bytes()) % len(_VIEWS)]
    rows = sizeup.query(store, view=view).to_dict()
    assert _OUTSIDE not in json.dumps(rows, default=str), "rows from outside the store"
    return None


def _add_other_rows(files: _Files, folder: Path) -> None:
    """Rows of another model, in a table as the store has it."""
    import pyarrow as pa
    from pyarrow import parquet

    content = _decoy()
    folder.mkdir(parents=True)
    table = parquet.read_table(io.BytesIO(content))
    names = pa.array([_OUTSIDE] * table.num_rows)
    parquet.write_table(
        table.set_column(table.column_names.index("model"), "model", names), folder / "x.parquet"
    )
    (folder / "merged.txt").write_text("", "utf-8")


@functools.cache
def _decoy() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (content,) = STORES.seeds(Path(folder))
    files = json.loads(content)
    return next(_unpacked(files[name]) for name in files if name.startswith("shards/"))


# External data. The file of the weights has the shape of a value; a file elsewhere has another one.

_WEIGHTS, _ELSEWHERE = "weights.bin", 791_919_191


class _ExternalData:
    """A mutator of the references to a file, of its content, and of what is in its place."""

    def seeds(self, folder: Path) -> list[bytes]:
        """A matrix product with weights, and a shape after them."""
        from formats.onnx.making import model, node, numbers, value, weight

        nodes = [node("MatMul", "x w", "m"), node("Expand", "m shape", "y")]
        made = model(nodes, [value("x", (2, 4))], "y", [weight("w", 4, 4), numbers("shape", [3, 2, 4])])
        references = [["w", _WEIGHTS, "0", "64"], ["shape", _WEIGHTS, "64", "24"]]
        files = {_WEIGHTS: _packed(bytes(64) + np.array([3, 2, 4], np.int64).tobytes())}
        network = _packed(made.SerializeToString())
        return [
            json.dumps({"model": network, "references": references, "files": files, "links": {}}).encode()
        ]

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Change the references, the files and the links."""
        made = json.loads(content)
        for _ in range(random.choice((1, 1, 2, 3))):
            random.choice((_refer, _refer, _add_file, _add_file, _add_link_to_data))(made, random)
        return json.dumps(made).encode()


def _refer(made: _Files, random: Random) -> None:
    numbers = ("0", "1", "24", "63", "64", "80", "88", "-1", str(2**31), str(2**63), "1e1", " 8", "0x8", "")
    place = random.randrange(1, 4)
    value = random.choice((*numbers, str(random.randrange(100))) if place > 1 else (*_PLACES, *TEXTS))
    random.choice(made["references"])[place] = value


def _add_file(made: _Files, random: Random) -> None:
    """Another content at a name, or none."""
    content = _unpacked(made["files"].get(_WEIGHTS, ""))
    changed = (content[: random.randrange(99)], content * 50, changed_bytes(content, random))
    made["files"][random.choice((_WEIGHTS, _WEIGHTS, *_PLACES))] = _packed(random.choice(changed))
    if random.random() < 0.3:
        del made["files"][random.choice([*made["files"]])]


def _add_link_to_data(made: _Files, random: Random) -> None:
    targets = (
        "../elsewhere.bin",
        "../" * 20 + "dev/zero",
        "sub",
        ".",
        "..",
        _WEIGHTS,
        "x",
        "/dev/fd/0",
        *_PLACES,
    )
    made["links"][random.choice((_WEIGHTS, _WEIGHTS, "sub", "x"))] = random.choice(targets)


_PLACES = (
    *(
        _WEIGHTS,
        f"./{_WEIGHTS}",
        f"sub/{_WEIGHTS}",
        f"sub/../{_WEIGHTS}",
        "../elsewhere.bin",
        "sub/../../elsewhere.bin",
    ),
    *(
        "x",
        "network.onnx",
        f"x/{_WEIGHTS}",
        f"{_WEIGHTS}/x",
        f"{_WEIGHTS}/",
        f"{_WEIGHTS} ",
        _WEIGHTS.upper(),
    ),
)
EXTERNAL_DATA = _ExternalData()


def external_data(path: Path) -> Any:
    """The report and the written file of the network, to which nothing outside its folder contributes."""
    import onnx

    made, top = _parsed(path), path.parent / "external"
    shutil.rmtree(top, ignore_errors=True)
    folder = top / "network"
    folder.mkdir(parents=True)
    (top / "elsewhere.bin").write_bytes(bytes(64) + np.array([_ELSEWHERE, 2, 4], np.int64).tobytes())
    for name, target in made["links"].items():
        with contextlib.suppress(OSError):
            (folder / name).symlink_to(target)
    for name, content in made["files"].items():
        if not (folder / name).is_symlink():
            _write(folder, name, _unpacked(content))
    network = onnx.ModelProto.FromString(_unpacked(made["model"]))
    tensors = {each.name: each for each in network.graph.initializer}
    for name, *texts in made["references"]:
        keep_outside(tensors[name], *texts)
    (folder / "network.onnx").write_bytes(network.SerializeToString())
    report = sizeup.analyze(folder / "network.onnx").to_dict()
    assert str(_ELSEWHERE) not in json.dumps(report, default=str), "the report has content of another folder"
    written = folder / "written.onnx"
    sizeup.optimize(folder / "network.onnx", written, verify=False)
    assert _ELSEWHERE.to_bytes(8, "little") not in written.read_bytes(), "the written file has it"
    return report


# Repositories. The work tree has a network that grew since the base, and a budget that allows no such growth.

_BUDGET = '[[budget]]\nmodels = "*.tflite"\ngrowth = { macs = "5%" }\n'
_BASE, _HEAD = "models/net.tflite", "models/budgets.toml"
_MODES = ("100644", "100755", "120000", "160000", "040000", "100664")
_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def _network(width: int) -> bytes:
    """A layer as wide as that."""
    file = File()
    x, y = file.main.tensor("x", (1, width)), file.main.tensor("y", (1, width))
    weights = file.main.tensor("w", (width, width), data=np.ones((width, width), np.float32))
    file.main.op("FULLY_CONNECTED", [x, weights, -1], [y], options("FullyConnectedOptions"))
    file.main.ends([x], [y])
    return file.pack()


class _Repositories:
    """A mutator of what is added to a repository: to its work tree, to the base, and to its references."""

    def seeds(self, folder: Path) -> list[bytes]:
        """Nothing is added, or a repository inside the folder of the models."""
        added: _Files = {"work": {}, "base": {}, "links": {}, "embedded": [], "replaced": False}
        return [json.dumps(each).encode() for each in (added, {**added, "embedded": ["models", "."]})]

    def mutate(self, content: bytes, random: Random) -> bytes:
        """Add to it."""
        added = json.loads(content)
        for _ in range(random.choice((1, 1, 2, 3))):
            random.choice((_add_to_work, _add_to_base, _add_to_base, _add_link, _embed, _rename))(
                added, random
            )
        return json.dumps(added).encode()


def _name(random: Random) -> str:
    names = (
        *(".git", ".gitmodules", ".gitattributes", "HEAD", "config", "objects", "refs", "net.tflite", "base"),
        *("a b", "é", "x\ny", "-x", "--", "x\ty", '"', "\\", "net.tflite/x", "budgets.toml/x", ":x", "*"),
        "x" * 200,
    )
    return random.choice(("", "models/", "models/models/", "sub/")) + random.choice(names)


def _content(random: Random) -> str:
    texts = (
        *(
            "",
            _POINTER,
            "* filter=lfs diff=lfs\n*.tflite export-ignore text eol=crlf\n",
            "ref: refs/heads/base\n",
        ),
        *('[submodule "models"]\npath = models\nurl = file:///nowhere\n', "gitdir: ../embedded\n"),
        *("[core]\nbare = true\nworktree = /nowhere\nfsmonitor = touch HOOKED\n", *TEXTS),
    )
    return random.choice(texts)


def _add_to_work(added: _Files, random: Random) -> None:
    added["work"][_name(random)] = _content(random)


def _add_to_base(added: _Files, random: Random) -> None:
    added["base"][_name(random)] = [random.choice(_MODES), _content(random)]


def _add_link(added: _Files, random: Random) -> None:
    added["links"][_name(random)] = random.choice(
        (".", "..", "/", "/dev/zero", "net.tflite", "loop", _BASE, "/etc")
    )


def _embed(added: _Files, random: Random) -> None:
    """A repository in ordinary files whose base has the grown network; or the same by replacement."""
    place = random.choice(("models", "models", ".", "models/sub", "models/.git"))
    added["embedded"] = [place, random.choice((".", ".", "..", "../..", ""))]
    added["replaced"] = random.random() < 0.2


def _rename(added: _Files, random: Random) -> None:
    """Move the grown network; the one of the base may stay."""
    names = (
        "net2",
        "x",
        "NET",
        "a b",
        "é",
        "-x",
        "net.tflite",
        "[n]et",
        "*",
        "x\ny",
        "x" * 200,
        ":x",
        "sub/net",
    )
    added["renamed"] = f"models/{random.choice(names)}.tflite", random.random() < 0.3


REPOSITORIES = _Repositories()


def repositories(path: Path) -> Any:
    """The growth since the base; the network has grown, whatever is beside it."""
    added, top = _parsed(path), path.parent / "repository"
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(_template(path.parent), top, symlinks=True)
    _commit(top, added.get("base", {}))
    place, is_kept = added.get("renamed", (_BASE, False))
    (top / place).parent.mkdir(exist_ok=True)
    (top / _BASE).replace(top / place)
    if is_kept:
        _write(top, _BASE, _network(8))
    if added.get("replaced"):
        small, large = (_git(top, "hash-object", "-w", "--stdin", stdin=_network(each)) for each in (8, 32))
        _git(top, "replace", "-f", small, large)
    for name, target in added.get("links", {}).items():
        with contextlib.suppress(OSError, ValueError):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).symlink_to(target)
    for name, content in added.get("work", {}).items():
        if not os.path.normpath(name).startswith(".git/") and name not in (_BASE, _HEAD, place):
            _write(top, name, content.encode())
    if added.get("embedded"):
        where, tree = added["embedded"]
        with contextlib.suppress(OSError):
            shutil.copytree(_embedded(path.parent), top / where, dirs_exist_ok=True)
            core = f"bare = false\nworktree = {tree}" if tree else "bare = true"
            (top / where / "config").write_text(
                f"[core]\nrepositoryformatversion = 0\n{core}\nfsmonitor = touch HOOKED\n", "utf-8"
            )
    with _within(top):
        checks = sizeup.check_budgets(_HEAD, against="base")
    assert not [*top.rglob("HOOKED")], "a command of the tree has run"
    judged = [each for each in checks if not each.is_removed]
    if judged and all(each.fits for each in judged) and _is_as_written(top, place):
        raise WrongYes("YES for a network that grew", [each.to_dict() for each in checks])
    return [each.is_removed for each in checks]


def _is_as_written(top: Path, place: str) -> bool:
    """Whether the grown network is where the budget names it; `sub/` is not."""
    is_named = Path(place).parent == Path(_BASE).parent
    return (
        is_named
        and (top / place).read_bytes() == _network(32)
        and (top / _HEAD).read_text("utf-8") == _BUDGET
    )


@functools.cache
def _template(folder: Path) -> Path:
    """A repository with the base, and a work tree in which the network grew."""
    top = folder / "template"
    shutil.rmtree(top, ignore_errors=True)  # of a worker that has ended
    (top / "models").mkdir(parents=True)
    _git(top, "init", "-q", "--template=", "-b", "main")
    _write(top, _HEAD, _BUDGET.encode())
    _write(top, _BASE, _network(32))
    return top


@functools.cache
def _embedded(folder: Path) -> Path:
    """A bare repository whose base has the network of the work tree."""
    top = folder / "embedded"
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    _git(top, "init", "-q", "--bare", "--template=", "-b", "main")
    _commit(top, {}, 32)
    return top


def _commit(top: Path, added: _Files, width: int = 8) -> None:
    """Write the base: the network and files of any mode and name."""
    files: dict[str, tuple[str, bytes]] = {
        _BASE: ("100644", _network(width)),
        _HEAD: ("100644", _BUDGET.encode()),
    }
    files |= {"net.tflite": ("100644", _network(width))}
    stream = io.BytesIO()
    stream.write(b"commit refs/heads/base\ncommitter a <a@b> 0 +0000\ndata 0\n")
    for name, (mode, content) in files.items():
        stream.write(f"M {mode} inline {name}\ndata {len(content)}\n".encode() + content + b"\n")
    _git(top, "fast-import", "--quiet", "--force", stdin=stream.getvalue())
    for name, (mode, text) in added.items():
        if name == _BASE or mode == "040000":
            continue
        entry = io.BytesIO()
        entry.write(b"commit refs/heads/base\ncommitter a <a@b> 0 +0000\ndata 0\nfrom refs/heads/base^0\n")
        quoted = json.dumps(name, ensure_ascii=False)
        if mode == "160000":
            entry.write(f"M {mode} {'1' * 40} {quoted}\n".encode())
        else:
            entry.write(f"M {mode} inline {quoted}\ndata {len(text.encode())}\n{text}\n".encode())
        with contextlib.suppress(SizeupError, subprocess.CalledProcessError):
            _git(top, "fast-import", "--quiet", "--force", stdin=entry.getvalue())


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=True, env=environment)
    return done.stdout.decode().strip()
