"""Tasks on this machine: a few threads, each the keeper of a process that loads models."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress

from sizeup.sweeps.keeper import Keeper
from sizeup.sweeps.models import Model
from sizeup.sweeps.task import Outcome, Settings, perform, perform_each


def run(models: Iterator[Model], settings: Settings, workers: int) -> Generator[Outcome, None, None]:
    """The outcomes of all tasks, in the order in which they end."""
    if settings.in_process:
        yield from (perform(model, settings, None) for model in models)
        return
    crew = _Crew(models, settings)
    threads = [threading.Thread(target=crew.work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield from crew.outcomes(workers)
    finally:
        crew.stop()
        for thread in threads:
            thread.join()


class _Crew:
    """Threads that take models from one list and put outcomes on another, which never grows long."""

    def __init__(self, models: Iterator[Model], settings: Settings) -> None:
        self._models, self._settings = models, settings
        self._taking = threading.Lock()
        self._done: queue.Queue[Outcome | BaseException | None] = queue.Queue(64)
        self._stopped = threading.Event()
        self._keepers: list[Keeper] = []

    def work(self) -> None:
        keeper = Keeper(self._settings.limits, self._settings.folders)
        self._keepers.append(keeper)
        try:
            perform_each(iter(self._next, None), self._settings, keeper, self._put)
        # Whatever ends a thread must end the sweep: it is raised where outcomes are read.
        except BaseException as error:
            self._put(error)
        finally:
            keeper.close()
            self._put(None)

    def outcomes(self, workers: int) -> Iterator[Outcome]:
        """What the threads put down, until the last has ended."""
        while workers:
            found = self._done.get()
            if isinstance(found, BaseException):
                raise found
            if found is None:
                workers -= 1
            else:
                yield found

    def stop(self) -> None:
        """Let no thread begin another task, nor wait for the one that it is at."""
        self._stopped.set()
        for keeper in self._keepers:
            keeper.stop()

    def _next(self) -> Model | None:
        with self._taking:
            return None if self._stopped.is_set() else next(self._models, None)

    def _put(self, outcome: Outcome | BaseException | None) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._done.put(outcome, timeout=0.1)
                return
