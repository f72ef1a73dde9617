"""The command line: what it prints, and that every mistake gets one sentence and exit code 2."""

import importlib
import json
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from shell import call, mistake, ok

from dataeff.bench.cells import Settings
from dataeff.cli import main

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
TASK = ["run", "--dataset", BLOBS, "--model", "tiny", "--epochs", "2"]
FAST = ["--set", "batch_size=16", "--set", "lr=0.05", "--in-process", "--device", "cpu"]
ADHOC = [*TASK, *FAST, "--name", "mine"]


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch):
    monkeypatch.delenv("DATAEFF_DATA", raising=False)


# Help ------------------------------------------------------------------------------------------


def all_commands(group=main, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))


@pytest.mark.parametrize(("path", "command"), list(all_commands()), ids=lambda part: str(part))
def test_every_command_has_help(path, command):
    for flag in ("--help", "-h"):
        text = ok(*path, flag)
        assert text.startswith(f"Usage: main {' '.join(path)}")
        assert command.help.split("\n")[0].split(".")[0].split("(")[0] in " ".join(text.split())


def test_the_commands_are_those_of_the_design():
    names = {" ".join(path) for path, _ in all_commands()}
    assert names >= {"run", "leaderboard", "report", "strategies", "datasets", "models"}
    assert names >= {"suites", "tasks", "hooks"} | {
        f"plugins {name}" for name in ("list", "install", "uninstall", "new", "check")
    }


def test_the_help_of_no_command_is_cut():
    for arguments in (("--help",), ("plugins", "--help")):
        assert "..." not in ok(*arguments).split("Commands:")[1]


def test_nothing_asked_prints_the_commands():
    for arguments in ((), ("plugins",)):
        result = call(*arguments)
        assert result.output.startswith("Usage: ")
        assert "Commands:" in result.output


def test_the_version_is_printed():
    assert version("dataeff") in ok("--version")


# Running ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_adhoc_comparison_prints_a_table_and_then_skips():
    arguments = (*ADHOC, "-s", "baseline", "-s", "random_backprop[keep=0.5]", "--seeds", "2")
    first = ok(*arguments)
    for number, strategy in enumerate(("baseline", "random_backprop[keep=0.5]")):
        assert f"synthetic {strategy} seed {number}: " in first
    assert "cell 4/4: synthetic " in first
    assert "skipped" not in first
    table = ok("leaderboard", "mine", "--full").splitlines()
    assert table[1].split()[:4] == ["strategy", "verdict", "n", "accuracy"]
    assert table[2].split()[0] == "baseline"
    assert table[3].split()[0] == "random_backprop[keep=0.5]"
    assert "Written: results/mine/leaderboard.csv, runs.csv, classes.csv, report.html" in first
    assert {path.name for path in Path("results/mine").iterdir() if path.is_file()} == {
        "classes.csv",
        "leaderboard.csv",
        "report.html",
        "runs.csv",
        "checksums.json",
        "looks.json",
        "looks.json.copy",
        "seals",
        "suite.json",
        "suite.json.copy",
    }
    second = ok(*arguments)
    assert "4 finished cells were skipped (--fresh runs them again)." in second
    assert "cell 1/4" not in second
    assert second[second.index("synthetic (cond") :] == first[first.index("synthetic (cond") :]
    assert "cell 1/4" in ok(*arguments, "--fresh")


def test_the_table_holds_only_ascii_and_plus_minus_when_piped():
    text = ok(*ADHOC, "-s", "baseline", "-s", "random_backprop", "--seeds", "2", "--name", "mine")
    assert text.isascii()
    full = ok("leaderboard", "mine", "--full")
    assert {letter for letter in full if ord(letter) > 127} == {"±"}


def test_comparisons_that_differ_in_a_key_have_folders_of_their_own():
    for size in ("8", "9"):
        ok(*TASK, *FAST, "-s", "baseline", "--seeds", "1", "--set", f"batch_size={size}")
    names = [path.name for path in Path("results").iterdir()]
    assert len(names) == 2
    assert all("batch_size=" in name for name in names)


def test_set_does_not_contradict_the_options():
    sentence = "--set takes the other keys of a task; write --epochs 3."
    assert sentence in mistake(*ADHOC, "-s", "baseline", "--set", "epochs=3")


