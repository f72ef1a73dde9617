"""Connections to the server on localhost: few at a time, and none that can keep it waiting."""

import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from time import monotonic
from typing import Any


@dataclass(frozen=True)
class Limits:
    """What clients may take: connections at a time, seconds to ask and to read, bytes to ask."""

    connections: int = 32
    asking: float = 5.0
    reading: float = 10.0
    head: int = 16 * 1024


_FULL = b"""HTTP/1.0 503 Service Unavailable\r
Content-Type: text/plain; charset=utf-8\r
Cache-Control: no-store\r
Refresh: 2\r
Connection: close\r
\r
Too many connections are open; close some tabs.
"""


class LimitedServer(ThreadingHTTPServer):
    """Gives each connection a thread, turns away those above the limit, and never waits for one."""

    request_queue_size = 64

    def __init__(
        self, address: tuple[str, int], handler: type["BriefHandler"], limits: Limits
    ) -> None:
        self.limits = limits
        self._open: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread of its own, or turn it away at once."""
        if len(self._open) < self.limits.connections:
            self._open.add(request)
            super().process_request(request, client_address)
            return
        # This is the thread that accepts: nobody may hold it up.
        request.setblocking(False)
        with suppress(OSError):
            request.send(_FULL)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and make room for the next."""
        with suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.setblocking(False)
            # Closed with something unread, the answer could be lost on its way.
            request.recv(2**16)
        self.close_request(request)
        self._open.discard(request)

    def server_close(self) -> None:
        """Stop listening, and hang up on everybody."""
        super().server_close()
        for request in self._open.copy():
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class BriefHandler(BaseHTTPRequestHandler):
    """Answers one request per connection, which must arrive whole and in time."""

    server: LimitedServer

    def handle(self) -> None:
        """Answer what was asked; whoever asks too slowly gets nothing."""
        limits = self.server.limits
        try:
            head = self._read_head()
        except OSError:
            return
        # Sending is timed as a whole, so that a client cannot drag it out byte by byte.
        self.connection.settimeout(limits.reading)
        self.rfile = BytesIO(head)
        with suppress(ConnectionError, TimeoutError):
            if len(head) <= limits.head:
                super().handle()
            else:
                self.requestline = self.request_version = self.command = ""
                self.send_error(431)

    def send(self, answer: bytes) -> None:
        """Send an answer; whoever hangs up misses it, and whoever reads too slowly is dropped."""
        try:
            self.wfile.write(answer)
        except TimeoutError:
            # Reset: the kernel would go on for minutes with what it has taken already.
            reset = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        except ConnectionError:
            pass

    def _read_head(self) -> bytes:
        """Return the request up to its empty line, or more than the limit; nothing if it ends."""
        limits, head = self.server.limits, b""
        end = monotonic() + limits.asking
        while len(head) <= limits.head and not (b"\n\r\n" in head or b"\n\n" in head):
            # The time left, not a time for each byte: one byte a second would last for hours.
            left = end - monotonic()
            if left <= 0:
                raise TimeoutError
            self.connection.settimeout(left)
            more = self.connection.recv(limits.head + 1 - len(head))
            if not more:
                return b""
            head += more
        return head

    def log_message(self, *_: object) -> None:
        """Say nothing: a line every two seconds would bury what matters."""
