"""A witness on the network: a small HTTP service, and how to send it a request.

Floor 4. The only room that opens a socket to other machines. What comes in may be anything: its size, time and number
have limits, and no answer tells more than the request's own fault.
"""

from __future__ import annotations

import http.client
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from gitjournal import canonical
from gitjournal.errors import JournalError, StorageError, UsageError, disk_errors
from gitjournal.witness import MAX_BYTES, Answer, Witness

PATH = "/add-checkpoint"
#: A request must be here in so many seconds, however slowly its client sends it.
SECONDS = 10.0
#: So many requests at a time. Who comes when all places are taken is hung up on.
PLACES = 32
#: The key of a witness may be one that a person must release for each signature.
_PATIENCE = 90.0
# What is refused unread is still taken, up to so much and with pauses up to so long.
_MAX_DRAIN = 4 * 1024 * 1024
_LINGER = 1.0


# --- the service ---------------------------------------------------------------------------------


class Service(socketserver.ThreadingTCPServer):
    """Answers ``POST /add-checkpoint``. Run it with ``serve_forever``, close it with ``server_close``."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = PLACES

    def __init__(self, witness: Witness, host: str, port: int, log: Callable[[str], None]) -> None:
        """Listen at ``host``; at a free port if ``port`` is 0. ``log`` gets lines that hold what clients sent."""
        self.witness = witness
        self.log = log
        self._host = host
        self._places = threading.BoundedSemaphore(PLACES)
        with disk_errors(f"listen at {host} port {port}"):
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is a place left."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A line, and no traceback: a client that hangs up in the middle is nothing special."""
        error = sys.exception()
        self.log(f"{client_address[0]}: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    """One request, one answer, and the connection ends."""

    server: Service
    server_version = "gitjournal-witness"
    sys_version = ""
    timeout = SECONDS

    def setup(self) -> None:
        super().setup()
        # The timeout is of each read: a byte now and then would hold the place for ever.
        self._clock = threading.Timer(SECONDS, self._stop_reading)
        self._clock.daemon = True
        self._clock.start()

    def finish(self) -> None:
        self._clock.cancel()
        super().finish()

    def _stop_reading(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def do_GET(self) -> None:
        self.send_error(404, f"this is a witness: it answers POST {PATH}")

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if self.path != PATH:
            self.do_GET()
        elif not (size.isascii() and size.isdigit()) or "Transfer-Encoding" in self.headers:
            self.send_error(400, "Content-Length is missing or no number")
        elif len(size) > 9 or int(size) > MAX_BYTES:
            self.send_error(413, f"a request has at most {MAX_BYTES} bytes")
            self._drain()
        else:
            self._answer(int(size))

    def _answer(self, size: int) -> None:
        body = self.rfile.read(size)
        self._clock.cancel()
        if len(body) < size:
            self.send_error(400, "the request is shorter than it says")
            return
        try:
            answer = self.server.witness.answer(body)
        except JournalError as error:
            self.server.log(f"cannot answer: {error}")
            self.send_error(500, "the witness is in trouble of its own")
            return
        self._send(answer)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """An answer without a cosignature. The base class calls it for requests that are no HTTP."""
        text = message or http.client.responses.get(code, "")
        self._send(Answer(code, canonical.dumps({"error": "http", "message": text}) + b"\n"))

    def _send(self, answer: Answer) -> None:
        # Also to who speaks a version that has no status, or none at all.
        self.request_version = self.protocol_version
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.close_connection = True

    def _drain(self) -> None:
        """Take some of what was refused: a connection that is closed on it is reset, and takes the answer along."""
        left = _MAX_DRAIN
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER)
            while left > 0 and (piece := self.rfile.read1(min(left, MAX_BYTES))):
                left -= len(piece)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
        """A line for each request."""
        self.server.log(f"{self.client_address[0]}: {(format % args)[:200]}")


# --- the client ----------------------------------------------------------------------------------


def sender(url: str) -> Callable[[bytes], Answer]:
    """How the witness at ``url`` is sent a request: a function from a body to its answer.

    UsageError when it is no URL of a witness. The function raises StorageError when the witness cannot be reached.
    """
    wrong = UsageError(f"{url!a} is not the URL of a witness", hint="It is as in http://127.0.0.1:8090")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    plain = url.isascii() and url.isprintable() and "@" not in parts.netloc and not parts.query
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise wrong
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection

    def send(body: bytes) -> Answer:
        with disk_errors(f"ask the witness at {url}"):
            connection = kind(host, port, timeout=_PATIENCE)
            try:
                connection.request("POST", parts.path.rstrip("/") + PATH, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                # One byte more than there can be: then it is no JSON, and refused as such.
                return Answer(response.status, response.read(MAX_BYTES + 1))
            except http.client.HTTPException as error:
                raise StorageError(f"the witness at {url} does not speak HTTP: {type(error).__name__}") from None
            finally:
                connection.close()

    return send
