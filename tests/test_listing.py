"""Listings: what they print, for people and programs, and that they are fast once known."""

import ast
import inspect
import json
import re
import subprocess
import sys

import pytest
from shell import mistake, ok

from dataeff import Batch, Run, Strategy, members
from dataeff.training.task import Task


@pytest.mark.long
def test_strategies_are_listed_with_parameters_and_paper(loose):
    text = ok("strategies", "--plugins-dir", loose)
    assert "random_backprop  Train a uniformly drawn share of each batch" in text
    assert "    parameters: keep=0.5, mode=shrink (shrink|accumulate)" in text
    assert "    paper: Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740" in text
    assert "half  Keep the first rows, see half[keep=0.5]. Reads one number per batch back." in text
    only = ok("strategies", "random_*")
    assert "random_subset" in only
    assert "amp  " not in only


def test_of_a_single_strategy_everything_is_said():
    text = ok("strategies", "el2n")
    assert "score in eval mode" in text, "its own words"
    assert "`hardest` keeps the highest scores" in text, "and those of what it builds on"
    assert text.count("Keep the share of the samples with the largest") == 1
    assert "`hardest` keeps" not in ok("strategies", "[eg]*")


def test_strategies_as_json():
    lines = {line["name"]: line for line in json.loads(ok("strategies", "--json"))}
    assert lines["random_subset"]["hooks"] == ["setup", "prune_dataset"]
    assert lines["random_subset"]["parameters"][0] == "keep=0.5"
    assert lines["baseline"]["reads_back"] is False


@pytest.mark.long
def test_datasets_models_and_suites_are_listed():
    datasets = ok("datasets")
    assert "digits  " in datasets
    assert "samples=1000" in datasets
    assert ok("models", "resnet?") == "resnet8\n"
    models = ok("models", "resnet*").splitlines()
    assert {"resnet8", "resnet20", "resnet50"} <= set(models)
    assert "torchvision:resnet18" in ok("models", "torchvision:*").splitlines()
    assert "quickstart  Quickstart: " in ok("suites")
    assert "(1 task x " in ok("suites")


def test_a_suite_that_cannot_be_run_does_not_hide_the_others(tmp_path):
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "odd.toml").write_text("seeds = 1")
    (folder / "odd.py").write_text(
        f"""
from dataeff import hookimpl

@hookimpl
def register_suites(register):
    register("odd", {str(folder / "odd.toml")!r})
"""
    )
    text = ok("suites", "--plugins-dir", folder)
    assert "odd  cannot be run: " in text
    assert "the key 'strategies' is missing" in text
    assert "quickstart  " in text


def test_hooks_print_the_loop_and_one_hook_with_its_users():
    text = ok("hooks")
    assert "for rows in plan, then until drain(run) is empty:" in text
    assert "  chain    select_batch(run, batch)" in text
    assert "  own      forward(run, batch)" in text
    one = ok("hooks", "prune_dataset")
    assert one.startswith("prune_dataset(run, epoch)\n")
    used = next(line for line in one.splitlines() if line.startswith("Used by: "))
    assert {"mixtrain_cutmix", "oracle_skipping", "random_subset"} <= set(used[9:].split(", "))


def test_one_hook_is_printed_with_its_kind():
    assert "\nKind: chain\n" in ok("hooks", "select_batch")
    assert "  own      One owner, any number of wrappers;" in ok("hooks")


# Tasks -----------------------------------------------------------------------------------------


def test_every_key_of_a_task_has_a_default_and_a_meaning():
    lines = {line["name"]: line for line in json.loads(ok("tasks", "--json"))}
    assert list(lines) == list(Task.model_fields)
    assert all(line["meaning"] for line in lines.values())
    assert [name for name, line in lines.items() if line["required"]] == [
        *("dataset", "model", "epochs"),
    ]
    assert (lines["lr"]["default"], lines["lr"]["type"]) == (0.1, "float")
    text = ok("tasks")
    assert len(text.splitlines()) == len(lines)
    assert re.search(r'^optimizer +"sgd" +\S.* \(sgd, adam, adamw\)$', text, re.M)
    assert re.search(r"^dataset +required +\S", text, re.M)
    assert re.search(r"^clip +none +\S", text, re.M)


# Run, Batch and Strategy -----------------------------------------------------------------------

CLASSES = {"run": Run, "batch": Batch, "strategy": Strategy}


@pytest.mark.parametrize("word", CLASSES)
def test_every_public_name_is_documented(word):
    described = members.describe(word)
    assert {member.name for member in described.members} == {
        name
        for name in [*dir(CLASSES[word]), *inspect.get_annotations(CLASSES[word])]
        if not name.startswith("_")
    }
    assert described.text
    for member in described.members:
        assert member.text, f"{described.name}.{member.name} has no docstring"
        assert member.form.removeprefix(f"{described.name}.").startswith(member.name)


@pytest.mark.parametrize("word", CLASSES)
def test_no_public_attribute_is_assigned_without_being_declared(word):
    declared = {member.name for member in members.describe(word).members}
    for node in ast.walk(members.class_node(*members.HOMES[word])):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            assert not own or node.attr.startswith("_") or node.attr in declared, node.attr


def test_the_classes_of_a_strategy_are_printed():
    text = ok("hooks", "run")
    assert text.startswith("Run: One training run, as its strategies see it.\n")
    assert "\nseed: int\n    The seed that all" in text
    assert "\nprogress: float\n    How much of training is done" in text
    assert "\nsplit(name: str) -> Tensor\n    Return the sample indices" in text
    assert "\nscoring() -> AbstractContextManager[None]\n" in text
    assert text.count("\nmodel: nn.Module\n") == 1, "its setter is no second name"
    assert "\nBatch.cat(batches: Sequence[Batch]) -> Batch\n" in ok("hooks", "batch")
    assert "\nreserves: tuple[str, ...]\n" in ok("hooks", "strategy")
    names = [line["name"] for line in json.loads(ok("hooks", "batch", "--json"))]
    assert names[:2] == ["x", "idx"]


def test_unknown_names_are_compared_with_hooks_and_classes():
    assert "Did you mean batch?" in mistake("hooks", "btch")
    assert "Did you mean strategy?" in mistake("hooks", "stratgy")


# JSON, and speed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["strategies", "datasets", "models", "suites", "tasks", "hooks", "plugins list"]
)
def test_every_listing_prints_json(command):
    lines = json.loads(ok(*command.split(), "--json"))
    assert len(lines) > 3
    assert "quickstart" in ok("suites", "--json")
    assert json.loads(ok("hooks", "prune_dataset", "--json"))["kind"] == "combine"


SLOW = ("torch", "timm", "torchvision", "pandas", "sklearn", "pydantic", "rich")
CALLS = """
import sys
from dataeff.cli import main
for arguments in sys.argv[2:]:
    main(arguments.split(), standalone_mode=False)
sys.exit(", ".join(name for name in sys.argv[1].split() if name in sys.modules))
"""


def fast(*calls, slow=SLOW):
    """Return what a process of its own has imported of what is slow, after these calls."""
    command = [sys.executable, "-c", CALLS, " ".join(slow), *calls]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()


def test_listings_import_nothing_slow_once_they_are_known():
    calls = ("strategies", "strategies el2n", "datasets", "models", "suites", "tasks", "hooks")
    calls += ("hooks load", "hooks run", "plugins list", "plugins list --json")
    fast(*calls)
    assert fast(*calls) == ""


def test_help_imports_nothing_slow():
    # Commands that draw bars import rich themselves.
    assert fast("--help", "plugins --help", slow=SLOW[:-1]) == ""
