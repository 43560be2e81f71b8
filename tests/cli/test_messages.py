"""Messages on stderr: files that were written, and one or two lines per error."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from sizeup.cli import app, commands, main

Ended = tuple[int, str, str]
Run = Callable[..., Ended]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command line in an empty folder, without a terminal: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def ended(*arguments: str | Path) -> Ended:
        with pytest.raises(SystemExit) as left:
            main([str(each) for each in arguments])
        captured = capfd.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    return ended


WRITING = (
    ("analyze MODEL -o report.html", ["report.html"]),
    (
        "analyze MODEL -o report.json -o report.csv --plot report.svg",
        ["report.json", "report.csv", "report.svg"],
    ),
    ("analyze MODEL --json -o report.md", ["report.md"]),
    ("check MODEL -d stm32f746 --no-remedies -o check.md --junit check.xml", ["check.md", "check.xml"]),
    ("compare MODEL MODEL -o both.csv", ["both.csv"]),
    ("plan MODEL --no-reorder --search-limit 1 -o plan.csv --plot plan.svg", ["plan.csv", "plan.svg"]),
    ("precision MODEL --weights 24KiB -o choice.json", ["choice.json"]),
    ("tradeoff MODEL --precisions int8 -o points.csv --plot points.svg", ["points.csv", "points.svg"]),
    ("measure MODEL --runtime litert --seconds 0.1 --no-profile -o times.json", ["times.json"]),
)


@pytest.mark.extras
@pytest.mark.parametrize(("command", "files"), WRITING, ids=[each for each, _ in WRITING])
def test_command_prints_the_files_it_has_written(
    run: Run, keywords: Path, tmp_path: Path, command: str, files: list[str]
) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = run(*(keywords if each == "MODEL" else each for each in command.split()))
    assert code == 0
    assert out
    lines = err.splitlines()
    assert [line.partition(" written, ")[0] for line in lines] == files
    for file, line in zip(files, lines, strict=True):
        amount, unit = line.rpartition(", ")[2].split()
        printed = float(amount.replace(",", "")) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
        assert printed == pytest.approx((tmp_path / file).stat().st_size, rel=0.005)


@pytest.mark.extras
@pytest.mark.parametrize("word", ["-q", "--quiet"])
def test_quiet_command_writes_without_notes(run: Run, keywords: Path, tmp_path: Path, word: str) -> None:
    code, out, err = run("analyze", keywords, "-o", "report.html", word)
    assert (code, err) == (0, "")
    assert "13 of 13 operators counted" in out
    assert (tmp_path / "report.html").is_file()
    # --quiet applies to one command, and errors are printed.
    assert run("analyze", keywords, "-o", "report.html")[2].startswith("report.html written, ")
    assert run("analyze", "nowhere.onnx", word)[2].startswith("sizeup: nowhere.onnx: no such file")


MISUSE = (
    ("anlyze x.onnx", "unknown command 'anlyze'; did you mean analyze?", "sizeup --help lists all commands"),
    ("Optimize x.onnx", "unknown command 'Optimize'; did you mean optimize?", "sizeup --help"),
    ("qqq", "unknown command 'qqq'; commands: analyze, explain, check", "sizeup --help"),
    ("latency x.onnx", "unknown command 'latency'; type: sizeup analyze MODEL -d TARGET", "sizeup --help"),
    ("latancy x.onnx", "unknown command 'latancy'; type: sizeup analyze MODEL -d TARGET", "sizeup --help"),
    ("memory", "type: sizeup plan MODEL", "sizeup --help"),
    ("filter", "type: sizeup precision MODEL --fits 512KiB", "sizeup --help"),
    ("profile", "type: sizeup measure MODEL", "sizeup --help"),
    ("roofline", "type: sizeup analyze MODEL -d TARGET --plot x.roofline.png", "sizeup --help"),
    ("quantize", "type: sizeup precision MODEL --weights 256KiB -o map.json", "sizeup --help"),
    (
        "precision x.onnx --flash 1MiB",
        "no such option: --flash; did you mean --weights?",
        "sizeup precision --help",
    ),
    ("tradeoff x.onnx --arena 9KiB", "did you mean --activations?", "sizeup tradeoff --help"),
    ("tflite_tools.py", "type: python -m sizeup.compat.tflite_tools", "sizeup --help"),
    ("dnn-analyzer", "type: python -m sizeup.compat.dnn_analyzer", "sizeup --help"),
    ("x.onnx", "'x.onnx' is a model, not a command; type: sizeup analyze x.onnx", "sizeup --help"),
    ("-q analyze x.onnx", "no such option: -q", "put -q after the command: sizeup COMMAND -q"),
    ("--verson", "did you mean --version?", "sizeup --help lists all commands"),
    ("analyze x.onnx --devise rpi5", "--devise; did you mean --device?", "sizeup analyze --help"),
    ("analyze x.onnx --by color", "unknown --by 'color'; known: op, module, tree", "sizeup analyze --help"),
    ("analyze x.onnx y.onnx", "y.onnx", "sizeup analyze --help lists all options"),
    ("analyze", "missing argument 'MODEL'", "Example: sizeup analyze model.onnx"),
    ("compare a.onnx", "missing argument 'B'", "Example: sizeup compare "),
    ("optimize a.onnx", "missing option '--output'", "Example: sizeup optimize model.tflite -d stm32f746"),
    ("sweep", "missing SPEC.toml and -o DIR", "Example: sizeup sweep registry.toml -o results"),
    ("check", "give a MODEL with -d TARGET, or --budget FILE", "sizeup check --help"),
    ("analyze x.onnx --top 0", "sizeup: --top 0: must be at least 1", "sizeup analyze --help"),
    ("analyze x.onnx --top few", "sizeup: --top few: not a whole number, e.g. 10", "sizeup analyze --help"),
    (
        "plan x.onnx --alignment 9999999999",
        "--alignment 9999999999: must be at most 1073741824",
        "sizeup plan --help",
    ),
    (
        "optimize x.onnx -o y.onnx --search-limit abc",
        "sizeup: --search-limit abc: not a number, e.g. 60",
        "sizeup optimize --help",
    ),
)


@pytest.mark.parametrize(("command", "what", "where"), MISUSE, ids=[each for each, _, _ in MISUSE])
def test_command_that_cannot_be_understood_is_answered_in_two_lines(
    run: Run, command: str, what: str, where: str
) -> None:
    code, out, err = run(*command.split())
    assert (code, out) == (2, "")
    message, look = err.splitlines()
    assert message.startswith("sizeup: ")
    assert what in message
    assert look.startswith(where)


@pytest.mark.parametrize("command", sorted(set(commands._INSTEAD.values())))
def test_command_that_is_offered_for_a_word_exists(command: str) -> None:
    program, *words = command.split()
    if program == "python":
        assert importlib.util.find_spec(words[1]) is not None
        return
    verb = get_command(app).commands[words[0]]  # type: ignore[attr-defined]  # it is a group of commands
    options = {option for each in verb.params for option in each.opts}
    assert options.issuperset(word for word in words if word.startswith("-"))


def test_option_without_its_value_is_named(run: Run) -> None:
    code, out, err = run("analyze", "x.onnx", "-d")
    assert (code, out) == (2, "")
    assert err.startswith("sizeup: option '-d' requires an argument")


BAD = (
    ("analyze https://example.org/model.onnx", "URLs are not supported; download the file and pass its path"),
    ("analyze folder", "folder is a folder; give a .tflite, .onnx"),
    ("analyze weights.pt", "save the model with torch.export.save(...)"),
    ("analyze nowhere.onnx", "no such file; give a .tflite, .onnx"),
    ("analyze notes.txt", "unknown model format; give a .tflite, .onnx"),
    ("analyze config.json", "no graph; sizeup llm reads language models; hf:config.json"),
    ("devices stm32f476", "nearest: stm32l476"),
    ("analyze weights.pt --precision int9", "unknown precision 'int9'; known: fp64, fp32"),
    ("calibrate --csv times.csv --device x", "times.csv: no such file"),
    ("check weights.pt", "give a target (-d TARGET), a limit such as --arena 64KiB, or --budget FILE"),
)
BAD_MODELS = (
    ("empty.tflite", "the file is empty; convert or download it again"),
    ("text.tflite", "not a TFLite file"),
    ("empty.onnx", "save it again with onnx.save"),
    ("text.onnx", "save it again with onnx.save"),
    ("torchvision:resnet5O", "did you mean resnet50"),
    ("good.onnx --precision types.json", "types.json: no such file"),
    ("no.such.package:net", "add that folder to PYTHONPATH"),
)


def assert_one_line(ended: Ended, message: str) -> None:
    code, out, err = ended
    assert (code, out) == (2, "")
    assert err.startswith("sizeup: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.fixture
def bad_files(tmp_path: Path) -> None:
    """Files that are not models."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "weights.pt").write_bytes(pickle.dumps({"weight": 1}))
    for name in ("notes.txt", "config.json", "text.tflite", "text.onnx"):
        (tmp_path / name).write_text("no model at all, but long enough to hold one\n")
    for name in ("empty.tflite", "empty.onnx"):
        (tmp_path / name).touch()


