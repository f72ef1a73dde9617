"""The commands about plugins: list, install, uninstall, new, check."""

import json
import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from loose import LOOSE
from shell import call, mistake, ok

from dataeff.cli import plugins as command

BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
TASK = ["run", "--dataset", BLOBS, "--model", "tiny", "--epochs", "2"]
FAST = ["--set", "batch_size=16", "--set", "lr=0.05", "--in-process", "--device", "cpu"]


@pytest.mark.long
def test_a_loose_plugin_is_listed_run_and_checked(loose):
    text = ok("plugins", "list", "--plugins-dir", loose)
    assert f"half  ({loose}/half.py)\n    strategies: broken, dice, half\n" in text
    out = ok(*TASK, *FAST, "-s", "baseline", "-s", "half[keep=0.25]", "--plugins-dir", loose)
    assert "half[keep=0.25]" in out
    checked = ok("plugins", "check", "half[keep=0.25]", "--plugins-dir", loose)
    assert checked.splitlines()[-1] == "half[keep=0.25] conforms."
    assert "ok  same seed same numbers" in checked.splitlines()


def test_a_strategy_that_breaks_a_rule_is_told_which(loose):
    result = call("plugins", "check", "dice", "--plugins-dir", loose)
    assert result.exit_code == 2
    assert "dice breaks the rule " in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.long
def test_a_strategy_for_some_networks_is_checked_on_one_of_them():
    refused = call("plugins", "check", "stochastic_depth")
    assert refused.exit_code == 2
    assert "stochastic_depth needs a residual network" in refused.stderr
    assert "tiny is none; take one such as resnet20" in refused.stderr
    checked = ok("plugins", "check", "stochastic_depth", "--model", "resnet8[width=4]")
    assert checked.splitlines()[-1] == "stochastic_depth conforms."


def test_plugins_list_shows_versions_hooks_and_what_did_not_load(tmp_path):
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "bad.py").write_text("import nothing_of_that_name")
    text = ok("plugins", "list", "--plugins-dir", folder)
    assert f"amp  {version('dataeff')} (bundled)" in text
    assert "    strategies: random_backprop\n    hooks: plan_epoch\n" in text
    assert "did not load: ModuleNotFoundError: No module named 'nothing_of_that_name'" in text
    lines = {line["name"]: line for line in json.loads(ok("plugins", "list", "--json"))}
    assert lines["random_subset"]["strategies"] == ["random_subset"]
    assert lines["random_subset"]["error"] == ""


def test_plugins_list_tells_an_author_what_to_mend(tmp_path):
    (tmp_path / "old.py").write_text(LOOSE.replace('saves = "rows"', 'claims = ("rows",)'))
    text = ok("plugins", "list", "--plugins-dir", tmp_path)
    assert "    note: Half: claims is called reserves now; rename it.\n" in text


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """Install a plugin the way pip would: a module and its entry point."""
    site = tmp_path / "site"
    info = site / "dataeff_third-2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dataeff-third\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text("[dataeff]\nthird = dataeff_third\n")
    (site / "dataeff_third.py").write_text(LOOSE)
    monkeypatch.syspath_prepend(site)


@pytest.mark.long
def test_third_party_plugins_are_found_and_may_be_limited(third_party, monkeypatch):
    def strategies():
        return [line["name"] for line in json.loads(ok("strategies", "--json"))]

    assert "half" in strategies()
    assert "third  2.5 (dataeff-third)" in ok("plugins", "list")
    monkeypatch.setenv("DATAEFF_LOAD_PLUGINS", "")
    assert "half" not in strategies()
    assert "baseline" in strategies()
    monkeypatch.setenv("DATAEFF_LOAD_PLUGINS", "other, third")
    assert "half" in strategies()
    monkeypatch.setenv("DATAEFF_LOAD_PLUGINS", "dataeff-third")
    assert "half" in strategies()


@pytest.fixture
def pip(monkeypatch):
    """Note what would be run; `codes` are the exit codes to come."""
    seen = SimpleNamespace(commands=[], codes=[0, 0])

    def run(command, **options):
        seen.commands.append(command)
        return SimpleNamespace(returncode=seen.codes.pop(0))

    monkeypatch.setattr(command.subprocess, "run", run)
    return seen


def test_install_and_uninstall_print_and_run_the_pip_of_this_environment(pip, third_party):
    text = ok("plugins", "install", "-U", "dataeff-thing", "-e", "a b")
    wanted = [sys.executable, "-m", "pip", "install", "--upgrade", "dataeff-thing"]
    assert pip.commands[-1] == [*wanted, "--editable", "a b"]
    assert text == f"$ {' '.join(wanted)} --editable 'a b'\n"
    pip.codes = [0, 0]
    ok("plugins", "uninstall", "-y", "dataeff_third")
    assert pip.commands[-1] == [sys.executable, "-m", "pip", "uninstall", "--yes", "dataeff_third"]


def test_uninstall_asks_nobody_where_nobody_is(third_party):
    wanted = "add -y: dataeff plugins uninstall -y dataeff-third"
    assert mistake("plugins", "uninstall", "dataeff-third").endswith(wanted)
    for other in ("dataeff-thrid", "torch", "dataeff", ""):
        told = mistake("plugins", "uninstall", "-y", other)
        assert told.startswith(f"No plugin package {other!r} is installed.")


def test_a_failing_pip_is_told(pip):
    pip.codes = [0, 1]
    result = call("plugins", "install", "dataeff-thing")
    assert result.exit_code == 2
    assert result.stderr == "Error: pip ended with code 1; its own message is above.\n"


def test_without_pip_uv_is_used_or_asked_for(pip, third_party, monkeypatch):
    pip.codes = [1, 0]
    monkeypatch.setattr(command.shutil, "which", lambda name: f"/bin/{name}")
    ok("plugins", "uninstall", "--yes", "dataeff-third")
    wanted = ["uv", "pip", "uninstall", "--python", sys.executable, "dataeff-third"]
    assert pip.commands[-1] == wanted
    pip.codes = [1]
    monkeypatch.setattr(command.shutil, "which", lambda name: None)
    assert mistake("plugins", "install", "x") == (
        f"This environment has no pip; type: {sys.executable} -m ensurepip"
    )


@pytest.mark.long
def test_a_new_plugin_passes_its_own_test_and_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    text = ok("plugins", "new", "My-Idea", "--into", tmp_path / "deep")
    folder = tmp_path / "deep" / "dataeff-my-idea"
    files = ["README.md", "dataeff_my_idea.py", "pyproject.toml", "test_my_idea.py"]
    assert sorted(path.name for path in folder.iterdir()) == files
    assert f"Next: dataeff plugins install -e {folder}" in text
    content = "".join((folder / name).read_text() for name in files)
    assert "$" not in content
    assert "class MyIdea(Strategy):" in content
    assert mistake("plugins", "new", "dataeff-my-idea", "--into", tmp_path / "deep") == (
        f"{folder} is there already; choose another name or delete it."
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout
    assert "my_idea" in ok("strategies", "my*", "--plugins-dir", folder)
