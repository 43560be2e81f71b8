"""A Ray cluster on this machine, in a subprocess: `python cluster.py`.

A head that works on nothing and two nodes of one core each, all on loopback. It prints the address, then
obeys lines: `worker` kills one that is at a task, `node` kills a node, `add` starts another. Each is
answered.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}


def serve() -> None:
    """Keep the cluster until there are no more lines."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "node_ip_address": "127.0.0.2", **_SMALL}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    nodes = [_added(cluster), _added(cluster)]
    try:
        _say({"address": cluster.address})
        for line in sys.stdin:
            _say(_obeyed(line.strip(), cluster, nodes))
    finally:
        cluster.shutdown()


def _added(cluster: Any) -> Any:
    return cluster.add_node(num_cpus=1, node_ip_address="127.0.0.2", **_SMALL)


def _obeyed(order: str, cluster: Any, nodes: list[Any]) -> dict[str, Any]:
    if order == "worker":
        return {"killed": _kill_worker([_raylet(node) for node in nodes])}
    if order == "node":
        killed = nodes.pop(0)
        pid = _raylet(killed)
        cluster.remove_node(killed, allow_graceful=False)
        return {"killed": pid}
    nodes.append(_added(cluster))
    return {"added": _raylet(nodes[-1])}


def _raylet(node: Any) -> int:
    pid: int = node.all_processes["raylet"][0].process.pid
    return pid


def _kill_worker(raylets: list[int]) -> int:
    """Kill a worker of these nodes that has a task."""
    for _ in range(3000):
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):  # noqa: PTH208 - many times a second
            if _parent(pid) in raylets and b"ray::_perform" in _words(pid):
                os.kill(pid, signal.SIGKILL)
                return pid
        time.sleep(0.01)
    raise SystemExit("no worker has a task")


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _say(answer: dict[str, Any]) -> None:
    os.write(_ANSWERS, json.dumps(answer).encode() + b"\n")


class Served:
    """The other end: orders to the process that keeps the cluster."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address: str = self._heard()["address"]

    def order(self, what: str) -> dict[str, Any]:
        """Let it do something, and wait until it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._heard()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the cluster ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def cluster_at(folder: Path) -> Iterator[Served]:
    """A cluster while the block lasts; its files and its token stay in a folder."""
    own = {**os.environ, "HOME": str(folder), "RAY_TMPDIR": str(folder)}
    (folder / "ray").mkdir()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=own,
            text=True,
        )
    try:
        yield Served(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


if __name__ == "__main__":
    _ANSWERS = os.dup(1)
    os.dup2(2, 1)  # Ray talks on stdout
    serve()