@pytest.mark.parametrize(("command", "message"), BAD, ids=[each for each, _ in BAD])
def test_bad_input_is_answered_in_one_line_that_says_what_to_do(
    run: Run, bad_files: None, tmp_path: Path, command: str, message: str
) -> None:
    if "nowhere" in command:  # files of like names would be offered instead
        for name in ("empty.onnx", "text.onnx"):
            (tmp_path / name).unlink()
    assert_one_line(run(*command.split()), message)


@pytest.mark.extras
@pytest.mark.parametrize(("model", "message"), BAD_MODELS, ids=[each for each, _ in BAD_MODELS])
def test_bad_model_is_answered_in_one_line_that_says_what_to_do(
    run: Run, bad_files: None, model: str, message: str
) -> None:
    for name in ("torch", "onnx", "ai_edge_litert"):
        pytest.importorskip(name)
    if model.startswith("torchvision:"):
        pytest.importorskip("PIL")
    if model.startswith("good.onnx"):
        write_onnx(Path("good.onnx"))
    assert_one_line(run("analyze", *model.split()), message)


def write_onnx(path: Path) -> None:
    """A model of one operator."""
    from onnx import TensorProto, helper, save

    source, output = (helper.make_tensor_value_info(each, TensorProto.FLOAT, [1, 4]) for each in "xy")
    save(
        helper.make_model(
            helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [source], [output])
        ),
        path,
    )


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_file_without_rights_is_named() -> None:
    """Root drops its privileges once everything has been imported."""
    code = (
        "import os, sys\n"
        "from sizeup.cli import main\n"
        "def run(name):\n"
        "    try:\n        main(['analyze', name])\n"
        "    except SystemExit as left:\n        return left.code\n"
        "run('nowhere.onnx')\n"
        "os.geteuid() or os.seteuid(65534)\n"
        "sys.exit(run('secret.onnx'))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        model = Path(folder) / "secret.onnx"
        model.write_bytes(b"no matter")
        model.chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1:] == ["sizeup: secret.onnx: cannot be read: Permission denied"]


