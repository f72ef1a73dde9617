"""Verdicts by simulation: how often a suite verdicts what is not so, and finds what is."""

from functools import cached_property

import numpy as np
import pandas as pd
import pytest

from dataeff.report.judge import rivals
from dataeff.report.stats import Paired, paired, verdict
from dataeff.report.table import leaderboard
from dataeff.report.words import verdict_words

MARGIN = 0.5
SUITES = 2000
SEEDS = 5
# Spread of the logarithm of a ratio of two times.
TIMES = 0.03


class Simulated:
    """Suites of which the truth is known: strategies x seeds each, the first is the reference.

    `speedup` and `difference` are what is true of the other strategies, `spread` the standard
    deviation of a paired accuracy difference; half of its variance is the reference's own, which
    all strategies are compared with. `test_samples` rounds accuracy to whole test images.
    """

    def __init__(
        self,
        strategies,
        *,
        spread,
        speedup=1.0,
        difference=0.0,
        controls=0,
        suites=SUITES,
        test_samples=None,
        seed=0,
    ):
        draw = np.random.default_rng(seed)
        shape = (suites, strategies, SEEDS)
        true = np.zeros((2, strategies, 1))
        true[0, 1:, 0] = difference
        true[1, 1:, 0] = -np.log(speedup)
        self.accuracy = 90 + true[0] + draw.normal(0, spread / np.sqrt(2), shape)
        self.seconds = 10 * np.exp(true[1] + draw.normal(0, TIMES / np.sqrt(2), shape))
        self.step = 0.0
        if test_samples:
            self.step = 100 / test_samples
            self.accuracy = np.rint(self.accuracy / self.step) * self.step
        self.control = np.arange(strategies) >= strategies - controls
        self.methods = ~self.control & (np.arange(strategies) > 0)

    @cached_property
    def verdicts(self):
        """Return the verdicts on each suite; their lines are the strategies but the reference."""
        found = []
        points = _by_suite(self.accuracy[:, 1:] - self.accuracy[:, :1], self.step)
        speed = _by_suite(np.log(self.seconds[:, :1] / self.seconds[:, 1:]))
        for i, (accuracy, times) in enumerate(zip(points, speed, strict=True)):
            factor = np.append(1.0, np.exp(times.mean))
            pairs = rivals(1 / factor, self.methods, self.control)
            against = self.accuracy[i, pairs[:, 0]] - self.accuracy[i, pairs[:, 1]]
            found.append(verdict(accuracy, times, paired(against, self.step), MARGIN))
        return found

    def share(self, what):
        """Return the share of suites of which something is so."""
        return np.mean([what(verdicts) for verdicts in self.verdicts])

    def runs(self):
        """Return the suites as the records of one, a task each."""
        task, strategy, seed = np.indices(self.accuracy.shape).reshape(3, -1)
        return pd.DataFrame(
            {
                "task_name": [f"task {i}" for i in task],
                "conditions_id": "c1",
                "strategy": [f"s{i}" for i in strategy],
                "seed": seed,
                "status": "finished",
                "contended": "",
                "test_top1": self.accuracy.ravel(),
                "total_seconds": self.seconds.ravel(),
                "clocked_seconds": self.seconds.ravel(),
                "flops": np.nan,
                "ranked": True,
                "control": self.control[strategy],
            }
        )


def _by_suite(differences, step=0.0):
    """Return the paired differences of each suite; they are summed up all at once."""
    suites, k, seeds = differences.shape
    found = paired(differences.reshape(-1, seeds), step)
    lines = [values.reshape(suites, k) for values in found]
    return [Paired(*parts) for parts in zip(*lines, strict=True)]


def any_difference(verdicts):
    told = verdicts.faster | verdicts.slower | verdicts.better | verdicts.worse
    return told.any() or verdicts.rivals.any()


def any_but_faster(verdicts):
    told = verdicts.slower | verdicts.better | verdicts.worse
    return told.any() or verdicts.rivals.any()


def all_faster_and_no_worse(verdicts):
    return set(verdict_words(verdicts, verdicts.faster | True)) == {"faster and no worse"}


# Claims that are wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_two_equal_strategies_are_told_apart_in_few_suites(spread):
    share = Simulated(2, spread=spread).share(any_difference)
    assert 0.02 < share <= 0.065


