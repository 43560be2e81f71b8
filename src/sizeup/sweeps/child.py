"""The process in which models are loaded: `python -m sizeup.sweeps.child MEMORY PARENT WORK ROWS FOLDER...`.

It waits for lines, and answers each with a JSON object when the work is done. A model that crashes, hangs or
eats memory takes this process along, not the sweep.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
import time
from typing import IO, TYPE_CHECKING, Any

from sizeup.sweeps.limits import confine

if TYPE_CHECKING:
    from sizeup.sweeps.models import Identity, Model
    from sizeup.sweeps.points import Questions


def main(memory: str, parent: str, work: str, rows: str, *folders: str) -> int:
    """Answer requests until there are no more: work is read from one file, rows are written to another."""
    confine(int(memory), int(parent))
    sys.path[:0] = [each for each in folders if each not in sys.path]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a model or a library prints is no answer
    # Unbuffered: the parent writes the one and reads the other, at the same places.
    asked, told = (os.fdopen(int(each), mode, 0) for each, mode in ((work, "rb"), (rows, "wb")))
    with asked, told:
        for name in ("pyarrow", "sizeup.sweeps.rows"):  # before the time of the first model begins
            importlib.import_module(name)
        _say(answers, {})
        for _line in sys.stdin:
            _say(answers, _answer(asked, told))
    return 0


def _say(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _answer(asked: IO[bytes], told: IO[bytes]) -> dict[str, Any]:
    from sizeup.sweeps.evaluate import described

    try:
        asked.seek(0)
        told.seek(0)
        told.truncate()
        start = time.process_time()
        bound = set[str]()
        rows = _write(pickle.loads(asked.read()), told, bound)
    # Whatever a model's code raises, leaving the program included, is the answer that the caller waits for.
    except BaseException as error:
        kind, reason = described(error)
        return {"kind": kind, "error": reason}
    return {"rows": rows, "cpu_seconds": time.process_time() - start, "bound": sorted(bound)}


def _write(work: tuple[Model, Identity, Questions, bool], file: IO[bytes], bound: set[str]) -> int:
    import pyarrow as pa

    from sizeup.sweeps.rows import rows_of
    from sizeup.sweeps.schema import arrow_schema, batches_of

    model, identity, asked, is_last = work
    count = 0
    with pa.ipc.new_stream(file, arrow_schema()) as stream:
        for batch in batches_of(rows_of(model, identity, asked, is_last=is_last, bound=bound)):
            stream.write_batch(batch)
            count += batch.num_rows
    return count


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
