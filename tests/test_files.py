"""Writing a file: all or nothing, with the right permissions, through links, and past pipes and devices."""

from __future__ import annotations

import ast
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sizeup import files
from sizeup.errors import WriteError

OLD, NEW = b"old", b"new content"


@pytest.fixture
def umask() -> Iterator[None]:
    """The umask of the process, as it was, whatever a test sets."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def left_over(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(files.UNFINISHED)]


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o777, 0)])
def test_a_new_file_honours_the_umask(tmp_path: Path, umask: None, mask: int, expected: int) -> None:
    os.umask(mask)
    files.write_bytes(tmp_path / "new", NEW)
    assert mode(tmp_path / "new") == expected
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("mask", [0o022, 0o077])
@pytest.mark.parametrize("kept", [0o600, 0o640, 0o644, 0o666, 0o755])
def test_a_file_keeps_its_permissions(tmp_path: Path, umask: None, mask: int, kept: int) -> None:
    path = tmp_path / "old"
    path.write_bytes(OLD)
    path.chmod(kept)
    os.umask(mask)
    files.write_bytes(path, NEW)
    assert (mode(path), path.read_bytes()) == (kept, NEW)


@pytest.mark.parametrize(
    ("source", "mask", "expected"),
    [
        (0o600, 0o022, 0o600),
        (0o640, 0o022, 0o640),
        (0o644, 0o077, 0o600),
        (0o666, 0o022, 0o644),
        (0o444, 0o022, 0o644),  # the owner may go on writing
        (0o755, 0o022, 0o644),  # a model is nothing to execute
    ],
)
def test_a_new_file_gives_others_no_more_than_its_source(
    tmp_path: Path, umask: None, source: int, mask: int, expected: int
) -> None:
    like = tmp_path / "source"
    like.write_bytes(OLD)
    like.chmod(source)
    os.umask(mask)
    files.write_bytes(tmp_path / "new", NEW, like=like)
    assert mode(tmp_path / "new") == expected


def test_others_cannot_read_it_before_it_is_finished(tmp_path: Path, umask: None) -> None:
    path = tmp_path / "secret"
    path.write_bytes(OLD)
    path.chmod(0o600)
    os.umask(0)
    with files.atomic_path(path) as new:
        assert mode(new) == 0o600
        assert new.parent == tmp_path
    with files.atomic_path(tmp_path / "another", like=path) as new:
        assert mode(new) == 0o600


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
def test_owner_and_group_stay(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(OLD)
    os.chown(path, 12_345, 54_321)
    path.chmod(0o640)
    files.write_bytes(path, NEW)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12_345, 54_321, 0o640)


_AS_ANOTHER = """
import os, sys
from pathlib import Path
from sizeup import files
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    files.write_bytes(Path(sys.argv[1]), b"new content")
except files.WriteError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize(("kept", "expected"), [(0o666, 0o666), (0o662, 0o622), (0o664, None)])
def test_rights_of_a_group_do_not_pass_to_another_group(
    tmp_path: Path, kept: int, expected: int | None
) -> None:
    folder = tmp_path
    for each in (folder, *list(folder.parents)[:3]):
        each.chmod(each.stat().st_mode | 0o005)  # so that other users can reach the file
    folder.chmod(0o777)
    path = folder / "shared"
    path.write_bytes(OLD)
    os.chown(path, 12_345, 54_321)
    path.chmod(kept)
    done = subprocess.run(
        [sys.executable, "-c", _AS_ANOTHER, str(path)], capture_output=True, text=True, check=True
    )
    if expected is None:  # others may read it, not write it
        assert "cannot be written: Permission denied" in done.stdout
        assert (path.read_bytes(), mode(path)) == (OLD, kept)
    else:
        assert (path.read_bytes(), mode(path), path.stat().st_gid) == (NEW, expected, 65534)
    assert left_over(folder) == []


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link, first = tmp_path / "folder" / "target", tmp_path / "link", tmp_path / "first"
    target.write_bytes(OLD)
    target.chmod(0o640)
    link.symlink_to("folder/../folder/target")
    first.symlink_to(link)
    files.write_bytes(first, NEW)
    assert first.is_symlink()
    assert link.is_symlink()
    assert (target.read_bytes(), mode(target)) == (NEW, 0o640)


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    files.write_bytes(tmp_path / "link", NEW)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == NEW


