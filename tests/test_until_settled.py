"""Seeds until settled: who goes on after a look, what is kept of it; nothing is trained."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from benches import cells_of

from dataeff import Share, Strategy
from dataeff.bench.asked import write_suite
from dataeff.bench.cells import write_record
from dataeff.bench.desk import Desk
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.registry import Entry
from dataeff.report.board import read_board
from dataeff.report.due import Looking
from dataeff.report.margin import Resolution, expected_spread, unresolved
from dataeff.seeds import in_words, looks_at, read_seeds, stages

TASK = {"dataset": "synthetic[samples=40,classes=2]", "model": "tiny", "epochs": 2}
# What each loses in points, and the share of the reference's time that it takes.
TRUTH = {"base": (0.0, 1.0), "sure": (0.0, 0.5), "bad": (-9.0, 0.6), "vague": (-1.0, 0.7)}


@dataclass(eq=False)
class Method(Strategy):
    """Does nothing: what comes of it is written by hand."""

    keep: Share = 0.5


class Bench:
    """Goes through a schedule as the runner does, and writes the record of each cell by hand."""

    def __init__(self, results, installed):
        self.results, self.installed, self.told = results, installed, []
        self.truth, self.spread, self.diverging = dict(TRUTH), 0.3, ()

    def schedule(self, *strategies, seeds="auto", margin=1.0, controls=False, fresh=False, **task):
        content = {"name": "try", "seeds": seeds, "margin": margin, "controls": controls}
        content |= {"strategies": ["base", *strategies], "tasks": {"blobs": TASK | task}}
        desk = Desk.beside(Lab(self.installed, "cpu"))
        looking = Looking(self.root)
        suite = make_suite(content, desk, where="test")
        found = Schedule(suite, desk, self.results, fresh, looking)
        looking.before = lambda: write_suite(found, self.root, "dataeff run try")
        found.matches.tell = lambda line, ended: self.told.append(line)
        return found

    @property
    def root(self):
        return self.results / "try"

    def run(self, schedule, most=None, again=lambda record: record is None):
        """Return what was run, as (strategy, seed)."""
        write_suite(schedule, self.root, "dataeff run try")
        done = []
        for cell in cells_of(schedule):
            if again(cell.record()):
                if len(done) == most:
                    return done
                done.append((cell.strategy, cell.seed))
                self.write(cell)
        return done

    def write(self, cell):
        name, _, rest = cell.strategy.partition("[")
        share = float(rest.split("=")[1].split(",")[0].rstrip("]")) if rest else 0.0
        ahead, part = self.truth.get(name, (9 * math.log(share or 1), share))
        draw = np.random.default_rng([cell.seed, *cell.strategy.encode()])
        accuracy, pace = 90 + ahead + self.spread * draw.normal(), np.exp(0.02 * draw.normal())
        record = {
            "status": "diverged" if (name, cell.seed) in self.diverging else "finished",
            "error": "",
            "metrics": {"test_top1": accuracy},
            "clocks": {"prepare": 0.0, "train": 10 * part * pace, "evaluate": 1.0},
            "flops": 1000 * part,
            "rows": {"trained": 10},
            "ranked": True,
            "control": name in ("random_backprop", "short_schedule"),
        }
        write_record(cell, record)

    def looks(self):
        return json.loads((self.root / "looks.json").read_text())["entries"]

    def table(self):
        return read_board(self.root).table.set_index("strategy")


@pytest.fixture
def bench(tmp_path, installed):
    for name in TRUTH:
        installed.add_strategy(name, Method, "test")
    return Bench(tmp_path / "results", installed)


def seeds_of(ran):
    found = {}
    for name, seed in ran:
        found.setdefault(name.partition("[")[0], set()).add(seed)
    return {name: len(seeds) for name, seeds in found.items()}


BASE, SURE, BAD, VAGUE = (f"{name}[keep=0.5]" for name in TRUTH)


def test_only_what_is_not_settled_goes_on_with_what_it_is_compared_with(bench):
    bench.spread = 0.8
    ran = bench.run(bench.schedule("sure", "bad", "vague", controls=["short_schedule"]))
    counts = seeds_of(ran)
    assert counts["bad"] == 5
    assert counts["vague"] == counts["base"] == counts["short_schedule"] > 5
    looks = [look for look in bench.looks() if look["about"] == "reference"]
    assert [look["n"] for look in looks] == [5, 10, 20][: len(looks)]
    assert [look["chance"] for look in looks] == pytest.approx([0.016] * len(looks))
    assert BAD in looks[0]["answers"]
    assert BAD not in looks[1]["answers"]
    table = bench.table()
    assert table.loc[BAD, ["n", "look"]].tolist() == [5, 5]
    assert table.loc[VAGUE, "look"] == counts["vague"]
    assert bench.told[0].startswith("blobs after 5 seeds: ")
    assert " not settled; the look at 10 seeds takes about " in bench.told[0]
    assert " and settles about " in bench.told[0]


def test_a_suite_ends_when_all_is_settled(bench):
    assert seeds_of(bench.run(bench.schedule("sure", "bad"))) == {"base": 5, "sure": 5, "bad": 5}
    assert bench.told == ["blobs after 5 seeds: all settled"]
    assert bench.table()["settled"].tolist()[1:3] == [True, True]
    assert bench.run(bench.schedule("sure", "bad")) == []


def test_no_block_beyond_a_look_starts_before_it(bench):
    schedule = bench.schedule("sure", "vague")
    bench.truth["vague"] = (-1.0, 1.0)
    assert len(schedule) == 15
    for cell in cells_of(schedule):
        # Another process has it.
        if (cell.strategy, cell.seed) != (SURE, 3):
            bench.write(cell)
        assert cell.seed < 5
    assert not (bench.root / "looks.json").exists()
    assert bench.told == ["blobs after 5 seeds: no look yet, for not all of its cells have ended"]


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(bench, tmp_path):
    bench.spread = 0.8
    whole = bench.run(bench.schedule("sure", "bad", "vague"))
    told = bench.looks()
    other = Bench(tmp_path / "other", bench.installed)
    other.spread = 0.8
    parts = []
    while ran := other.run(other.schedule("sure", "bad", "vague"), most=7):
        parts += ran
    assert sorted(parts) == sorted(whole)
    assert other.looks() == told


def test_between_looks_the_last_one_is_shown(bench):
    bench.spread = 0.8
    bench.run(bench.schedule("bad", "vague"), most=15 + 5)
    table, board = bench.table(), read_board(bench.root)
    assert table.loc[VAGUE, ["n", "look"]].tolist() == [5, 5]
    assert len(board.runs) == 20
    assert board.feet["blobs", board.table["conditions"][0]][-1].startswith("Next look at 10 seeds")
    planned = bench.schedule("bad", "vague")
    assert {cell.seed for cell in planned.cells if cell.strategy == VAGUE} == set(range(10))
    assert {cell.seed for cell in planned.cells if cell.strategy == BAD} == set(range(5))


def test_before_the_first_look_nothing_is_said(bench):
    bench.run(bench.schedule("sure", "bad"), most=9)
    table = bench.table()
    assert set(table["verdict"]) == {"", "no look yet"}
    assert table["difference_low"].drop(BASE).isna().all()
    assert "no look yet; next look at 5 seeds, 3 there" in table.loc[SURE, "sentence"]


def test_a_changed_strategy_loses_its_answers_alone(bench, monkeypatch):
    bench.run(bench.schedule("sure", "bad"))
    before = bench.table()
    digest = Entry.digest.fget
    changed = property(lambda entry: digest(entry) + "new" * (entry.name == "sure"))
    monkeypatch.setattr(Entry, "digest", changed)
    bench.spread = 0.31
    assert seeds_of(bench.run(bench.schedule("sure", "bad"))) == {"sure": 5}
    after = bench.table()
    assert len(bench.looks()) == 2
    assert list(bench.looks()[1]["answers"]) == [SURE]
    assert bench.looks()[1]["chance"] == pytest.approx(0.016 / 2)
    same = after.columns.drop(["sentence"])
    assert after.loc[BAD, same].equals(before.loc[BAD, same])
    assert after.loc[SURE, "difference"] != before.loc[SURE, "difference"]


def test_a_fixed_number_spends_all_and_who_adds_seeds_gets_the_next_level(bench):
    bench.run(bench.schedule("sure", "vague", seeds=3))
    bench.run(bench.schedule("sure", "vague", seeds=6))
    looks = bench.looks()
    assert [(look["n"], round(look["chance"], 4)) for look in looks] == [(3, 0.04), (6, 0.016)]
    (feet,) = read_board(bench.root).feet.values()
    assert "set, is 5.6% against the reference (looked at 3 and 6 seeds)" in feet[0]


def test_one_seed_spends_nothing(bench):
    bench.run(bench.schedule("sure", seeds=1))
    bench.run(bench.schedule("sure", seeds=5))
    assert [look["chance"] for look in bench.looks()] == pytest.approx([0.0, 0.04])
    (feet,) = read_board(bench.root).feet.values()
    assert "4% against the reference (looked at 5 seeds)" in feet[0]


def test_who_is_settled_hangs_on_the_margin_as_it_is_now(bench):
    assert seeds_of(bench.run(bench.schedule("sure", margin=2.0))) == {"base": 5, "sure": 5}
    assert bench.run(bench.schedule("sure", margin=2.0)) == []
    assert seeds_of(bench.run(bench.schedule("sure", margin=0.01))) == {"base": 15, "sure": 15}


def test_a_point_of_the_line_that_has_changed_is_not_waited_for(bench, monkeypatch):
    bench.run(bench.schedule("sure", controls=["short_schedule"]), most=8)
    digest = Entry.digest.fget
    changed = property(lambda entry: digest(entry) + "new" * (entry.name == "short_schedule"))
    monkeypatch.setattr(Entry, "digest", changed)
    bench.run(bench.schedule("sure", controls=["short_schedule"]))
    assert [look["about"] for look in bench.looks()][:2] == ["reference", "line"]


def test_what_is_run_anew_is_judged_without_what_was_there(bench):
    bench.spread = 0.8
    first = bench.run(bench.schedule("bad", "vague"))
    assert seeds_of(first)["vague"] == 10
    fresh = bench.schedule("bad", "vague", fresh=True)
    fresh.forget()
    bench.spread = 0.81
    ran, at = [], []
    for cell in cells_of(fresh):
        bench.write(cell)
        ran.append((cell.strategy, cell.seed))
        at.append(len(bench.looks()))
    assert seeds_of(ran) == seeds_of(first)
    assert at[14] == 2, "none before its stage has ended"
    assert [look["n"] for look in bench.looks()] == [5, 10] * 2


def test_all_stages_stay_planned_when_all_is_settled(bench):
    bench.spread = 0.8
    ran = bench.run(bench.schedule("bad", "vague"))
    planned = bench.schedule("bad", "vague")
    assert sorted(ran) == sorted((cell.strategy, cell.seed) for cell in planned.cells)
    odd = [cell for cell in planned.cells if (cell.strategy, cell.seed) == (VAGUE, 7)]
    again = bench.run(planned, again=lambda record: record["seed"] == 7)
    assert (VAGUE, 7) in again
    assert len(odd) == 1


def test_a_look_does_not_wait_for_what_an_earlier_command_named(bench):
    bench.run(bench.schedule("sure", seeds=2))
    ran = bench.run(bench.schedule("bad", "vague"))
    assert seeds_of(ran)["base"] == seeds_of(ran)["vague"] - 2, "two were there"
    table = bench.table()
    assert table.loc[[BAD, VAGUE], "look"].min() == 5
    assert table.loc[SURE, "look"] == 2
    looks = [look for look in bench.looks() if look["n"] == 5]
    assert looks[0]["chance"] == pytest.approx(0.016 * 2 / 3)


def test_what_an_earlier_command_named_makes_nothing_go_on(bench):
    bench.spread = 2.0
    bench.run(bench.schedule("vague", seeds=2))
    assert seeds_of(bench.run(bench.schedule("bad", margin=5.0))) == {"base": 3, "bad": 5}


def test_another_task_of_the_name_has_looks_of_its_own(bench):
    bench.run(bench.schedule("sure", seeds=3))
    bench.run(bench.schedule("sure", seeds=3, epochs=3))
    assert [look["chance"] for look in bench.looks()] == pytest.approx([0.04, 0.04])
    (feet,) = read_board(bench.root).feet.values()
    assert "4% against the reference (looked at 3 seeds)" in feet[0]
    bench.run(bench.schedule("sure", seeds=3))
    assert len(bench.looks()) == 2, "those of the first are there again"


def test_who_diverges_does_not_beat_training_less(bench):
    bench.truth["sure"] = (3.0, 0.5)
    bench.run(bench.schedule("sure", "bad", seeds=5, controls=["short_schedule"]))
    assert bench.table().loc[SURE, "against_line"].startswith("beats training less")
    bench.diverging = {("sure", 4)}
    bench.run(bench.schedule("sure", "bad", seeds=5, controls=["short_schedule"]), again=_sure)
    assert "beats" not in bench.table().loc[SURE, "against_line"]


def _sure(record):
    return record is not None and record["strategy"] == SURE


def test_a_range_is_run_and_not_looked_at(bench):
    bench.run(bench.schedule("sure", seeds=2))
    ran = bench.run(bench.schedule("sure", seeds="3-5"))
    assert sorted(ran) == [(name, seed) for name in (BASE, SURE) for seed in (3, 4, 5)]
    assert [look["n"] for look in bench.looks()] == [2]
    assert bench.table()["n"].tolist()[:2] == [2, 2]


def test_diverged_seeds_are_said_and_block_no_worse(bench):
    bench.diverging = {("sure", seed) for seed in (0, 2)}
    bench.run(bench.schedule("sure", "bad"))
    line = bench.table().loc[SURE]
    assert (line["verdict"], line["settled"]) == ("faster, diverged in 2 of 5", True)


# Seeds, as they are written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "read", "run", "looks", "words"),
    [
        (
            "auto",
            "auto",
            [range(5), range(5, 10), range(10, 20)],
            (5, 10, 20),
            "seeds until settled",
        ),
        ("7", 7, [range(7)], (7,), "7 seeds each"),
        (1, 1, [range(1)], (1,), "1 seed each"),
        (" 3-5", "3-5", [range(3, 6)], (), "seeds 3-5"),
    ],
)
def test_seeds(given, read, run, looks, words):
    seeds = read_seeds(given)
    assert (seeds, stages(seeds), looks_at(seeds), in_words(seeds)) == (read, run, looks, words)


@pytest.mark.parametrize("given", ["0", 0, -1, "5-3", "many", "", "1.5", 2.5, True])
def test_no_seeds(given):
    with pytest.raises(
        DataeffError, match="write auto, a number such as 5, or a range such as 3-5"
    ):
        read_seeds(given)


# Margins -----------------------------------------------------------------------------------------


def test_a_margin_that_cannot_be_shown_is_said_before_the_run():
    assert expected_spread(500, 0.99) == pytest.approx(0.63, abs=0.01)
    said = unresolved("digits", 0.5, Resolution(5, 6, 500))
    assert said.startswith("digits: 5 seeds on 500 test images can hardly show a margin of 0.5 ")
    assert "(spread 0.45 points, expected at an accuracy of 99.5%, more at a lower)" in said
    assert "write margin = 0.9" in said
    assert unresolved("digits", 0.9, Resolution(5, 6, 500)) == ""
    assert unresolved("digits", 0.5, Resolution(5, 6, 100_000)) == ""
    assert "spread 3.00 points, measured" in unresolved("x", 0.5, Resolution("auto", 6, 10**6, 3.0))
    assert unresolved("digits", 0.1, Resolution("3-5", 6, 500)) == ""
    assert unresolved("digits", 0.1, Resolution(1, 6, 500)) == ""


# Stopped -----------------------------------------------------------------------------------------


def missing(bench):
    return [one[1:5] for one in read_board(bench.root).missing]


def test_what_is_missing_of_a_run_that_was_stopped_is_what_it_then_runs(bench):
    bench.spread = 0.8
    bench.run(bench.schedule("bad", "vague"), most=10)
    assert missing(bench) == [(5, 15, 5, [])]
    bench.run(bench.schedule("bad", "vague"), most=5 + 3)
    assert missing(bench) == [(7, 20, 10, [])], "the settled one runs no more"
    ran = bench.run(bench.schedule("bad", "vague"))
    assert missing(bench) == []
    assert len(ran) >= 7


def test_the_line_is_on_top_until_it_is_chosen_and_then_counts(bench):
    planned = bench.schedule("sure", "bad", seeds=3, controls=["short_schedule"])
    bench.run(planned, most=2)
    assert missing(bench) == [(7, 9, None, ["the line"])]
    planned.joined = lambda: write_suite(planned, bench.root, "dataeff run try")
    bench.run(planned, most=2)
    cells = len(planned.cells)
    assert cells > 9
    assert missing(bench) == [(cells - 4, cells, None, [])]
    bench.run(bench.schedule("sure", "bad", seeds=3, controls=["short_schedule"]))
    assert missing(bench) == []
