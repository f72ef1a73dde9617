"""Self-healing results: hundreds of damaged files, no traceback, and nothing else is touched."""

import json
import os
import shutil
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from conftest import EVERYTHING, drawn
from damages import (
    CELL,
    COMMANDS,
    FILES,
    RUN,
    STOPPED,
    build,
    nodes,
    resealed,
    set_at,
    ways,
)
from shell import call, mistake, ok

from dataeff.bench.results import cell_record, empty, read_runs
from dataeff.damage import is_aside, listening
from dataeff.lab import Lab
from dataeff.report.board import read_board

# Of these there is no second one, and nothing here can make them.
LOST = ("published/few/suite.json", "published/few/runs.csv")
ONE_BY_ONE = [
    (name, way, commands[place % len(commands)])
    for name, commands in FILES.items()
    for place, way in enumerate(ways(name))
]


@pytest.fixture(scope="module", autouse=True)
def _as_long_as_it_is():
    """Keep the line from growing: it goes by times, which a busy machine makes what they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dataeff.bench.schedule.longer", lambda *given: [])
        yield


@pytest.fixture(scope="module")
def template(tmp_path_factory, shared_installed):
    """Return a folder with one of each file, and the accuracies that its suite comes to."""
    folder = tmp_path_factory.mktemp("healing")
    with chdir(folder):
        build(Lab(shared_installed, "cpu"))
    whole = tmp_path_factory.mktemp("whole") / "folder"
    shutil.copytree(folder, whole)
    with chdir(whole):
        assert call(*RUN).exit_code == 0
        return folder, accuracies()


@pytest.fixture
def here(template, tmp_path):
    """Go into a copy of that folder."""
    folder = tmp_path / "here"
    shutil.copytree(template[0], folder)
    with chdir(folder):
        yield folder


def accuracies():
    """Return the accuracy of each cell, by strategy and seed."""
    runs = read_board(Path("results/few")).runs
    return runs.set_index(["strategy", "seed"])["test_top1"].to_dict()


def contents(*but):
    """Return the bytes of all cells' files but of those in these folders."""
    cells = set(Path().glob("results/few/*-s[01]-*"))
    for pattern in but:
        cells -= set(Path().glob(pattern))
    files = [path for cell in cells for path in cell.iterdir() if path.is_file()]
    return {path: path.read_bytes() for path in files}


def the_one(pattern):
    (path,) = Path().glob(pattern)
    return path


def quiet(*arguments):
    """Call a command that must come to its end, whatever it says; return what it says of files."""
    result = call(*arguments)
    assert result.exit_code in (0, 2), result.output
    assert "Traceback" not in result.output
    return result, [line for line in result.stderr.splitlines() if ", set aside as " in line]


@pytest.mark.parametrize(("name", "way", "command"), drawn(ONE_BY_ONE, 9))
def test_a_damaged_file_is_set_aside_and_the_same_command_heals(here, template, name, way, command):
    path, before = the_one(name), contents(CELL, STOPPED, "results/few/*el2n*-s1-*")
    if "artefacts" in name:
        # Someone must need it.
        shutil.rmtree(the_one("results/few/*el2n*-s1-*"))
    ways(name)[way](path)
    damaged = path.read_bytes() if path.is_file() else None
    _, said = quiet(*COMMANDS[command])
    assert len(said) <= 1, "one line"
    for line in said:
        assert line.startswith(f"{path} is ")
        assert damaged is None or (path.parent / f"{path.name}.damaged").read_bytes() == damaged
    again, said = quiet(*COMMANDS[command])
    assert said == [], "each is said once"
    assert again.exit_code == (2 if name in LOST else 0), again.output
    after = contents()
    assert {path: after[path] for path in before} == before
    if name.startswith("results/") and (command == "run" or EVERYTHING):
        # Whoever has found it, a run makes it anew.
        assert "blobs" in ok(*RUN)
        # A cell that ran again may have taken another time: then the line has other points.
        assert template[1].items() <= accuracies().items()


DEEP = [
    (name, share / 20, value)
    for name in (f"{CELL}/run.json", *(f"results/few/{one}.json" for one in ("suite", "looks")))
    for share in range(20)
    for value in (None, "x", -1, [], {}, True)
]


@pytest.mark.parametrize(("name", "share", "value"), drawn(DEEP, 5))
def test_no_value_of_another_type_trips_a_reader(here, name, share, value):
    path = the_one(name)

    def change(said):
        places = [place for place in nodes(said) if place != ("schema",)]
        set_at(said, places[int(share * len(places))], value)

    resealed(change)(path)
    for copy in path.parent.glob(f"{path.name}.copy"):
        copy.unlink()
    _, said = quiet(*COMMANDS["report"])
    assert len(said) <= 1
    assert quiet(*COMMANDS["report"])[1] == []


def test_there_are_enough_of_them():
    assert len(ONE_BY_ONE) > 500