@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_so_are_eight(spread):
    assert 0.01 < Simulated(8, spread=spread).share(any_difference) <= 0.065


@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_so_are_methods_and_controls_of_their_cost(spread):
    # All are faster in truth, and there is no other difference.
    suites = Simulated(8, spread=spread, controls=2, speedup=1.5)
    assert 0.01 < suites.share(any_but_faster) <= 0.065


def test_controls_are_compared_with_every_method_of_their_cost():
    suites = Simulated(8, spread=0.2, controls=2, suites=20, speedup=1.5)
    assert {len(verdicts.rivals) for verdicts in suites.verdicts} == {5 * 2}
    apart = Simulated(8, spread=0.2, controls=2, suites=20, speedup=[1.5] * 5 + [2.5] * 2)
    assert {len(verdicts.rivals) for verdicts in apart.verdicts} == {0}
    idle = Simulated(8, spread=0.2, controls=2, suites=20)
    assert {len(verdicts.rivals) for verdicts in idle.verdicts} == {0}, "they save nothing"


def test_true_differences_do_not_make_wrong_ones_more_frequent():
    # Four strategies are faster in truth; nothing else differs.
    suites = Simulated(8, spread=0.3, speedup=[1.5] * 4 + [1.0] * 3)

    def wrong(verdicts):
        speed = verdicts.slower.any() or verdicts.faster[4:].any()
        return speed or verdicts.better.any() or verdicts.worse.any()

    assert 0.01 < suites.share(wrong) <= 0.065
    assert suites.share(lambda verdicts: verdicts.faster[:4].all()) > 0.99


def test_whole_test_images_are_no_certainty():
    # Of 360 images, one is 0.28 points: many seeds agree to the image.
    assert Simulated(2, spread=0.1, test_samples=360).share(any_difference) <= 0.065


@pytest.mark.parametrize("strategies", [2, 8])
def test_as_bad_as_the_margin_is_seldom_called_no_worse(strategies):
    suites = Simulated(strategies, spread=0.3, difference=-MARGIN)
    assert suites.share(lambda verdicts: verdicts.no_worse.any()) <= 0.035


@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_worse_by_more_than_the_margin_is_seldom_called_no_worse(spread):
    suites = Simulated(2, spread=spread, difference=-0.6, speedup=1.5)
    assert suites.share(lambda verdicts: verdicts.no_worse.any()) <= 0.03


# Claims that are right ---------------------------------------------------------------------------


def test_a_true_speedup_at_the_same_accuracy_is_found():
    assert Simulated(2, spread=0.2, speedup=1.5).share(all_faster_and_no_worse) >= 0.9


def test_what_is_clearly_worse_is_called_so():
    suites = Simulated(2, spread=0.2, speedup=1.5, difference=-1.2)
    worse = suites.share(lambda verdicts: verdict_words(verdicts, [True]) == ["faster but worse"])
    assert worse >= 0.9


# The whole leaderboard ---------------------------------------------------------------------------

NO_CURVES = pd.DataFrame(
    columns=["task", "conditions", "strategy", "seed", "epoch", "seconds", "test_top1"]
)


def test_the_leaderboard_says_the_same():
    suites = Simulated(
        6,
        spread=0.4,
        speedup=[1.5, 1.02, 0.95, 1.5, 1.53],
        difference=[0.0, -1.0, 0.5, 0.0, -0.4],
        controls=2,
        suites=50,
    )
    suite = {"reference": "s0", "published": []}
    table = leaderboard(suites.runs(), NO_CURVES, suite, MARGIN).set_index(["task", "strategy"])
    told = []
    for i, verdicts in enumerate(suites.verdicts):
        lines = table.loc[f"task {i}"].loc[[f"s{place}" for place in range(1, 6)]]
        words = verdict_words(verdicts, np.ones(5, dtype=bool))
        assert lines["verdict"].tolist() == words
        said = "; ".join(lines["against_controls"])
        for number, word in ((1, "better,"), (-1, "worse,"), (0, "not told apart,")):
            assert said.count(word) == (verdicts.rivals == number).sum()
        told += words
    assert len(set(told)) >= 6, "there were many kinds of verdicts to agree on"
