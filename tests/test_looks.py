"""Looks: when a table is judged, at which chance, and what stays of it."""

import json
import math
import zlib

import numpy as np
import pandas as pd
import pytest
from records import Folder
from sides import cell

from dataeff.report.board import judge_folder
from dataeff.report.frames import tables
from dataeff.report.judge import Judged
from dataeff.report.looks import (
    AgainstLine,
    AgainstReference,
    Table,
    holding,
    next_look,
    read_looks,
    shown,
    spent,
    stopped,
    with_due,
    write_looks,
)

KEY = ("blobs", "c1")
NAMES = ("ours", "other", "third")
AUTO = {"seeds": "auto"}


def luck(name, seeds=20):
    """Return what chance gives a strategy: the same each time."""
    return np.random.default_rng(zlib.crc32(name.encode())).normal(0, 1, (2, seeds))


def seeds(name, n=5, points=0.0, seconds=10.0, spread=0.1, first=0, **more):
    """Return a cell per seed, near these points and seconds."""
    return [
        cell(
            name,
            seed,
            90 + points + spread * luck(name)[0, seed],
            {"forward": seconds * math.exp(spread / 5 * luck(name)[1, seed])},
            **more,
        )
        for seed in range(first, n)
    ]


def asked(**more):
    return {"reference": "base", "strategies": ["base", *NAMES], "seeds": 5} | more


def table_of(cells, **suite):
    ((key, group),) = tables(pd.DataFrame(cells))
    return Table(key, group, asked(**suite))


def looks_at(cells, looks=(), **suite):
    return with_due(pd.DataFrame(cells), asked(**suite), list(looks))


def held_of(cells, looks, **suite):
    return holding(AgainstReference(table_of(cells, **suite)), looks)


def stopped_by(cells, looks, n, **suite):
    return stopped(table_of(cells, **suite), held_of(cells, looks, **suite), n)


def judged(cells, looks, margin=0.5, **suite):
    ((key, group),) = tables(pd.DataFrame(cells))
    return Judged(key, group, asked(**suite), looks, margin)


def plan(looks):
    return [(look["about"], look["n"], round(look["chance"], 6)) for look in looks]


def table(n=5, names=NAMES, **more):
    """Return the cells of a table whose strategies are as good as the reference, and as fast."""
    return [line for name in ("base", *names) for line in seeds(name, n, **more)]


def without(cells, name, *gone):
    return [
        line for line in cells if (line["strategy"], line["seed"]) not in {(name, s) for s in gone}
    ]


# When --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "plan_of", "found"),
    [
        (5, 5, [("reference", 5, 0.04)]),
        (3, 3, [("reference", 3, 0.04)]),
        (1, 1, [("reference", 1, 0.0)]),
        (4, "auto", []),
        (5, "auto", [("reference", 5, 0.016)]),
        (20, "auto", [("reference", size, 0.016) for size in (5, 10, 20)]),
        (6, "3-5", []),
    ],
)
def test_looks_are_made_at_planned_numbers_of_seeds(n, plan_of, found):
    # So wide that nothing is ever settled.
    assert plan(looks_at(table(n, spread=3.0), seeds=plan_of)) == found


@pytest.mark.parametrize("name", ["base", "third"])
def test_a_look_waits_for_the_reference_and_all_that_is_listed(name):
    cells = without(table(), name, 4)
    assert looks_at(cells) == []
    two = looks_at(cells, strategies=["base", "ours", "other"])
    assert len(two) == (name == "third"), "who is not listed is not waited for"


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_what_failed_or_diverged_has_ended(status):
    cells = table()
    cells[-1] |= {"status": status}
    (look,) = looks_at(cells)
    assert list(look["answers"]) == list(NAMES)


def test_seeds_beyond_the_plan_are_not_waited_for():
    assert plan(looks_at(table() + seeds("ours", 9, first=5))) == [("reference", 5, 0.04)]


def test_who_can_do_nothing_here_and_who_is_not_listed_has_no_answer():
    cells = table()
    for line in cells:
        line["no_effect"] = "nothing" if line["strategy"] == "ours" else ""
    (look,) = looks_at(cells, strategies=["base", "ours", "other"])
    assert list(look["answers"]) == ["other"]


