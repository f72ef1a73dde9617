"""Values written `?` in a schedule: when they are found, what they hang on, and freezing."""

import json
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pytest
from benches import cells_of

from dataeff import Share, Strategy, lab
from dataeff.bench import desk, schedule, work
from dataeff.bench.asked import write_suite
from dataeff.bench.desk import Desk
from dataeff.bench.results import held
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.lab import Lab
from dataeff.registry import Entry

TIMES = {"baseline": 10.0, "random_subset[keep=0.6]": 6.0}


class FakePilot:
    """Knows costs without training: a strategy costs its own share."""

    tried: ClassVar[list[str]] = []

    def __init__(self, lab, task, reference):
        assert reference == "baseline"

    def close(self):
        pass

    def cost(self, strategy, target):
        self.tried.append(strategy)
        if "odd" in strategy:
            raise ValueError("as asked")
        return share_of(strategy)

    def pace(self, strategy):
        return PACES.get(strategy, 1.0)


PACES = {}


def share_of(label):
    share = float(label.split("=")[1].split(",")[0].rstrip("]"))
    return 1 - share if label.startswith("minibatch_skipping") else share


@dataclass(eq=False)
class Method(Strategy):
    """Does nothing: how long it takes is written by hand."""

    keep: Share = 0.5


class Bench:
    """Goes through a schedule as the runner does, and writes the record of each cell by hand."""

    def __init__(self, results, installed):
        self.results, self.installed = results, installed
        self.failing, self.busy, self.told = (), (), []

    def schedule(self, *patterns, fresh=False, tasks=("blobs",), epochs=2, **more):
        strategies = ["baseline", "random_subset[keep=0.6]", *patterns]
        content = {"name": "try", "seeds": 2, "controls": False, "strategies": strategies}
        task = {"dataset": "synthetic[samples=40,classes=2]", "model": "tiny", "epochs": epochs}
        content |= {"match": strategies[1], "tasks": dict.fromkeys(tasks, task)} | more
        # A lab of its own, as a command has one.
        desk = Desk.beside(Lab(self.installed, "cpu"))
        found = Schedule(make_suite(content, desk, where="test"), desk, self.results, fresh)
        found.matches.tell = lambda line, ended: self.told.append(line) if ended else None
        return found

    def run(self, cells, most=None, again=False):
        """Return what was run, as (strategy, seed); a finished cell is skipped, as in a suite."""
        done = []
        for cell in cells_of(cells):
            if again or not (cell.folder / "run.json").exists():
                done.append((cell.strategy, cell.seed))
                self.write(cell)
            if len(done) == most:
                break
        return done

    def write(self, cell):
        known = TIMES.get(cell.strategy)
        seconds = 10 * share_of(cell.strategy) if known is None else known
        failed = (cell.strategy, cell.seed) in self.failing
        record = {
            "status": "failed" if failed else "finished",
            "task_name": cell.task_name,
            "strategy": cell.strategy,
            "seed": cell.seed,
            "version": cell.version,
            **dict.fromkeys(("task_id", "conditions_id"), "same"),
            "conditions": {},
            "control": "method" not in cell.strategy,
            "clocks": {"prepare": 1.0, "train": seconds * (1 + cell.seed) - 1, "evaluate": 50.0},
            "flops": 100 * seconds,
            "machine": {"flags": ["busy"] if cell.strategy in self.busy else []},
        }
        cell.folder.mkdir(parents=True, exist_ok=True)
        (cell.folder / "run.json").write_text(json.dumps(record))

    @property
    def frozen(self):
        return json.loads((self.results / "try" / "match.json").read_text())["entries"]


@pytest.fixture
def bench(tmp_path, installed, monkeypatch):
    monkeypatch.setattr(work, "Pilot", FakePilot)
    monkeypatch.setattr(FakePilot, "tried", [])
    # The order within a block is drawn; here it is when values are found that matters.
    monkeypatch.setattr(schedule.random.Random, "shuffle", lambda self, cells: None)
    installed.add_strategy("method", Method, "test")
    installed.add_strategy("odd", Method, "test")
    return Bench(tmp_path / "results", installed)


