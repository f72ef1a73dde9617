"""Claims of papers: how suites carry them."""

from pathlib import Path

import pandas as pd
import pytest
from shell import ok

from dataeff.bench.desk import Desk
from dataeff.bench.suite import load_suite
from dataeff.errors import DataeffError
from dataeff.lab import Lab

SUITE = """
seeds = 2
strategies = ["baseline", "random_backprop[keep=0.25]", "amp"]

[tasks.blobs]
dataset = "synthetic[samples=90]"
model = "tiny"
epochs = 2

[[claims]]
text = "A quarter is enough"
strategy = " random_backprop[ keep = 0.250 ]"
accuracy = "no worse"

[[claims]]
text = "Half precision is faster"
source = "Nobody 2026"
strategy = "amp"
against = "random_backprop[keep=0.25]"
task = "blobs"
speedup = 1.4
clock = "train"
"""


@pytest.fixture
def load(tmp_path, installed):
    """Write a suite file and load it."""

    def write_and_load(text):
        (tmp_path / "mine.toml").write_text(text)
        return load_suite(str(tmp_path / "mine.toml"), Desk.beside(Lab(installed)))

    return write_and_load


def test_a_suite_carries_its_claims_in_canonical_form(load):
    first, second = load(SUITE).claims
    assert (first.strategy, first.against) == ("random_backprop[keep=0.25]", "baseline")
    assert (first.accuracy, first.speedup, first.task) == ("no worse", None, None)
    assert (first.source, first.clock) == ("", "total")
    assert (second.strategy, second.against) == ("amp", "random_backprop[keep=0.25]")
    assert (second.speedup, second.clock, second.task) == (1.4, "train", "blobs")
    assert load(SUITE.partition("[[claims]]")[0]).claims == []


MISTAKES = {
    "unknown key": (
        "speedup = 1.4",
        "speedpu = 1.4",
        "there is no key 'claims.1.speedpu'. Did you mean speedup?",
    ),
    "nothing claimed": (
        'accuracy = "no worse"',
        "",
        "claims.0: say what is claimed: accuracy, speedup, or both.",
    ),
    "no text": ('text = "A quarter is enough"', "", "the key 'claims.0.text' is missing; add it."),
    "a word that there is not": (
        '"no worse"',
        '"as good"',
        "claims.0.accuracy: Input should be 'better', 'no worse', 'equal' or 'worse' "
        "(it is 'as good').",
    ),
    "a speed-up of nothing": (
        "speedup = 1.4",
        "speedup = 0",
        "claims.1.speedup: Input should be greater than 0 (it is 0).",
    ),
    "an endless speed-up": (
        "speedup = 1.4",
        "speedup = inf",
        "claims.1.speedup: Input should be a finite number (it is inf).",
    ),
    "a clock for no speed-up": (
        "speedup = 1.4",
        'accuracy = "better"',
        "claims.1: clock goes with speedup; add that, or leave out clock.",
    ),
    "an unknown strategy": (
        'strategy = "amp"',
        'strategy = "anp"',
        "claims.1.strategy: There is no strategy 'anp'. Did you mean amp? See: dataeff strategies",
    ),
    "a strategy that is not run": (
        "keep = 0.250 ]",
        "keep = 0.5 ]",
        "claims.0.strategy: this suite does not run random_backprop[keep=0.5], so the claim could "
        "never be judged; add it to strategies. Did you mean random_backprop[keep=0.25]?",
    ),
    "against what is not run": (
        'against = "random_backprop[keep=0.25]"',
        'against = "short_schedule[share=0.5]"',
        "claims.1.against: this suite does not run short_schedule[share=0.5], so the claim could "
        "never be judged; add it to strategies.",
    ),
    "against itself": (
        'against = "random_backprop[keep=0.25]"',
        'against = "amp"',
        "claims.1: strategy and against are both amp.",
    ),
    "an unknown task": (
        'task = "blobs"',
        'task = "blob"',
        "claims.1.task: there is no task 'blob'. Did you mean blobs?",
    ),
}


@pytest.mark.parametrize(("old", "new", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_file_key_and_fix(load, tmp_path, old, new, sentence):
    assert SUITE.count(old) == 1
    with pytest.raises(DataeffError) as caught:
        load(SUITE.replace(old, new))
    assert str(caught.value) == f"{tmp_path}/mine.toml: {sentence}"


def test_a_run_judges_the_claims_of_its_suite_and_keeps_those_of_strategies_left_out():
    Path("mine.toml").write_text(SUITE.replace("seeds = 2", "seeds = 1"))
    said = ok("run", "mine.toml", "-s", "amp", "--no-controls", "-y", "--in-process")
    assert "Claims of papers: 2 open." in said
    full = ok("leaderboard", "mine", "--full")
    assert "open           A quarter is enough: random_backprop[keep=0.25] no worse than " in full
    assert "baseline: not run" in full
    assert "Half precision is faster (Nobody 2026): amp at least 1.4x as fast on the " in full
    assert "classes.csv, claims.csv, report.html" in said
    written = pd.read_csv("results/mine/claims.csv")
    assert written["measured"].tolist() == ["not run", "not run"]