MISSING = (
    ("model.tflite", "ai_edge_litert", "pip install 'sizeup[tflite]'"),
    ("model.onnx", "onnx", "pip install 'sizeup[onnx]'"),
    ("model.pt2", "torch", "pip install 'sizeup[torch]'"),
    ("torchvision:resnet50", "torch", "pip install 'sizeup[torch]'"),
)


@pytest.mark.parametrize(("model", "package", "line"), MISSING, ids=[each for each, _, _ in MISSING])
def test_extra_that_is_missing_is_named_as_it_is_installed(
    tmp_path: Path, model: str, package: str, line: str
) -> None:
    (tmp_path / model).write_bytes(b"no matter")
    code = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        f"from sizeup.cli import main\nmain(['analyze', {model!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path if ":" not in model else tmp_path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sizeup: reading ")
    assert done.stderr.endswith(f"{line}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ("check", "model.tflite", "-d", "pico", "--device=nano33ble"),
            "sizeup devices --for MODEL ranks boards",
        ),
        (("llm", "config.json", "-d", "h100", "-d", "h200"), "sizeup sweep compares clusters"),
        (("compare", "a.tflite", "b.tflite", "-dpico", "-d", "nano33ble"), "--device-b is the target of B"),
    ],
)
def test_a_second_target_is_refused(run: Run, arguments: tuple[str, ...], hint: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert f"-d is given 2 times, and only one target counts; {hint}" in err


@pytest.mark.parametrize(("file", "module"), [("net.py", "net"), ("nets/net.py", "nets.net")])
def test_a_python_file_is_answered_with_the_name_of_its_module(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, module: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).touch()
    assert f"{file}: give {module}:NAME, " in run("analyze", file)[2]


_LONG = "a" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        f"query {_LONG}",
        f"query {'a/' * 3000}",
        f"query store --against {_LONG}",
        f"query store --join {_LONG}.csv",
        f"query store -o {_LONG}/x.csv",
        f"sweep sweep.toml -o {_LONG}",
        f"check MODEL -d {_LONG}.toml",
        f"check MODEL --macs 1M --junit {_LONG}.xml",
        f"analyze MODEL --rules {_LONG}.py",
        f"analyze MODEL -o {_LONG}/x.json",
        f"optimize {_LONG}.onnx -o x.onnx",
        f"compare {_LONG}.onnx MODEL",
        f"check --budget {_LONG}/x.toml",
        f"precision MODEL --weights 1KiB -o {_LONG}.json",
    ],
    ids=lambda text: text[:24],
)
def test_name_that_is_too_long_is_answered_in_one_line(run: Run, arguments: str, keywords: Path) -> None:
    if "store" in arguments:
        Path("sweep.toml").write_text(f'models = ["{keywords}"]\ntargets = ["rpi5/ort"]\n', "utf-8")
        run("sweep", "sweep.toml", "-o", "store", "--in-process")
    code, _, err = run(*(keywords if word == "MODEL" else word for word in arguments.split()))
    assert code == 2
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1, err