def test_what_the_commands_do_not_run_here_is_not_waited_for():
    counts = {"blobs": {name: {"c1": "v"} for name in ("base", "ours")}}
    counts["blobs"] |= {"other": {"c2": "v"}, "third": {"c1": ""}}
    (look,) = looks_at(table(names=["ours"]), counts=counts)
    assert list(look["answers"]) == ["ours"]
    counts["blobs"]["third"] = {"c1": "v"}
    assert looks_at(table(names=["ours"]), counts=counts) == []


def test_every_table_has_looks_of_its_own():
    ready, early = table(), [line | {"task_name": "rings"} for line in table(3)]
    (look,) = looks_at(ready + early)
    assert (look["task"], look["conditions"]) == KEY


def test_a_table_that_is_read_twice_is_not_tested_twice():
    looks = looks_at(table())
    assert looks_at(table(), looks) == looks
    assert looks_at(table(9), looks) == looks


# Until settled -----------------------------------------------------------------------------------


def stages(n, m):
    """Return a table in which one is settled by five seeds, and two others are open for long."""
    wide = seeds("base", n) + seeds("other", n, spread=3.0) + seeds("third", n, spread=3.0)
    return wide + seeds("ours", m, points=-40.0)


def test_who_is_settled_runs_no_more_and_the_others_go_on():
    first = looks_at(stages(5, 5), **AUTO)
    assert stopped_by(stages(5, 5), first, 10, **AUTO) == {"ours"}
    assert stopped_by(stages(5, 5), first, 5, **AUTO) == set(), "by a look before"
    second = looks_at(stages(10, 5), first, **AUTO)
    assert [list(look["answers"]) for look in second] == [[*NAMES], ["other", "third"]]
    assert spent(second) == pytest.approx(0.032)
    assert looks_at(stages(10, 5), **AUTO) == second, "a reader comes to the same"
    assert looks_at(without(stages(10, 5), "third", 9), first, **AUTO) == first


def test_what_was_said_of_who_is_settled_stays_as_it_was():
    looks = looks_at(stages(10, 5), **AUTO)
    before, after = (
        judged(stages(n, 5), [look for look in looks if look["n"] <= n], **AUTO) for n in (5, 10)
    )
    places = [one.grid.names.index("ours") for one in (before, after)]
    assert before.points.interval(places[0]) == after.points.interval(places[1])
    assert before.speed.interval(places[0]) == after.speed.interval(places[1])
    assert after.at.tolist() == [0, 10, 10, 5]


def test_an_answer_stays_whatever_later_seeds_say():
    open_ = {"spread": 3.0, "seconds": 2.0}
    cells = seeds("base") + seeds("ours", **open_)
    first = looks_at(cells, strategies=["base", "ours"], **AUTO)
    assert "ours" not in stopped_by(cells, first, 10, **AUTO)
    later = seeds("base", 10) + seeds("ours", **open_) + seeds("ours", 10, seconds=50.0, first=5)
    _, second = looks_at(later, first, strategies=["base", "ours"], **AUTO)
    told, before = (look["answers"]["ours"]["speed"] for look in (second, first[0]))
    assert told == before, "its mean included"
    assert before[1] > 0, "it was faster"


def test_who_never_finishes_a_seed_is_not_asked_for_more():
    cells = seeds("base") + seeds("ours", status="failed") + seeds("other", spread=3.0)
    looks = looks_at(cells, strategies=["base", "ours", "other"], **AUTO)
    assert stopped_by(cells, looks, 10, **AUTO) == {"ours"}


def test_of_a_number_of_seeds_all_are_run():
    first = looks_at(stages(5, 5))
    assert "ours" in stopped_by(stages(5, 5), first, 10, **AUTO)
    assert stopped_by(stages(5, 5), first, 10) == set()
    assert looks_at(stages(10, 5), first, seeds=10) == first, "it is waited for"
    assert plan(looks_at(stages(10, 10), first, seeds=10)) == [
        ("reference", 5, 0.04),
        ("reference", 10, 0.016),
    ]


