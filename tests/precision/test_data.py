"""Data for a measurement, in all the ways it may be given, and the file of what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sizeup.errors import SizeupError
from sizeup.mixed_precision.result_cache import ResultCache, default_folder
from sizeup.mixed_precision.table import load_data

IMAGES = np.arange(24, dtype=np.float32).reshape(6, 4)
LABELS = np.arange(6)


def test_files_and_arrays_are_the_same_data(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", IMAGES)
    np.savez(tmp_path / "both.npz", x=IMAGES, y=LABELS)
    plain = load_data(IMAGES, LABELS)
    assert load_data(tmp_path / "both.npz").digest() == plain.digest()
    assert load_data(str(tmp_path / "plain.npy"), LABELS).digest() == plain.digest()
    assert load_data([IMAGES], LABELS).digest() == plain.digest()
    assert load_data(IMAGES).digest() != plain.digest()
    assert load_data(IMAGES + 1, LABELS).digest() != plain.digest()
    assert load_data({"one": IMAGES, "two": LABELS, "y": LABELS}).names == ("one", "two")


def test_batches_cover_all_samples_once() -> None:
    sizes = [len(batch[0]) for batch in load_data(IMAGES).batches(4)]
    assert sizes == [4, 2]
    padded = load_data(IMAGES).batches(4, padded=True)
    assert [len(batch[0]) for batch in padded] == [4, 4]
    assert padded[1][0].tolist() == [*IMAGES[4:].tolist(), IMAGES[5].tolist(), IMAGES[5].tolist()]


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    for source, labels, message in (
        (IMAGES, LABELS[:3], "different numbers of samples"),
        (IMAGES[:0], None, "no data"),
        ({"y": LABELS}, None, "no data"),
        (tmp_path / "text.npz", None, "cannot be read as data"),
        (tmp_path / "absent.npz", None, "absent.npz: no such file"),
        (np.array([object()]), None, "arrays of objects"),
    ):
        with pytest.raises(SizeupError, match=message):
            load_data(source, labels)


def test_what_was_kept_is_found_again_and_broken_lines_are_not(tmp_path: Path) -> None:
    first = ResultCache(tmp_path / "deep" / "cache", "model")
    first.write("a", {"kl": 1.5})
    assert first.path is not None
    with first.path.open("a") as file:
        file.write('[1]\n{"key": 3}\nnonsense\n{"key": "cut sho')
    second = ResultCache(tmp_path / "deep" / "cache", "model")
    assert second.find("a") == {"kl": 1.5}
    second.write("b", {"kl": 2.5})
    third = ResultCache(tmp_path / "deep" / "cache", "model")
    assert [third.find(key) for key in ("a", "b", "c")] == [{"kl": 1.5}, {"kl": 2.5}, None]
    assert ResultCache(tmp_path / "deep" / "cache", "another").find("a") is None


def test_nothing_is_written_where_no_cache_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "sizeup" / "sensitivity"
    ResultCache(False, "model").write("a", {})
    assert list(tmp_path.iterdir()) == []
    ResultCache(None, "model").write("a", {})
    assert (default_folder() / "model.jsonl").is_file()
