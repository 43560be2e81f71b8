"""How many models go into one task of Ray, and what happens while their rows are brought to the disk."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sizeup.errors import WriteError
from sizeup.sweeps import Store, read_spec
from sizeup.sweeps.engine.ray import TaskBatcher
from sizeup.sweeps.expand import models_of
from sizeup.sweeps.models import Model
from sizeup.sweeps.task import Outcome, Settings, perform_each
from sweeps.generated import write_models
from sweeps.tables import rows_of, unfinished


def names(count: int) -> Iterator[Model]:
    return (Model(str(index)) for index in range(count))


def taken(batcher: TaskBatcher) -> list[int]:
    return [len(batch) for batch in iter(batcher.take, ())]


def test_as_long_as_nothing_is_known_each_has_a_task_of_its_own() -> None:
    assert taken(TaskBatcher(names(9), 2)) == [1] * 9


@pytest.mark.parametrize(("seconds", "most"), [(0.001, 4), (1.0, 4), (1.5, 2), (4.1, 1), (300.0, 1)])
def test_short_models_share_a_task_that_takes_seconds(seconds: float, most: int) -> None:
    """Of 32 that two cores look ahead at, an eighth is a task at most."""
    batcher = TaskBatcher(names(1000), 2)
    batcher.record_time(seconds)
    results = taken(batcher)
    assert sum(results) == 1000
    assert results[0] == max(results) == most


def test_the_last_models_are_dealt_out_one_by_one() -> None:
    """Whoever is done early waits for one model, not for four."""
    batcher = TaskBatcher(names(100), 2)
    batcher.record_time(1.0)
    results = taken(batcher)
    assert results == sorted(results, reverse=True)
    assert results[-7:] == [1] * 7


def test_every_model_is_dealt_out_once_and_in_order() -> None:
    batcher = TaskBatcher(names(77), 3)
    batcher.record_time(0.1)
    dealt = [model.name for batch in iter(batcher.take, ()) for model in batch]
    assert dealt == [str(index) for index in range(77)]


def test_a_list_without_an_end_is_not_read_to_it() -> None:
    read = itertools.count()
    batcher = TaskBatcher((Model(str(index)) for index in read), 2)
    batcher.record_time(1.0)
    for _ in range(10):
        batcher.take()
    assert next(read) <= 10 * 4 + 32


def test_models_whose_task_came_to_nothing_are_tried_apart() -> None:
    batcher = TaskBatcher(names(100), 1)
    batcher.record_time(0.1)
    first = batcher.take()
    assert len(first) > 1
    batcher.retry_alone(first)
    assert [batcher.take() for _ in first] == [(model,) for model in first]


def test_what_was_named_before_an_error_comes_first() -> None:
    def failing() -> Iterator[Model]:
        yield from names(3)
        raise ValueError("no more ideas")

    batcher = TaskBatcher(failing(), 1)
    assert taken(batcher) == [1, 1, 1]
    with pytest.raises(ValueError, match="no more ideas"):
        batcher.close()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    write_models(tmp_path / "nets", 5)
    spec = read_spec({"models": ["nets/*"], "targets": ["rpi5/ort"]})
    return Settings(str(tmp_path / "out"), spec.point_set, spec.limits)


def models() -> list[Model]:
    return [*models_of(read_spec({"models": ["nets/*"], "targets": ["rpi5/ort"]}))]


def test_a_model_is_done_when_its_rows_are_there(settings: Settings) -> None:
    seen: list[tuple[str, int]] = []

    def done(outcome: Outcome) -> None:
        seen.append((outcome.model, len(Store(settings.store).shards())))

    perform_each(models(), settings, None, done)
    assert [name for name, _ in seen] == [model.name for model in models()]
    assert all(there >= place for place, (_, there) in enumerate(seen, 1))


def test_the_next_model_does_not_wait_for_the_disk(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk blocks until the second model is requested, which never happens if the first is waited for."""
    is_requested = threading.Event()
    sync = os.fsync

    def slow(handle: int) -> None:
        assert is_requested.wait(60)
        sync(handle)

    def query_rows() -> Iterator[Model]:
        for index, model in enumerate(models()):
            if index == 1:
                is_requested.set()
            yield model

    monkeypatch.setattr(os, "fsync", slow)
    results: list[Outcome] = []
    perform_each(query_rows(), settings, None, results.append)
    assert [outcome.rows for outcome in results] == [1] * 5
    assert len(rows_of(settings.store)) == 5
    assert unfinished(Path(settings.store)) == []


def test_a_disk_that_fails_ends_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    results: list[Outcome] = []
    with pytest.raises(WriteError, match="No space left"):
        perform_each(models(), settings, None, results.append)
    assert results == []
    assert Store(settings.store).shards() == []
