"""What holds of the house as a whole: imports, public names, the error tree, sizes of files, words."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import sizeup
from sizeup import errors

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(sizeup.__file__).parent
HEAVY = ("torch", "onnx", "ai_edge_litert", "flatbuffers", "rich", "typer", "pandas", "matplotlib", "numpy")
LINES = 900


def drawn_tree() -> list[tuple[int, str]]:
    drawing = re.compile(r"^((?:[│ ]   )*(?:[├└]── )?)(\w+)$")
    found = []
    for line in (errors.__doc__ or "").splitlines():
        match = drawing.match(line)
        if match:
            found.append((len(match[1]) // 4, match[2]))
    return found


def class_tree(root: type[Exception], depth: int = 0) -> Iterator[tuple[int, str]]:
    yield depth, root.__name__
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from class_tree(child, depth + 1)


def test_the_drawn_error_tree_is_the_class_tree() -> None:
    assert drawn_tree() == list(class_tree(errors.SizeupError))


def test_every_error_says_what_it_means() -> None:
    classes = [each for each in vars(errors).values() if inspect.isclass(each)]
    assert len(classes) > 5
    assert [each.__name__ for each in classes if not (each.__doc__ or "").strip().endswith((".", ")"))] == []


def test_all_is_exact() -> None:
    assert len(set(sizeup.__all__)) == len(sizeup.__all__)
    assert dir(sizeup) == sorted(sizeup.__all__)
    for name in sizeup.__all__:
        assert getattr(sizeup, name) is not None, name


def test_a_name_that_is_not_public_is_refused() -> None:
    name = "analyse_everything"
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
        getattr(sizeup, name)


def test_every_public_name_is_documented() -> None:
    documented = [
        name
        for name in sizeup.__all__
        if inspect.isroutine(getattr(sizeup, name)) or inspect.isclass(getattr(sizeup, name))
    ]
    assert {"analyze", "count", "load", "op_rule"} <= set(documented)
    assert [name for name in documented if not inspect.getdoc(getattr(sizeup, name))] == []


def fresh(code: str) -> str:
    """What a new interpreter prints when it runs this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_sizeup_loads_nothing_heavy() -> None:
    loaded = json.loads(fresh("import sizeup, sys, json; print(json.dumps(sorted(sys.modules)))"))
    assert "sizeup" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_the_public_verbs_load_no_format_and_no_screen() -> None:
    code = "import sizeup, sys, json; sizeup.analyze; sizeup.op_rule; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(fresh(code))
    assert "numpy" in loaded
    assert [name for name in HEAVY if name in loaded and name != "numpy"] == []


def cpu_milliseconds(statement: str) -> float:
    code = (
        f"import time; start = time.process_time(); {statement}; print(1000 * (time.process_time() - start))"
    )
    return float(fresh(code))


