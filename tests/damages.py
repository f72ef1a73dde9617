"""Damaged files: a results folder with one of each kind, and the ways in which one is damaged."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
from shell import call

from dataeff.bench.desk import Desk
from dataeff.bench.results import empty
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import load_suite
from dataeff.checked import digest, write_entries
from dataeff.forms import MATCHES
from dataeff.report.board import read_board
from dataeff.report.tables import list_checksums
from dataeff.training.job import Place

SCORED = "el2n[keep=0.5,models=1,epochs=1,reuse=true]"
SUITE = f"""
seeds = 2
controls = ["short_schedule"]
strategies = ["baseline", "{SCORED}", "random_subset[keep=0.5]"]

[tasks.blobs]
dataset = "synthetic[samples=60,test_samples=20,classes=4,size=8]"
model = "tiny"
epochs = 3
batch_size = 16
validation = 0
"""
RUN = ("run", "few.toml", "--in-process")
COMMANDS = {
    "run": RUN,
    "dry run": (*RUN, "--dry-run"),
    "leaderboard": ("leaderboard", "few"),
    "report": ("report", "few"),
    "compare": ("compare", "few", "baseline", "random_subset[keep=0.5]"),
    "plot": ("plot", "few", "--figure", "shares"),
    "published": ("leaderboard", "few", "--results", "published"),
    "published page": ("report", "few", "--results", "published"),
}


# A folder with one of each -----------------------------------------------------------------------


class Stop(Exception):
    """Stands for a kill between two epochs."""


def build(lab):
    """Fill this folder with the results of a small suite: run, published, and a stopped cell."""
    Path("few.toml").write_text(SUITE)
    assert call(*RUN).exit_code == 0
    root = Path("results/few")
    board = read_board(root)
    entry = {"task": "blobs", "conditions_id": "other", "pattern": "a[b=?]", "match": "baseline"}
    write_entries(root / "match.json", [entry | {"strategy": "a[b=0.5]", "note": ""}], MATCHES)
    _publish(root, board)
    _stop_one(lab)


def _publish(root, board):
    shown = Path("published/few")
    shown.mkdir(parents=True)
    for name in ("suite.json", "runs.csv", "classes.csv", "leaderboard.csv"):
        shutil.copy(root / name, shown)
    board.curves.to_csv(shown / "curves.csv", index=False)
    (shown / "conditions.json").write_text(json.dumps(next(iter(board.conditions.values()))))
    (shown / "checksums.json").touch()
    list_checksums(shown, ["runs.csv", "classes.csv", "leaderboard.csv"], published=True)
    for path in shown.glob("*.damaged"):
        path.unlink()


def _stop_one(lab):
    """Leave a cell as it is after a kill in its third epoch: with two checkpoints."""

    def on_epoch(epoch, *_):
        if epoch == 3:
            raise Stop

    desk = Desk.beside(lab)
    schedule = Schedule(load_suite("few.toml", desk), desk, Path("results"))
    (cell,) = [
        one for one in schedule.cells if (one.strategy, one.seed) == ("random_subset[keep=0.5]", 1)
    ]
    empty(cell.folder)
    with suppress(Stop):
        lab.run(cell.task, lab.composition(cell.strategy), cell.seed, Place(cell.folder), on_epoch)


# What is damaged, and who reads it ---------------------------------------------------------------

READERS = ("leaderboard", "report", "compare", "plot")
CELL = "results/few/*el2n*-s0-*"
STOPPED = "results/few/*random_subset*-s1-*"
FILES = {
    f"{CELL}/run.json": ("run", "dry run", *READERS),
    f"{CELL}/epochs.csv": ("run", "leaderboard", "report"),
    f"{CELL}/hits.bin": ("run", "leaderboard", "report"),
    f"{CELL}/samples.parquet": ("run",),
    "results/few/suite.json": ("run", "dry run", *READERS),
    "results/few/suite.json.copy": ("run", "leaderboard"),
    "results/few/looks.json": ("run", "dry run", *READERS),
    "results/few/looks.json.copy": ("run", "leaderboard"),
    "results/few/line.json": ("run", "dry run"),
    "results/few/match.json": ("leaderboard", "report"),
    "results/few/leaderboard.csv": ("run", "leaderboard"),
    "results/few/runs.csv": ("leaderboard",),
    "results/few/checksums.json": ("run", *READERS[:2]),
    f"{STOPPED}/checkpoint.pt": ("run",),
    f"{STOPPED}/checkpoint-before.pt": ("run",),
    "results/artefacts/*.json": ("run",),
    "results/artefacts/*.parquet": ("run",),
    "published/few/suite.json": ("published",),
    "published/few/runs.csv": ("published", "published page"),
    "published/few/curves.csv": ("published", "published page"),
    "published/few/classes.csv": ("published", "published page"),
    "published/few/conditions.json": ("published", "published page"),
    "published/few/leaderboard.csv": ("published",),
    "published/few/checksums.json": ("published",),
}


# Ways to damage a file ---------------------------------------------------------------------------


def cut(share):
    """Leave the first part of a file."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flip(share):
    """Turn one bit of one byte around."""

    def damage(path):
        content = bytearray(path.read_bytes())
        content[int(share * (len(content) - 1))] ^= 1
        path.write_bytes(content)

    return damage


