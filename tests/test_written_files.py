"""No file is written but by `sizeup.files`: every call that could write one, found in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sizeup

SOURCE = Path(sizeup.__file__).parent
WRITES = [
    "write_text",
    "write_bytes",
    "savefig",
    "to_csv",
    "to_parquet",
    "savez",
    "savez_compressed",
    "tofile",
    "copy2",
    "copyfile",
    "copyfileobj",
    "copytree",
    "move",
    "symlink_to",
    "hardlink_to",
    "touch",
    "extractall",
    "fdopen",
    "mkstemp",
    "NamedTemporaryFile",
    "TemporaryFile",
    "ParquetWriter",
    "CSVWriter",
    "write_table",
    "write_csv",
]
# Names of these that mean something else elsewhere.
OF_MODULES = frozenset({"np", "torch", "onnx", "shutil", "json", "pickle", "cloudpickle"})
OF_A_MODULE = frozenset({"save", "save_model", "copy", "dump"})
OPENS = frozenset({"open", "memmap", "ZipFile", "GzipFile", "TarFile"})
# What gives a path whose content replaces a file in one step; `writing` is that for stores.
REPLACES = frozenset({"atomic_path", "writing"})

SCRATCH = "a temporary folder of our own, gone when the run ends"
PIPE = "a pipe to the process that started this one"
ALLOWED = {
    "files.py:_create_temporary": "the module itself",
    "files.py:_open_without_waiting": "opens for reading",
    "files.py:_sync": "the module itself",
    "files.py:_open_pipe": "a pipe that the user named",
    "workers/forked.py:ForkedWorker.__init__": PIPE,
    "formats/onnx/write.py:write": "a path of `atomic_path`, which is run before it is put in place",
    "sweeps/store.py:_write_parquet": "a path of `Storage.draft`",
    "render/data/query.py:save": "by sweeps.query, which replaces the file in one step",
    "compat/tflite_tools.py:TFLiteModel._rewrite": SCRATCH,
    "checks/revision.py:Revision._extract": SCRATCH,
    "formats/torch/runnable.py:write": SCRATCH,
    "runtimes/process.py:model_path": SCRATCH,
    "runtimes/process.py:save_samples": SCRATCH,
    "runtimes/vela.py:_compile": SCRATCH,
    "runtimes/vela_compiler.py:_printed": SCRATCH,
    "runtimes/vela_compiler.py:_system_config": SCRATCH,
    "workers/supervisor.py:Supervisor.__init__": SCRATCH,
    "workers/worker.py:main": PIPE,
    "sweeps/engine/ray.py:_silent": "/dev/null",
    "render/console/layout.py:forget_output": "/dev/null",
    "cli/commands.py:_HelpFormatter.write_text": "a method of the same name that collects the text of --help",
    "mixed_precision/result_cache.py:ResultCache.write": "a cache that is appended to; a cut line is skipped",
    "sweeps/run.py:_log": "a log that is read while it grows",
    "sweeps/store.py:Store._open_lock": "a lock file without content",
}


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _mode(call: ast.Call) -> str:
    """The mode of an opened file: the first short text among its arguments, or nothing."""
    texts = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
    values = [each.value for each in texts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return next((each for each in values if set(each) <= set("rwaxbt+c")), "")


def _could_write(call: ast.Call) -> bool:
    module = getattr(call.func.value, "id", "") if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name) and call.func.id in ("write_text", "write_bytes"):
        return False  # our own
    if _name(call) in OPENS:
        return module == "os" or bool(set(_mode(call)) & set("wax+"))
    return _name(call) in WRITES or (module in OF_MODULES and _name(call) in OF_A_MODULE)


def _given(tree: ast.With | ast.AsyncWith) -> set[str]:
    """The names of paths that a block got from `atomic_path`."""
    return {
        item.optional_vars.id
        for item in tree.items
        if isinstance(item.context_expr, ast.Call)
        and _name(item.context_expr) in REPLACES
        and isinstance(item.optional_vars, ast.Name)
    }


def writes(tree: ast.AST, place: str = "", given: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Functions and their calls that may write a file, other than to a path of `atomic_path`."""
    if isinstance(tree, ast.With | ast.AsyncWith):
        given = given | _given(tree)
    if isinstance(tree, ast.FunctionDef | ast.ClassDef):
        place = f"{place}.{tree.name}".lstrip(".")
    if isinstance(tree, ast.Call) and _could_write(tree):
        receiver = tree.func.value if isinstance(tree.func, ast.Attribute) else None
        if not {each.id for each in (receiver, *tree.args) if isinstance(each, ast.Name)} & given:
            yield place, ast.unparse(tree)
    for child in ast.iter_child_nodes(tree):
        yield from writes(child, place, given)


def found() -> dict[str, list[str]]:
    """By module and function the calls in it."""
    calls: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for place, call in writes(ast.parse(path.read_text("utf-8"))):
            calls.setdefault(f"{path.relative_to(SOURCE).as_posix()}:{place}", []).append(call)
    return calls


def test_only_the_listed_functions_write_files_themselves() -> None:
    calls = found()
    new = {place: calls[place] for place in calls.keys() - ALLOWED.keys()}
    assert new == {}, "use sizeup.files.atomic_path or write_text, or say here why not"
    assert ALLOWED.keys() - calls.keys() == set(), "nothing is written there any more"


@pytest.mark.parametrize(
    ("line", "is_seen"),
    [
        ("Path(p).write_text('x')", True),
        ("open(p, 'w')", True),
        ("p.open(mode='ab')", True),
        ("p.open('x', encoding='utf-8')", True),
        ("os.open(p, flags)", True),
        ("shutil.copyfile(a, b)", True),
        ("figure.savefig(p)", True),
        ("with atomic_path(p) as new:\n    other.write_bytes(b'')", True),
        ("with atomic_path(p) as new:\n    new.write_bytes(b'')", False),
        ("write_text(p, lines)", False),
        ("p.open('rb')", False),
        ("open(p)", False),
    ],
)
def test_a_new_write_is_seen(line: str, is_seen: bool) -> None:
    assert bool(list(writes(ast.parse(line)))) is is_seen
