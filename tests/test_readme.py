"""The README: strategy, commands and suite work, and its table was measured."""

import re
import shlex
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from dataeff.bench.suite import make_suite
from dataeff.cli import main
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
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
    assert make_suite({"name": "readme", **tomllib.loads(text)}, Lab(installed), where="README")


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_exist(line):
    words = shlex.split(line)[1:]
    command, context = main, main.make_context("dataeff", [], resilient_parsing=True)
    while hasattr(command, "get_command"):
        name, words = words[0], words[1:]
        command = command.get_command(context, name)
    command.make_context(name, words, parent=context)


def test_the_table_was_measured():
    published = ROOT / "results" / "published" / "quickstart" / "leaderboard.txt"
    assert published.read_text().strip() in README


NAME, ACCURACY, SPEEDUP, COUNTED = (
    *("`{strategy}`", "{accuracy:.2f}", "{speedup:.2f}x", "{ideal_speedup:.2f}x"),
)
GAIN = "{difference:+.2f} ({difference_low:+.2f}..{difference_high:+.2f})"
FIGURES = {
    "mixtrain-digits": ("{task}", NAME, ACCURACY, GAIN, SPEEDUP, COUNTED),
    "mixtrain-mini": ("{task}", NAME, ACCURACY, GAIN, SPEEDUP, COUNTED),
    "diet-sb-mini": (NAME, ACCURACY, GAIN, SPEEDUP, "{train_speedup:.2f}x"),
    "comparison-mini": (NAME, ACCURACY, GAIN, SPEEDUP, COUNTED),
    "selection-zoo-mini": (NAME, ACCURACY, GAIN, SPEEDUP, COUNTED),
    "review-mini": (
        *("{task}", NAME, ACCURACY, "{macro_f1:.2f}", "{test_loss:.2f}", GAIN, SPEEDUP),
    ),
}


@pytest.mark.parametrize("suite", FIGURES)
def test_the_figures_were_measured(suite):
    folder = ROOT / "results" / "published" / suite
    # A long table is on a page of its own.
    page = (folder / "README.md").read_text() if suite == "selection-zoo-mini" else README
    for row in pd.read_csv(folder / "leaderboard.csv").to_dict("records"):
        assert f"| {' | '.join(FIGURES[suite])} |".format(**row) in page


def test_the_claims_were_judged():
    claims = pd.read_csv(ROOT / "results" / "published" / "diet-sb-mini" / "claims.csv")
    for row in claims.to_dict("records"):
        assert "| {text} | {measured} | {verdict} |".format(**row) in README


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
