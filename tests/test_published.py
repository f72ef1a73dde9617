"""The README: strategy, commands and suite work, and its table was measured."""

import math
import re
import shlex
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from dataeff.bench.desk import Desk
from dataeff.bench.suite import make_suite
from dataeff.cli import main
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.report.board import read_board
from dataeff.report.screen import screen
from dataeff.report.stats import interval_of
from dataeff.report.words import gained
from dataeff.testing import check_strategy

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^dataeff .*?(?=\s{2,}#|$)", README, flags=re.M)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def test_the_strategy_conforms(tmp_path):
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 40
    (tmp_path / "hard_half.py").write_text(code)
    assert len(check_strategy("hard_half", load_plugins([tmp_path]))) == 13


@pytest.mark.parametrize("text", blocks("toml"), ids=["plain", "matched"])
def test_the_suite_is_valid(installed, text):
    desk = Desk.beside(Lab(installed))
    assert make_suite({"name": "readme", **tomllib.loads(text)}, desk, where="README")


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_exist(line):
    words = shlex.split(line)[1:]
    command, context = main, main.make_context("dataeff", [], resilient_parsing=True)
    while hasattr(command, "get_command"):
        name, words = words[0], words[1:]
        command = command.get_command(context, name)
    command.make_context(name, words, parent=context)


def test_the_answer_was_measured():
    published = read_board(ROOT / "results" / "published" / "quickstart")
    assert "\n".join(line.text for line in screen(published)) in README


NAME, ACCURACY, SPEEDUP, COUNTED = (
    *("`{strategy}`", "{accuracy:.2f}", "{speedup:.2f}x", "{ideal_speedup:.2f}x"),
)
GAIN = "{difference:+.2f} ({difference_low:+.2f}..{difference_high:+.2f})"
JUDGED = ("{over}", "{verdict}")
# What stands at the beginning of each line, and at its end.
FIGURES = {
    "mixtrain-digits": (("{task}", NAME, ACCURACY, GAIN, SPEEDUP, COUNTED), JUDGED),
    "mixtrain-mini": (("{task}", NAME, ACCURACY, GAIN, SPEEDUP, COUNTED), JUDGED),
    "diet-sb-mini": ((NAME, ACCURACY, GAIN, SPEEDUP, "{train_speedup:.2f}x"), JUDGED),
    "comparison-mini": ((NAME, ACCURACY, GAIN, SPEEDUP, COUNTED), JUDGED),
    "selection-zoo-mini": ((NAME, ACCURACY, GAIN, SPEEDUP, COUNTED), JUDGED),
    "review-mini": (
        ("{task}", NAME, ACCURACY, "{macro_f1:.2f}", "{test_loss:.2f}", GAIN, SPEEDUP),
        JUDGED[1:],
    ),
}


@pytest.mark.parametrize("suite", FIGURES)
def test_the_figures_were_measured(suite):
    folder = ROOT / "results" / "published" / suite
    # A long table is on a page of its own.
    page = (folder / "README.md").read_text() if suite == "selection-zoo-mini" else README
    first, last = (" | ".join(part) for part in FIGURES[suite])
    table = pd.read_csv(folder / "leaderboard.csv").fillna({"verdict": ""})
    for row in table.to_dict("records"):
        row["over"] = "" if math.isnan(row["gain"]) else gained(interval_of(row, "gain"))
        begins, ends = (text.format(**row) for text in (f"| {first} |", f"| {last} |"))
        found = [line for line in page.splitlines() if line.startswith(begins)]
        assert any(line.endswith(ends) for line in found), begins


def test_published_results_are_judged_by_the_rules_of_today():
    for suite in FIGURES:
        folder = ROOT / "results" / "published" / suite
        now, kept = read_board(folder).table, pd.read_csv(folder / "leaderboard.csv")
        for name in ("strategy", "verdict", "settled"):
            assert now[name].tolist() == kept[name].fillna("").tolist(), (suite, name)


def test_the_claims_were_judged():
    claims = pd.read_csv(ROOT / "results" / "published" / "diet-sb-mini" / "claims.csv")
    for row in claims.to_dict("records"):
        assert "| {text} | {measured} | {verdict} |".format(**row) in README


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
