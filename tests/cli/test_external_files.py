"""Files that a model names, as a hostile repository would: nothing outside its folder is read or copied."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sizeup
from cli.running import Run
from sizeup.errors import LoadError, SizeupError

pytestmark = pytest.mark.extras

SECRET = b"the token of the build" * 4
SUFFIXES = (".onnx", ".tflite")


def onnx_model(location: str) -> bytes:
    import onnx
    from onnx import TensorProto, helper

    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": "16"}.items():
        weight.external_data.add(key=key, value=value)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:])
    graph.initializer.append(weight)
    content: bytes = onnx.helper.make_model(
        graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()
    return content


def tflite_model(location: str) -> bytes:
    from formats.tflite.factory import File, schema

    file = File()
    constant = file.main.tensor("w", (4,), externalBuffer=2**31)
    x, y = file.main.tensor("x", (4,)), file.main.tensor("y", (4,))
    file.main.op("ADD", [x, constant], [y])
    file.main.ends([x], [y])
    group, place = schema.ExternalBufferGroupT(), schema.ExternalBufferT()
    group.name, place.id, place.group, place.offset, place.length = location, 2**31, 0, 0, 16
    file.model.externalBufferGroups, file.model.externalBuffers = [group], [place]
    return file.pack()


class Repository:
    """A folder with a model that names one file, a secret next to the folder, and a folder for outputs."""

    def __init__(self, root: Path, suffix: str) -> None:
        self.home, self.out, self.secret = root / "repository", root / "artifacts", root / "secret"
        self.suffix = suffix
        self.home.mkdir()
        self.out.mkdir()
        self.secret.write_bytes(SECRET)

    def model(self, location: str) -> Path:
        path = self.home / f"model{self.suffix}"
        path.write_bytes((onnx_model if self.suffix == ".onnx" else tflite_model)(location))
        return path

    @property
    def target(self) -> Path:
        return self.out / f"smaller{self.suffix}"

    def written(self) -> list[Path]:
        return list(self.out.rglob("*"))


@pytest.fixture(params=SUFFIXES)
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    pytest.importorskip({".onnx": "onnx", ".tflite": "ai_edge_litert"}[request.param])
    return Repository(tmp_path, request.param)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _link(each: Repository) -> str:
    (each.home / "w.bin").symlink_to(each.secret)
    return "w.bin"


def _chain(each: Repository) -> str:
    (each.home / "second").symlink_to("../secret")
    (each.home / "w.bin").symlink_to("second")
    return "w.bin"


def _folder(each: Repository) -> str:
    (each.home / "data").symlink_to(each.home.parent, target_is_directory=True)
    return "data/secret"


def _folder_within(each: Repository) -> str:
    (each.home / "a" / "b").mkdir(parents=True)
    (each.home / "a" / "b" / "up").symlink_to("../../..", target_is_directory=True)
    return "a/b/up/secret"


def _pipe(each: Repository) -> str:
    os.mkfifo(each.home / "w.bin")
    return "w.bin"


def _link_to_pipe(each: Repository) -> str:
    os.mkfifo(each.home / "pipe")
    (each.home / "w.bin").symlink_to("pipe")
    return "w.bin"


def _device(each: Repository) -> str:
    (each.home / "w.bin").symlink_to("/dev/zero")
    return "w.bin"


def _loop(each: Repository) -> str:
    (each.home / "w.bin").symlink_to("w.bin")
    return "w.bin"


def _is_folder(each: Repository) -> str:
    (each.home / "w.bin").mkdir()
    return "w.bin"


ATTACKS: dict[str, Callable[[Repository], str]] = {
    "link": _link,
    "chain of links": _chain,
    "link in the path": _folder,
    "link deep in the path": _folder_within,
    "pipe": _pipe,
    "link to a pipe": _link_to_pipe,
    "device": _device,
    "loop": _loop,
    "folder": _is_folder,
    "upwards": lambda _: "../secret",
    "upwards from within": lambda _: "a/../../secret",
    "upwards, as Windows writes it": lambda _: "..\\secret",
    "absolute": lambda each: str(each.secret),
    "drive": lambda _: "C:\\secret",
    "drive without a root": lambda _: "C:secret",
    "share": lambda _: "\\\\host\\share",
    "root of a drive": lambda _: "\\secret",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_optimize_copies_nothing_from_elsewhere(run: Run, repository: Repository, attack: str) -> None:
    model = repository.model(ATTACKS[attack](repository))
    done = run("optimize", model, "-o", repository.target)
    assert done.code == 2
    assert done.err.startswith("sizeup: ")
    assert done.err.count("\n") == 1
    assert repository.written() == []


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_from_elsewhere_is_read(repository: Repository, attack: str) -> None:
    path = repository.model(ATTACKS[attack](repository))
    with pytest.raises(LoadError):
        _read_weight(path)


def _read_weight(path: Path) -> None:
    (weight,) = [each for each in sizeup.load(path).tensors if each.name == "w"]
    assert weight.data is not None
    assert weight.data.read is not None
    weight.data.read()


@pytest.mark.parametrize("attack", ["link", "pipe"])
def test_no_runtime_is_led_elsewhere(run: Run, tmp_path: Path, attack: str) -> None:
    pytest.importorskip("onnxruntime")
    each = Repository(tmp_path, ".onnx")
    model = each.model(ATTACKS[attack](each))
    done = run("measure", model, "--seconds", "0.01")
    assert done.code == 2
    assert "external data" in done.err


@pytest.mark.parametrize("name", [".git/config", ".bashrc", "data/.netrc"])
def test_hidden_files_are_not_copied(run: Run, repository: Repository, name: str) -> None:
    (repository.home / name).parent.mkdir(parents=True, exist_ok=True)
    (repository.home / name).write_bytes(SECRET)
    done = run("optimize", repository.model(name), "-o", repository.target)
    assert done.code == 2
    assert "hidden file" in done.err
    assert repository.written() == []


@pytest.mark.parametrize("name", ["data/w.bin", "w.bin"])
def test_nothing_is_written_through_links_out_of_the_new_folder(
    run: Run, repository: Repository, name: str
) -> None:
    weights = repository.home / name
    weights.parent.mkdir(exist_ok=True)
    weights.write_bytes(SECRET)
    elsewhere = repository.out.parent / "elsewhere"
    elsewhere.mkdir()
    link = repository.out / name.split("/")[0]
    link.symlink_to(elsewhere if "/" in name else elsewhere / "w.bin")
    done = run("optimize", repository.model(name), "-o", repository.target)
    assert done.code == 2
    assert "leads outside the folder" in done.err
    assert list(elsewhere.iterdir()) == []


def test_links_within_the_folder_are_followed_and_permissions_are_kept(
    run: Run, repository: Repository, umask: None
) -> None:
    (repository.home / "blobs").mkdir()
    (repository.home / "blobs" / "1a").write_bytes(SECRET)
    (repository.home / "blobs" / "1a").chmod(0o600)
    (repository.home / "data").symlink_to("blobs", target_is_directory=True)
    (repository.home / "data" / "w.bin").symlink_to("../data/1a")
    model = repository.model("data/w.bin")
    model.chmod(0o600)
    assert run("optimize", model, "-o", repository.target, "--no-verify").code == 0
    for path, content in ((repository.target, None), (repository.out / "data" / "w.bin", SECRET)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.is_symlink()
        assert content in (None, path.read_bytes())
    assert len(repository.written()) == 3


@pytest.mark.parametrize(("source", "mask", "expected"), [(0o600, 0o022, 0o600), (0o644, 0o077, 0o600)])
def test_a_copy_with_figures_is_no_more_open_than_its_model(
    run: Run, tmp_path: Path, umask: None, source: int, mask: int, expected: int
) -> None:
    pytest.importorskip("onnx")
    each = Repository(tmp_path, ".onnx")
    (each.home / "w.bin").write_bytes(SECRET)
    model = each.model("w.bin")
    for path in (model, each.home / "w.bin"):
        path.chmod(source)
    os.umask(mask)
    assert run("analyze", model, "-o", each.target).code == 0
    assert [stat.S_IMODE(path.stat().st_mode) for path in each.written()] == [expected] * 2


def test_an_output_that_is_no_regular_file_is_refused(run: Run, repository: Repository) -> None:
    (repository.home / "w.bin").write_bytes(SECRET)
    os.mkfifo(repository.target)
    done = run("optimize", repository.model("w.bin"), "-o", repository.target, "--no-verify")
    assert done.code == 2
    assert "not a regular file; give another output path" in done.err
    assert repository.target.is_fifo()


def test_a_length_that_the_file_does_not_have_allocates_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    from formats.tflite.factory import schema

    content = bytearray(tflite_model("w.bin"))
    place = schema.Model.GetRootAs(content).ExternalBuffers(0)
    offset = place._tab.Offset(10) + place._tab.Pos  # the fourth field, its length
    assert int.from_bytes(content[offset : offset + 8], "little") == 16
    content[offset : offset + 8] = (1 << 62).to_bytes(8, "little")
    (tmp_path / "model.tflite").write_bytes(content)
    (tmp_path / "w.bin").write_bytes(SECRET)
    with pytest.raises(SizeupError, match="file is too short, the model refers to byte"):
        _read_weight(tmp_path / "model.tflite")


@pytest.mark.parametrize("state", ["present", "missing", "cut short", "a link elsewhere"])
def test_a_runtime_does_not_load_a_model_without_its_weights(
    state: str, run: Run, repository: Repository
) -> None:
    model, weights = repository.model("weights.bin"), repository.home / "weights.bin"
    if state == "a link elsewhere":
        weights.symlink_to(repository.secret)
    elif state != "missing":
        weights.write_bytes(bytes(16 if state == "present" else 15))
    target = "rpi5/ort" if repository.suffix == ".onnx" else "rpi5/litert"
    ended = run("check", str(model), "-d", target, "--no-remedies")
    if state == "cut short" and repository.suffix == ".onnx":
        assert ended.code == 2
        return
    assert ended.code == (0 if state == "present" else 3), ended.out + ended.err
    assert ("weights file 'weights.bin' is missing" in " ".join(ended.out.split())) == (ended.code == 3)
    assert sizeup.analyze(model).totals.params == 4
    assert run("check", str(model), "--params", "4").code == 0  # an amount that no runtime decides