def put(content):
    return lambda path: path.write_bytes(content)


def noise(path):
    path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))


def splice(path):
    """Put bytes that are no text in the middle."""
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"\xff\xfe\x80" + content[40:])


def make_folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("x")


def make_loop(path):
    path.unlink()
    path.symlink_to(path.name)


def forbid(path):
    path.chmod(0)


ANY_FILE = {
    "empty": put(b""),
    "cut after a byte": lambda path: path.write_bytes(path.read_bytes()[:1]),
    **{f"cut at {share:.0%}": cut(share) for share in (0.1, 0.5, 0.9)},
    "last byte lost": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    **{f"a bit at {share:.0%}": flip(share) for share in (0, 0.03, 0.3, 0.6, 0.97, 1)},
    "noise": noise,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no text": splice,
    "a folder": make_folder,
    "a loop": make_loop,
}
if os.getuid():
    ANY_FILE["forbidden"] = forbid


def resealed(change):
    """Change what a JSON file says, and make its checksum fit again."""

    def damage(path):
        said = json.loads(path.read_text())
        said.pop("checksum", None)
        change(said)
        head = json.dumps(said, indent=1).removesuffix("\n}").encode()
        seal = f',\n "checksum": "{digest(head)}"\n}}\n'.encode()
        path.write_bytes(head + seal)

    return damage


def unsealed(value):
    """Put a value in the place of all that a JSON file says, as an earlier version might."""
    return put(json.dumps(value).encode())


OF_JSON = {
    **{f"is {value!r}": unsealed(value) for value in ([], [1], {}, 3, "text", None, True)},
    "nested": put(b'{"a":' * 3000 + b"1" + b"}" * 3000),
    "nested list": put(b"[" * 100_000),
    "newer": resealed(lambda said: said.update(schema=99)),
    "newer and other": resealed(lambda said: (said.clear(), said.update(schema=99, new=[]))),
    "schema of text": resealed(lambda said: said.update(schema="x")),
    "checksum of a number": lambda path: path.write_text('{"schema": 1, "checksum": 5}'),
}


def fill_with_text(path):
    """Put a text in every place of a table."""
    header = path.read_text().splitlines()[0]
    path.write_text("\n".join([header, ",".join("x" for _ in header.split(","))]) + "\n")


OF_TABLE = {
    "other columns": put(b"a,b\n1,2\n"),
    "one column": put(b"strategy\nours\n"),
    "a text in each place": fill_with_text,
}


def ways(name):
    """Return the ways to damage a file of this name."""
    more = OF_JSON if ".json" in name else OF_TABLE if name.endswith(".csv") else {}
    return ANY_FILE | more


def nodes(said, place=()):
    """Yield the place of every value in what a JSON file says; of a list, of its first."""
    for key in list(said) if isinstance(said, dict) else range(min(1, len(said))):
        yield (*place, key)
        if isinstance(said[key], dict | list):
            yield from nodes(said[key], (*place, key))


def set_at(said, place, value):
    for key in place[:-1]:
        said = said[key]
    said[place[-1]] = value
