"""What a change cannot do to the policy that judges it: redirect git, edit limits, rename a model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from checks.products import save_chain, save_product
from cli.running import Ended, Run, run_command
from sizeup import targets
from sizeup.checks.renames import pairs
from sizeup.checks.revision import open_revision

pytestmark = [pytest.mark.extras, pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")]

_BUDGET = '[[budget]]\nmodels = "*.onnx"\ngrowth = { macs = "5%" }\n'
_STATES = {"fits": 0, "does not fit": 1, "undetermined": 3}


def _git(folder: Path, *arguments: str) -> str:
    """Git as a fresh machine has it, whatever the user's settings are."""
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    environment = {**os.environ, **dict.fromkeys(names, "author"), **settings}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _commit(folder: Path) -> str:
    _git(folder, "add", "--all", "--force")
    _git(folder, "commit", "--quiet", "--allow-empty", "--message", "models")
    return _git(folder, "rev-parse", "HEAD")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose tag `base` has a budget in a folder with a model of 400 MACs."""
    folder = tmp_path / "repository"
    folder.mkdir()
    _git(folder, "init", "--quiet", "--initial-branch", "work")
    save_product(folder / "models" / "resnet8.onnx", 20)
    (folder / "models" / "budgets.toml").write_text(_BUDGET, "utf-8")
    _commit(folder)
    _git(folder, "tag", "base")
    monkeypatch.chdir(folder)
    return folder


def _gate(
    run: Run, *options: str | Path, budget: str = "models/budgets.toml", against: str = "base"
) -> Ended:
    return run("check", "--budget", budget, *(["--against", against] if against else []), *options)


def _checks(run: Run, *options: str | Path, **settings: str) -> dict[str, Any]:
    ended = _gate(run, "--json", *options, **settings)
    content = json.loads(ended.out)
    return {each["model"]["source"]: each for each in content.get("checks", [content])}


# The repository and its revisions.


def _embed(folder: Path, bare: Path, worktree: str) -> None:
    """Put the content of a bare repository next to other files, as if a change had added them."""
    for path in bare.iterdir():
        if path.is_dir():
            shutil.copytree(path, folder / path.name)
        else:
            shutil.copy(path, folder / path.name)
    for empty in [*folder.glob("refs/**/"), *folder.glob("objects/**/")]:
        (empty / "keep").touch()
    config = f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {worktree}\n"
    (folder / "config").write_text(config, "utf-8")


def _forged(tree: Path, tmp_path: Path) -> Path:
    """A bare repository whose `base` has the grown model already, as in the folder of models and below it."""
    other = tmp_path / "other"
    other.mkdir()
    _git(other, "init", "--quiet")
    for folder in (other, other / "models"):
        save_product(folder / "resnet8.onnx", 200)
        shutil.copy(tree / "models" / "budgets.toml", folder)
    _commit(other)
    _git(other, "tag", "base")
    _git(tmp_path, "clone", "--quiet", "--bare", str(other), "forged")
    return tmp_path / "forged"


@pytest.mark.parametrize("place", ["the root", "the folder"])
def test_a_repository_among_the_files_is_not_used(
    place: str, run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = _forged(tree, tmp_path)
    _embed(tree / "models", bare, ".")
    save_product(tree / "models" / "resnet8.onnx", 200)
    if place == "the folder":
        monkeypatch.chdir(tree / "models")
        ended = _gate(run, budget="budgets.toml")
        assert ended.code == 2  # git refuses the folder
        assert "safe.bareRepository" in ended.err
        return
    ended = _gate(run)
    assert ended.code == 1, ended.out + ended.err
    assert "growth of MACs: " in ended.out


def test_a_file_that_points_git_elsewhere_is_not_used(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "models" / "store").mkdir()
    _embed(tree / "models" / "store", _forged(tree, tmp_path), "..")
    (tree / "models" / ".git").write_text("gitdir: store\n", "utf-8")
    save_product(tree / "models" / "resnet8.onnx", 200)
    assert _gate(run).code == 1
    monkeypatch.chdir(tree / "models")
    ended = _gate(run, budget="budgets.toml")
    assert ended.code == 2
    assert "is among the files of a work tree" in ended.err


def test_a_linked_work_tree_is_used(run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _git(tree, "worktree", "add", "--quiet", str(tree / "linked"), "base")
    monkeypatch.chdir(tree / "linked")
    assert _gate(run).code == 0
    save_product(tree / "linked" / "models" / "resnet8.onnx", 200)
    assert _gate(run).code == 1


def test_the_base_of_a_submodule_is_one_that_a_change_cannot_choose(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change moves the submodule to a history in which the base is grown already."""
    _git(tmp_path, "clone", "--quiet", str(tree), "library")
    _git(
        tree,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(tmp_path / "library"),
        "sub",
    )
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    old = _git(tree / "sub", "rev-parse", "HEAD")
    monkeypatch.chdir(tree / "sub")
    for against in ("base", old, f"{old}~0"):  # the commit that the enclosing repository has at its own base
        assert _gate(run, against=against).code == 0
    save_product(tree / "sub" / "models" / "resnet8.onnx", 200)
    assert _gate(run).code == 1
    grown = _commit(tree / "sub")
    _git(tree / "sub", "tag", "--force", "base", grown)
    _commit(tree)
    for budget, against in (("models/budgets.toml", "base"), ("base:models/budgets.toml", "base")):
        ended = _gate(run, *_OUTPUTS, budget=budget, against=against)
        assert ended.code == 3
        _said(ended, "base is a revision of the submodule sub, whose history a change may")
    check = run("check", "models/resnet8.onnx", "--macs", "100k", "--against", "base")
    assert check.code == 3
    assert "git -C .. rev-parse base:sub" in " ".join(check.out.split())
    assert _gate(run, against=grown).code == 0  # as named by the command
    _git(tree / "sub", "tag", "theirs")
    _git(tree / "sub", "checkout", "--quiet", old)
    assert _gate(run, budget="theirs:models/budgets.toml", against=old).code == 3
    assert _gate(run, budget=f"{old}:models/budgets.toml", against=old).code == 0


