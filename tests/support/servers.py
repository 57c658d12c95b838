"""Servers on loopback: http with byte ranges, and S3."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class HttpServer:
    """A served folder; ``requests`` lists (method, path, range header) as they came."""

    url: str
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    delay: float = 0.0
    ranges: bool = True
    status: int = 0  # instead of any answer, if given
    absent: int = 404  # what is answered where there is nothing
    most: int = 0  # requests in flight at once, so far
    together: threading.Barrier | None = None  # nothing is answered until so many requests are in flight


@contextmanager
def serve_http(root: Path) -> Iterator[HttpServer]:
    """Serve files below ``root`` with HEAD, GET and single byte ranges; no listing."""
    state, lock, busy = HttpServer(""), threading.Lock(), list[BaseHTTPRequestHandler]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            with lock:
                busy.append(self)
                state.most = max(state.most, len(busy))
            time.sleep(state.delay)
            with lock:
                busy.remove(self)
            if state.together is not None:
                state.together.wait()
            wanted = self.headers.get("Range") or ""
            state.requests.append((self.command, self.path, wanted))
            path = root / unquote(urlsplit(self.path).path).lstrip("/")
            if state.status or not path.is_file():
                self.send_response(state.status or state.absent)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = path.read_bytes()
            start, stop, code = 0, len(data), 200
            if state.ranges and (match := re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)):
                first, last = match.groups()
                if first:
                    start, stop = int(first), min(int(last) + 1 if last else len(data), len(data))
                else:
                    start = max(0, len(data) - int(last))
                code = 206 if start < stop else 416
            etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
            if self.headers.get("If-Match") not in (None, etag):
                start, stop, code = 0, 0, 412
            self.send_response(code)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(max(0, stop - start)))
            self.send_header("Accept-Ranges", "bytes")
            if code == 206:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            self.end_headers()
            if body and start < stop:
                self.wfile.write(data[start:stop])

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serve_s3(objects: dict[str, bytes], bucket: str = "images") -> Iterator[str]:
    """Serve ``objects`` from an S3 server; yields ``s3://BUCKET`` with the environment pointing there."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    mine = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    try:
        import urllib.request

        import obstore
        from obstore.store import S3Store

        urllib.request.urlopen(
            urllib.request.Request(f"{mine['AWS_ENDPOINT_URL']}/{bucket}", method="PUT"), timeout=30
        ).close()
        store = S3Store(bucket, client_options={"allow_http": True})
        for key, value in objects.items():
            obstore.put(store, key, value)
        yield f"s3://{bucket}"
    finally:
        server.stop()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
