"""Data for a measurement, in all the ways it may be given, and the file of what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sizeup.errors import SizeupError
from sizeup.mixed_precision.store import Store, usual_folder
from sizeup.mixed_precision.table import data_of

IMAGES = np.arange(24, dtype=np.float32).reshape(6, 4)
LABELS = np.arange(6)


def test_files_and_arrays_are_the_same_data(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", IMAGES)
    np.savez(tmp_path / "both.npz", x=IMAGES, y=LABELS)
    plain = data_of(IMAGES, LABELS)
    assert data_of(tmp_path / "both.npz").digest() == plain.digest()
    assert data_of(str(tmp_path / "plain.npy"), LABELS).digest() == plain.digest()
    assert data_of([IMAGES], LABELS).digest() == plain.digest()
    assert data_of(IMAGES).digest() != plain.digest()
    assert data_of(IMAGES + 1, LABELS).digest() != plain.digest()
    assert data_of({"one": IMAGES, "two": LABELS, "y": LABELS}).names == ("one", "two")


def test_batches_cover_all_samples_once() -> None:
    sizes = [len(batch[0]) for batch in data_of(IMAGES).batches(4)]
    assert sizes == [4, 2]
    padded = data_of(IMAGES).batches(4, padded=True)
    assert [len(batch[0]) for batch in padded] == [4, 4]
    assert padded[1][0].tolist() == [*IMAGES[4:].tolist(), IMAGES[5].tolist(), IMAGES[5].tolist()]


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    for given, labels, message in (
        (IMAGES, LABELS[:3], "different numbers of samples"),
        (IMAGES[:0], None, "no data"),
        ({"y": LABELS}, None, "no data"),
        (tmp_path / "text.npz", None, "cannot be read as data"),
        (tmp_path / "absent.npz", None, "cannot be read as data"),
        (np.array([object()]), None, "no numbers"),
    ):
        with pytest.raises(SizeupError, match=message):
            data_of(given, labels)


def test_what_was_kept_is_found_again_and_broken_lines_are_not(tmp_path: Path) -> None:
    first = Store(tmp_path / "deep" / "cache", "model")
    first.keep("a", {"kl": 1.5})
    assert first.path is not None
    with first.path.open("a") as file:
        file.write('[1]\n{"key": 3}\nnonsense\n{"key": "cut sho')
    second = Store(tmp_path / "deep" / "cache", "model")
    assert second.find("a") == {"kl": 1.5}
    second.keep("b", {"kl": 2.5})
    third = Store(tmp_path / "deep" / "cache", "model")
    assert [third.find(key) for key in ("a", "b", "c")] == [{"kl": 1.5}, {"kl": 2.5}, None]
    assert Store(tmp_path / "deep" / "cache", "another").find("a") is None


def test_nothing_is_written_where_no_cache_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert usual_folder() == tmp_path / "sizeup" / "sensitivity"
    Store(False, "model").keep("a", {})
    assert list(tmp_path.iterdir()) == []
    Store(None, "model").keep("a", {})
    assert (usual_folder() / "model.jsonl").is_file()
