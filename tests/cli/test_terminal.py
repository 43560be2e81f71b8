"""The command line in a real terminal, a real shell and a real pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from sizeup import targets
from sizeup.cli.commands import unknown_command
from sizeup.cli.options import TIMED
from timing import undisturbed

COMMAND = [sys.executable, "-m", "sizeup"]


def said_on_a_terminal(arguments: list[str], *, term: str, columns: int = 80) -> tuple[str, str]:
    """What a run prints on stdout, and what it shows on a terminal that stderr is."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": term}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=slave,
        stdin=subprocess.DEVNULL,
        env=environment,
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(master)
    assert process.returncode == 0, shown
    return out.decode(), shown.decode(errors="replace")


@pytest.mark.extras
def test_progress_is_shown_on_a_terminal_but_not_on_a_dumb_one(keywords: Path) -> None:
    arguments = ["measure", str(keywords), "--runtime", "litert", "--seconds", "0.3", "--no-profile"]
    out, shown = said_on_a_terminal(arguments, term="xterm-256color")
    assert "timing mlperf_kws_int8.tflite" in shown
    assert "runs, fastest " in shown
    assert "timing" not in out
    out, shown = said_on_a_terminal(["analyze", str(keywords), "--json"], term="dumb")
    assert shown == ""
    assert out.startswith("{")


@pytest.mark.extras
def test_without_a_terminal_nothing_is_said_beside_the_result(keywords: Path) -> None:
    for arguments in (
        ["tradeoff", str(keywords), "--precisions", "int8"],
        ["precision", str(keywords), "--front", "loss,weights"],
    ):
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
        assert (done.stderr, bool(done.stdout)) == ("", True)


@pytest.mark.extras
@pytest.mark.parametrize(
    "arguments",
    [
        ["sizeup.compat.tflite_tools", "-i", "MODEL"],
        ["sizeup.compat.tensor_memory_filter", "--model_type", "mobilenetv2"],
        ["sizeup.compat.tensor_latency_predictor", "--model_type", "mobilenetv2"],
        ["sizeup", "analyze", "MODEL"],
        ["sizeup", "analyze", "MODEL", "--json"],
        ["sizeup", "plan", "MODEL"],
        ["sizeup", "tradeoff", "MODEL", "--json"],
        ["sizeup", "devices"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_reader_that_leaves_early_is_let_go(arguments: list[str], keywords: Path, tmp_path: Path) -> None:
    if "--model_type" in arguments:
        pytest.importorskip("torch")
    command = [str(keywords) if each == "MODEL" else each for each in arguments]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", *command], stdout=writer, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def completed(line: str, folder: Path) -> list[str]:
    """What a real bash offers at the end of a line, by the script that `--show-completion` prints."""
    program = folder / "sizeup"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sizeup "$@"\n')
    program.chmod(0o755)
    # As Readline does it: the words so far, and the function that `complete` was given.
    ask = """
    words=($LINE); [[ "$LINE" == *" " ]] && words+=("")
    COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1))
    COMP_LINE=$LINE; COMP_POINT=${#LINE}
    function=$(complete -p sizeup | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    $function sizeup "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\\n' "${COMPREPLY[@]}"
    complete -p sizeup >&2
    """
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LINE": line}
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script_of('bash')}\n{ask}"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    # Where we offer nothing bash falls back to its own, which are the names of files.
    assert "-o default" in done.stderr
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sizeup ana", ["analyze"]),
        ("sizeup analyze --prec", ["--precision"]),
        ("sizeup analyze x.onnx -d stm32f7", ["stm32f746", "stm32f769"]),
        (
            "sizeup analyze x.onnx -d rpi5/to",
            ["rpi5/torch-eager", "rpi5/torch-mobile", "rpi5/torch-inductor"],
        ),
        ("sizeup analyze x.onnx -d nowhere/", []),
        ("sizeup analyze x.onnx --precision int", ["int16", "int8", "int4", "int2"]),
        ("sizeup analyze x.onnx --by ", ["op", "module", "tree", "kind", "precision"]),
        ("sizeup measure x.onnx --runtime ", list(TIMED)),
        ("sizeup analyze ./mod", []),
    ],
)
def test_bash_completes(line: str, offered: list[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) == offered


def script_of(shell: str) -> str:
    """What `--show-completion` prints in that shell, which it finds out by the process above it."""
    environment = {**os.environ, "_SIZEUP_COMPLETE": f"source_{shell}"}
    return subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell: str) -> None:
    assert f"_SIZEUP_COMPLETE=complete_{shell}" in script_of(shell)


def test_names_for_completion_are_those_of_the_files_read_in_full() -> None:
    assert targets.names_of_kind("device") == [each.name for each in targets.devices()]
    assert targets.names_of_kind("runtime") == [each.name for each in targets.runtimes()]


def test_own_devices_are_completed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[[device]]\naliases = ["x"]\nname = "my-board"\n\n[[device]]\nlike = "rpi5"\nname = \'other\'\n'
    )
    monkeypatch.setenv(targets.VARIABLE, str(file))
    assert targets.names_of_kind("device")[:2] == ["my-board", "other"]


def test_completion_loads_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from sizeup.cli import completion, options\n"
        "assert completion.devices('rpi5/')\n"
        "print(*sorted({'numpy', 'torch', 'onnx', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.alone
def test_devices_are_offered_before_somebody_gets_impatient() -> None:
    """Half a second of CPU time of this program."""
    environment = {
        **os.environ,
        "_SIZEUP_COMPLETE": "complete_bash",
        "COMP_WORDS": "sizeup analyze x.onnx -d rpi",
        "COMP_CWORD": "4",
    }
    times = []
    for _ in range(5):
        with undisturbed() as taken:
            done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True)
        assert "rpi5" in done.stdout
        times.append(taken.seconds)
    assert min(times) < 0.5


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("analyse", "did you mean analyze?"),
        ("Plan", "did you mean plan?"),
        ("model.onnx", "sizeup analyze model.onnx"),
        ("timm:resnet50", "sizeup analyze timm:resnet50"),
        ("nonsense", "commands: analyze, plan"),
    ],
)
def test_word_that_is_no_verb_is_answered_with_one_that_is(typed: str, words: str) -> None:
    assert words in unknown_command(typed, ["analyze", "plan"])


@pytest.mark.parametrize("verb", ["analyze", "plan", "optimize"])
def test_mistyped_file_is_answered_with_those_near_it(verb: str, tmp_path: Path) -> None:
    for name in ("keywords.tflite", "keywords.txt", "unrelated.onnx"):
        (tmp_path / name).touch()
    more = ["-o", str(tmp_path / "less.tflite")] if verb == "optimize" else []
    command = [*COMMAND, verb, str(tmp_path / "keyword.tflite"), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.replace("\n", " ").endswith("no such file; similar names: keywords.tflite ")


def test_file_without_its_ending_is_found(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    done = subprocess.run(
        [*COMMAND, "analyze", str(tmp_path / "net")], capture_output=True, text=True, check=False
    )
    assert "similar names: net.onnx" in done.stderr
