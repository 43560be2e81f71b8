"""Calls that only some systems have, and what guards each of them.

`sizeup` is to run on Linux, macOS and Windows. The table lists every place of the package that uses a module,
function or file which not all three have; a new place fails until it is guarded and listed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sizeup

SOURCE = Path(sizeup.__file__).parent

MODULES = {"fcntl", "grp", "msvcrt", "pty", "pwd", "resource", "termios", "tty", "winreg"}
FUNCTIONS = {
    "chown",
    "fork",
    "forkpty",
    "geteuid",
    "getuid",
    "killpg",
    "mkfifo",
    "nice",
    "prctl",
    "sched_getaffinity",
    "sched_setaffinity",
    "setpgid",
    "setsid",
    "sysconf",
    "uname",
}
FOLDERS = ("/proc", "/sys", "/dev/shm")

GUARDED = {
    ("calibration/host.py", "/proc"): "OSError",
    ("calibration/host.py", "/sys"): "OSError",
    ("calibration/host.py", "sysconf"): "AttributeError",
    ("cli/clock.py", "/proc"): "OSError",
    ("cli/clock.py", "sysconf"): "AttributeError",
    ("cli/query.py", "/proc"): "OSError",
    ("cli/query.py", "resource"): "ModuleNotFoundError",
    ("files.py", "chown"): "hasattr",
    ("sweeps/store.py", "fcntl"): "ModuleNotFoundError",
    ("workers/forked.py", "fork"): "CAN_FORK",
    ("workers/forked.py", "setsid"): "CAN_FORK",
    ("workers/supervisor.py", "/proc"): "OSError",
    ("workers/supervisor.py", "killpg"): "hasattr",
    ("workers/supervisor.py", "sysconf"): "OSError",
    ("workers/worker.py", "prctl"): "sys.platform",
    ("workers/worker.py", "resource"): "ModuleNotFoundError",
}


def uses(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that use something which not all systems have, with its name in the table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, name.name) for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield node, node.module
        elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            yield node, node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            yield from ((node, folder) for folder in FOLDERS if node.value.startswith(f"{folder}/"))


def guards(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """The statements that guard what is in them, with what they are guarded by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            caught = " ".join(ast.unparse(handler.type) for handler in node.handlers if handler.type)
            yield from ((statement, caught) for statement in node.body)
        elif isinstance(node, ast.If):
            yield from ((statement, ast.unparse(node.test)) for statement in node.body)
        elif isinstance(node, ast.With):
            yield node, " ".join(ast.unparse(item.context_expr) for item in node.items)
        elif isinstance(node, ast.FunctionDef):
            # A function that returns early where the system lacks the call, or is called for its result only.
            for position, statement in enumerate(node.body):
                if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return):
                    yield from ((after, ast.unparse(statement.test)) for after in node.body[position + 1 :])
                elif isinstance(statement, ast.Try) and any(
                    isinstance(handler.body[-1], ast.Return) for handler in statement.handlers
                ):
                    caught = " ".join(ast.unparse(each.type) for each in statement.handlers if each.type)
                    yield from ((after, caught) for after in node.body[position + 1 :])


def places() -> Iterator[tuple[str, str, str]]:
    """File, name in the table and all guards around each use."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        around = [({id(each) for each in ast.walk(node)}, text) for node, text in guards(tree)]
        for node, name in uses(tree):
            yield (
                path.relative_to(SOURCE).as_posix(),
                name,
                " ".join(text for members, text in around if id(node) in members),
            )


def test_every_call_that_only_some_systems_have_is_guarded_and_listed() -> None:
    seen = set()
    for file, name, around in places():
        assert (file, name) in GUARDED, f"{file} uses {name}: guard it, and list it in GUARDED"
        assert GUARDED[file, name] in around, f"{file}: {name} is not guarded by {GUARDED[file, name]}"
        seen.add((file, name))
    assert seen == set(GUARDED), "listed, but no longer used"


def test_a_use_without_a_guard_is_found() -> None:
    tree = ast.parse("import fcntl\ntry:\n    import resource\nexcept ImportError:\n    resource = None\n")
    assert [name for _, name in uses(tree)] == ["fcntl", "resource"]
    guarded = {id(each) for node, _ in guards(tree) for each in ast.walk(node)}
    assert [name for node, name in uses(tree) if id(node) not in guarded] == ["fcntl"]
