"""Turns: who goes next, and what becomes of cells that do not fit, fail or wait for each other."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dataeff.bench import blocks
from dataeff.bench.blocks import Block, Track
from dataeff.bench.turns import Standing, next_of

# Who goes next ---------------------------------------------------------------------------------


def raced(speeds, turns, expected=True, preparing=(), seed=0):
    """Let cells of these paces (progress per turn) race; return how far each has come."""
    draw = Random(seed)
    standings = [Standing(1 / speed if expected else None) for speed in speeds]
    left = dict(enumerate(preparing))
    for number, standing in enumerate(standings):
        standing.preparing, standing.turns = bool(left.get(number)), 1
    order = []
    for turn in range(turns):
        racing = [one for one in standings if one.progress < 1]
        if not racing:
            break
        one = next_of(racing, turn, draw)
        one.before = one.share
        place = standings.index(one)
        order.append(place)
        one.clocked += 1.0
        one.last = turn
        if left.get(place, 0) > 0:
            left[place] -= 1
            one.tell(0.0, bool(left[place]), [other for other in standings if other is not one])
        else:
            rest = [other for other in standings if other is not one]
            one.tell(one.progress + speeds[place], False, rest)
    return standings, order


@given(some.lists(some.floats(0.01, 0.2), min_size=2, max_size=6), some.booleans())
def test_all_come_equally_far_whatever_their_pace(speeds, expected):
    """Never further apart than a turn takes one of them."""
    standings, _ = raced(speeds, turns=40, expected=expected)
    shares = [one.share for one in standings if one.progress < 1]
    if len(shares) > 1:
        assert max(shares) - min(shares) <= 2 * max(speeds) + 1e-9


def test_whoever_has_had_no_turn_is_first_in_order():
    standings = [Standing(), Standing(), Standing()]
    standings[0].turns = 1
    assert next_of(standings, 7, Random(0)) is standings[1]


def test_who_goes_first_of_the_level_is_drawn_and_each_follows_on_each():
    """A fixed rotation would have one of them always come after the same other one."""
    pairs = {}
    for seed in range(20):
        _, order = raced([0.02] * 4, turns=160, seed=seed)
        for before, after in pairwise(order):
            pairs[before, after] = pairs.get((before, after), 0) + 1
    apart = [count for (before, after), count in pairs.items() if before != after]
    assert len(apart) == 12
    assert max(apart) < 1.4 * min(apart)


def test_who_prepares_for_nobody_knows_how_long_has_every_other_turn():
    standings, order = raced([0.1, 0.1, 0.1], 12, expected=False, preparing=[6, 0, 0])
    assert order[:12:2].count(0) == 0
    assert order[1:12:2] == [0] * 6
    # It begins to train where the others stand, and so it need not catch up.
    assert standings[0].base == pytest.approx(0.3)
    assert standings[0].share == pytest.approx(0.3)


def test_who_is_known_to_prepare_long_is_counted_by_its_clock():
    one, other = Standing(10.0, clocked=5.0), Standing(10.0, clocked=4.0)
    one.turns = other.turns = 1
    assert next_of([one, other], 1, Random(0)) is other


def test_only_who_prepares_is_left():
    _, order = raced([0.1, 0.1], 4, expected=False, preparing=[9, 9])
    assert order == [0, 1, 0, 1]


def test_who_has_passed_lets_others_go_first():
    one, other = Standing(10.0, clocked=1.0, passes=True), Standing(10.0, clocked=5.0)
    one.turns = other.turns = 1
    assert next_of([one, other], 0, Random(0)) is other
    other.passes = True
    assert next_of([one, other], 0, Random(0)) is one


# A block, without processes --------------------------------------------------------------------


@dataclass(eq=False)
class Fake:
    """A cell as a script: what each of its turns comes to."""

    strategy: str
    folder: Path
    script: list = field(default_factory=lambda: ["", "end"])
    more: int | None = None
    status: str | None = None
    heats: list = field(default_factory=list)
    alive: list = field(default_factory=list)

    @property
    def scene(self):
        return SimpleNamespace(conditions={})

    def record(self):
        return self.status and {"status": self.status, "outside": {"on": 2.0}}


class Hosting:
    """The runner's side of such a cell."""

    now: ClassVar[list] = []

    def __init__(self, cell, heat, berth, on_epoch):
        self.cell, self.heat, self.standing = cell, heat, Standing()
        self.ended, self.more, self.told = None, None, (0.0, False)
        self._script = iter(cell.script)
        cell.heats.append(heat)

    @property
    def ran_out_of_memory(self):
        return self.ended == {"died": "memory"}

    def start(self):
        self.now.append(self.cell.strategy)

    def go(self, seconds):
        assert self.cell.strategy in self.now
        self.standing.turns += 1
        self.standing.clocked += 1.0
        self.more = self.cell.more
        self.cell.alive.append(sorted(self.now))
        does = next(self._script)
        self.standing.passes = does == "pass"
        self.ended = {"end": {"ended": {}}, "memory": {"died": "memory"}}.get(does)

    def end(self):
        self.now.remove(self.cell.strategy)

    def write(self):
        self.cell.status = "finished" if "ended" in self.ended else "failed"