def test_a_budget_of_another_repository_is_refused(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    _git(other, "init", "--quiet")
    monkeypatch.chdir(other)
    _commit(other)
    ended = _gate(run, budget=str(tree / "models" / "budgets.toml"), against="HEAD")
    assert ended.code == 2
    assert "outside the git repository" in " ".join(ended.err.split())


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"])
def test_variables_of_another_repository_are_not_used(
    variable: str, run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = _forged(tree, tmp_path)
    save_product(tree / "models" / "resnet8.onnx", 200)
    monkeypatch.setenv(variable, str(forged / "objects" if variable.endswith("Y") else forged))
    assert _gate(run).code == 1


def test_replaced_objects_are_not_used(run: Run, tree: Path) -> None:
    before = _git(tree, "rev-parse", "base:models/resnet8.onnx")
    save_product(tree / "models" / "resnet8.onnx", 200)
    _git(tree, "replace", before, _git(tree, "hash-object", "-w", "models/resnet8.onnx"))
    assert _gate(run).code == 1


@pytest.mark.parametrize("ref", ["refs/tags/origin/main", "refs/heads/origin/main"])
def test_a_name_of_two_refs_is_refused(ref: str, run: Run, tree: Path) -> None:
    old = _git(tree, "rev-parse", "HEAD")
    _git(tree, "update-ref", "refs/remotes/origin/main", old)
    assert _gate(run, against="origin/main").code == 0
    save_product(tree / "models" / "resnet8.onnx", 200)
    new = _commit(tree)
    _git(tree, "update-ref", ref, new)
    ended = _gate(run, against="origin/main")
    assert ended.code == 2
    assert f"'origin/main' is ambiguous: refs/remotes/origin/main, {ref}" in " ".join(ended.err.split()) or (
        f"'origin/main' is ambiguous: {ref}, refs/remotes/origin/main" in " ".join(ended.err.split())
    )
    assert _gate(run, against="refs/remotes/origin/main").code == 1
    assert _gate(run, against="origin/main~0").code == 2


def test_a_ref_that_is_named_like_an_object_is_not_used(run: Run, tree: Path) -> None:
    old = _git(tree, "rev-parse", "HEAD")
    save_product(tree / "models" / "resnet8.onnx", 200)
    new = _commit(tree)
    for name in (old, old[:7]):
        _git(tree, "update-ref", f"refs/heads/{name}", new)
    assert _gate(run, against=old).code == 1
    assert _gate(run, against=old[:7]).code == 2
    assert _checks(run, against=old)["models/resnet8.onnx"]["base_commit"] == old


def test_a_folder_that_becomes_a_link_is_compared_by_its_name(run: Run, tree: Path) -> None:
    save_product(tree / "archive" / "resnet8.onnx", 200)
    (tree / "budgets.toml").write_text(_BUDGET.replace("*", "models/*"), "utf-8")
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    shutil.rmtree(tree / "models")
    (tree / "models").symlink_to("archive")
    ended = _gate(run, budget="budgets.toml")
    assert ended.code == 1
    assert "400 -> 40,000" in ended.out or "growth of MACs" in ended.out


def test_a_folder_that_was_the_same_link_is_followed(run: Run, tree: Path) -> None:
    (tree / "alias").symlink_to("models")
    (tree / "budgets.toml").write_text(_BUDGET.replace("*", "alias/*"), "utf-8")
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    assert _gate(run, budget="budgets.toml").code == 0
    save_product(tree / "models" / "resnet8.onnx", 200)
    assert _gate(run, budget="budgets.toml").code == 1


# Renamed models.


def _rename(tree: Path, name: str, size: int = 50, *, is_chain: bool = False) -> None:
    (tree / "models" / "resnet8.onnx").unlink()
    (save_chain if is_chain else save_product)(tree / "models" / name, size)


@pytest.mark.parametrize("name", ["resnet8_v2.onnx", "RESNET8.onnx", "my_resnet8.onnx", "resnet9.onnx"])
def test_a_renamed_model_is_compared_with_its_predecessor(name: str, run: Run, tree: Path) -> None:
    _rename(tree, name)
    ended = _gate(run)
    assert ended.code == 1
    assert ended.out.startswith(f"NO: {name.removesuffix('.onnx')} (onnx) is over its limits")
    text = " ".join(ended.out.split())
    assert "growth of MACs: +525 %, 400 -> 2.50 k, allowed: 5 %" in text
    assert "renamed from models/resnet8.onnx" in text
    assert "removed" not in text
    check = _checks(run)[f"models/{name}"]
    assert (check["renamed_from"], check["verdict"]) == ("models/resnet8.onnx", "does not fit")


def test_a_model_with_another_name_is_found_by_its_content_and_by_its_graph(run: Run, tree: Path) -> None:
    save_chain(tree / "models" / "resnet8.onnx", 20)
    save_product(tree / "models" / "other.onnx", 30)
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    (tree / "models" / "other.onnx").rename(tree / "models" / "x.onnx")
    _rename(tree, "keyword.onnx", 50, is_chain=True)
    checks = _checks(run)
    assert {path: (each["renamed_from"], each["verdict"]) for path, each in checks.items()} == {
        "models/keyword.onnx": ("models/resnet8.onnx", "does not fit"),
        "models/x.onnx": ("models/other.onnx", "fits"),
    }


@pytest.mark.parametrize(
    ("policy", "state"), [("", "undetermined"), ("allow", "fits"), ("deny", "does not fit")]
)
def test_a_new_model_is_judged_by_the_policy(policy: str, state: str, run: Run, tree: Path) -> None:
    save_product(tree / "models" / "unlike.onnx", 50)
    budget = tree / "models" / "budgets.toml"
    budget.write_text(_BUDGET + (f'new = "{policy}"\n' if policy else ""), "utf-8")
    _git(tree, "add", "models/budgets.toml")
    _git(tree, "commit", "--quiet", "--allow-empty", "--message", "policy")
    ended = _gate(run, against="HEAD")
    assert ended.code == _STATES[state]
    checks = _checks(run, against="HEAD")
    assert (checks["models/unlike.onnx"]["verdict"], checks["models/resnet8.onnx"]["verdict"]) == (
        state,
        "fits",
    )


@pytest.mark.parametrize("name", ["resnet8_v2.onnx", "unlike.onnx"])
def test_a_renamed_model_is_compared_with_its_baseline(name: str, run: Run, tree: Path) -> None:
    assert _gate(run, "--update-baselines", against="").code == 0
    size = 50 if name.startswith("resnet") else 20
    _rename(tree, name, size)
    check = _checks(run, against="")[f"models/{name}"]
    assert (check["renamed_from"], check["fits"]) == ("resnet8.onnx", size == 20)


def test_a_model_that_is_renamed_out_of_the_pattern_is_undetermined(run: Run, tree: Path) -> None:
    save_product(tree / "models" / "stays.onnx", 8)
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    (tree / "elsewhere").mkdir()
    (tree / "models" / "resnet8.onnx").rename(tree / "elsewhere" / "r.onnx")
    ended = _gate(run)
    assert ended.code == 3
    text = " ".join(ended.out.split())
    assert "renamed from models/resnet8.onnx, which a budget names; no budget names elsewhere/r.onnx" in text


def test_many_patterns_over_many_removed_models_end(run: Run, tree: Path) -> None:
    """Each model that the base has is compared with each pattern of the change."""
    names = [f"{'a' * 240}{number}.onnx" for number in range(100)]
    for name in names:
        (tree / "models" / name).touch()
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    for name in names:
        (tree / "models" / name).unlink()
    patterns = [f"**/*{'n' * 900}{number}*.onnx" for number in range(990)]
    (tree / "models" / "budgets.toml").write_text(
        _BUDGET.replace('"*.onnx"', json.dumps([*patterns, "*.onnx"]))
    )
    _commit(tree)
    ended = _gate(run)
    assert ended.code == 2
    assert "budgets.toml: patterns: it takes too many steps" in " ".join(ended.err.split())


def test_a_model_of_another_folder_was_not_removed_from_the_budget(run: Run, tree: Path) -> None:
    """A pattern without a slash names files of the folder of the budget file: others never were checked."""
    save_product(tree / "models" / "deep" / "r.onnx", 8)
    _commit(tree)
    (tree / "models" / "deep" / "r.onnx").unlink()
    assert list(_checks(run, against="HEAD")) == ["models/resnet8.onnx"]


# Edits of the policy.

_OUTPUTS = ("-o", "c.json", "-o", "c.md", "--junit", "c.xml", "-o", "c.codequality.json", "--github")


def _said(ended: Ended, words: str) -> None:
    """The words are in every output."""
    plain = {
        "text": " ".join(ended.out.split("::")[0].split()),
        "annotation": "\n".join(
            line for line in ended.out.splitlines() if line.startswith(("::notice", "::warning"))
        ),
        "json": json.dumps(json.loads(Path("c.json").read_text("utf-8")), ensure_ascii=False),
        "markdown": Path("c.md").read_text("utf-8").replace("\\", "").replace("&gt;", ">"),
        "junit": "".join(ElementTree.parse("c.xml").getroot().itertext()),
        "quality": Path("c.codequality.json").read_text("utf-8"),
    }
    plain["text"] = " ".join(ended.out.split())
    for output, text in plain.items():
        text = text.replace("%25", "%").replace("%3A", ":").replace('\\"', '"').replace("\n", " ")
        assert words in " ".join(text.split()), (output, text)


def test_a_change_of_its_own_limit_is_not_a_yes(run: Run, tree: Path) -> None:
    budget = tree / "models" / "budgets.toml"
    save_product(tree / "models" / "resnet8.onnx", 200)
    budget.write_text(_BUDGET.replace("5%", "99999%"), "utf-8")
    ended = _gate(run, *_OUTPUTS)
    assert ended.code == 3
    _said(ended, "growth.macs: '5%' -> '99999%'")
    ended = _gate(run, *_OUTPUTS, budget="base:models/budgets.toml", against="")
    _said(ended, "growth.macs: '5%' -> '99999%'")
    assert ended.code == 3  # without a baseline
    ended = _gate(run, *_OUTPUTS, budget="base:models/budgets.toml")
    _said(ended, "growth.macs: '5%' -> '99999%'")
    assert ended.code == 1


def test_an_edit_is_said_and_changes_nothing_if_the_policy_is_that_of_the_base(run: Run, tree: Path) -> None:
    (tree / "models" / "budgets.toml").write_text(_BUDGET.replace("5%", "99999%"), "utf-8")
    ended = _gate(run, budget="base:models/budgets.toml")
    assert ended.code == 0
    assert ended.out.splitlines()[0] == "YES: 1 of 1 model fits, 1 edited in the policy"
    assert "EDITED: this change edits the policy in models/budgets.toml" in ended.out


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_BUDGET, 0),
        (f"# a comment\n{_BUDGET}", 0),
        (_BUDGET.replace("5%", "4%"), 0),
        (_BUDGET + 'macs = "1M"\nstrict = true\nnew = "deny"\n', 0),
        (f'{_BUDGET}[[budget]]\nname = "more"\nmodels = "*.onnx"\nmacs = "1M"\n', 0),
        (_BUDGET.replace("5%", "6%"), 3),
        (_BUDGET + 'new = "allow"\n', 3),
        (_BUDGET + 'precision = "int8"\n', 3),
        (_BUDGET + "expected = true\n", 3),
        (_BUDGET.replace('"*.onnx"', '["*.onnx", "r*.onnx"]'), 3),
        ('[[budget]]\nmodels = "*.onnx"\nmacs = "1M"\n', 3),
    ],
)
def test_only_an_edit_that_keeps_every_limit_may_be_a_yes(text: str, code: int, run: Run, tree: Path) -> None:
    (tree / "models" / "budgets.toml").write_text(text, "utf-8")
    assert _gate(run).code == code


