"""The command that sets two strategies side by side."""

import io
import json

import pytest
from records import Folder
from rich.console import Console
from shell import mistake, ok

from dataeff.cli import show


class Results(Folder):
    """A folder of results of one suite, in the making."""

    def __init__(self, path):
        self.root = path
        super().__init__(
            path / "hand",
            reference="baseline",
            task_ids={"blobs": "t1", "rings": "t1"},
            commands=["dataeff run -d blobs --name hand"],
        )

    def add(self, strategy, seeds=3, forward=5.0, score=0.0, accuracy=90.0, flops=300.0, **more):
        """Write a record per seed; seeds may be a list."""
        for seed in range(seeds) if isinstance(seeds, int) else seeds:
            told = {
                "phases": {"forward": forward, "score": score, "other": seed / 10},
                "rows": {"forwarded": 100, "trained": 100},
            }
            seconds = forward + score + seed / 10
            super().add(strategy, seed, accuracy + seed, seconds, flops, **told | more)
        return self

    def compare(self, a, b, *options, call=ok):
        return call("compare", "hand", a, b, "--results", self.root, *options)


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


@pytest.fixture
def pair(results):
    return results.add("baseline").add("ours", score=2.0, flops=200.0, accuracy=89.0)


def test_the_command_prints_headline_table_and_sentences(pair):
    lines = pair.compare("baseline", "ours").splitlines()
    assert lines[:2] == [
        "blobs (conditions c1), 3 seeds, paired",
        "ours: 39% more time for -1.0 points.",
    ]
    lines = lines[lines.index("A: baseline") - 1 :]
    assert lines[1:3] == ["A: baseline", "B: ours"]
    assert lines[3] == "Speed-up: 0.72x (0.70x to 0.73x): slower."
    assert lines[5] == "Accuracy: -1.00 points (-1.00..-1.00): worse (margin 0.5)."
    assert lines[6] == (
        "B against A: slower and worse; the intervals are the table's, and answer for all of it."
    )
    assert lines[8:13] == [
        "phase     A s   B s  ideal B s  lost s",
        "score    0.00  2.00       0.00    2.00",
        "forward  5.00  5.00       3.33    1.67",
        "other    0.10  0.10       0.07    0.03",
        "total    5.10  7.10       3.40    3.70",
    ]
    text = "\n".join(lines)
    assert (
        "To break even, B has to save 2.00 s; one phase alone would do: score 2.00 -> 0.00" in text
    )
    assert "nan" not in text


def test_the_margin_is_the_suites_unless_one_is_given(pair):
    pair.suite(margin=2.0)
    assert "no worse (margin 2)" in pair.compare("baseline", "ours")
    assert "worse (margin 0.5)" in pair.compare("baseline", "ours", "--margin", "0.5")


def test_a_comparison_with_the_reference_begins_with_the_answer_either_way(pair):
    names = ("baseline", "ours")
    texts = [pair.compare(*two).splitlines() for two in (names, names[::-1])]
    for lines in texts:
        assert lines[1] == "ours: 39% more time for -1.0 points."
        assert lines[2].startswith("Time saved -39% (")
        assert lines[3] == "Saves time: proven not. Loses no more than 0.5 points: proven not."
        assert lines[4] == ""
    (block,) = json.loads(pair.compare("ours", "baseline", "--json"))["blocks"]
    assert block["method"]["strategy"] == "ours"
    assert block["method"]["evidence"]["saves_time"] == "proven not"
    assert block["method"]["sentences"] == texts[0][1:4]


def test_a_comparison_of_two_methods_has_no_answer(pair):
    pair.add("other", score=1.0)
    (block,) = json.loads(pair.compare("ours", "other", "--json"))["blocks"]
    assert block["method"] is None
    assert pair.compare("ours", "other").splitlines()[1] == "A: ours"


def test_what_is_not_the_tables_is_judged_for_itself(pair):
    pair.add("other", score=1.0)
    text = pair.compare("other", "ours")
    assert "the intervals are for this pair alone: both hold in 96% of cases." in text
    (block,) = json.loads(pair.compare("other", "ours", "--json"))["blocks"]
    assert block["verdict"] == "slower and worse"
    assert "this pair alone" in block["judged_by"]


