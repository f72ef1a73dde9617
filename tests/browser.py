"""A headless Chromium for tests, spoken to over a pipe in its own protocol; nothing to install."""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESKTOP = (390, 844), (1440, 900)
AXE = Path(__file__).parent.parent / ".venv" / "node_modules" / "axe-core" / "axe.min.js"
# Boxes of the labels of a chart that are shown, and pairs of them that share anything.
OVERLAPS = """(() => {
    const seen = (node) => getComputedStyle(node).visibility === "visible";
    const pairs = [];
    for (const chart of document.querySelectorAll("svg.chart")) {
        if (!chart.getBoundingClientRect().width) continue;
        const texts = [...chart.querySelectorAll("text")].filter(seen);
        const boxes = texts.map((text) => text.getBoundingClientRect());
        boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            // What a line of text reserves above and below its letters may meet.
            if (across > 1 && down > 4) pairs.push(
                `${texts[i].textContent} | ${texts[i + j + 1].textContent}`);
        }));
    }
    return pairs;
})()"""
OPEN_ALL = "document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"
SERIOUS = """axe.run().then((told) => told.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3)}`))"""


def installed():
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def serious(tab):
    """Return what axe finds on all of a page that keeps somebody from using it."""
    if not AXE.exists():
        pytest.skip("axe-core is not there: make axe")
    tab.run(OPEN_ALL)
    tab.run(AXE.read_text() + "; undefined")
    return tab.run(SERIOUS)


class Browser:
    """One browser with one tab; `complaints` collects what the console and the pages say."""

    def __init__(self, patience=60):
        self.patience, self.complaints, self.requests = patience, [], []
        self._numbers, self._answers, self._rest = itertools.count(1), {}, b""
        self._loaded = False
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"]
        flags += ["--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"]
        flags += ["--disable-component-update", "--disable-sync"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        # Out of the way of 3 and 4, at which the browser listens and speaks.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (theirs_in, theirs_out)]

        def connect():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [installed(), *flags, f"--user-data-dir={self._home.name}", "about:blank"],
            close_fds=False,
            preexec_fn=connect,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        try:
            self._session = None
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """End the browser and forget all that it kept."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def call(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        self._until(lambda: number in self._answers, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _until(self, is_so, what):
        end = time.monotonic() + self.patience
        while not is_so():
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise TimeoutError(f"The browser did not answer in time: {what}")
            data = os.read(self._from, 2**20)
            if not data:
                raise RuntimeError(f"The browser has ended: {what}")
            *messages, self._rest = (self._rest + data).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message):
        if "id" in message:
            self._answers[message["id"]] = message
            return
        method, told = message["method"], message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {told['message']}")

    def open(self, address):
        """Open a page and wait until it is there."""
        self._loaded = False
        self.call("Page.navigate", url=str(address))
        self._until(lambda: self._loaded, f"load {address}")

    def run(self, script):
        """Return the value of an expression in the page, awaited where it is a promise."""
        told = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in told:
            raise RuntimeError(json.dumps(told["exceptionDetails"]))
        return told["result"].get("value")

    def wait(self, script):
        """Wait until an expression in the page is true."""
        end = time.monotonic() + self.patience
        while not self.run(script):
            if time.monotonic() > end:
                raise TimeoutError(f"It never became true: {script}")
            time.sleep(0.05)

    def size(self, width, height, dark=False):
        """Give the window a size and the system a colour scheme."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])

    def click(self, selector):
        """Click with the mouse in the middle of an element."""
        query = json.dumps(selector)
        self.run(f"document.querySelector({query}).scrollIntoView({{block: 'center'}})")
        x, y = self.run(
            f"(() => {{ const b = document.querySelector({query}).getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=""):
        """Press and release a key."""
        codes = {"Enter": 13, "Tab": 9, " ": 32}
        more = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def type(self, text):
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, path, whole=True):
        """Save what the page looks like, all of it unless told otherwise."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