# Answers belong to cells -------------------------------------------------------------------------


def test_who_comes_late_is_judged_at_its_share_alone():
    first = looks_at(table(names=NAMES[:2]), strategies=["base", *NAMES[:2]])
    late = looks_at(table(), first)
    assert plan(late) == [("reference", 5, 0.04), ("reference", 5, round(0.016 / 3, 6))]
    assert list(late[1]["answers"]) == ["third"]
    assert late[0] == first[0]


@pytest.mark.parametrize("change", [{"test_top1": 50.0}, {"total_seconds": 99.0}])
def test_who_was_run_again_loses_its_answers_alone(change):
    first = looks_at(table())
    again = [
        line | change if (line["strategy"], line["seed"]) == ("ours", 3) else line
        for line in table()
    ]
    assert list(held_of(again, first)) == ["other", "third"]
    second = looks_at(again, first)
    assert list(second[1]["answers"]) == ["ours"]
    assert second[1]["chance"] == pytest.approx(0.4 * 0.04 / 3)
    told, held = judged(again, second), held_of(again, second)
    place = told.grid.names.index("ours")
    assert list(told.points.interval(place)) == held["ours"]["difference"]


def test_what_else_is_kept_of_a_cell_changes_nothing():
    looks = looks_at(table())
    cells = [line | {"train_loss": 7.0, "flops": 1.0} for line in table()]
    assert looks_at(cells, looks) == looks


def test_a_cell_that_is_found_busy_is_another_one():
    looks, cells = looks_at(table()), table()
    cells[-1] |= {"contended": "busy"}
    assert list(held_of(cells, looks)) == ["ours", "other"]


def test_a_rerun_of_the_reference_loses_all_answers():
    first = looks_at(table())
    again = [line | {"test_top1": 50.0} if line["strategy"] == "base" else line for line in table()]
    assert held_of(again, first) == {}
    assert plan(looks_at(again, first)) == [("reference", 5, 0.04), ("reference", 5, 0.016)]


def test_later_seeds_of_a_strategy_may_change_and_earlier_answers_hold():
    looks = looks_at(table(10, spread=3.0), **AUTO)
    again = table(10, spread=3.0)
    again[-1] |= {"test_top1": 50.0}
    assert {name: one["n"] for name, one in held_of(again, looks, **AUTO).items()} == {
        "ours": 10,
        "other": 10,
        "third": 5,
    }


def test_who_is_not_listed_any_more_has_no_answer():
    looks = looks_at(table())
    assert list(held_of(table(), looks, strategies=["base", "ours"])) == ["ours"]


# What is shown -----------------------------------------------------------------------------------


def test_runs_beyond_the_last_look_are_not_shown():
    runs = pd.DataFrame(table(7) + [line | {"task_name": "rings"} for line in table(3)])
    looks = with_due(runs, asked(), [])
    counts = shown(runs, looks).groupby("task_name")["seed"].max()
    assert counts.to_dict() == {"blobs": 4, "rings": 2}, "before a look, all"


def test_between_looks_the_last_ones_numbers_are_shown():
    first = looks_at(table(spread=3.0), **AUTO)
    before = judged(table(spread=3.0), first, **AUTO)
    after = judged(table(7, spread=3.0), first, **AUTO)
    for one, other in ((before.points, after.points), (before.speed, after.speed)):
        np.testing.assert_equal([*one], [*other])
    assert after.grid.seeds.tolist() == [0, 1, 2, 3, 4]
    assert after.waiting() == "next look at 10 seeds, 7 there"


def test_the_next_look_counts_seeds_that_all_have():
    found = next_look(table_of(table(3)), [])
    assert (found.n, found.there) == (5, 3)
    cells = without(without(table(4), "ours", 0), "base", 1)
    assert next_look(table_of(cells), []).there == 2
    assert next_look(table_of(table()), looks_at(table())) is None
    assert next_look(table_of(table(), seeds="3-5"), []) is None


