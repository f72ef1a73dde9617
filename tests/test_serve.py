"""The page on localhost: what is answered, to whom, and when it is made anew."""

import _thread
import http.client
import json
import signal
import threading

import pytest
from shell import mistake

from dataeff.errors import DataeffError
from dataeff.report.web import serve as serving
from dataeff.report.web.serve import make_server, results_version, serve


class Client:
    """Asks the server of a folder, and counts how often the page was made."""

    def __init__(self, folder):
        self.folder, self.made, self.trouble = folder, 0, None
        self.server = make_server(folder, self.make)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def make(self):
        if self.trouble:
            raise self.trouble
        self.made += 1
        return b'<!doctype html>\n<html lang="en"><p>page %d</p><html lang="en">' % self.made

    def ask(self, path="/", host=None, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body, dict(answer.getheaders())

    def version(self):
        return self.ask("/version")[1]


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