@pytest.mark.parametrize("what", ["folder", "loop", "nowhere", "long"])
def test_what_cannot_be_written_is_one_line(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    paths = {"nowhere": tmp_path / "nowhere" / "file", "long": tmp_path / ("x" * 300)}
    with pytest.raises(WriteError, match="cannot be written: ") as raised:
        files.write_bytes(paths.get(what, tmp_path / what), NEW)
    assert "\n" not in str(raised.value)
    assert left_over(tmp_path) == []


def test_names_as_long_as_the_system_allows_are_written(tmp_path: Path) -> None:
    for name in ("x" * 255, "\N{GRINNING FACE}" * 63, f"x.{'y' * 253}"):
        files.write_bytes(tmp_path / name, NEW)
        assert (tmp_path / name).read_bytes() == NEW


def _write_half(path: Path, error: BaseException) -> None:
    with files.atomic_path(path) as new:
        new.write_bytes(NEW)
        raise error


def test_an_error_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    for error in (RuntimeError("ours"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            _write_half(path, error)
        assert path.read_bytes() == OLD
        assert left_over(tmp_path) == []


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.json").symlink_to("pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    files.write_text(tmp_path / "link.json", ["new ", "content"])
    reader.join()
    assert received == [NEW]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_device_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "full.json").symlink_to("/dev/full")
    with pytest.raises(WriteError, match=f"full.json: cannot be written: {os.strerror(errno.ENOSPC)}"):
        files.write_text(tmp_path / "full.json", ["x" * 100_000])
    assert Path("/dev/full").is_char_device()


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="this system has no /dev/stdout")
def test_stdout_is_written_and_not_replaced(tmp_path: Path) -> None:
    """Also if it leads to a file: what is printed later must go there, too."""
    code = "import os; from sizeup import files; files.write_text('/dev/stdout', ['first, ']);"
    with (tmp_path / "out").open("ab") as out:
        subprocess.run([sys.executable, "-c", f"{code} os.write(1, b'second')"], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "first, second"


def test_a_file_in_the_way_of_the_temporary_one_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(OLD)
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / f".file.guessed{files.UNFINISHED}").symlink_to(victim)
    with pytest.raises(WriteError):
        files.write_bytes(tmp_path / "file", NEW)
    assert victim.read_bytes() == OLD


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that somebody else filled with links, next to a file and a folder of the user."""
    for name in ("checkout/models", "home/folder"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / "profile").write_bytes(OLD)
    links = {"file": "profile", "folder": "folder", "new": "new", "models/file": "profile"}
    for name, target in links.items():
        (tmp_path / "checkout" / name).symlink_to(tmp_path / "home" / target)
    (tmp_path / "checkout" / "chain").symlink_to("models/file")
    (tmp_path / "checkout" / "memory").symlink_to("/proc/self")
    (tmp_path / "checkout" / "mem").symlink_to("/proc/self/mem")
    monkeypatch.chdir(tmp_path / "checkout")
    return tmp_path


LEAVING = [
    "file",
    "chain",
    "new",
    "folder/file",
    "folder/deep/file",
    "models/../folder/x",
    "mem",
    "memory/fd/9",
]


@pytest.mark.parametrize("name", [*LEAVING, "absolute/file", "absolute/folder/file"])
def test_no_output_follows_a_link_out_of_the_working_directory(checkout: Path, name: str) -> None:
    path = str(checkout / "checkout" / name.removeprefix("absolute/")) if name.startswith("abs") else name
    before = sorted(checkout.rglob("*"))
    writers: list[Callable[[], object]] = [
        lambda: files.write_bytes(path, NEW),
        lambda: files.write_text(path, ["new"], make_folder=True),
        lambda: files.make_folder(path),
        lambda: files.clear(path),
    ]
    for write in writers:
        with pytest.raises(WriteError, match=r"cannot be written: a link leads to /.*outside of /") as raised:
            write()
        assert "\n" not in str(raised.value)
    assert sorted(checkout.rglob("*")) == before
    assert (checkout / "home" / "profile").read_bytes() == OLD


@pytest.mark.parametrize("name", ["../checkout/file", "../checkout/models/file"])
def test_nor_does_a_path_that_starts_above_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(checkout / "checkout" / "models")
    with pytest.raises(WriteError, match="a link leads to"):
        files.write_bytes(f"../{name.removeprefix('../checkout/')}", NEW)
    assert (checkout / "home" / "profile").read_bytes() == OLD


def test_nor_does_a_link_in_the_place_of_a_file_elsewhere(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout / "home" / "folder")
    with pytest.raises(WriteError, match="a link leads to"):
        files.write_bytes(checkout / "checkout" / "file", NEW)
    assert (checkout / "home" / "profile").read_bytes() == OLD
    # What a user types is written, also through a link of their own in a folder.
    files.write_bytes(checkout / "checkout" / "folder" / "typed", NEW)
    assert (checkout / "home" / "folder" / "typed").read_bytes() == NEW
    with pytest.raises(WriteError, match="a link leads to"):
        files.write_text(checkout / "checkout" / "folder" / "typed", ["x"], inside=checkout / "checkout")


def test_links_within_the_working_directory_and_streams_are_written(checkout: Path) -> None:
    Path("report").symlink_to("models/report")
    files.write_bytes("report", NEW)
    assert Path("models/report").read_bytes() == NEW
    Path("null.json").symlink_to("/dev/null")
    files.write_bytes("null.json", NEW)
    files.clear("null.json")
    files.clear("nothing")
    files.clear("report")
    assert Path("models/report").read_bytes() == b""
    assert not Path("nothing").exists()


def test_no_output_is_a_file_of_git(checkout: Path) -> None:
    Path(".git/hooks").mkdir(parents=True)
    Path(".git/config").write_bytes(OLD)
    Path("report.json").symlink_to(".git/config")
    Path("out").symlink_to(".git/hooks")
    for name in ("report.json", "out/pre-commit", ".git/config"):
        with pytest.raises(WriteError, match="belongs to git"):
            files.write_bytes(name, NEW)
    assert Path(".git/config").read_bytes() == OLD
    assert list(Path(".git/hooks").iterdir()) == []


def test_a_hard_link_is_replaced_and_its_file_is_not(checkout: Path) -> None:
    for content in (NEW, b""):
        os.link(checkout / "home" / "profile", "hard")
        files.write_bytes("hard", content) if content else files.clear("hard")
        assert (checkout / "home" / "profile").read_bytes() == OLD
        Path("hard").unlink()


def test_a_pipe_that_nobody_reads_ends_in_an_error(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIPE_SECONDS", 0.1)
    os.mkfifo("pipe.json")
    with pytest.raises(WriteError, match=r"pipe.json: cannot be written: no process reads this pipe"):
        files.write_bytes("pipe.json", NEW)
    files.clear("pipe.json")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may make a device")
def test_a_device_in_a_checkout_is_not_written(checkout: Path) -> None:
    try:
        os.mknod("disk.json", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this system lets not even root make a device")
    with pytest.raises(WriteError, match="not a regular file"):
        files.write_bytes("disk.json", NEW)


def test_a_relative_cache_folder_is_ignored(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(checkout / "home"))
    for variable in ("cache", "", "../cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", variable)
        assert files.cache_folder("vela") == checkout / "home" / ".cache" / "sizeup" / "vela"
    monkeypatch.setenv("XDG_CACHE_HOME", str(checkout))
    assert files.cache_folder("vela") == checkout / "sizeup" / "vela"


# Not paths of the system, and one that tells a name that is too long from one that is missing.
_ASKED_DIRECTLY = {
    "completion.py": {"script"},
    "terminal.py": {"content"},
    "patterns.py": {"entry"},
    "storage.py": {"entry"},
    "files.py": {"path"},
    "external.py": {"path"},
}


def test_no_module_asks_a_path_in_a_way_that_fails_for_a_long_name() -> None:
    """`Path.exists`, `is_file` and `is_dir` raise OSError for it; those of `files` do not."""
    asked = set()
    for module in Path(files.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            match node:
                case ast.Call(ast.Attribute(value, "exists" | "is_file" | "is_dir"), [], []):
                    asked.add((module.name, ast.unparse(value)))
    assert asked == {(module, name) for module, names in _ASKED_DIRECTLY.items() for name in names}


def test_a_long_name_is_neither_a_file_nor_a_folder(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 3000)
    assert not any(ask(long) for ask in (files.exists, files.is_file, files.is_folder))
