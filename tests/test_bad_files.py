"""Bad files: suites under any name, with anything in them."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import EVERYTHING
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nonsense import SUITE, Trained, _no_training, refused, sensible
from shell import call

pytestmark = pytest.mark.usefixtures(_no_training.__name__)
anything = settings(
    max_examples=200 if EVERYTHING else 12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

# Suites ------------------------------------------------------------------------------------------

NAMES = {
    "dots": ("...toml", "another place among the folders"),
    "two dots": ("..toml", "another place among the folders"),
    "no name": (".toml", "There is no suite"),
    "hidden": (".x.toml", "another place among the folders"),
    "space": (" .toml", "has no letter in its name"),
    "artefacts": ("artefacts.toml", "is for something else"),
    "published": ("published.toml", "is for something else"),
    "newline": ("a\nb.toml", "holds a control character"),
    "escape": ("a\x1b[31m.toml", "holds a control character"),
    "no UTF-8": ("a\udcff.toml", "holds bytes that are no UTF-8"),
    "right to left": ("a\u202eb.toml", "U+202E, which cannot be seen"),
    "long": ("x" * 240 + ".toml", "more than 200 bytes"),
    "too long": ("x" * 300 + ".toml", "more than 200 bytes"),
    "elsewhere": ("gone/../mine.toml", "There is no suite file"),
    "dot": (".", "There is no suite"),
    "root": ("/", "There is no suite"),
}


@pytest.mark.parametrize(("name", "part"), NAMES.values(), ids=NAMES)
def test_names_of_suite_files(name, part, tmp_path):
    if len(name) < 250 and "/" not in name and name != ".":
        Path(name).write_text(SUITE)
    outside = sorted(tmp_path.parent.iterdir())
    assert part in refused("run", "--in-process", name)
    refused("leaderboard", name)
    refused("analyze", "mixtrain", name)
    assert sorted(tmp_path.parent.iterdir()) == outside


def no_file(kind):
    Path("mine.toml").unlink(missing_ok=True)
    if kind == "folder":
        Path("mine.toml").mkdir()
    elif kind == "FIFO":
        os.mkfifo("mine.toml")
    else:
        Path("mine.toml").symlink_to({"device": "/dev/zero", "loop": "mine.toml"}[kind])


@pytest.mark.parametrize("kind", ["folder", "FIFO", "device", "loop"])
def test_suites_that_are_no_files(kind):
    no_file(kind)
    assert refused("run", "--in-process", "mine.toml").startswith(
        ("mine.toml is no file", "mine.toml cannot be read")
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_suite_that_may_not_be_read():
    Path("mine.toml").write_text(SUITE)
    Path("mine.toml").chmod(0)
    assert (
        refused("run", "--in-process", "mine.toml")
        == "mine.toml cannot be read: Permission denied."
    )


def task(line):
    return SUITE + line


def head(line):
    return f"{line}\n{SUITE}"


def instead(old, new):
    assert SUITE.count(old) == 1
    return SUITE.replace(old, new)


NAMED = "[tasks.blobs]"
LISTED = '["baseline"]'
CLAIM = 'claims = [{{text = "x", strategy = "baseline", {}}}]'
FIGURE = 'published = [{{strategy = "baseline", source = "x", accuracy = {}}}]'
CONTENTS = {
    "nothing": ("", "'strategies' is missing"),
    "no TOML": ("x", "is not valid TOML"),
    "NUL": ("\0", "is not valid TOML"),
    "no UTF-8": (b"\xff\xfe", "is not valid TOML"),
    "too large": ("#" * 2**19, "so it is no suite"),
    "nested": ("a = " + "[" * 50_000, "nested too deeply"),
    "nested tables": ("a = " + "{a = " * 5000, "nested too deeply"),
    "dotted key": ("a." * 50_000 + "a = 1", "nested too deeply"),
    "dotted table": (f"[{'a.' * 50_000}a]", "nested too deeply"),
    "quoted dots": ('"a" . ' * 9000 + "a = 1", "nested too deeply"),
    "twice": (task("epochs = 2"), "is not valid TOML"),
    "digits": (task(f"lr = {'9' * 5000}"), "is not valid TOML"),
    "hexadecimal": (task(f"lr = 0x{'f' * 5000}"), "more than 64 bits"),
    "65 bits": (head(f"seeds = {2**64}").replace("seeds = 1\n", ""), "more than 64 bits"),
    "date": (task("lr = 1979-05-27"), "lr: write a number (it is 1979-05-27)."),
    "time": (task("lr = 07:32:00"), "lr: write a number (it is 07:32:00)."),
    "true": (task("lr = true"), "lr: write a number (it is true)."),
    "text": (task('lr = "0.1"'), "lr: write a number (it is '0.1')."),
    "list": (task("lr = [0.1]"), "lr: write a number (it is [0.1])."),
    "table": (task("lr = {a = 1}"), "lr: write a number."),
    "fraction": (task("batch_size = 16.0"), "batch_size: write a whole number"),
    "number for a text": (instead('"tiny"', "1"), "model: write a text in quotes"),
    "NUL in a text": (instead('"tiny"', '"tiny\\u0000"'), "U+0000, which cannot be seen"),
    "milestones": (task("milestones = [[1]]"), "milestones.0: write a number"),
    "milestones as texts": (task('milestones = ["1"]'), "milestones.0: write a number"),
    "negative milestones": (task("milestones = [-1]"), "greater than 0"),
    "table of milestones": (task("milestones = {a = 1}"), "write a list in brackets"),
    "backend": (task('compile = "inductr"'), "Did you mean inductor?"),
    "list of backends": (task("compile = []"), "write true, false, or the name of a backend"),
    "unknown": (task("x = 1"), "there is no key"),
    "escape in a key": (task('"\\u001b[31m" = 1'), "there is no key"),
    "empty task": (instead(NAMED, '[tasks.""]'), "has no letter in its name"),
    "task elsewhere": (instead(NAMED, '[tasks."../x"]'), "another place among the folders"),
    "task of dots": (instead(NAMED, '[tasks.".."]'), "another place among the folders"),
    "escape in a task": (instead(NAMED, '[tasks."\\u001b[31m"]'), "cannot be seen"),
    "task to the left": (instead(NAMED, '[tasks."\\u202e"]'), "cannot be seen"),
    "long task": (instead(NAMED, f"[tasks.{'x' * 300}]"), "more than 200 bytes"),
    "list of tasks": (instead(NAMED, "[[tasks.blobs]]"), "is no task"),
    "seeds true": (instead("seeds = 1", "seeds = true"), "is no number of seeds"),
    "seeds 1.5": (instead("seeds = 1", "seeds = 1.5"), "is no number of seeds"),
    "seeds listed": (instead("seeds = 1", "seeds = [1]"), "is no number of seeds"),
    "margin true": (head("margin = true"), "margin: write a number"),
    "margin nan": (head("margin = nan"), "finite number"),
    "margin tiny": (head("margin = 1e-300"), "greater than or equal to"),
    "margin huge": (head("margin = 101"), "less than or equal to 100"),
    "title": (head("title = 1"), "title: write a text in quotes"),
    "only": (head("only = 1"), "only: write a table with keys"),
    "only of numbers": (head("only = {amp = [1]}"), "write a text in quotes"),
    "match": (head("match = 1"), "match: write a text in quotes"),
    "controls": (instead("false", "[1]"), "write true, false, or a list of names"),
    "claims": (head("claims = [1]"), "claims.0: write a table with keys"),
    "claim of nothing": (head(CLAIM.format("source = 'x'")), "say what is claimed"),
    "claim of true": (head(CLAIM.format("speedup = true")), "speedup: write a number"),
    "published nan": (head(FIGURE.format("nan")), "finite number"),
    "published true": (head(FIGURE.format("true")), "accuracy: write a number"),
    "no strategies": (instead(LISTED, "[]"), "at least 1"),
    "one strategy": (instead(LISTED, '"baseline"'), "strategies: write a list in brackets"),
    "number": (instead(LISTED, "[1]"), "strategies.0: write a text in quotes"),
    "lists": (instead(LISTED, '[["baseline"]]'), "strategies.0: write a text in quotes"),
    "escape in a strategy": (instead(LISTED, '["\\u001b[31m"]'), "cannot be seen"),
}


@pytest.mark.parametrize(("text", "part"), CONTENTS.values(), ids=CONTENTS)
def test_contents_of_suite_files(text, part):
    Path("mine.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert part in refused("run", "--in-process", "mine.toml")


@pytest.mark.parametrize("form", [b"\xef\xbb\xbf%s", b"%s"])
def test_what_editors_do_to_a_suite_is_no_mistake(form):
    Path("mine.toml").write_bytes(form % SUITE.replace("\n", "\r\n").encode())
    with pytest.raises(Trained):
        call("run", "--in-process", "mine.toml")


@anything
@given(st.data())
def test_any_damage_to_a_suite(data):
    text = bytearray(SUITE.encode())
    for place in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=4)):
        text[place : place + 1] = data.draw(st.binary(max_size=3))
    Path("mine.toml").write_bytes(text)
    if sensible("run", "--in-process", "mine.toml"):
        shutil.rmtree("results/mine")