SHORT, SKIPPING = "short_schedule[share=?]", "minibatch_skipping[skip=?]"
FOUND, SKIPPED = "short_schedule[share=0.6]", "minibatch_skipping[skip=0.4]"


def test_values_are_found_after_the_first_seed_and_used_for_all(bench):
    cells = bench.schedule(SHORT, SKIPPING)
    assert (len(cells.cells), len(cells)) == (4, 8)
    assert bench.run(cells) == [
        ("baseline", 0),
        ("random_subset[keep=0.6]", 0),
        (FOUND, 0),
        (SKIPPED, 0),
        ("baseline", 1),
        ("random_subset[keep=0.6]", 1),
        (FOUND, 1),
        (SKIPPED, 1),
    ]
    assert len(cells) == len(cells.cells) == 8
    assert bench.told[:3] == [
        f"pilot: blobs {SHORT} at 0.333: 0.33 of baseline, aiming at 0.60",
        f"pilot: blobs {SHORT} at 0.667: 0.67 of baseline, aiming at 0.60",
        f"pilot: blobs {SHORT} at 0.6: 0.60 of baseline, aiming at 0.60",
    ]
    assert bench.told[3] == f"pilot: blobs {SHORT} becomes {FOUND}"


def test_what_is_frozen(bench):
    bench.run(bench.schedule(SHORT))
    (entry,) = bench.frozen
    expected = {"task": "blobs", "pattern": SHORT, "strategy": FOUND, "parameter": "share"}
    expected |= {"match": "random_subset[keep=0.6]", "reference": "baseline", "value": 0.6}
    expected |= {"reached": True, "note": "", "target": pytest.approx(0.6)}
    assert entry.items() >= expected.items()
    assert entry["pilots"] == [
        {"value": value, "cost": pytest.approx(value)} for value in (0.333, 0.667, 0.6)
    ]
    assert set(entry["sources"]) == {"baseline", "random_subset", "short_schedule"}


def test_a_run_that_was_stopped_goes_on_with_the_frozen_value(bench):
    bench.run(bench.schedule(SHORT), most=3)
    tried = len(FakePilot.tried)
    again = bench.schedule(SHORT)
    assert len(again.cells) == 6
    assert bench.run(again) == [("baseline", 1), ("random_subset[keep=0.6]", 1), (FOUND, 1)]
    assert bench.run(bench.schedule(SHORT, seeds=3)) == [
        ("baseline", 2),
        ("random_subset[keep=0.6]", 2),
        (FOUND, 2),
    ]
    assert len(FakePilot.tried) == tried


def test_a_value_that_is_there_is_interleaved_from_the_start(bench):
    bench.run(bench.schedule(SHORT), most=3)
    ran = bench.run(bench.schedule(SHORT, SKIPPING))
    assert ran[0] == (SKIPPED, 0)
    assert [name for name, _ in ran[1:]] == ["baseline", "random_subset[keep=0.6]", FOUND, SKIPPED]