def test_a_model_that_the_old_policy_names_is_not_dropped(run: Run, tree: Path) -> None:
    save_product(tree / "models" / "b.onnx", 20)
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    (tree / "models" / "budgets.toml").write_text(_BUDGET.replace("*.onnx", "b.onnx"), "utf-8")
    ended = _gate(run, *_OUTPUTS)
    assert ended.code == 3
    _said(ended, "a budget of base names it, no budget of models/budgets.toml does")


def test_baselines_and_precision_maps_are_those_of_the_revision(run: Run, tree: Path) -> None:
    folder = tree / "models"
    (folder / "map.json").write_text('{"product": "int8"}', "utf-8")
    text = '[[budget]]\nmodels = "*.onnx"\nprecision = "map.json"\ngrowth = { weights = "5%" }\n'
    (folder / "budgets.toml").write_text(text, "utf-8")
    assert _gate(run, "--update-baselines", against="").code == 0
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    save_product(folder / "resnet8.onnx", 40)
    (folder / "map.json").write_text('{"product": "int4"}', "utf-8")
    lines = (folder / "baselines.json").read_text("utf-8")
    (folder / "baselines.json").write_text(lines.replace('"weights": 400', '"weights": 40000'), "utf-8")
    assert _gate(run, against="").code == 0
    ended = _gate(run, *_OUTPUTS, budget="base:models/budgets.toml", against="")
    assert ended.code == 1
    _said(ended, "weights: 400 -> 40000")
    _said(ended, "product: 'int8' -> 'int4'")
    checks = _checks(run)
    assert checks["models/map.json"]["verdict"] == "undetermined"
    assert checks["models/baselines.json"]["verdict"] == "edited"


