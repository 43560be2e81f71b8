"""The steps of action.yml, `python -I tools/action.py cache|install|check`; inputs are in the environment.

Only the standard library is used, and no part of an input is evaluated or passed through a shell.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_BAD_INPUT = 2
_VERDICTS = {0: "yes", 1: "no", 3: "undetermined"}
_WILD = "*?["
_DEVICE_FILE = re.compile(r"(.+?\.(?:toml|json))(?=$|[:/])")
# As sizeup calls it: files of the checkout are no repository, and no object stands for another one.
_GIT = ("git", "--no-replace-objects", "-c", "safe.bareRepository=explicit")
_ROOT = Path(__file__).resolve().parent.parent
_LOCK = "tools/action_constraints.txt"


class InputError(ValueError):
    """An input of the Action cannot be used."""


def models(text: str, folder: Path) -> list[str]:
    """The models of an input that lists names and glob patterns, without duplicates.

    In a multi-line input each line is one name and may contain spaces; a single line is split at white space,
    except within quotes.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    names = [line.strip() for line in lines] if len(lines) > 1 else _words(text, "model", escape="")
    return list(dict.fromkeys(match for name in names if name for match in _expanded(name, folder)))


def options(text: str) -> list[str]:
    """Command-line arguments over any number of lines, quoted as in a POSIX shell."""
    return _words(text.replace("\r\n", "\n").replace("\\\n", " "), "args", escape="\\")


def _words(text: str, name: str, escape: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", escape
    try:
        return list(lexer)
    except ValueError as error:
        raise InputError(f"{name}: {error} in {text!r}") from None


def _expanded(name: str, folder: Path) -> Iterator[str]:
    """The name itself, or the files that match a pattern; symbolic links to folders are not followed."""
    is_file = (folder / name).exists()
    if is_file or not any(sign in name for sign in _WILD):
        yield name
    if not any(sign in name for sign in _WILD):
        return
    path = Path(name)
    root = Path(path.anchor) if path.is_absolute() else folder
    try:
        pattern = str(path.relative_to(path.anchor)) if path.is_absolute() else name
        files = sorted(file for file in root.glob(pattern) if file.is_file())
    except (ValueError, NotImplementedError, OSError) as error:
        raise InputError(f"model: {name!r} is not a glob pattern: {error}") from None
    if not files and not is_file:
        raise InputError(f"model: no file matches {name!r} in {folder}")
    yield from (str(file if path.is_absolute() else file.relative_to(folder)) for file in files)


def requirements(text: str, pyproject: str) -> list[str]:
    """What sizeup is built by and needs, with the extras of an input."""
    import tomllib  # from Python 3.11, as the locked versions

    content = tomllib.loads(pyproject)
    known = content["project"]["optional-dependencies"]
    needed = [*content["build-system"]["requires"], *content["project"]["dependencies"]]
    left = [name.strip() for name in text.split(",") if name.strip()]
    while left:
        name = left.pop()
        if name not in known:
            raise InputError(f"extras: {name!r} is unknown; known: {', '.join(known)}")
        for each in known[name]:
            own = re.fullmatch(r"sizeup\[(.*)\]", each)
            if own is None:
                needed.append(each)
            else:
                left += own[1].split(",")
    return needed


def install(environment: Mapping[str, str]) -> int:
    """Installs what sizeup needs by locked versions and hashes, and sizeup itself as it is in this folder."""
    project, lock = ((_ROOT / name).read_text("utf-8") for name in ("pyproject.toml", _LOCK))
    try:
        if sys.version_info < (3, 11):
            raise InputError("python-version: 3.11 or newer is needed")
        needed = requirements(environment.get("SIZEUP_EXTRAS", ""), project)
    except InputError as error:
        return _bad_input(error)
    with tempfile.TemporaryDirectory() as folder:
        # Older versions of pip take no hashes from constraints.
        pip = Path(folder, "pip.txt")
        pip.write_text("".join(re.findall(r"^pip==.*\\\n(?:    --hash=.*\n)+", lock, re.MULTILINE)), "utf-8")
        # Sources are not built: what that needs has no hashes.
        locked = ("--require-hashes", "--only-binary=:all:")
        commands = [
            [*locked, f"--requirement={pip}"],
            [*locked, f"--constraint={_ROOT / _LOCK}", *needed],
            ["--no-index", "--no-deps", "--no-build-isolation", str(_ROOT)],
        ]
        start = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        ended = (subprocess.run([*start, *command], check=False).returncode for command in commands)
        return next(filter(None, ended), 0)


def base_revision(environment: Mapping[str, str]) -> str:
    """The commit that a pull request is merged into; '' for other events and the policy of the tree.

    A pull request must not choose the limits that judge it.
    """
    branch = environment.get("GITHUB_BASE_REF")
    policy = environment.get("SIZEUP_POLICY") or "base"
    if policy not in ("base", "tree"):
        raise InputError(f"policy: {policy!r} is not base or tree")
    if not branch or policy == "tree":
        return ""
    event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    for name in (event["pull_request"]["base"]["sha"], f"refs/remotes/origin/{branch}"):
        found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if found.returncode == 0:
            return found.stdout.decode("ascii").strip()
    raise InputError(
        f"budget: the base of the pull request, {branch}, is not in the checkout, which its policy"
        " is read from; set fetch-depth: 0 for actions/checkout"
    )


def budget_of(name: str, base: str) -> str:
    """The budget file at the base; the name unchanged if there is none, or it has a revision already."""
    if not base or ":" in name:
        return name
    if _content(name, base) is None:
        text = f"{name} is not in the base of the pull request: it is judged by its own policy"
        print(f"::notice title=sizeup check::{_escaped(text)}", flush=True)
        return name
    return f"{base}:{_relative(name)}"


def target_of(name: str, base: str, folder: Path) -> str:
    """The target, with a device file replaced by that of the base, if there is one."""
    match = _DEVICE_FILE.match(name)
    content = _content(match[1], base) if match and base else None
    if match is None or content is None:
        return name
    copy = folder / Path(match[1]).name
    copy.write_bytes(content)
    return f"{copy}{name[match.end() :]}"


def _content(name: str, base: str) -> bytes | None:
    """The content of a file at the base; None if the base does not have it."""
    path = Path(os.path.relpath(name))
    for part in (*list(path.parents)[-2::-1], path):  # without the root
        listed = _git("ls-tree", "-z", base, "--", part.as_posix())
        if listed.returncode != 0 or listed.stdout.startswith((b"120000", b"160000")):
            raise InputError(
                f"{name}: {part} is a link in the base of the pull request, or cannot be read there;"
                " name the file itself"
            )
        if part == path and not listed.stdout:
            return None
    done = _git("cat-file", "blob", f"{base}:{_relative(name)}")
    if done.returncode != 0:
        raise InputError(f"{name}: cannot be read from the base; set fetch-depth: 0 without a filter")
    return done.stdout


def _relative(name: str) -> str:
    """The path of a file from the working directory, as git takes it after a revision."""
    return f"./{Path(os.path.relpath(name)).as_posix()}"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*_GIT, *arguments], check=False, capture_output=True)


