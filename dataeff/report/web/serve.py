"""The page on localhost, made anew as results come in."""

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path
from time import monotonic

from dataeff.errors import DataeffError
from dataeff.report.tables import TABLES
from dataeff.report.web.connections import BriefHandler, LimitedServer, Limits

HOSTS = ("127.0.0.1", "localhost")
# Making the page takes processor time from the runs being measured: at most one part in so many.
_SPARING = 10
_MARK = b'<html lang="en"'
_LIMITS = Limits()

Make = Callable[[], bytes | Path]


def results_version(folder: Path) -> str:
    """Return a short text that changes when the results of a suite change, not when it is read."""
    told = hashlib.sha256()
    # Where there are cells, tables are made from them.
    cells = sorted(folder.glob("*/run.json")) or [folder / name for name in TABLES]
    for path in [folder / "suite.json", *cells]:
        with suppress(OSError):
            found = path.stat()
            told.update(f"{path.parent.name}/{found.st_mtime_ns}/{found.st_size}\n".encode())
    return told.hexdigest()[:16]


class _Page:
    """The page as last made, and the version of the results that it shows."""

    def __init__(self, folder: Path, make: Make) -> None:
        self._folder, self._make, self._lock = folder, make, threading.RLock()
        self._text, self._shown, self._seen, self._again = b"", "", "", 0.0

    def version(self) -> str:
        """Return the version of what `text` would give now."""
        with self._lock:
            # Many open tabs ask often; ten thousand cells are not looked at for each of them.
            if not self._seen or monotonic() > self._again:
                self._seen, self._again = results_version(self._folder), monotonic() + 0.5
            return self._seen

    def text(self) -> bytes:
        """Return the page with the version that it shows, made anew only if that has changed."""
        with self._lock:
            version = self.version()
            if version != self._shown:
                start = monotonic()
                made = self._make()
                text = made.read_bytes() if isinstance(made, Path) else made
                mark = _MARK + f' data-live="{version}"'.encode()
                self._text, self._shown = text.replace(_MARK, mark, 1), version
                end = monotonic()
                self._again = end + _SPARING * (end - start)
            return self._text


_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class _Server(LimitedServer):
    page: _Page


class _Handler(BriefHandler):
    """Answers for the page and its version, and for nothing else."""

    server: _Server

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1:
            self._answer(400, b"Send one Host header.\n")
        # Another site's name that was made to point here must not read the results.
        elif hosts[0].partition(":")[0].lower() not in HOSTS:
            self._answer(403, b"Open the address that dataeff has printed.\n")
        elif self.path.partition("?")[0] == "/":
            self._page()
        elif self.path == "/version":
            self._answer(200, self.server.page.version().encode())
        else:
            self._answer(404, b"There is nothing here but / and /version.\n")

    do_HEAD = do_GET

    def _page(self) -> None:
        try:
            self._answer(200, self.server.page.text(), "html")
        except (DataeffError, OSError) as error:
            # No runs yet, or a file that is just being replaced: the browser asks again.
            said = escape(str(error))
            text = f"<!doctype html><meta charset=utf-8><title>dataeff</title><p>{said}</p>"
            self._answer(503, text.encode(), "html")

    def _answer(self, status: int, body: bytes, kind: str = "plain") -> None:
        headers = {"Content-Type": f"text/{kind}; charset=utf-8", "Content-Length": len(body)}
        again = {"Refresh": "2"} if status == 503 else {}
        self.send_response(status)
        for name, value in (headers | _HEADERS | again).items():
            self.send_header(name, str(value))
        with suppress(ConnectionError):
            self.end_headers()
        if self.command != "HEAD":
            self.send(body)


def make_server(folder: Path, make: Make, port: int = 0, limits: Limits = _LIMITS) -> LimitedServer:
    """Return a server of the page, on this machine only; port 0 takes any that is free."""
    try:
        server = _Server((HOSTS[0], port), _Handler, limits)
    except (OSError, OverflowError) as error:
        raise DataeffError(
            f"Port {port} cannot be used ({error}); leave it out to take any that is free."
        ) from None
    server.page = _Page(folder, make)
    return server


def serve(folder: Path, make: Make, port: int = 0, on_ready: Callable[[str], None] = print) -> None:
    """Serve the page until interrupted; `on_ready` is told its address."""
    with make_server(folder, make, port) as server, suppress(KeyboardInterrupt):
        on_ready(f"http://{HOSTS[0]}:{server.server_port}/")
        server.serve_forever()
