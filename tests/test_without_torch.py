"""Reading results where no torch is installed."""

import json
import shutil
import subprocess
import sys

import pytest
from records import Folder

# Whoever asks for one of these finds what he would find where it is not installed; one process
# for all commands, because most of each is imports.
CODE = """
import json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision", "timm"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from click.testing import CliRunner
from dataeff.cli import main
for line in json.loads(sys.argv[1]):
    called = CliRunner().invoke(main, line)
    print(json.dumps([called.exit_code, called.output, repr(called.exception)]))
import torch
"""
SAID = {
    ("leaderboard",): "ours[keep=0.5]",
    ("leaderboard", "--latex"): "toprule",
    ("leaderboard", "--markdown"): "| `base` |",
    ("leaderboard", "--json"): '"strategy": "base"',
    ("report",): "report.html",
    ("plot", "--format", "svg"): "tradeoff.svg",
    ("compare", "base", "ours"): "B: ours[keep=0.5]",
    ("export", "base", "--out", "samples"): "has no samples.parquet, so it is left out.",
    ("merge", "COPY"): "0 cells taken, 4 were there already.",
}


TRAINS = ("run", "analyze")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Return what a process without torch printed, and the lines of each command."""
    folder = Folder(tmp_path_factory.mktemp("results") / "hand")
    phases = {"phases": {"forward": 1.0}}
    folder.fill("base", [90.0, 91.0], [2.0, 2.1], **phases)
    folder.fill("ours[keep=0.5]", [90.0, 91.0], [1.0, 1.1], **phases)
    copy = shutil.copytree(folder.path, folder.path.parent / "copy")
    asked = [[str(copy) if word == "COPY" else word for word in words] for words in SAID]
    lines = [[command, str(folder.path), *options] for command, *options in asked]
    lines += [[command, "quickstart"] for command in TRAINS]
    process = [sys.executable, "-c", CODE, json.dumps(lines)]
    return subprocess.run(process, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.parametrize("command", SAID, ids=" ".join)
def test_results_are_read_without_torch(outcome, command):
    told = outcome.stdout.splitlines()[list(SAID).index(command)]
    code, output, error = json.loads(told)
    assert code == 0, f"{error}: {output}"
    assert SAID[command] in output


@pytest.mark.parametrize("number", range(len(TRAINS)))
def test_what_trains_says_what_it_needs(outcome, number):
    code, output, error = json.loads(outcome.stdout.splitlines()[len(SAID) + number])
    assert code == 2, error
    assert output.startswith(f"Error: dataeff {TRAINS[number]} needs torch")


def test_what_stands_in_the_way_of_torch_does_so(outcome):
    assert "No module named 'torch'" in outcome.stderr