def check(environment: Mapping[str, str]) -> int:
    """Runs `sizeup check`, writes the summary and the outputs of the step, and returns the exit code."""
    reports = Path(tempfile.mkdtemp(prefix="sizeup-", dir=environment.get("RUNNER_TEMP") or None))
    files = {"json": "check.json", "markdown": "check.md", "junit": "check.xml"}
    paths = {name: reports / file for name, file in files.items()}
    command = ["sizeup", "check", "--github"]
    command += [f"--output={paths['json']}", f"--output={paths['markdown']}", f"--junit={paths['junit']}"]
    target, budget = environment.get("SIZEUP_TARGET"), environment.get("SIZEUP_BUDGET")
    try:
        base = base_revision(environment) if target or budget else ""
        command += [f"--device={target_of(target, base, reports)}"] if target else []
        # A budget has limits by default. Later options win, so that `args` may set others.
        limits = ["--time-limit=300", "--memory-limit=4GiB"]
        command += [f"--budget={budget_of(budget, base)}"] if budget else limits
        command += options(environment.get("SIZEUP_ARGS", ""))
        # After `--` a model whose name starts with a dash is not an option.
        command += ["--", *models(environment.get("SIZEUP_MODEL", ""), Path.cwd())]
    except InputError as error:
        code = _bad_input(error)
    else:
        code = subprocess.run(command, check=False).returncode
    written = {name: str(path) for name, path in paths.items() if path.is_file()}
    # A crash also ends with 1, but writes no report.
    verdict = _VERDICTS.get(code, "error") if "json" in written else "error"
    outputs = {"verdict": verdict, **written}
    _append("GITHUB_OUTPUT", environment, (f"{name}={value}\n" for name, value in outputs.items()))
    if "markdown" in written:
        _append("GITHUB_STEP_SUMMARY", environment, [paths["markdown"].read_text("utf-8")])
    return code


def cache(environment: Mapping[str, str]) -> int:
    """Writes pip's cache folder, and a cache key that covers all inputs of pip's downloads."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pip", "cache", "dir"], check=True, capture_output=True, text=True
    )
    content = (_ROOT / "pyproject.toml").read_bytes() + (_ROOT / _LOCK).read_bytes()
    digest = hashlib.sha256(content + environment.get("SIZEUP_EXTRAS", "").encode()).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = f"sizeup-pip-{sys.platform}-{platform.machine()}-{python}-{digest}"
    _append("GITHUB_OUTPUT", environment, [f"folder={done.stdout.strip()}\n", f"key={key}\n"])
    return 0


def _append(name: str, environment: Mapping[str, str], lines: Iterable[str]) -> None:
    """Appends to the file named by an environment variable."""
    if environment.get(name):
        with Path(environment[name]).open("a", encoding="utf-8") as file:
            file.writelines(lines)


def _bad_input(error: InputError) -> int:
    """Prints an error as a workflow command and returns the exit code."""
    print(f"::error title=sizeup check::{_escaped(str(error))}", flush=True)
    return _BAD_INPUT


def _escaped(text: str) -> str:
    """The text escaped as the data of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit({"cache": cache, "install": install, "check": check}[sys.argv[1]](os.environ))