def test_fresh_finds_anew_by_what_is_measured_anew(bench, monkeypatch):
    bench.run(bench.schedule(SHORT))
    monkeypatch.setitem(TIMES, "random_subset[keep=0.6]", 7.0)
    ran = bench.run(bench.schedule(SHORT, fresh=True), again=True)
    label = "short_schedule[share=0.7]"
    assert [name for name, _ in ran] == ["baseline", "random_subset[keep=0.6]", label] * 2
    (entry,) = bench.frozen
    assert entry["strategy"] == label
    assert bench.schedule(SHORT).matches.labels("blobs") == {SHORT: label}


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ("conditions", {"threads": 1}, {"threads": 2}),
        ("data", "as it was", "other data"),
        ("network", "as it was", "another one"),
    ],
)
def test_what_a_value_hangs_on_is_part_of_its_key(bench, monkeypatch, change, old, new):
    read = lab.load_dataset

    def changed(fingerprint, *given, **options):
        return replace(read(*given, **options), fingerprint=fingerprint)

    def set_to(value):
        if change == "conditions":
            monkeypatch.setattr(desk, "conditions", lambda *given: value)
        elif change == "network":
            monkeypatch.setattr(work, "identity_of", lambda *given: value)
        else:
            monkeypatch.setattr(lab, "load_dataset", partial(changed, value))

    set_to(old)
    bench.run(bench.schedule(SHORT))
    assert bench.schedule(SHORT).matches.labels("blobs") == {SHORT: FOUND}
    set_to(new)
    assert bench.schedule(SHORT).matches.labels("blobs") == {}
    bench.run(bench.schedule(SHORT))
    # Other conditions are another value; other data, or another network, take its place.
    assert len(bench.frozen) == (2 if change == "conditions" else 1)
    set_to(old)
    assert bool(bench.schedule(SHORT).matches.labels("blobs")) == (change == "conditions")


def test_another_task_source_or_match_is_another_value(bench, monkeypatch):
    bench.run(bench.schedule(SHORT))
    assert bench.schedule(SHORT, "amp", match="amp").matches.labels("blobs") == {}
    assert bench.schedule(SHORT, epochs=3).matches.labels("blobs") == {}
    digest = Entry.digest.fget
    for name in ("baseline", "random_subset", "short_schedule"):
        changed = property(lambda entry, name=name: digest(entry) + "new" * (entry.name == name))
        monkeypatch.setattr(Entry, "digest", changed)
        assert bench.schedule(SHORT).matches.labels("blobs") == {}
    monkeypatch.setattr(Entry, "digest", property(digest))
    assert bench.schedule(SHORT).matches.labels("blobs") == {SHORT: FOUND}


def test_each_task_has_values_of_its_own(bench):
    cells = bench.schedule(SHORT, tasks=("blobs", "others"))
    assert len(cells) == 12
    bench.run(cells)
    assert [entry["task"] for entry in bench.frozen] == ["blobs", "others"]
    assert {cell.task_name for cell in cells.cells if cell.strategy == FOUND} == {"blobs", "others"}


def test_all_seeds_that_are_there_make_the_target(bench, monkeypatch):
    bench.run(bench.schedule("amp", match=None, strategies=["baseline", "random_subset[keep=0.6]"]))
    (path,) = (bench.results / "try").glob("*random_subset*s1*/run.json")
    record = json.loads(path.read_text())
    record["flops"] = 1000 * 0.54
    path.write_text(json.dumps(record))
    bench.run(bench.schedule(SHORT))
    assert bench.frozen[0]["target"] == pytest.approx(math.sqrt(0.6 * 0.54))


def test_the_clock_of_one_run_does_not_make_the_target(bench, monkeypatch):
    monkeypatch.setitem(PACES, "random_subset[keep=0.6]", 1.1)
    bench.run(bench.schedule(match=None, strategies=["baseline", "random_subset[keep=0.6]"]))
    for path in (bench.results / "try").glob("*random_subset*/run.json"):
        record = json.loads(path.read_text())
        record["clocks"]["train"] *= 2
        path.write_text(json.dumps(record))
    bench.run(bench.schedule(SHORT))
    assert bench.frozen[0]["target"] == pytest.approx(0.6 * 1.1), "its work, at the pilot's pace"
    assert bench.frozen[0]["note"] == ""


def test_a_first_seed_that_failed_is_made_up_for_by_the_next(bench):
    bench.failing = [("random_subset[keep=0.6]", 0)]
    ran = bench.run(bench.schedule(SHORT))
    assert ran[2:] == [("baseline", 1), ("random_subset[keep=0.6]", 1), (FOUND, 0), (FOUND, 1)]