class Copying(Hosting):
    """A timing copy."""

    @property
    def folder(self):
        return self.cell.folder / "copies" / self.heat

    def start(self):
        self.now.append("copy")
        self._script = iter(["", "end"])

    def go(self, seconds):
        self.now.append(self.cell.strategy)
        super().go(seconds)
        self.now.remove(self.cell.strategy)

    def end(self):
        self.now.remove("copy")

    def write(self):
        """Keep nothing."""


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run cells, the first of which is the reference."""
    monkeypatch.setattr(blocks, "Hosting", Hosting)
    monkeypatch.setattr(blocks, "Copying", Copying)
    monkeypatch.setattr(blocks, "sleep", lambda seconds: None)
    Hosting.now = []

    def run(*cells, todo=None, told=None):
        for cell in cells:
            cell.folder = tmp_path / cell.strategy
            cell.folder.mkdir(exist_ok=True)

        def tell(kind, cell, share=0.0, record=None):
            if told is not None:
                told.append((kind, cell.strategy))

        berth = SimpleNamespace(check=lambda: None, sharing=1)
        Track(Block(cells, cells[0]), berth, tell).run(cells if todo is None else todo)
        assert Hosting.now == []
        return cells

    return run


def fakes(*names, **options):
    return [Fake(name, Path(), **{k: list(v) for k, v in options.items()}) for name in names]


def test_all_are_alive_together_in_one_heat(ran):
    base, one, other = ran(*fakes("base", "one", "other"))
    assert base.heats == one.heats == other.heats
    assert other.alive[0] == ["base", "one", "other"]
    assert [cell.status for cell in (base, one, other)] == ["finished"] * 3


def test_as_many_as_fit_are_alive_together_and_a_copy_beside_the_rest(ran):
    base, *others = fakes("base", "a", "b", "c", "d", "e")
    for cell in (base, *others):
        cell.more = 2
    ran(base, *others)
    assert others[1].alive[0] == ["a", "b", "base"]
    assert others[3].alive[0] == ["c", "copy", "d"]
    assert ["copy", "e"] in others[4].alive
    assert [cell.status for cell in others] == ["finished"] * 5
    assert others[0].heats == base.heats[:1] != others[2].heats


def test_what_all_are_compared_with_is_not_left_out_whatever_its_place(ran):
    base, *others = fakes("base", "a", "b", "c")
    for cell in (base, *others):
        cell.more = 1
    ran(base, *others, todo=[*others, base])
    assert others[0].alive[:2] == [["a"], ["a", "base"]], "the first tells, in the order given"
    assert all(any("copy" in beside for beside in cell.alive) for cell in others[1:])


def test_the_copy_is_not_always_the_first(ran):
    beside = []
    for _ in range(40):
        base, one = fakes("base", "one")
        base.status = "finished"
        ran(base, one, todo=[one])
        beside.append("copy" in one.alive[0])
    assert set(beside) == {True, False}, "who starts first is alone in its first turn"


def test_where_hardly_one_fits_two_are_tried(ran):
    base, one, other = fakes("base", "one", "other")
    base.more = one.more = other.more = 0
    ran(base, one, other)
    assert one.alive[0] == ["base", "one"]
    assert ["copy", "other"] in other.alive


def test_who_finds_no_memory_among_others_runs_again_beside_a_copy_then_alone(ran):
    base, big, small = fakes("base", "big", "small")
    big.script = ["memory"]
    told = []
    ran(base, big, small, told=told)
    assert small.status == "finished"
    looks = [sorted(set(look)) for look in big.alive]
    # Who starts before the copy is alone in its first turn, and need not be so once more.
    assert looks[0] == ["base", "big", "small"]
    assert looks[1:] in ([["big", "copy"], ["big"]], [["big"]])
    assert big.status == "failed"
    assert [kind for kind, name in told if name == "big"] == [*["started"] * len(looks), "ended"]


def test_what_comes_later_runs_beside_a_copy_of_the_reference(ran):
    base, new = fakes("base", "new")
    base.status = "finished"
    ran(base, new, todo=[new])
    assert ["copy", "new"] in new.alive
    assert base.heats == new.heats, "the copy's heat is that of the cell"


def test_without_a_time_of_the_reference_there_is_no_copy(ran):
    base, new = fakes("base", "new")
    base.status = "failed"
    ran(base, new, todo=[new])
    assert new.alive[0] == ["new"]
    assert new.status == "finished"


def test_a_copy_that_was_stopped_goes_on_when_all_beside_it_have_ended(ran, tmp_path):
    base, new = fakes("base", "new")
    base.status = new.status = "finished"
    (tmp_path / "base" / "copies" / "abc").mkdir(parents=True)
    ran(base, new, todo=[])
    assert base.heats == ["abc"]
    assert new.heats == []


def test_who_passes_is_asked_again_when_another_one_had_its_turn(ran):
    base, maker, waiter = fakes("base", "maker", "waiter")
    maker.script = ["", "", "", "end"]
    waiter.script = ["", "pass", "pass", "pass", "end"]
    ran(base, maker, waiter)
    assert [cell.status for cell in (base, maker, waiter)] == ["finished"] * 3


def test_who_waits_for_somebody_elsewhere_is_asked_again_and_again(ran):
    base, waiter = fakes("base", "waiter")
    waiter.script = ["", *["pass"] * 20, "end"]
    ran(base, waiter)
    assert waiter.status == "finished"


def test_whatever_happens_no_process_is_left(ran):
    base, one = fakes("base", "one")
    one.script = ["", "", ""]
    with pytest.raises(StopIteration):
        ran(base, one)
    assert Hosting.now == []