# Both of what is kept twice ----------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["suite", "looks", "line", "match"])
def test_where_both_are_damaged_a_run_makes_them_anew_and_loses_no_cell(here, template, name):
    path = Path(f"results/few/{name}.json")
    before = contents(STOPPED)
    for one in (path, path.with_name(f"{path.name}.copy")):
        one.write_text("{")
    result, said = quiet(*COMMANDS["leaderboard"])
    if name == "suite":
        assert len(said) == 2
        assert result.exit_code == 2
        error = result.stderr.splitlines()[-1]
        assert error == f"Error: {mistake(*COMMANDS['leaderboard'])}"
        assert "what was measured is not: type the command that ran it" in error
        assert "delete" not in result.stderr
    first, _ = quiet(*RUN)
    assert first.exit_code == 0
    after = contents(STOPPED)
    assert {path: after[path] for path in before} == before
    assert quiet(*RUN)[1] == []
    assert template[1].items() <= accuracies().items()


def test_a_copy_serves_and_is_written_back(here):
    path = Path("results/few/suite.json")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    result, (said,) = quiet(*COMMANDS["leaderboard"])
    assert result.exit_code == 0
    assert said.endswith(", set aside as suite.json.damaged; it is kept twice, so nothing is lost")
    assert path.read_bytes() == whole
    assert path.with_name("suite.json.damaged").read_bytes() == whole[:-9]


# What is set aside -------------------------------------------------------------------------------


def test_what_was_set_aside_is_never_overwritten_nor_deleted(here):
    path = the_one(f"{CELL}/run.json")
    for text in ("one", "two", "three"):
        path.write_text(text)
        assert cell_record(path.parent) is None
    empty(path.parent)
    found = {one.name: one.read_text() for one in path.parent.iterdir() if is_aside(one.name)}
    assert found == {
        "run.json.damaged": "one",
        "run.json.damaged-2": "two",
        "run.json.damaged-3": "three",
    }


def test_the_line_says_what_to_type(here):
    path = the_one(f"{CELL}/run.json")
    path.write_text("{}")
    suite = Path("results/few/suite.json")
    for one in (suite, suite.with_name("suite.json.copy")):
        resealed(lambda said: said.update(commands=["dataeff run few.toml"]))(one)
    _, (said,) = quiet(*COMMANDS["leaderboard"])
    assert said == (
        f"{path} is damaged (task_name: Field required), set aside as run.json.damaged; "
        "its cell runs again with: dataeff run few.toml"
    )


def test_a_newer_version_has_a_sentence_of_its_own(here):
    path = the_one(f"{CELL}/run.json")
    resealed(lambda said: said.update(schema=99))(path)
    _, (said,) = quiet(*COMMANDS["leaderboard"])
    assert said.startswith(f"{path} is of a newer version of dataeff (schema 99, known is 3), set")


def test_a_folder_that_cannot_be_written_is_said_and_left(here, monkeypatch):
    path = the_one(f"{CELL}/run.json")
    path.write_text("{}")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.rename", refuse)
    heard = []
    with listening(heard.append):
        assert len(read_runs(Path("results/few"))) > 0
        read_runs(Path("results/few"))
    (said,) = heard
    assert "and its folder cannot be written, so it is left; its cell runs again with: " in said
    assert path.read_text() == "{}"


def test_a_file_of_a_cell_that_is_merely_missing_is_not_damaged(here):
    the_one(f"{CELL}/samples.parquet").unlink()
    ok(*RUN)
    before = contents()
    assert "cell 1/" not in ok(*RUN)
    assert contents() == before


def test_whoever_finds_the_damage_the_cell_runs_again(here):
    path = the_one(f"{CELL}/epochs.csv")
    whole = pd.read_csv(path)["train_loss"].tolist()
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    board = read_board(Path("results/few"))
    assert any(str(path) in note for note in board.notes)
    assert not path.exists()
    ok(*RUN)
    assert pd.read_csv(path)["train_loss"].tolist() == whole


def test_without_a_listener_python_says_it(here, caplog):
    the_one(f"{CELL}/run.json").write_text("")
    read_runs(Path("results/few"))
    assert "run.json is damaged (" in caplog.text


# Versions and clocks -----------------------------------------------------------------------------


def test_results_of_earlier_versions_are_still_read(here):
    whole = read_board(Path("results/few")).table
    for path in Path("results/few").rglob("*.json"):
        said = json.loads(path.read_text())
        for key in ("checksum", "schema", "files"):
            said.pop(key, None)
        path.write_text(json.dumps(said.get("entries", said)))
        path.with_name(f"{path.name}.copy").unlink(missing_ok=True)
    table = read_board(Path("results/few")).table
    pd.testing.assert_frame_equal(table, whole)
    assert not list(Path("results").rglob("*.damaged"))


@pytest.mark.parametrize("year", [1970, 2100])
def test_a_clock_that_is_wrong_changes_nothing_but_time_stamps(here, template, year, monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(year, 1, 1, tzinfo=tz)

    monkeypatch.setattr("dataeff.bench.cells.datetime", Clock)
    moment = Clock.now(UTC).timestamp()
    for path in Path("results").rglob("*"):
        os.utime(path, (moment, moment))
    before = contents(STOPPED, CELL)
    path = the_one(f"{CELL}/run.json")
    path.unlink()
    ok(*RUN)
    assert json.loads(path.read_text())["ended"].startswith(str(year))
    after = contents()
    assert template[1].items() <= accuracies().items()
    assert {path: after[path] for path in before} == before
    assert "cell 1/" not in ok(*RUN)