def test_settings_are_read_from_the_folder_of_the_budget_file_only(
    run: Run, tree: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "baselines.json"
    outside.write_text('{"format": "sizeup baselines", "version": 1, "models": []}', "utf-8")
    (tree / "models" / "baselines.json").symlink_to(outside)
    ended = _gate(run, against="")
    assert ended.code == 2
    assert "leads outside the folder of the budget file" in ended.err


def test_device_files_in_use_that_are_edited_make_it_undetermined(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "https://example.org/sheet"
    text = (
        '[[device]]\nname = "ours"\nlike = "stm32f746"\ntitle = "Ours"\nkind = "microcontroller"\n'
        f'source = "{source}"\n'
    )
    (tree / "boards").mkdir()
    (tree / "boards" / "ours.toml").write_text(text, "utf-8")
    (tree / "models" / "budgets.toml").write_text('[[budget]]\nmodels = "*.onnx"\nmacs = "1M"\n', "utf-8")
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    monkeypatch.setenv("SIZEUP_TARGETS", "boards")
    assert _gate(run).code == 0
    (tree / "boards" / "ours.toml").write_text(text.replace("Ours", "Theirs"), "utf-8")
    for budget in ("models/budgets.toml", "base:models/budgets.toml"):
        ended = _gate(run, *_OUTPUTS, budget=budget)
        assert ended.code == 3
        _said(ended, "title: 'Ours' -> 'Theirs'")
    (tree / "boards" / "ours.toml").unlink()
    assert _gate(run).code == 3


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("nonesuch:models/budgets.toml", "'nonesuch' is not a commit of"),
        ("base:models/nonesuch.toml", "base:models/nonesuch.toml: no such file at base"),
        ("base:../budgets.toml", "../budgets.toml: outside the git repository"),
        ("base:models", "no such file at base"),
        ("C:\\models\\budgets.toml", "C:\\models\\budgets.toml: no such file"),
        ("C:/models/budgets.toml", "C:/models/budgets.toml: no such file"),
        ("./base:models/budgets.toml", "base:models/budgets.toml: no such file"),
    ],
)
def test_what_is_no_budget_of_a_revision_is_refused(budget: str, words: str, run: Run, tree: Path) -> None:
    ended = _gate(run, budget=budget, against="")
    assert ended.code == 2
    assert words in " ".join(ended.err.split())


