"""Completion in real shells: what they offer at the end of a line, and after `--install-completion`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LINES = [
    ("sizeup ana", ["analyze"]),
    ("sizeup analyze --prec", ["--precision"]),
    ("sizeup analyze x.onnx -d stm32f7", ["stm32f746", "stm32f769"]),
    (
        "sizeup analyze x.onnx -d rpi5/to",
        ["rpi5/torch-eager", "rpi5/torch-inductor", "rpi5/torch-mobile"],
    ),
    ("sizeup analyze x.onnx --by ", ["kind", "module", "op", "precision", "tree"]),
    ("sizeup analyze mod", ["model.onnx", "model.tflite"]),
    ("sizeup analyze x.onnx -o mod", ["model.onnx", "model.tflite"]),
]
_SECONDS = 30.0


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it but the program, and a folder to work in with two files."""
    program = tmp_path / "bin" / "sizeup"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sizeup "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    for name in ("model.onnx", "model.tflite", "other.txt"):
        (work / name).touch()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.delenv("ZDOTDIR", raising=False)
    monkeypatch.chdir(work)
    return tmp_path


def installed(shell: str) -> None:
    """Install completion as documented: one command, typed in that shell."""
    done = subprocess.run(
        [shell, "-c", "sizeup --install-completion; true"], capture_output=True, text=True, check=True
    )
    assert f"{shell} completion installed" in done.stdout, done.stdout + done.stderr


def fish_offers(line: str) -> list[str]:
    done = subprocess.run(
        ["fish", "-c", "complete -C $argv[1]", line], capture_output=True, text=True, check=True
    )
    return sorted(each.partition("\t")[0] for each in done.stdout.splitlines())


def bash_offers(line: str) -> list[str]:
    """As Readline asks: the function that `complete` was given, and files where that offers nothing."""
    ask = """
    source ~/.bashrc
    words=($1); [[ "$1" == *" " ]] && words+=("")
    COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1)); COMP_LINE=$1; COMP_POINT=${#1}
    [[ $(complete -p sizeup) =~ "-o default -F "([^ ]+) ]] || exit 1
    ${BASH_REMATCH[1]} sizeup "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    [[ ${#COMPREPLY[@]} == 0 ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    command = ["bash", "--norc", "-c", ask, "bash", line]
    return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@contextlib.contextmanager
def zsh() -> Iterator[int]:
    """A zsh on a pseudoterminal; it lists completions instead of choosing one."""
    process, terminal = pty.fork()
    if not process:
        os.environ.update(TERM="dumb", ZDOTDIR=os.environ["HOME"])
        os.execvp("zsh", ["zsh", "-d", "-i"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    try:
        yield terminal
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(process, 0)


def read_until(terminal: int, sign: str) -> str:
    """What it shows until a sign appears."""
    shown, last = b"", time.monotonic() + _SECONDS
    while sign.encode() not in shown and time.monotonic() < last:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536)
    assert sign.encode() in shown, shown
    return shown.decode(errors="replace")


def zsh_offers(line: str) -> list[str]:
    with zsh() as terminal:
        read_until(terminal, "READY> ")
        os.write(terminal, f"{line}\t".encode())
        shown = read_until(terminal, "READY> ")
    return sorted(each.split(" ")[0] for each in re.findall(r"<<(.*?)>>", shown))


def prepare_zsh(home: Path) -> None:
    """Add to what was installed what makes its lists readable to a test: a prompt, and marks around words."""
    marks = " ".join(f"'{kind}=<<'" for kind in ("no", "fi", "ex"))
    with (home / ".zshrc").open("a") as file:
        file.write(
            "PS1='READY> '\nunsetopt zle_bracketed_paste prompt_sp\nLISTMAX=1000\n"
            "zstyle -d ':completion:*' menu\n"
            f"zstyle ':completion:*:default' list-colors {marks} 'ec=>>' 'lc=' 'rc=' 'rs='\n"
            "bindkey '^I' list-choices\n"
        )


@needs("fish")
def test_fish_offers_what_may_follow(home: Path) -> None:
    installed("fish")
    for line, offered in LINES:
        assert fish_offers(line) == offered, line


@needs("bash")
def test_bash_offers_what_may_follow(home: Path) -> None:
    installed("bash")
    for line, offered in LINES:
        assert bash_offers(line) == offered, line


@needs("zsh")
def test_zsh_offers_what_may_follow_at_the_first_press_of_the_key(home: Path) -> None:
    installed("zsh")
    installed("zsh")  # a second time changes nothing
    prepare_zsh(home)
    for line, offered in LINES:
        assert zsh_offers(line) == offered, line