def test_before_a_look_nothing_is_said(pair):
    pair.suite(seeds=5)
    lines = pair.compare("baseline", "ours").splitlines()
    assert lines[3] == "Speed-up: 0.72x: no look yet."
    assert "there has been no look at this table yet." in lines[6]
    (block,) = json.loads(pair.compare("baseline", "ours", "--json"))["blocks"]
    assert block["verdict"] == "no look yet"
    assert block["accuracy_difference"] == {"mean": -1, "low": None, "high": None}


def test_seeds_beyond_the_look_are_not_compared(pair):
    pair.suite(seeds=3)
    before = pair.compare("baseline", "ours")
    pair.add("baseline", [3], accuracy=50.0).add("ours", [3], forward=50.0)
    assert pair.compare("baseline", "ours") == before


def test_lines_of_zeros_are_left_to_other(results):
    small = {"forward": 5.0, "select": 0.004, "plan": 0.003}
    results.add("baseline", phases=small).add("ours", phases=small)
    text = results.compare("baseline", "ours")
    assert "\nother    0.10  0.10       0.10    0.00\n" in text
    assert "\nselect" not in text
    assert "\nplan" not in text
    assert "\ntotal    5.10  5.10" in text


def test_any_spelling_of_a_strategy_will_do(results):
    results.add("baseline").add("random_backprop[keep=0.5]")
    assert "B: random_backprop[keep=0.5]\n" in results.compare("baseline", "random_backprop")
    spelled = "random_backprop[ keep = 0.50 ]"
    assert "B: random_backprop[keep=0.5]\n" in results.compare("baseline", spelled)


def test_a_strategy_may_be_given_as_it_was_spelled_then(results):
    results.add("baseline").add("random_backprop").add("random_backprop[keep=0.5]")
    assert "B: random_backprop\n" in results.compare("baseline", "random_backprop")


def test_a_plugin_that_is_gone_leaves_its_results(results):
    results.add("baseline").add("gone[keep=0.5]")
    assert "B: gone[keep=0.5]\n" in results.compare("baseline", "gone[keep=0.5]")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("our", "our was not run in hand. Did you mean ours?"),
        ("amp+ours", "Did you mean ours+amp?"),
        ("other[keep=0.3]", "Did you mean other[keep=0.5]?"),
        ("othr[keep=0.3333333333,mode=x]", "Did you mean other?"),
        ("zzz", "zzz was not run in hand. See what was: dataeff leaderboard hand"),
        ("zz[", "zz[ was not run in hand."),
    ],
)
def test_what_was_not_run_gets_a_hint(pair, text, hint):
    pair.add("ours+amp").add("other[keep=0.5]")
    assert hint in pair.compare("baseline", text, call=mistake)
    assert hint in pair.compare(text, "baseline", call=mistake)


def test_the_same_twice_is_no_comparison(pair):
    assert pair.compare("ours", "ours", call=mistake) == (
        "A and B are both ours; name two strategies."
    )


def test_seeds_that_are_not_shared_are_no_comparison(results):
    results.add("baseline", [0, 1]).add("a b", [2, 3])
    assert results.compare("baseline", "a b", call=mistake) == (
        "baseline and a b share no finished seed under the same conditions; "
        "type: dataeff run -d blobs --name hand -s baseline -s 'a b'"
    )


def test_failed_cells_are_no_comparison(results):
    results.add("baseline").add("ours", 2, status="failed").add("ours", [5], status="diverged")
    assert results.compare("baseline", "ours", call=mistake) == (
        "No cell of ours finished (2 failed, 1 diverged), so there is nothing to compare."
    )


def test_no_runs_and_no_results_say_what_to_type(results):
    assert "holds no runs of this suite yet; type: " in results.compare("a", "b", call=mistake)
    sentence = mistake("compare", "hnd", "a", "b", "--results", results.root)
    assert "Did you mean hand?" in sentence


def test_tasks_and_conditions_have_a_block_each(pair):
    pair.add("baseline", task_name="rings").add("ours", task_name="rings")
    pair.add("baseline", conditions_id="c2").add("ours", conditions_id="c2")
    pair.add("ours", conditions_id="c3")
    text = pair.compare("baseline", "ours")
    titles = [line for line in text.splitlines() if line.endswith("3 seeds, paired")]
    assert [title.split(",")[0] for title in titles] == [
        "blobs (conditions c1)",
        "blobs (conditions c2)",
        "rings (conditions c1)",
    ]
    note = "Not compared: blobs (conditions c3), where they share no finished seed."
    assert text.splitlines()[-1] == note
    text = pair.compare("baseline", "ours", "--task", "rings")
    assert text.count("3 seeds, paired") == 1
    assert "blobs" not in text


