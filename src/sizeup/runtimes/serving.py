"""One process that runs model after model on the same samples: starting a runtime takes longer than a run.

`python -m sizeup.runtimes.serving RUNTIME` reads requests, one JSON object a line, and answers each with one.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sizeup.errors import MissingLibrary, RunFailed
from sizeup.runtimes.process import (
    RUNTIMES,
    Array,
    Sample,
    environment,
    load_samples,
    reason_of,
    save_model,
    save_samples,
)


class Server:
    """A runtime in a process of its own, until `close`."""

    def __init__(self, runtime: str, timeout: float = 600) -> None:
        self._library = RUNTIMES[runtime]
        if importlib.util.find_spec(self._library.module) is None:
            raise MissingLibrary(
                f"running a model in {self._library.title}", self._library.package, self._library.extra
            )
        self._runtime, self._timeout = runtime, timeout
        self._scratch = tempfile.TemporaryDirectory(prefix="sizeup-")
        self._folder = Path(self._scratch.name)
        self._samples = 0
        self._said = (self._folder / "said").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sizeup.runtimes.serving", runtime],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=environment(),
        )  # fmt: skip

    def keep(self, samples: Sequence[Sample]) -> str:
        """Hand over samples once; the word that comes back stands for them."""
        self._samples += 1
        path = self._folder / f"samples_{self._samples}.npz"
        save_samples(path, samples)
        return str(path)

    def run(self, model: bytes, samples: str) -> list[list[Array]]:
        """The outputs of a model for each sample; raises RunFailed where it is refused or takes too long."""
        path, outputs = self._folder / "model", self._folder / "outputs.npz"
        save_model(path, model)
        answer = self._ask({"model": str(path), "samples": samples, "outputs": str(outputs)})
        if "error" in answer:
            raise RunFailed(f"{self._library.title} does not run it: {answer['error']}")
        return load_samples(outputs)

    def close(self) -> None:
        """End the process and remove its files."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass  # it ended before it read all
        self._scratch.cleanup()

    def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        limit = threading.Timer(self._timeout, self._process.kill)
        limit.daemon = True
        limit.start()
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            is_late = not limit.is_alive()
            limit.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        if is_late:
            raise RunFailed(f"{self._library.title} took longer than {self._timeout:g} s")
        code = self._process.wait()
        heard = (self._folder / "said").read_text("utf-8", errors="replace")
        raise RunFailed(f"{self._library.title} {reason_of(code, self._runtime, self._folder, heard)}")


def main(runtime: str) -> int:
    """Answer requests until there are no more."""
    execute = importlib.import_module(f"sizeup.runtimes.{runtime}").execute
    known: dict[str, list[list[Array]]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, str] = {}
        try:
            if request["samples"] not in known:
                known[request["samples"]] = load_samples(Path(request["samples"]))
            outputs = execute(request["model"], known[request["samples"]])
            save_samples(Path(request["outputs"]), outputs)
        # Whatever a runtime raises is the answer that the caller waits for.
        except Exception as error:
            answer["error"] = " ".join(f"{type(error).__name__}: {error}".split())
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
