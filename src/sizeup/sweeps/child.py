"""The process in which models are loaded: `python -m sizeup.sweeps.child MEMORY PARENT FOLDER...`.

It reads requests, one JSON object a line, and answers each with one. A model that crashes, hangs or eats
memory takes this process along, not the sweep.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path
from typing import IO, Any

from sizeup.sweeps.limits import confine


def main(memory: str, parent: str, *folders: str) -> int:
    """Answer requests until there are no more."""
    confine(int(memory), int(parent))
    sys.path[:0] = [each for each in folders if each not in sys.path]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a model or a library prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()
    return 0


def _answer(request: dict[str, str]) -> dict[str, Any]:
    from sizeup.sweeps.evaluate import described

    try:
        work = pickle.loads(Path(request["work"]).read_bytes())
        with Path(request["rows"]).open("wb") as file:
            return {"rows": _write(work, file)}
    except MemoryError:
        return {"kind": "OutOfMemory"}
    # Whatever a model's code raises, leaving the program included, is the answer that the caller waits for.
    except BaseException as error:
        kind, reason = described(error)
        return {"kind": kind, "error": reason}


def _write(work: Any, file: IO[bytes]) -> int:
    import pyarrow as pa

    from sizeup.sweeps.rows import rows_of
    from sizeup.sweeps.schema import arrow_schema, batches_of

    count = 0
    with pa.ipc.new_stream(file, arrow_schema()) as stream:
        for batch in batches_of(rows_of(*work)):
            stream.write_batch(batch)
            count += batch.num_rows
    return count


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