def test_a_task_that_is_not_there_gets_a_hint(pair):
    assert "Did you mean blobs?" in pair.compare("baseline", "ours", "--task", "blob", call=mistake)
    assert "There are: blobs." in pair.compare("baseline", "ours", "--task", "zz", call=mistake)


def test_json_holds_every_number_and_null_for_none(results):
    results.add("baseline", 1).add("ours", 1, score=2.0, flops=200.0)
    document = json.loads(results.compare("baseline", "ours", "--json"))
    assert [document[key] for key in ("suite", "a", "b")] == ["hand", "baseline", "ours"]
    (block,) = document["blocks"]
    assert block["speedup"] == {"mean": pytest.approx(5 / 7), "low": None, "high": None}
    assert block["ideal_speedup"] == pytest.approx(1.5)
    assert [line["phase"] for line in block["phases"]] == ["score", "forward"]
    lost = sum(line["lost"] for line in block["phases"])
    assert lost == pytest.approx(block["total"]["lost"]) == pytest.approx(7 - 5 / 1.5)
    assert block["goal"] == "break even"
    assert block["surplus"] == pytest.approx(2)
    assert block["one_phase_alone"][0] == {
        "phase": "score",
        "now": 2,
        "needed": pytest.approx(0),
        "saving": pytest.approx(1),
    }
    assert block["compositions"] == document["notes"] == []


def test_compositions_show_their_parts(results):
    results.add("baseline").add("amp", forward=4.0).add("ours", score=1.0, accuracy=91.0)
    results.add("ours+amp", forward=4.0, score=1.0, accuracy=93.0)
    text = results.compare("baseline", "ours+amp")
    assert "Do the effects of B add up? Against baseline, 3 seeds:" in text
    lines = {" ".join(line.split()[:-2]): line.split()[-2:] for line in text.splitlines()}
    assert lines["ours"] == ["0.84x", "+1.00"]
    assert lines["if they add up"] == ["1.04x", "+1.00"]
    assert lines["measured together"] == ["1.00x", "+3.00"]
    assert "more than the sum" in text
    document = json.loads(results.compare("ours+amp", "amp", "--json"))
    time, accuracy = document["blocks"][0]["compositions"]
    assert time["parts"] == ["ours", "amp"]
    assert accuracy["effects"] == [1, 0]
    assert accuracy["interaction"] == pytest.approx(2)


def test_parts_that_were_not_run_are_asked_for(results):
    results.add("baseline").add("ours[x=1]+amp", 2).add("amp", status="failed")
    text = results.compare("baseline", "ours[x=1]+amp")
    assert (
        "Whether the effects of B add up is not known: it takes runs of ours[x=1], amp alone; "
        "type: dataeff run -d blobs --name hand -s 'ours[x=1]' -s amp"
    ) in text
    results.add("ours[x=1]", [2]).add("amp", [1], conditions_id="c1")
    text = results.compare("baseline", "ours[x=1]+amp")
    assert "it takes a finished seed that baseline and all of its parts share." in text


def test_a_named_suite_is_run_by_its_name(tmp_path):
    results = Results(tmp_path)
    results.add("baseline").add("ours+amp").add("amp")
    results.suite(commands=["dataeff run quickstart -s amp --seeds 3"])
    results.path.rename(tmp_path / "quickstart")
    text = ok("compare", "quickstart", "baseline", "ours+amp", "--results", tmp_path)
    assert "type: dataeff run quickstart -s ours\n" in text


def test_the_terminal_shows_names_as_they_are(results, monkeypatch):
    results.suite(task_ids={"[red]task": "t1"})
    name = "x[mode=bold]+a[keep=0.5]"
    for strategy in ("baseline", name, "x[mode=bold]", "a[keep=0.5]"):
        results.add(strategy, task_name="[red]task")
    screen = Console(file=io.StringIO(), force_terminal=True, width=70, color_system=None)
    monkeypatch.setattr(show, "console", screen)
    results.compare("baseline", name)
    shown = screen.file.getvalue()
    assert f"B: {name}" in shown
    assert "[red]task (conditions c1)" in shown
    assert "│ x[mode=bold] " in shown
    assert max(map(len, shown.splitlines())) <= 70