def test_without_anything_to_match_there_is_no_value_and_that_is_said(bench):
    bench.failing = [("random_subset[keep=0.6]", seed) for seed in range(2)]
    cells = bench.schedule(SHORT)
    assert len(bench.run(cells)) == 4
    assert cells.matches.troubles == [
        f"blobs {SHORT}: there is no seed of random_subset[keep=0.6] and the reference to match"
    ]
    assert len(cells) == 4
    assert FakePilot.tried == []


def test_a_pattern_that_fails_does_not_stop_the_others(bench):
    cells = bench.schedule("odd[keep=?]", SHORT)
    ran = bench.run(cells)
    assert {name for name, _ in ran} == {"baseline", "random_subset[keep=0.6]", FOUND}
    assert cells.matches.troubles == ["blobs odd[keep=?]: ValueError: as asked"]
    assert bench.told[0] == "pilot: blobs odd[keep=?] at 0.333: ValueError: as asked"
    assert len(FakePilot.tried) == 2 + 3, "it is not tried again after the next seed"


def test_what_another_process_looks_for_is_left_to_it(bench):
    root = bench.results / "try"
    cells = bench.schedule(SHORT)
    with held(root):
        assert len(bench.run(cells)) == 4
    assert bench.told == ["pilot: blobs: another process looks for these values"] * 2
    (trouble,) = cells.matches.troubles
    assert trouble.endswith("another process looks for its value; type this again later")


def test_what_another_process_has_found_is_taken(bench):
    mine, other = bench.schedule(SHORT), bench.schedule(SHORT)
    bench.run(other, most=3)
    tried = len(FakePilot.tried)
    assert bench.run(mine) == [("baseline", 1), ("random_subset[keep=0.6]", 1), (FOUND, 1)]
    assert len(FakePilot.tried) == tried


def test_a_value_may_lead_to_a_strategy_that_runs_anyway(bench):
    cells = bench.schedule(SHORT, FOUND)
    ran = bench.run(cells)
    assert len(ran) == len(cells.cells) == len(cells) == 6


def test_matched_strategies_are_beside_the_line(bench):
    one = {"controls": ["short_schedule"], "seeds": 1}
    ran = bench.run(bench.schedule("method[keep=0.5]", SHORT, **one))
    line = [(f"short_schedule[share={share}]", 0) for share in (0.45, 0.59, 0.77)]
    assert ran[3:] == [(FOUND, 0), *line]
    matched = bench.schedule("method[keep=?]", **one)
    assert matched.methods == ["method[keep=?]"]
    assert bench.run(matched) == [("method[keep=0.6]", 0)], "the line reaches as far"
    assert bench.schedule(SHORT).methods == []


def test_the_line_reaches_to_matched_methods(bench):
    ran = bench.run(bench.schedule("method[keep=?]", controls=["short_schedule"], seeds=1))
    line = [(f"short_schedule[share={share}]", 0) for share in (0.54, 0.66, 0.81)]
    assert ran[2:] == [("method[keep=0.6]", 0), *line]


def test_suite_json_has_labels_and_no_patterns(bench):
    cells, root = bench.schedule(SHORT), bench.results / "try"
    write_suite(cells, root, "dataeff run try")
    path = root / "suite.json"
    before = json.loads(path.read_text())
    assert before["strategies"] == ["baseline", "random_subset[keep=0.6]"]
    assert before["match"] == "random_subset[keep=0.6]"
    bench.run(cells)
    write_suite(cells, root, "dataeff run try")
    assert json.loads(path.read_text())["strategies"] == [*before["strategies"], FOUND]
    write_suite(bench.schedule(match=None), root, "dataeff run try -s amp")
    after = json.loads(path.read_text())
    assert (after["match"], FOUND in after["strategies"]) == (before["match"], True)