def test_a_file_that_is_named_like_a_revision_is_not_read(run: Run, tree: Path) -> None:
    (tree / "base:models").mkdir()
    (tree / "base:models" / "budgets.toml").write_text(_BUDGET.replace("5%", "99999%"), "utf-8")
    save_product(tree / "models" / "resnet8.onnx", 200)
    assert _gate(run, budget="base:models/budgets.toml").code == 1


def test_a_path_of_a_revision_may_be_relative_as_in_git(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree / "models")
    for budget in ("base:models/budgets.toml", "base:./budgets.toml"):
        assert _gate(run, budget=budget).code == 0


def test_baselines_of_a_revision_are_not_updated(run: Run, tree: Path) -> None:
    ended = _gate(run, "--update-baselines", budget="base:models/budgets.toml", against="")
    assert ended.code == 2
    assert "baselines are updated in the work tree" in " ".join(ended.err.split())
    assert not (tree / "models" / "baselines.json").exists()


def test_nothing_judged_is_not_a_yes(run: Run, tree: Path) -> None:
    (tree / "models" / "resnet8.onnx").unlink()
    assert run("check", "models/resnet8.onnx", "--macs", "1", "--against", "base").code == 3


# Unchanged models.


def test_an_unchanged_model_grew_by_nothing_whatever_is_known_of_it(
    run: Run, tree: Path, shared: Path
) -> None:
    """The latency on this target has a lower bound only."""
    folder = tree / "models"
    shutil.copy(shared / "models" / "mlperf_kws_int8.tflite", folder / "kws.tflite")
    text = '[[budget]]\nmodels = "*.tflite"\ntarget = "{}"\nflash = "8MB"\n'
    text += 'growth = {{ latency = "0%", macs = "0%" }}\n'
    (folder / "budgets.toml").write_text(text.format("esp32s3"), "utf-8")
    assert _gate(run, "--update-baselines", against="").code == 0
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    for against in ("", "base"):
        (check,) = _checks(run, against=against).values()
        growth = {each["name"]: each["need"] for each in check["limits"] if each["unit"] == "share"}
        assert (check["verdict"], growth) == ("fits", {"growth of latency": 0, "growth of macs": 0})
    # In another process, where sets have another order.
    done = run_command("check", "--budget", "models/budgets.toml", PYTHONHASHSEED="7", COLUMNS="80")
    assert done.returncode == 0, done.stdout
    line = json.loads((folder / "baselines.json").read_text("utf-8"))["models"][0]
    assert "latency" not in line
    # Bytes after the end of the file mean nothing, but the file is another one.
    with (folder / "kws.tflite").open("ab") as file:
        file.write(b"\0")
    assert _gate(run, against="base").code == 3
    assert _gate(run, against="").code == 3


