"""Loads model files in a fresh process and reports what they make Python do beyond reading.

python audited.py BENIGN HOSTILE...: BENIGN is loaded twice, so that everything it needs is imported and
compiled; then every audit event that a hostile file causes is judged. One JSON line per hostile file.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path
from typing import Any

_INSTALLED = tuple(
    str(Path(each).resolve())
    for each in [*sysconfig.get_paths().values(), *filter(None, sys.path), str(Path(__file__).parent.parent)]
    if Path(each).exists()
)
_NEVER = (
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile", "subprocess.Popen",
    "pty.spawn", "ctypes.dlopen", "ctypes.dlsym", "socket.connect", "socket.bind", "socket.getaddrinfo",
    "socket.gethostbyname", "urllib.Request", "webbrowser.open", "pickle.find_class",
    "shutil.copyfile", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.symlink", "os.link",
    "builtins.input", "code.__new__", "shutil.rmtree",
)  # fmt: skip
events: list[str] = []
content = b""  # of the file that is being loaded
watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching:
        return
    if event in _NEVER:
        events.append(f"{event} {str(arguments)[:200]}")
    elif event == "exec":
        _judge_code(event, getattr(arguments[0], "co_filename", "?"))
    elif event == "compile":
        # ast.parse compiles to a tree, which nothing runs; only what is executed counts, above.
        _judge_compile(arguments)
    elif event == "import" and arguments[0].encode() in content:
        events.append(f"import of {arguments[0]}, which the file names")
    elif event == "open" and isinstance(arguments[0], str) and _writes(arguments):
        events.append(f"open for writing {arguments[0]}")


def _writes(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _judge_code(event: str, filename: str) -> None:
    if not str(Path(filename).resolve()).startswith(_INSTALLED):
        events.append(f"{event} of code from {filename}")


def _judge_compile(arguments: tuple[Any, ...]) -> None:
    filename = os.fsdecode(arguments[1]) if isinstance(arguments[1], str | bytes) else "?"
    caller = sys._getframe(2).f_code
    parses = caller.co_name == "parse" and Path(caller.co_filename).name == "ast.py"
    if not parses and not str(Path(filename).resolve()).startswith(_INSTALLED):
        events.append(f"compile of {filename}")


def _load(name: str, bind: dict[str, int]) -> str:
    import sizeup

    try:
        sizeup.analyze(name, bind=bind).to_dict()
    except sizeup.SizeupError as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def main() -> None:
    """Load what is named and print what happened."""
    global content, watching
    warnings.simplefilter("ignore")
    benign, *hostile = sys.argv[1:]
    bind = json.loads(os.environ.get("BIND", "{}"))
    for _ in range(2):
        assert _load(benign, bind) == "read", _load(benign, bind)
    tempfile.gettempdir()  # the first call tries out whether it can write there
    sys.addaudithook(_watch)
    for name in hostile:
        events.clear()
        path = Path(name.removeprefix("hf:"))
        content = path.read_bytes() if path.is_file() else b""
        watching = True
        try:
            outcome = _load(name, bind)
        finally:
            watching = False
        sys.stdout.write(json.dumps({"file": name, "outcome": outcome, "events": list(events)}) + "\n")


if __name__ == "__main__":
    main()