MOST_MODULES = 150
SMALL_LANGUAGE_MODEL = json.dumps(
    {
        "model_type": "llama",
        "vocab_size": 1000,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
)


@pytest.mark.extras
@pytest.mark.parametrize("arguments", [["stm32f746"], ["max78000"], ["esp32s3", "--flash", "8MB"]])
def test_a_check_for_a_microcontroller_imports_half_of_the_modules_and_nothing_of_language_models(
    arguments: list[str], tmp_path: Path
) -> None:
    """A third of the modules of a check that imports everything at once run at all."""
    from micro_kernels import CASES

    path = tmp_path / "model.tflite"
    path.write_bytes(next(case for case in CASES if "CONV_2D" in case.name).pack())
    code = f"""
import sys
from sizeup.cli import main
try:
    main(["check", {str(path)!r}, "-d", *{arguments!r}])
finally:
    print(*(name for name in sys.modules if name.partition(".")[0] == "sizeup"), file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.startswith(("YES", "NO")), ended.stdout + ended.stderr
    imported = ended.stderr.splitlines()[-1].split()
    assert len(imported) <= MOST_MODULES
    rooms = {name.split(".")[1] for name in imported if "." in name}
    assert rooms.isdisjoint({"serving", "rewrite", "mixed_precision", "latency"})


@pytest.mark.extras
@pytest.mark.parametrize(
    ("arguments", "is_served"),
    [
        (["check", "model.tflite", "-d", "stm32f746"], False),
        (["check", "--budget", "budgets.toml"], False),
        (["check", "config.json", "-d", "8xh100/vllm"], False),  # states what to type
        (["analyze", "model.tflite", "-d", "stm32f746", "-o", "report.html"], False),
        (["plan", "model.tflite"], False),
        (["devices", "--for", "model.tflite"], False),
        (["devices", "dgx-h100"], False),
        (["sweep", "spec.toml", "-o", "out", "--in-process"], False),
        (["llm", "config.json", "-d", "8xh100/vllm"], True),
    ],
)
def test_serving_is_imported_for_language_models_alone(
    arguments: list[str], is_served: bool, tmp_path: Path
) -> None:
    from micro_kernels import CASES

    content = next(case for case in CASES if "CONV_2D" in case.name).pack()
    (tmp_path / "model.tflite").write_bytes(content)
    (tmp_path / "config.json").write_text(SMALL_LANGUAGE_MODEL, "utf-8")
    target = 'target = "stm32f746/tflm"\n'
    (tmp_path / "budgets.toml").write_text(f'[[budget]]\nmodels = "*.tflite"\n{target}', "utf-8")
    spec = 'models = ["model.tflite"]\ntargets = ["stm32f746/tflm"]\n'
    (tmp_path / "spec.toml").write_text(spec, "utf-8")
    code = f"""
import sys
from sizeup.cli import main
try:
    main({arguments!r})
finally:
    print(*(name for name in sys.modules if name.startswith("sizeup.serving")), file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode in (0, 1, 3) or "type: sizeup llm" in ended.stderr, ended.stderr
    assert bool(ended.stderr.splitlines()[-1].split()) is is_served, ended.stderr


# Modules that name modules of serving as texts, to import them on first use; no module imports them.
NAME_SERVING = {
    "sizeup",
    "sizeup.cli.calibrate",
    "sizeup.cli.commands",
    "sizeup.render",
    "sizeup.sweeps.models",
}


def test_nothing_outside_imports_serving() -> None:
    """The annotations of the public names are seen by type checkers alone."""
    naming = set()
    for module, names in imported_modules(SOURCE).items():
        if module.partition(".serving")[1]:
            continue
        assert module == "sizeup" or not [name for name in names if name.startswith("sizeup.serving")], module
        path = SOURCE.parent.joinpath(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.match(r"(sizeup\.)?serving\.\w", text):
                naming.add(module)
    assert naming == NAME_SERVING
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    checked = [node for block in tree.body if isinstance(block, ast.If) for node in ast.walk(block)]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    served = [node for node in imports if (node.module or "").startswith("sizeup.serving")]
    assert served
    assert all(any(node is other for other in checked) for node in served)


LAZY = ["checks", "memory", "backends.tflm", "mixed_precision", "runtimes"]


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_is_imported_on_first_use_is_that_of_its_module(package: str) -> None:
    """By the imports for type checkers next to it; none has the name of a module, which would hide it."""
    path = Path(sizeup.__file__).parent.joinpath(*package.split("."))
    listed: dict[str, str | None] = {}
    for node in ast.walk(ast.parse((path / "__init__.py").read_text("utf-8"))):
        if isinstance(node, ast.If):
            for each in node.body:
                assert isinstance(each, ast.ImportFrom)
                listed |= {name.name: each.module for name in each.names}
    imported = importlib.import_module(f"sizeup.{package}")
    assert listed
    assert not listed.keys() & {module.stem for module in path.iterdir()}
    for name, module in listed.items():
        assert getattr(imported, name) is getattr(importlib.import_module(str(module)), name)
    assert set(imported.__all__) >= listed.keys()


@pytest.mark.alone
def test_importing_sizeup_takes_at_most_twice_numpy() -> None:
    verbs = "import sizeup; sizeup.analyze; sizeup.count; sizeup.load"
    ours = theirs = float("inf")
    # The least of several fresh starts, taken in turn: other work on the machine can only slow one down.
    # Seven were too few where the speed of the machine changes from one start to the next.
    for _ in range(25):
        ours = min(ours, cpu_milliseconds(verbs))
        theirs = min(theirs, cpu_milliseconds("import numpy"))
        if ours <= 2 * theirs:
            break
    assert ours <= 2 * theirs


def imported_modules(package: Path) -> dict[str, set[str]]:
    """For each module of a package those of them that it imports, at whatever depth of its code."""
    files = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    imports: dict[str, set[str]] = {}
    for module, path in files.items():
        folder = module.split(".") if path.stem == "__init__" else module.split(".")[:-1]
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = folder[: len(folder) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                # A package's name stands for one of its modules, or for something in its __init__.
                members = {f"{base}.{alias.name}" for alias in node.names}
                names |= {member if member in files else base for member in members}
        imports[module] = names & files.keys() - {module}
    return imports


def import_cycles(package: Path) -> list[set[str]]:
    """The strongly connected components of the import graph that have more than one module."""
    imports = imported_modules(package)
    reached: dict[str, set[str]] = {}
    for module in imports:
        reached[module], left = set(), [module]
        while left:
            new = imports[left.pop()] - reached[module]
            reached[module] |= new
            left += new
    components = {
        frozenset(other for other in reached[module] if module in reached[other]) for module in imports
    }
    return sorted((set(each) for each in components if each), key=sorted)


def test_no_modules_import_each_other() -> None:
    assert import_cycles(SOURCE) == []


# What renderers and results may know; every import counts, also in functions and for annotations alone.
BELOW_RENDER = {"csv_cells", "dtypes", "errors", "files", "formats", "graph", "logs", "ops", "results"}
BELOW_RENDER |= {"symbolic", "targets", "units"}


def test_renderers_import_results_and_no_analysis() -> None:
    for module, names in imported_modules(SOURCE).items():
        if module.startswith("sizeup.render"):
            parts = {name.split(".")[1] for name in names if name != "sizeup"}
            assert parts <= {*BELOW_RENDER, "render"}, module


def test_results_know_no_way_to_show_them() -> None:
    for path in (SOURCE / "results").glob("*.py"):
        text = path.read_text("utf-8")
        shown = re.findall(
            r"^\s*(?:from|import) (rich|matplotlib|pandas|sizeup\.render)\b", text, re.MULTILINE
        )
        assert shown == [], path
        assert not re.search(r"json\.dump", text), path


def test_import_cycles_are_found_in_functions_and_in_annotations(tmp_path: Path) -> None:
    files = {
        "house/__init__.py": "from house.roof import tiles",
        "house/roof.py": "from . import walls\nimport house.floor\ntiles = 1",
        "house/walls.py": "def build():\n    from house import roof, tiles",
        "house/floor.py": "import os",
        "house/cellar/__init__.py": "from ..floor import os\nfrom .stairs import steps",
        "house/cellar/stairs.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import os",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert import_cycles(tmp_path / "house") == [
        {"house", "house.roof", "house.walls"},
        {"house.cellar", "house.cellar.stairs"},
    ]


ARCHITECTURE = ROOT / "docs" / "architecture.md"
CODE = re.compile(r"(\()?`([^`\n]+)`")


# Regular expressions instead of syntax trees: of all modules they take a tenth of a second.
DEFINITION = re.compile(r"^ *(?:class|def) (\w+)|^ *(\w+)(?:: [^=\n]+)?(?: = |$)", re.MULTILINE)
CLASS = re.compile(r"^class (\w+)(.*?)(?=^[^\s)]|\Z)", re.DOTALL | re.MULTILINE)
MEMBER = re.compile(r"^    (?:def )?(\w+)[:(]", re.MULTILINE)


@cache
def defined_names(path: Path) -> frozenset[str]:
    """Names of the classes, functions, methods, fields and variables that a module defines."""
    return frozenset(name for pair in DEFINITION.findall(path.read_text("utf-8")) for name in pair)


@cache
def class_members() -> dict[str, set[str]]:
    """Names of methods and fields by class, over all modules."""
    members: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for name, body in CLASS.findall(path.read_text("utf-8")):
            members.setdefault(name, set()).update(MEMBER.findall(body))
    return members


@cache
def all_names() -> frozenset[str]:
    return frozenset(dir(builtins)).union(*(defined_names(path) for path in SOURCE.rglob("*.py")))


def existing_path(name: str, folders: Sequence[Path]) -> Path | None:
    """The first file, module or folder of this name in the folders."""
    paths = (folder / text for folder in folders for text in (name, f"{name}.py"))
    return next((path for path in paths if path.exists()), None)


def dotted_name_exists(name: str, folders: Sequence[Path]) -> bool:
    """Whether `module.name`, `Class.member` or a module with dots exists."""
    first, *rest = parts = name.removeprefix("sizeup.").split(".")
    if first in class_members():
        return rest[0] in class_members()[first]
    for length in range(len(parts), 0, -1):
        path = existing_path("/".join(parts[:length]), folders)
        if path is not None:
            file = path / "__init__.py" if path.is_dir() else path
            return all(part in defined_names(file) for part in parts[length:])
    return first in all_names() and not rest


def call_exists(name: str, arguments: str) -> bool:
    """Whether a function, or a class with these fields, exists."""
    fields = class_members().get(name)
    return name in all_names() if fields is None else fields.issuperset(re.findall(r"\w+", arguments))


def stale_in_block(block: str, section: Sequence[Path], has_modules: bool) -> Iterator[str]:
    """Names in a paragraph, bullet or table row that do not exist.

    A name without a folder belongs to a folder of the section, or to one that the block names before it.
    """
    folders, module = [*section, SOURCE, SOURCE.parent, ROOT], ROOT
    for parenthesis, code in CODE.findall(block):
        name = code.removeprefix("@").rstrip("/")
        call = re.fullmatch(r"(\w+)\((.*)\)", name)
        if call:
            exists = call_exists(*call.groups())
        elif not re.fullmatch(r"\w[\w./]*", name) or name == "sizeup":
            continue  # an option, a file extension, a formula, a command
        elif "/" in code or re.search(r"\.(?:py|js|json|toml)$", name):
            path = existing_path(name, folders)
            exists = path is not None
            if path is not None:
                module = path
                folders.insert(0, path if path.is_dir() else path.parent)
        elif "." in name:
            exists = dotted_name_exists(name, folders)
        elif name[0].isupper():
            exists = name in all_names()
        else:
            is_member = parenthesis and module.suffix == ".py" and name in defined_names(module)
            exists = not has_modules or bool(is_member) or existing_path(name, folders) is not None
        if not exists:
            yield code


def stale_names(text: str) -> list[str]:
    """Names of modules, classes and functions on the page that do not exist; columns "before" are history."""
    stale: list[str] = []
    section: list[Path] = []
    header: list[str] = []
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\n|\n(?=[|]|- |#)", text):
        if block.lstrip().startswith("## "):
            section = [SOURCE / name for name in re.findall(r"(\w+)/", block)]
        if not block.startswith("|"):
            header = []
            stale += stale_in_block(block, section, bool(section))
            continue
        cells = [cell.strip() for cell in block.strip("|").split("|")]
        header = header or cells
        if header[0] == "op kind":
            continue  # attributes of ops
        current = cells[:-1] if header[-1] == "before" else cells
        has_modules = bool(section) or bool({"modules", "layer"} & set(header))
        stale += stale_in_block(" | ".join(current), section, has_modules)
    return stale


def test_names_on_the_architecture_page_exist() -> None:
    text = ARCHITECTURE.read_text("utf-8")
    assert len(CODE.findall(text)) > 400
    assert stale_names(text) == []


@pytest.mark.parametrize(
    ("current", "stale"),
    [
        ("`checks/limits`", "`checks/room`"),
        ("`formats/onnx/`: `model`, `read`", "`formats/onnx/`: `model`, `reader`"),
        ("`commands`, `runner`", "`commands`, `exits`"),
        ("`packing` for offsets", "`arena` for offsets"),
        ("`engine/local`", "`engine/here`"),
        ("`static/precision_map.js`", "`static/mixture.js`"),
        ("`mixed_precision.assign`", "`mixed_precision.assigned`"),
        ("`backend.backend_of`", "`backend.of`"),
        ("`MemoryFit.fits`", "`MemoryFit.suits`"),
        ("`SymbolicCost`", "`FreeCost`"),
        ('`op_kind_of("onnx", "Conv")`', '`kind_of("onnx", "Conv")`'),
        ("`Tensor(name, shape,", "`Tensor(name, sides,"),
        ("(`check_path`)", "(`check_file`)"),
    ],
)
def test_a_stale_name_on_the_architecture_page_is_reported(current: str, stale: str) -> None:
    text = ARCHITECTURE.read_text("utf-8")
    assert current in text
    assert len(stale_names(text.replace(current, stale))) == text.count(current)


def python_files() -> list[Path]:
    folders = [SOURCE, *(ROOT / name for name in ("tests", "benchmarks", "tools", "docs"))]
    return [path for folder in folders for path in folder.rglob("*.py")]


def test_no_file_grows_beyond_what_one_can_read() -> None:
    # Tests are read one by one, not as a whole.
    files = [path for path in python_files() if ROOT / "tests" not in path.parents]
    assert len(files) > 30
    lengths = {str(path): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {path: lines for path, lines in lengths.items() if lines > LINES} == {}


def test_no_file_is_named_for_nothing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
    assert [str(path) for path in python_files() if path.stem in vague] == []


def repository_files() -> list[Path]:
    kinds = {".py", ".md", ".toml", ".txt", ".cfg", ".yml", ".yaml", ".json", ".csv", ".sh", ""}
    ignored = {".git", ".venv", "build", "dist", "__pycache__"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and path.suffix in kinds
        and not any(
            part in ignored or part.endswith("_cache") or part == ".hypothesis" for part in path.parts
        )
    ]


# Put together here so that this file does not hold what it looks for.
FORBIDDEN = [
    r"/(?:work|opt|root|home)" + r"/\w",  # a path of somebody's machine
    r"\bissues? " + r"#?\d",  # the code says why by itself
    r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
]


def test_the_repository_speaks_only_of_the_project() -> None:
    files = repository_files()
    assert len(files) > 40
    pattern = re.compile("|".join(FORBIDDEN))
    found = {}
    for path in files:
        match = pattern.search(path.read_text("utf-8", errors="replace"))
        if match:
            found[str(path.relative_to(ROOT))] = match[0]
    assert found == {}


def test_a_missing_library_is_no_fault_of_the_model_and_crosses_processes() -> None:
    for missing, words in (
        (errors.MissingLibrary("reading ONNX", "onnx", "onnx"), "onnx: pip install 'sizeup[onnx]'"),
        (errors.MissingLibrary("timm:resnet18", "timm"), "timm:resnet18 needs timm: pip install timm"),
    ):
        assert not isinstance(missing, errors.LoadError)
        copy = pickle.loads(pickle.dumps(missing))
        assert str(copy) == str(missing)
        assert str(copy).endswith(words)
        assert (copy.library, copy.extra) == (missing.library, missing.extra)