def test_the_next_look_waits_for_who_goes_on():
    looks = looks_at(stages(5, 5), **AUTO)
    found = next_look(table_of(stages(8, 5), **AUTO), looks)
    assert (found.n, found.there) == (10, 8), "the settled one has five"


def test_another_margin_is_read_off_the_same_intervals():
    cells = seeds("base") + seeds("ours", points=-0.7, seconds=5.0)
    looks = looks_at(cells, strategies=["base", "ours"])
    strict, wide = (
        judged(cells, looks, margin, strategies=["base", "ours"]) for margin in (0.5, 1)
    )
    np.testing.assert_equal([*strict.points], [*wide.points])
    assert (strict.verdicts.worse[1], strict.verdicts.no_worse[1]) == (True, False)
    assert (wide.verdicts.worse[1], wide.verdicts.no_worse[1]) == (False, True)


# What is kept ------------------------------------------------------------------------------------


def test_looks_come_back_as_they_were_infinities_included(tmp_path):
    cells = seeds("base") + seeds("ours", contended="busy") + seeds("other", status="failed")
    looks = looks_at(cells, strategies=["base", "ours", "other"])
    assert looks[0]["answers"]["ours"]["speed"][1:] == [-math.inf, math.inf]
    write_looks(tmp_path, looks)
    json.loads((tmp_path / "looks.json").read_text(), parse_constant=pytest.fail)
    np.testing.assert_equal(read_looks(tmp_path), looks)
    assert read_looks(tmp_path / "gone") == []


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "hand")
    for line in table(6):
        folder.add(line["strategy"], line["seed"], line["test_top1"], line["total_seconds"])
    folder.suite(seeds=5)
    return folder


def test_a_reader_writes_nothing(folder):
    before = {path: path.read_bytes() for path in folder.path.rglob("*.*")}
    assert folder.lines().loc["ours", "look"] == 5
    assert {path: path.read_bytes() for path in folder.path.rglob("*.*")} == before


def test_what_was_kept_is_what_is_shown_and_runs_has_them_all(folder):
    looks = judge_folder(folder.path).looks
    looks[0]["answers"]["ours"] |= {"difference": [-0.1, -0.4, 0.2], "speed": [0.7, 0.6, 0.8]}
    write_looks(folder.path, looks)
    board = folder.board()
    line = board.table.set_index("strategy").loc["ours"]
    names = ["difference", "difference_low", "difference_high"]
    assert line[names].tolist() == [-0.1, -0.4, 0.2]
    assert line["speedup_low"] == pytest.approx(math.exp(0.6))
    assert (line["verdict"], line["n"]) == ("faster and no worse", 5)
    assert len(board.runs) == 4 * 6


def test_the_foot_sums_the_chance_up(folder):
    write_looks(folder.path, judge_folder(folder.path).looks)
    folder.suite(seeds=6)
    together, *_ = folder.board().feet[KEY]
    assert "set, is 5.6% against the reference (looked at 5 and 6 seeds)." in together


# The line ----------------------------------------------------------------------------------------

LINE = ("short[share=0.25]", "short[share=0.5]")


def on_line(n=5, names=LINE, lost=10.0, **more):
    """Return shorter schedules, which lose so many points with each half of the time."""
    shares = [float(name.rpartition("=")[2][:-1]) for name in names]
    made = {"control": True, "spread": 0.1, **more}
    return [
        line
        for name, q in zip(names, shares, strict=True)
        for line in seeds(name, n, lost * math.log2(q), 10 * q, flops=300 * q, **made)
    ]


def lined(n=5, points=-9.0, **more):
    return seeds("base", n) + seeds("ours", n, points, 5.0, control=False, **more)


OURS = {"strategies": ["base", "ours"]}


@pytest.mark.parametrize(
    "suite", [{}, {"line": ["short[share=?]"]}], ids=["of version 0.1", "said by the suite"]
)
def test_methods_are_compared_with_what_trains_less(suite):
    looks = looks_at(lined() + on_line(), **OURS, **suite)
    assert plan(looks) == [("reference", 5, 0.04), ("line", 5, 0.04)]
    mean, low, high = looks[1]["answers"]["ours"]["gain"]
    assert mean == pytest.approx(1, abs=0.3)
    assert low < mean < high


