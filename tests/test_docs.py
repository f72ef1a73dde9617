"""The documentation: what is made is not stale, what is shown can be typed, run and followed."""

import re
import shlex
import textwrap
import tomllib
from pathlib import Path

import click
import pytest
from generator import documents, hooks, keys, pages, strategies

from dataeff import hookspecs
from dataeff.bench.desk import Desk
from dataeff.bench.suite import make_suite
from dataeff.cli import main
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.testing import check_strategy

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXTS = {path: path.read_text(encoding="utf-8") for path in documents()}
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", flags=re.M | re.S)


def blocks(*languages):
    """Return the blocks of code in these languages: where each stands, and what it says."""
    return [
        pytest.param(textwrap.dedent(text), id=f"{path.relative_to(ROOT)}-{number}")
        for path, page in TEXTS.items()
        for number, (_, language, text) in enumerate(_BLOCK.findall(page))
        if language in languages
    ]


def commands():
    """Return every line that begins with `dataeff`, without what is said of it."""
    lines = [line for block in blocks("") for line in block.values[0].splitlines()]
    found = (re.match(r"dataeff .*?(?=\s{2,}#|$)", line) for line in lines)
    return list(dict.fromkeys(match[0] for match in found if match))


def prose(path):
    """Return what is written by hand on a page, code left out."""
    text = re.sub(r"<!-- made: .*?<!-- end -->", "", TEXTS[path], flags=re.S)
    return _BLOCK.sub("", text)


# What is made ------------------------------------------------------------------------------------


def test_what_is_made_is_not_stale():
    stale = [str(path.relative_to(ROOT)) for path, text in pages() if TEXTS[path] != text]
    assert not stale, "made anew by: python docs/generate.py"


def test_every_strategy_has_a_card_and_every_card_a_strategy():
    known, told = strategies.bundled(), strategies.told()
    assert set(told["strategies"]) == set(known)
    for name, said in told["strategies"].items():
        assert said["family"] in told["families"]
        assert set(said.get("paper", {})) <= set(known[name].parameters), name


def test_every_hook_is_said_when_it_is_called():
    told = tomllib.loads((ROOT / "docs" / "hooks.toml").read_text(encoding="utf-8"))
    assert list(told) == list(hookspecs.HOOKS)
    examples = {path.stem for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert {said["example"] for said in told.values()} == examples


def test_an_example_has_the_hook_that_it_is_for():
    told = tomllib.loads((ROOT / "docs" / "hooks.toml").read_text(encoding="utf-8"))
    for name, said in told.items():
        assert re.search(rf"^ *def {name}\(", hooks.example(said["example"]), flags=re.M), name


@pytest.mark.parametrize("table", ["suite", "published", "claims"])
def test_every_key_has_a_meaning(table):
    lines = keys.keys(table).splitlines()[2:]
    assert all(line.rsplit("|", 2)[1].strip().endswith(".") for line in lines)


# What is shown -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", blocks("toml"))
def test_a_suite_is_valid(installed, text):
    content = tomllib.loads(text)
    if "project" in content:
        assert content["project"]["entry-points"]["dataeff"]
        return
    desk = Desk.beside(Lab(installed))
    assert make_suite({"name": "shown", **content}, desk, where="this page")


def test_commands_can_be_typed():
    wrong = {line: trouble for line in commands() if (trouble := trouble_of(line))}
    assert not wrong


def trouble_of(line):
    """Say what is wrong with a command; nothing where it can be typed."""
    words = shlex.split(line)[1:]
    command, context = main, main.make_context("dataeff", [], resilient_parsing=True)
    while hasattr(command, "get_command"):
        name, words = words[0], words[1:]
        command = command.get_command(context, name)
        if command is None:
            return f"there is no {name}"
    try:
        command.make_context(name, words, parent=context)
    except click.ClickException as error:
        return error.format_message()
    return ""


def runnable():
    """Return blocks of Python that are no examples of hooks, which have tests of their own."""
    whole = {hooks.example(path.stem) for path in (ROOT / "docs" / "examples").glob("*.py")}
    other = [block for block in blocks("python") if f"```python\n{block.values[0]}```" not in whole]
    # Signatures, and the loop.
    return [block for block in other if "import" in block.values[0]]


@pytest.mark.long
@pytest.mark.parametrize("text", runnable())
def test_a_block_of_python_runs(text):
    names = {}
    exec(compile(text, "this page", "exec"), names)
    for name, function in names.items():
        if name.startswith("test_"):
            function()


# What leads somewhere ----------------------------------------------------------------------------


def anchors(path):
    """Return the places of a page that a link may lead to."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", TEXTS[path]), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in headings}


def leads_somewhere(path, target):
    """Say whether a link of a page leads to a file, and to a heading there where it names one."""
    file, _, place = target.partition("#")
    there = (path.parent / file).resolve() if file else path
    return there.is_file() and (not place or place in anchors(there))


def test_links_lead_somewhere():
    links = [
        (path, target)
        for path, text in TEXTS.items()
        for target in re.findall(r"\]\(([^)]+)\)", _BLOCK.sub("", text))
        if not target.startswith("http")
    ]
    assert not [f"{path.name}: {to}" for path, to in links if not leads_somewhere(path, to)]


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in TEXTS:
        place = "index.md" if path == README else path.relative_to(ROOT).as_posix()
        assert f"{place.removeprefix('docs/')}\n" in menu


# The README --------------------------------------------------------------------------------------


def test_the_readme_is_short():
    text = TEXTS[README]
    assert len(text.splitlines()) <= 170
    assert len(text.encode()) <= 10_000


def test_tables_that_are_made_have_at_most_eight_lines_in_the_readme():
    for part in re.findall(r"<!-- made: .*?<!-- end -->", TEXTS[README], flags=re.S):
        assert len(re.findall(r"^\|", part, flags=re.M)) <= 8 + 2


def test_the_readme_types_no_figure_that_was_measured():
    assert not re.findall(r"\d\.\d+ ?x|[+-]\d+\.\d|\d+% (?:less|faster)", prose(README))


def test_the_readmes_strategy_conforms(tmp_path):
    shown = [block.values[0] for block in blocks("python") if block.id.startswith("README.md-")]
    (code,) = [text for text in shown if "hookimpl" in text]
    assert len(code.splitlines()) <= 40
    (tmp_path / "hard_half.py").write_text(code)
    assert len(check_strategy("hard_half", load_plugins([tmp_path]))) == 13
