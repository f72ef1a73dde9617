"""Bad input as tests give it: how it must be answered, and words that make no sense anywhere."""

import hashlib
from pathlib import Path

import pytest
from records import Folder
from shell import call

from dataeff.printable import unseen

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
SUITE = f"""
strategies = ["baseline"]
seeds = 1
controls = false

[tasks.blobs]
dataset = "{BLOBS}"
model = "tiny"
epochs = 1
"""
# Refused by every parameter, whatever its type is.
WORDS = {
    "nothing": "",
    "nan": "nan",
    "infinite": "inf",
    "huge": "1e308",
    "65 bits": str(2**64),
    "thousands of digits": "9" * 5000,
    "no word": "no such thing",
    "long": "x" * 3000,
    "newline": "a\nb",
    "escape": "\x1b[31m",
    "NUL": "a\0b",
    "right to left": "\u202eb",
    "zero width": "a\u200bb",
    "no UTF-8": "a\udcff",
    "bracket": "[",
    "quote": '"',
}


class Trained(Exception):
    """What was given made sense: cells would be run now."""


def adhoc(*more, dataset=BLOBS, model="tiny", epochs="1", strategy="baseline"):
    """Return a small comparison, with what is wrong in one place of it."""
    names = dict.fromkeys(["baseline", strategy])
    task = ["-d", dataset, "-m", model, "--epochs", epochs, "--seeds", "1"]
    # In one process, which takes a tenth of the time; the desk asks the same of another one.
    strategies = [part for name in names for part in ("-s", name)]
    return ["run", "--in-process", *task, *strategies, *more]


@pytest.fixture
def _no_training(monkeypatch):
    """Let nothing be trained, and have results that nothing may change."""

    def trained(*arguments, **options):
        raise Trained

    monkeypatch.setattr("dataeff.door.running.run_cells", trained)
    folder = Folder(Path("results/hand"))
    for seed in range(3):
        folder.add("base", seed, 90 + seed)
        folder.add("other", seed, 89 + seed)


def content(folder="results"):
    """Return names and content of all files below a folder."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(*arguments, code=2):
    """Return the one sentence that bad input gets: no traceback, nothing printed, nothing lost."""
    before = content()
    result = call(*arguments)
    (line,) = result.stderr.split("\n")[:-1] or [result.output]
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert line.startswith("Error: ")
    assert not unseen(line)
    assert len(line) < 1200
    assert content() == before
    return line.removeprefix("Error: ")


def sensible(*arguments):
    """Say whether input makes sense; whoever says no says it in one sentence."""
    try:
        refused(*arguments)
    except Trained:
        return True
    return False