@pytest.mark.long
def test_a_suite_file_runs_with_fewer_seeds_and_other_strategies():
    Path("little.toml").write_text(
        f"""
        strategies = ["baseline", "random_backprop"]
        tasks.blobs = {{ dataset = "{BLOBS}", model = "tiny", epochs = 1, lr = 0.05 }}
        """
    )
    ok("run", "little.toml", "-s", "random_subset[keep=0.50]", "--seeds", "1", "--in-process")
    table = pd.read_csv("results/little/leaderboard.csv")
    assert table["strategy"].tolist() == ["baseline", "random_subset[keep=0.5]"]
    assert table["n"].tolist() == [1, 1]
    ok("run", "little.toml", "-s", "baseline", "--seeds", "2", "--in-process")
    assert pd.read_csv("results/little/runs.csv")["seed"].tolist() == [0, 1, 0]
    assert pd.read_csv("results/little/leaderboard.csv")["n"].tolist() == [1, 1]
    said = ok("leaderboard", "little", "--full")
    assert "1 more seed was run and not looked at." in said, "nothing was asked for beside it"


@pytest.mark.long
def test_without_a_number_seeds_are_run_until_settled():
    said = ok(*ADHOC, "-s", "baseline", "-s", "random_backprop[keep=0.5]", "--margin", "90")
    assert "synthetic after 5 seeds: " in said
    looks = json.loads(Path("results/mine/looks.json").read_text())["entries"]
    assert [look["n"] for look in looks] == [5, 10, 20][: len(looks)]
    said = ok("leaderboard", "mine", "--full")
    assert "on this test set, is 1.6% against the reference (looked at 5 seeds)." in said or (
        "looked at 5 and 10" in said or "looked at 5, 10 and 20" in said
    )
    assert json.loads(Path("results/mine/suite.json").read_text())["margin"] == 90
    again = ok(*ADHOC, "-s", "baseline", "-s", "random_backprop[keep=0.5]", "--margin", "90")
    assert json.loads(Path("results/mine/looks.json").read_text())["entries"] == looks
    assert "cell 1/" not in again


def test_a_margin_that_the_test_set_cannot_resolve_is_said_before_the_run():
    result = call(
        *ADHOC, "-s", "baseline", "-s", "random_backprop", "--margin", "0.01", "--dry-run"
    )
    said = "can hardly show a margin of 0.01 points"
    assert said in result.stderr
    assert "write margin = " in result.stderr
    result = call(*ADHOC, "-s", "baseline", "-s", "random_backprop", "--margin", "99", "--dry-run")
    assert said not in result.stderr


def test_settings_reach_the_task_in_their_own_type():
    pairs = ["schedule=step", "milestones=0.5,1", "nesterov=true", "clip=1", "compile=false"]
    ok(*ADHOC, "-s", "baseline", "--seeds", "1", *[p for pair in pairs for p in ("--set", pair)])
    task = json.loads(next(Path("results").glob("mine/*/run.json")).read_text())["task"]
    assert (task["schedule"], task["milestones"]) == ("step", [0.5, 1])
    assert (task["nesterov"], task["clip"], task["compile"]) == (True, 1, False)
    assert (task["batch_size"], task["lr"]) == (16, 0.05)


def test_results_of_names_with_dots_are_found_again():
    arguments = [*TASK, *FAST, "-s", "baseline", "--seeds", "1"]
    arguments[arguments.index(BLOBS)] = BLOBS.replace("]", ",difficulty=0.1]")
    ok(*arguments)
    (folder,) = Path("results").iterdir()
    assert folder.name.endswith("difficulty=0.1-tiny-2ep-batch_size=16-lr=0.05")
    assert "baseline" in ok("leaderboard", folder.name, "--full")


def test_a_failed_cell_gives_exit_code_1_and_is_named(loose):
    result = call(*ADHOC, "-s", "baseline", "-s", "broken", "--seeds", "1", "--plugins-dir", loose)
    assert result.exit_code == 1
    where, line = result.stderr.splitlines()
    assert where.startswith("On cpu (")
    assert line.startswith("Failed: synthetic broken seed 0: StrategyError: broken, in prepare: ")
    trace = Path(line[line.index("(see ") + 5 : -1])
    assert "second line" in trace.read_text()
    assert "All failed: broken (StrategyError: " in result.stdout
    assert "1 failed" in ok("leaderboard", "mine", "--full")
    assert "baseline" in result.stdout