def test_a_digest_is_of_the_settings_too(
    run: Run, tree: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(shared / "models" / "mlperf_kws_int8.tflite", tree / "models" / "kws.tflite")
    text = (
        '[[budget]]\nmodels = "*.tflite"\ntarget = "ours/tflm"\nflash = "8MB"\ngrowth = { latency = "0%" }\n'
    )
    (tree / "models" / "budgets.toml").write_text(text, "utf-8")
    device = '[[device]]\nname = "ours"\nlike = "esp32s3"\ntitle = "{}"\n'
    (tree / "ours.toml").write_text(device.format("Ours"), "utf-8")
    monkeypatch.setenv("SIZEUP_TARGETS", str(tree / "ours.toml"))
    targets.clear_cache()
    assert _gate(run, "--update-baselines", against="").code == 0
    assert _gate(run, against="").code == 0
    (tree / "ours.toml").write_text(device.format("Theirs"), "utf-8")
    targets.clear_cache()
    assert _gate(run, against="").code == 3


def test_external_data_is_part_of_a_model(run: Run, tree: Path) -> None:
    """Its content decides shapes: here the length of a reshaped row."""
    save_product(tree / "models" / "resnet8.onnx", 20, external="data/weights.bin")
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    data = tree / "models" / "data" / "weights.bin"
    data.write_bytes(b"\1" + data.read_bytes()[1:])
    revision = open_revision("base")
    assert not revision.is_unchanged("models/resnet8.onnx")
    _git(tree, "checkout", "--quiet", "models/data")
    assert revision.is_unchanged("models/resnet8.onnx")


@given(
    some.sets(some.text("ab_19", min_size=1, max_size=6)),
    some.sets(some.text("ab_19", min_size=1, max_size=6)),
)
def test_models_are_paired_once_and_equal_contents_first(gone: set[str], new: set[str]) -> None:
    old = {f"{name}.onnx": {len(name)} for name in gone}
    found = pairs(old, {f"{name}.tflite": {len(name)} for name in new})
    assert len(set(found.values())) == len(found)
    assert found.keys() <= {f"{name}.tflite" for name in new}
    assert set(found.values()) <= old.keys()
    for size in range(1, 7):
        many = [sum(len(name) == size for name in names) for names in (gone, new)]
        equal = sum(len(one) - 7 == len(other) - 5 == size for one, other in found.items())
        assert equal >= min(many)


@pytest.mark.alone
def test_pairing_takes_no_quadratic_time() -> None:
    def work(count: int) -> float:
        gone = {f"models/a{number}.onnx": () for number in range(count)}
        new = {f"models/a{number}_{number % 7}.onnx": () for number in range(count)}
        began = time.process_time()
        assert len(pairs(gone, new)) > count / 2
        return time.process_time() - began

    # Quadratic, it would take 10,000 times as long.
    assert min(work(20_000) for _ in range(2)) < 600 * min(work(200) for _ in range(5))


def test_a_new_limit_may_not_raise_the_memory_of_the_target(run: Run, tree: Path) -> None:
    budget = tree / "models" / "budgets.toml"
    budget.write_text(_BUDGET + 'target = "stm32f746/tflm"\n', "utf-8")
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    budget.write_text(_BUDGET + 'target = "stm32f746/tflm"\nram = "8 GiB"\nflash = "8 GiB"\n', "utf-8")
    _commit(tree)
    assert _gate(run).code == 3


def test_budgets_with_names_that_begin_alike_are_told_apart(run: Run, tree: Path) -> None:
    start = "a" * 100
    text = "".join(f'[[budget]]\nmodels = "{start}{each}*.onnx"\nmacs = "5%s"\n' for each in "xy")
    for each in "xy":
        save_product(tree / "models" / f"{start}{each}.onnx", 20)
    budget = tree / "models" / "budgets.toml"
    budget.write_text(text % ("k", "k"), "utf-8")
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    budget.write_text(text % ("G", "k"), "utf-8")
    _commit(tree)
    ended = _gate(run)
    assert ended.code == 3
    assert "'5k' -> '5G'" in " ".join(ended.out.split())


def test_a_model_behind_a_link_to_another_folder_or_to_nothing_was_removed(run: Run, tree: Path) -> None:
    (tree / "models" / "budgets.toml").write_text(_BUDGET.replace("*.onnx", "**/*.onnx"), "utf-8")
    for name in ("sub/b.onnx", "c.onnx"):
        save_product(tree / "models" / name, 20)
    _commit(tree)
    _git(tree, "tag", "--force", "base")
    (tree / "models" / "sub").rename(tree / "hidden")
    (tree / "models" / "sub").symlink_to("../hidden")
    (tree / "models" / "c.onnx").unlink()
    (tree / "models" / "c.onnx").symlink_to("/nonexistent")
    _commit(tree)
    text = _gate(run).out
    assert "b.onnx" in text
    assert "c.onnx" in text


def test_a_report_is_not_written_into_a_model_through_a_link(run: Run, tree: Path) -> None:
    (tree / "o.md").symlink_to("models/resnet8.onnx")
    before = (tree / "models" / "resnet8.onnx").read_bytes()
    assert _gate(run, "-o", "o.md").code == 2
    assert (tree / "models" / "resnet8.onnx").read_bytes() == before