def test_of_version_0_1_the_line_is_what_was_not_asked_for():
    cells = lined() + on_line()
    asked_for = {"strategies": ["base", "ours", *LINE]}
    assert table_of(cells, **OURS).kinds == ["short[share=?]"]
    assert table_of(cells, **asked_for).kinds == []
    assert plan(looks_at(cells, **asked_for)) == [("reference", 5, 0.04)]
    assert table_of(cells, **OURS, line=[]).on_line() == []


def test_what_was_asked_for_is_on_the_line_too_and_not_compared_with_it():
    suite = {"strategies": ["base", "ours", LINE[1]], "line": ["short[share=?]"]}
    found = table_of(lined() + on_line(), **suite)
    assert found.on_line() == list(LINE)
    assert (found.listed, found.methods) == (["ours", LINE[1]], ["ours"])


def test_a_look_at_the_line_waits_for_all_of_it():
    cells = lined() + on_line()
    assert plan(looks_at(without(cells, LINE[0], 4), **OURS)) == [("reference", 5, 0.04)]
    first = looks_at(without(cells, LINE[0], 4), **OURS)
    assert plan(looks_at(cells, first, **OURS)) == [("reference", 5, 0.04), ("line", 5, 0.04)]


def test_a_rerun_of_the_line_loses_what_was_said_against_it_alone():
    cells = lined() + on_line()
    looks = looks_at(cells, **OURS)
    cells[-1] |= {"test_top1": 50.0}
    found = table_of(cells, **OURS)
    assert list(holding(AgainstReference(found), looks)) == ["ours"]
    assert holding(AgainstLine(found), looks) == {}
    assert plan(looks_at(cells, looks, **OURS))[2:] == [("line", 5, 0.016)]


@pytest.mark.parametrize(
    ("seconds", "ends"), [(1.0, [None, math.inf]), (20.0, [-math.inf, None]), (5.0, [None, None])]
)
def test_far_beyond_an_end_of_the_line_one_side_is_open(seconds, ends):
    cells = seeds("base") + seeds("ours", 5, -20.0, seconds, control=False) + on_line()
    _, look = looks_at(cells, **OURS)
    for end, told in zip(ends, look["answers"]["ours"]["gain"][1:], strict=True):
        assert told == end if end else math.isfinite(told)


# Intervals are verdicts --------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(12))
def test_no_interval_excludes_nothing_beside_an_open_question(tmp_path, number):
    draw = np.random.default_rng(number)
    names, n = [f"m{i}" for i in range(6)], int(draw.integers(2, 8))
    folder = Folder(tmp_path / "hand")
    for name in ("base", *names):
        other, wide = name != "base", draw.uniform(0.05, 2)
        points, pace = (draw.normal(0, 1) * other for _ in range(2))
        accuracies = 90 + points + draw.normal(0, wide, n)
        seconds = 10 * np.exp(pace / 5 + draw.normal(0, wide / 10, n))
        folder.fill(name, accuracies.tolist(), seconds.tolist())
    for q in (0.25, 0.5):
        noise = draw.normal(0, 0.2, n)
        more = {"flops": int(100 * q), "control": True}
        accuracies, seconds = 90 + 4 * math.log2(q) + noise, 10 * q * np.exp(noise / 9)
        folder.fill(f"short[share={q}]", accuracies.tolist(), seconds.tolist(), **more)
    lines = folder.lines().loc[names]
    for _, line in lines.iterrows():
        word, gain = line["verdict"], line["against_line"]
        timed, scored = (
            not low <= base <= high
            for low, base, high in (
                (line["speedup_low"], 1, line["speedup_high"]),
                (line["difference_low"], 0, line["difference_high"]),
            )
        )
        known = "worse" in word or "less accurate" in word or "better" in word
        assert timed == ("faster" in word or "slower" in word)
        assert known == (scored or line["difference_low"] > -line["margin"])
        assert ("open" in gain) == (line["gain_low"] <= 0 <= line["gain_high"])
        assert line["difference_low"] < line["difference"] < line["difference_high"]