def test_ctrl_c_says_how_to_go_on(monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dataeff.door.running.run_cells", interrupt)
    result = call(*ADHOC, "-s", "baseline")
    assert result.exit_code == 130
    *_, first, last = result.stderr.splitlines()
    assert first == "Stopped. The same command goes on from the last finished epoch."
    again = [word for word in ADHOC if word != "--in-process"]
    typed = shlex.join(["dataeff", *again, "-s", "baseline"])
    assert last == f"5 of 5 cells missing for the look at 5 seeds: {typed}"


def test_ctrl_c_while_reading_promises_nothing(monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dataeff.cli.leaderboard.results_folder", interrupt)
    assert call("leaderboard", "mine").stderr.strip() == "Stopped."


def test_options_reach_the_runner(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr("dataeff.door.running.run_cells", lambda c, lab, s, *more: seen.append(s))
    options = ["--timeout", "7", "--results", "there", "--data-root", "data", "--device", "cpu"]
    call(*TASK, "-s", "baseline", *options)
    assert seen == [Settings(Path("there"), "cpu", Path("data"), (), False, 7.0)]


def test_a_dry_run_says_what_it_takes_and_leaves_nothing():
    said = ok(*ADHOC, "-s", "baseline", "-s", "mixtrain_mixup", "--seeds", "2", "--dry-run")
    lines = said.splitlines()
    assert [line.split()[1:4] for line in lines[1:3]] == [
        ["baseline", "2", "0"],
        ["mixtrain_mixup", "2", "0"],
    ]
    assert "4 cells, about " in said
    assert "The line comes on top (random_backprop and short_schedule, at two to four " in said
    assert "look" not in said.partition("on disk.")[2], "two seeds, no stages"
    assert not Path("results").exists()
    said = ok(*ADHOC, "-s", "baseline", "-s", "mixtrain_mixup", "--no-controls", "--dry-run")
    assert "The line" not in said
    assert "these cells are for the look at 5 seeds; how likely it settles anything, the " in said
    assert "to 20 seeds at most: at most another " in said


@pytest.mark.parametrize(
    ("seconds", "answer", "asked", "ran"),
    [(3601, "n", True, False), (3601, "y", True, True), (3599, "", False, True)],
)
def test_a_long_run_is_asked_about_on_a_terminal(monkeypatch, seconds, answer, asked, ran):
    from dataeff.door import running as door
    from dataeff.foretell import preview

    running = importlib.import_module("dataeff.cli.run")
    line = preview.Estimate("task", "baseline", 1, 0, start=0, prepare=0, train=seconds, evaluate=0)
    monkeypatch.setattr(preview, "quick", lambda *a, **k: preview.Preview((line,)))
    monkeypatch.setattr(running, "_someone_is_there", lambda: True)
    seen = []
    monkeypatch.setattr(door, "run_cells", lambda *arguments: seen.append(1))
    monkeypatch.setattr(running, "show", lambda *arguments, **options: None)
    result = CliRunner().invoke(main, [*ADHOC, "-s", "baseline"], input=f"{answer}\n")
    assert ("Go on?" in result.stderr) == asked
    assert bool(seen) == ran
    assert result.exit_code == (0 if ran else 1)
    assert ("Nothing was run." in result.stderr) == (not ran)
    assert Path("results").exists() == ran
    unasked = CliRunner().invoke(main, [*ADHOC, "-s", "baseline", "--yes"])
    assert unasked.exit_code == 0


def test_the_command_that_is_kept_says_what_and_not_how(monkeypatch):
    from dataeff.cli.run import _command

    words = ["dataeff", "run", "my suite", "--fresh", "-y", "--seeds", "2", "--rerun-flagged"]
    monkeypatch.setattr(sys, "argv", words)
    assert _command() == "dataeff run 'my suite' --seeds 2"


def test_fresh_and_rerun_flagged_exclude_each_other():
    said = mistake(*ADHOC, "-s", "baseline", "--fresh", "--rerun-flagged")
    assert said == "--fresh runs all cells again; leave it out, or --rerun-flagged."


# Reading ---------------------------------------------------------------------------------------


@pytest.fixture
def results():
    """Run a small comparison into results/mine."""
    ok(*ADHOC, "-s", "baseline", "-s", "random_backprop", "--seeds", "1")
    return Path("results/mine")


def test_leaderboard_prints_text_markdown_and_json_and_writes_csv(results):
    for path in results.glob("*.csv"):
        path.unlink()
    assert ok("leaderboard", "mine").startswith("synthetic (conditions ")
    assert (results / "leaderboard.csv").exists()
    assert ok("leaderboard", "mine", "--markdown").startswith("**synthetic (conditions ")
    lines = json.loads(ok("leaderboard", "mine", "--json"))["lines"]
    assert [line["strategy"] for line in lines] == ["baseline", "random_backprop[keep=0.5]"]
    ok("leaderboard", "some/where/mine.toml", "--csv", "deep/copy.csv")
    assert Path("deep/copy.csv").read_text() == (results / "leaderboard.csv").read_text()


def test_what_stands_in_the_way_of_a_table_is_named(results):
    assert mistake("leaderboard", "mine", "--csv", "results") == (
        "results is a folder; --csv takes a file, such as table.csv."
    )


def test_report_writes_the_page_and_opens_it_if_asked(results, monkeypatch):
    (results / "report.html").unlink()
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert ok("report", "mine") == "Written: results/mine/report.html\n"
    assert "<svg" in (results / "report.html").read_text()
    assert opened == []
    ok("report", "mine", "--open")
    assert opened == [(results / "report.html").resolve().as_uri()]


# Mistakes --------------------------------------------------------------------------------------

S = ("-s", "baseline")
MISTAKES = {
    "command": (("runn",), "There is no command 'runn'. Did you mean run?"),
    "subcommand": (("plugins", "lst"), "There is no command 'lst'. Did you mean list?"),
    "option": (("run", "--sedes", "2"), "No such option"),
    "option of dataeff": (("--versoin",), "No such option"),
    "missing argument": (("leaderboard",), "Missing argument 'SUITE'. See: main leaderboard -"),
    "extra argument": (
        ("suites", "x"),
        "Got unexpected extra argument (x). See: main suites --help",
    ),
    "option without its value": (
        ("plugins", "new", "--into"),
        "Option '--into' requires an argument. See: main plugins new --help",
    ),
    "no number": (
        ("run", "--seeds", "few", "quickstart"),
        "'few' is no number of seeds; write auto, a number such as 5, or",
    ),
    "timeout": (("run", "quickstart", "--timeout", "inf"), "Invalid value for '--timeout': inf is"),
    "no timeout": (
        ("run", "quickstart", "--timeout", "nan"),
        "Invalid value for '--timeout': nan is not a number. See: main run --help",
    ),
    "nothing to run": (("run",), "Name a suite (see: dataeff suites), or compare ad hoc: add --"),
    "adhoc, half": (("run", "-d", BLOBS, *S), "Name a suite (see: dataeff suites), or compare"),
    "no strategy": (TASK, "Name what to compare: -s baseline -s 'random_backprop[keep=0.5]'."),
    "suite": (("run", "quickstrt"), "There is no suite 'quickstrt'. Did you mean quickstart?"),
    "suite file": (("run", "gone.toml"), "There is no suite file gone.toml; dataeff suites"),
    "strategy": ((*TASK, "-s", "basline"), "There is no strategy 'basline'. Did you mean base"),
    "strategy of a suite": (("run", "quickstart", "-s", "ampp"), "There is no strategy 'ampp'. D"),
    "parameter": (
        (*TASK, "-s", "random_subset[kep=0.5]"),
        "strategy random_subset has no parameter 'kep'. Did you mean keep?",
    ),
    "conflict": ((*TASK, "-s", "amp+amp"), "amp and amp cannot run together: both are the strat"),
    "dataset": (
        ("run", "-d", "digts", "-m", "tiny", "--epochs", "1", *S),
        "command line: tasks.digts.dataset: There is no dataset 'digts'. Did you mean digits?",
    ),
    "model": (
        ("run", "-d", BLOBS, "-m", "tinny", "--epochs", "1", *S),
        "There is no model 'tinny'. Did you mean tiny",
    ),
    "epochs": (
        ("run", "-d", BLOBS, "-m", "tiny", "--epochs", "0", *S),
        "command line: tasks.synthetic.epochs: Input should be greater than or equal to 0.001 (it ",
    ),
    "device": (
        (*TASK, *S, "--device", "tpu"),
        "Device 'tpu' cannot be used here (Expected one of cpu, cuda",
    ),
    "data root": (
        ("run", "-d", "cifar10", "-m", "tiny", "--epochs", "1", *S),
        "cifar10 needs a data folder: pass --data-root DIR or set DATAEFF_DATA.",
    ),
    "download without a place": (
        ("datasets", "--download", "cifar10"),
        "Say where to: --data-root FOLDER, or set DATAEFF_DATA.",
    ),
    "suite and dataset": (
        ("run", "quickstart", "--dataset", "digits"),
        "--dataset is for ad-hoc comparisons; leave out the suite 'quickstart', or the option.",
    ),
    "suite and setting": (
        ("run", "quickstart", "--set", "lr=1"),
        "--set is for ad-hoc comparisons; leave out the suite 'quickstart', or the option.",
    ),
    "setting": ((*TASK, *S, "--set", "lr"), "--set takes key=value, such as lr=0.05, not 'lr'."),
    "key of a setting": (
        (*TASK, *S, "--set", "learning_rate=1"),
        "command line: there is no key 'tasks.synthetic.learning_rate'. ",
    ),
    "name": ((*TASK, *S, "--name", "../.."), "--name takes letters and digits, such as --name my"),
    "plugins folder": ((*TASK, *S, "--plugins-dir", "gone"), "There is no plugins folder gone; "),
    "results in a file": ((*TASK, *S, "--results", "file"), "Cannot use file/synthetic-samples"),
    "no results": (
        ("leaderboard", "nothing"),
        "There are no results of nothing in results. Type: dataeff run nothing",
    ),
    "two forms": (
        ("leaderboard", "mine", "--latex", "--markdown"),
        "--markdown and --latex exclude each other; leave one out.",
    ),
    "json and a form": (
        ("leaderboard", "mine", "--latex", "--json"),
        "--json and --latex exclude each other; leave one out.",
    ),
    "no report": (("report", "nothing.toml"), "There are no results of nothing in results. Type"),
    "hook": (("hooks", "select_bach"), "There is no hook 'select_bach'. Did you mean select_batch"),
    "pattern": (
        ("strategies", "cutmix*"),
        "Nothing matches 'cutmix*'; a wider pattern may help: dataeff strategies '*cutmix*'",
    ),
    "no pattern": (("strategies", "zz*"), "Nothing matches 'zz*'. See: dataeff strategies"),
    "model pattern": (
        ("models", "restnet20"),
        "Nothing matches 'restnet20'. Did you mean resnet20 or ",
    ),
    "plugin to install": (("plugins", "install"), "Name a package, or a folder with -e: dataeff "),
    "strategy to check": (("plugins", "check", "ampp"), "There is no strategy 'ampp'. Did you me"),
    "name of a plugin": (("plugins", "new", "1 idea"), "'1 idea' is no name for a plugin; use let"),
    "keyword": (("plugins", "new", "none"), "'none' is no name for a plugin; use letters, digits"),
    "name of a bundled plugin": (("plugins", "new", "amp"), "There is a strategy amp already; cho"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_that_says_what_to_type(arguments, sentence):
    Path("file").touch()
    assert mistake(*arguments).startswith(sentence)
    assert not list(Path().glob("results/*/*/run.json"))


def test_a_misspelt_option_is_told_the_right_one_and_where_help_is():
    line = mistake("run", "--sedes", "2")
    assert "--seeds" in line
    assert line.endswith("See: main run --help")


def test_close_results_are_suggested(results):
    assert mistake("leaderboard", "mien") == (
        "There are no results of mien in results. Did you mean mine?"
    )
