"""The local engine: threads, each with a worker that evaluates models."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress

from sizeup.sweeps.models import Model
from sizeup.sweeps.task import Outcome, Settings, perform, perform_each
from sizeup.sweeps.worker import Evaluator


def run(models: Iterator[Model], settings: Settings, workers: int) -> Generator[Outcome, None, None]:
    """The outcomes of all tasks, in order of completion."""
    if settings.in_process:
        yield from (perform(model, settings, None) for model in models)
        return
    pool = _Pool(models, settings)
    threads = [threading.Thread(target=pool.work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield from pool.outcomes(workers)
    finally:
        pool.stop()
        for thread in threads:
            thread.join()


class _Pool:
    """Threads that take models from an iterator and put outcomes on a bounded queue."""

    def __init__(self, models: Iterator[Model], settings: Settings) -> None:
        self._models, self._settings = models, settings
        self._taking = threading.Lock()
        self._done: queue.Queue[Outcome | BaseException | None] = queue.Queue(64)
        self._stopped = threading.Event()
        self._evaluators: list[Evaluator] = []

    def work(self) -> None:
        evaluator = Evaluator(self._settings.limits, self._settings.folders)
        self._evaluators.append(evaluator)
        try:
            perform_each(iter(self._next, None), self._settings, evaluator, self._put)
        # Any error in a thread must end the sweep: it is raised again in `outcomes`.
        except BaseException as error:
            self._put(error)
        finally:
            evaluator.close()
            self._put(None)

    def outcomes(self, workers: int) -> Iterator[Outcome]:
        """The outcomes of the threads, until the last thread ends."""
        while workers:
            item = self._done.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                workers -= 1
            else:
                yield item

    def stop(self) -> None:
        """Prevent threads from starting another task and stop the running ones."""
        self._stopped.set()
        for evaluator in self._evaluators:
            evaluator.stop()

    def _next(self) -> Model | None:
        with self._taking:
            return None if self._stopped.is_set() else next(self._models, None)

    def _put(self, outcome: Outcome | BaseException | None) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._done.put(outcome, timeout=0.1)
                return
