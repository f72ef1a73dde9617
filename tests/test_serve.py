"""The page on localhost: what is answered, to whom, and when it is made anew."""

import _thread
import http.client
import json
import signal
import socket
import threading
import time
from contextlib import closing, suppress

import pytest
from shell import mistake

from dataeff.errors import DataeffError
from dataeff.report.web import serve as serving
from dataeff.report.web.connections import Limits
from dataeff.report.web.serve import make_server, results_version, serve

SOON = Limits(connections=3, asking=0.4, reading=0.4, head=2000)


class Client:
    """Asks the server of a folder, and counts how often the page was made."""

    def __init__(self, folder, limits=SOON):
        self.folder, self.made, self.trouble, self.long = folder, 0, None, b""
        self.server = make_server(folder, self.make, limits=limits)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def make(self):
        if self.trouble:
            raise self.trouble
        self.made += 1
        page = b'<!doctype html>\n<html lang="en"><p>page %d</p><html lang="en">' % self.made
        return page + self.long

    def ask(self, path="/", host=None, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body, dict(answer.getheaders())

    def version(self):
        return self.ask("/version")[1]

    def connect(self, sent=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        connection.sendall(sent)
        return closing(connection)

    def raw(self, *lines):
        """Send the lines of a request as they are; return the status, None for no answer."""
        with self.connect("".join(f"{line}\r\n" for line in [*lines, ""]).encode()) as connection:
            return status(everything(connection))


def everything(connection):
    """Return all that a connection gives until it is closed."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def status(answer):
    return int(answer.split()[1]) if answer else None


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "_SPARING", 0)
    monkeypatch.setattr(serving, "monotonic", Clock())
    (tmp_path / "cell").mkdir()
    write(tmp_path / "suite.json", {})
    client = Client(tmp_path)
    yield client
    client.server.shutdown()
    client.server.server_close()
    client.thread.join()


class Clock:
    """A clock that moves on by a second whenever it is read."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def write(path, content):
    path.write_text(json.dumps(content))


def test_the_page_is_given_with_the_version_that_it_shows(client):
    status, body, headers = client.ask()
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert "page 1" in body
    assert body.count(f'data-live="{client.version()}"') == 1
    assert "Server" in headers


def test_the_page_is_made_anew_only_when_results_change(client):
    first = client.version()
    client.ask()
    client.ask("/?again")
    assert client.made == 1
    write(client.folder / "cell" / "run.json", {"status": "finished"})
    assert client.version() != first
    assert "page 2" in client.ask()[1]
    assert client.made == 2


@pytest.mark.parametrize("name", ["report.html", "leaderboard.csv", "cell/checkpoint.pt"])
def test_what_is_made_from_results_does_not_change_their_version(client, name):
    before = client.version()
    (client.folder / name).write_text("anything")
    assert client.version() == before


def test_a_record_that_changes_in_place_changes_the_version(tmp_path):
    (tmp_path / "cell").mkdir()
    record = tmp_path / "cell" / "run.json"
    write(record, {"status": "failed"})
    before = results_version(tmp_path)
    write(record, {"status": "finished"})
    assert results_version(tmp_path) != before


def test_a_path_in_place_of_bytes_is_read(tmp_path):
    (tmp_path / "report.html").write_text('<html lang="en">from a file')
    page = serving._Page(tmp_path, lambda: tmp_path / "report.html")
    assert page.text().endswith(b">from a file")


@pytest.mark.parametrize("path", ["/suite.json", "/cell/run.json", "/..", "/version/", "/x"])
def test_nothing_else_is_given(client, path):
    assert client.ask(path)[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:1", "[::1]:80", "0.0.0.0:1"]
)
@pytest.mark.parametrize("path", ["/", "/version"])
def test_other_names_for_this_machine_are_refused(client, host, path):
    status, body, _ = client.ask(path, host)
    assert status == 403
    assert "page" not in body
    assert client.made == 0


@pytest.mark.parametrize("host", ["localhost:{}", "localhost", "LocalHost:{}", "127.0.0.1"])
def test_localhost_is_this_machine(client, host):
    assert client.ask("/", host.format(client.port))[0] == 200


def test_only_this_machine_is_listened_to(client):
    assert client.server.server_address[0] == "127.0.0.1"


def test_where_there_is_nothing_yet_the_page_says_so_and_asks_again(client):
    client.trouble = DataeffError("No runs of <suite> yet; type: dataeff run")
    status, body, headers = client.ask()
    assert (status, headers["Refresh"]) == (503, "2")
    assert "No runs of &lt;suite&gt; yet" in body
    client.trouble = None
    assert client.ask()[0] == 200


def test_only_the_head_of_the_page_can_be_asked_for(client):
    status, body, headers = client.ask(method="HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 0


def test_nothing_can_be_sent(client):
    assert client.ask(method="POST")[0] == 501


def test_making_the_page_leaves_the_machine_to_the_runs(tmp_path, monkeypatch):
    # The clock moves by one second per look, so making takes one.
    clock = Clock()
    monkeypatch.setattr(serving, "monotonic", clock)
    write(tmp_path / "suite.json", {})
    page = serving._Page(tmp_path, lambda: b"page")
    page.text()
    shown = page.version()
    write(tmp_path / "suite.json", {"seeds": 2})
    assert page.version() == shown
    clock.now += serving._SPARING
    assert page.version() != shown


def test_a_port_in_use_is_said_plainly(client):
    with pytest.raises(DataeffError, match=f"Port {client.port} cannot be used"):
        make_server(client.folder, client.make, client.port)
    with pytest.raises(DataeffError, match="Port 99999 cannot be used"):
        make_server(client.folder, client.make, 99999)


# Clients that ask badly, or slowly, or all at once --------------------------------------------


@pytest.mark.parametrize(
    ("headers", "answered"),
    [
        ([], 400),
        (["Host: localhost", "Host: localhost"], 400),
        (["Host: localhost", "host: evil.example"], 400),
        (["Host: evil.example"], 403),
        (["Host: localhost", " evil.example"], 403),
        (["Host:"], 403),
        (["Host : localhost"], 400),
        (["Host: localhost", "Connection: keep-alive"], 200),
    ],
    ids=str,
)
def test_a_request_names_its_host_once(client, headers, answered):
    assert client.raw("GET / HTTP/1.1", *headers) == answered
    assert client.made == (answered == 200)


def test_a_connection_is_good_for_one_request(client):
    request = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    with client.connect(request * 2) as connection:
        assert everything(connection).count(b"HTTP/1.0 200") == 1


@pytest.mark.parametrize(
    "lines",
    [
        ["GET / HTTP/1.1", "Host: localhost", "Cookie: " + 2000 * "x"],
        ["GET /" + 2000 * "x" + " HTTP/1.1", "Host: localhost"],
        ["GET / HTTP/1.1", "Host: localhost", *(f"X{n}: y" for n in range(101))],
        [2001 * "x"],
    ],
    ids=["long header", "long path", "many headers", "nonsense"],
)
def test_a_long_request_is_refused(client, lines):
    assert client.raw(*lines) == 431
    assert client.made == 0


def test_one_that_ends_in_the_middle_of_its_request_gets_no_answer(client):
    with client.connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == b""
    assert client.made == 0


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_one_that_says_nothing_more_is_dropped(client, sent):
    began = time.monotonic()
    with client.connect(sent) as connection:
        assert everything(connection) == b""
    assert 0.3 < time.monotonic() - began < 3


def test_one_byte_after_the_other_does_not_win_time(client):
    began = time.monotonic()
    with client.connect(b"GET / HTTP/1.1\r\nX: ") as connection, suppress(ConnectionError):
        while time.monotonic() < began + 5:
            connection.sendall(b"x")
            time.sleep(0.05)
    assert 0.3 < time.monotonic() - began < 3


def test_one_that_reads_slowly_is_dropped_and_the_others_are_not(client):
    client.long = bytes(2**25)
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with client.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request)
        end, read = time.monotonic() + 1, 0
        with suppress(ConnectionError):
            while time.monotonic() < end:
                read += len(connection.recv(100))
                assert client.ask("/version")[0] == 200
                time.sleep(0.02)
        # What had arrived can still be read, and no more.
        assert 0 < read + len(everything(connection)) < 2**24
    wait_until_free(client)


def wait_until_free(client):
    """Wait until the server has let go of all connections, for five seconds at most."""
    end = time.monotonic() + 5
    while client.server._open and time.monotonic() < end:
        time.sleep(0.01)
    assert not client.server._open


def test_one_more_than_allowed_is_turned_away_at_once_and_room_is_made_again(client):
    held = [client.connect() for _ in range(SOON.connections)]
    end = time.monotonic() + 5
    while len(client.server._open) < SOON.connections and time.monotonic() < end:
        time.sleep(0.001)
    began = time.monotonic()
    assert client.raw("GET / HTTP/1.1", "Host: localhost") == 503
    assert time.monotonic() - began < 0.3
    assert client.made == 0
    wait_until_free(client)
    assert client.ask()[0] == 200
    for connection in held:
        with connection:
            pass


def test_thirty_two_connections_are_allowed():
    assert Limits().connections == 32
    assert max(Limits().asking, Limits().reading) <= 10


def test_open_connections_do_not_hold_up_the_end(tmp_path):
    client = Client(tmp_path, Limits(asking=60, reading=60))
    with client.connect() as silent, client.connect(b"GET /") as half:
        assert client.ask()[0] == 200
        began = time.monotonic()
        client.server.shutdown()
        client.server.server_close()
        client.thread.join()
        assert everything(silent) == everything(half) == b""
        assert time.monotonic() - began < 3


@pytest.fixture
def _interruptible():
    """Hear an interrupt also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_serving_tells_its_address_and_ends_when_interrupted(tmp_path):
    seen = []

    def visit(address):
        seen.append(address)
        port = int(address.rstrip("/").rpartition(":")[2])
        threading.Thread(target=interrupt, args=(port,)).start()

    def interrupt(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        seen.append(connection.getresponse().read())
        _thread.interrupt_main()

    serve(tmp_path, lambda: b"here", on_ready=visit)
    assert seen[0].startswith("http://127.0.0.1:")
    assert seen[1] == b"here"


def test_a_port_goes_with_serving():
    said = "--port goes with --serve; add that, or leave --port out."
    assert mistake("report", "quickstart", "--port", "8000") == said
