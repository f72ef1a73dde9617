"""Bad input on the command line: one sentence that says what to type, exit code 2, nothing lost."""

import os
import signal
import threading
from pathlib import Path

import pytest
from conftest import EVERYTHING, drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nonsense import WORDS, Trained, _no_training, adhoc, refused, sensible
from shell import call

from dataeff.plugins import load_plugins
from dataeff.training.task import Task

pytestmark = pytest.mark.usefixtures(_no_training.__name__)
anything = settings(
    max_examples=200 if EVERYTHING else 12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

# What is wrong, and a part of the sentence that it gets.
LIST = {
    "timeout nan": (adhoc("--timeout", "nan"), "nan is not a number"),
    "timeout inf": (adhoc("--timeout", "inf"), "is not in the range"),
    "timeout 0": (adhoc("--timeout", "0"), "is not in the range"),
    "no step": (adhoc(epochs="1e-300"), "greater than or equal to 0.001"),
    "less than two samples": (adhoc(epochs="0.01"), "less than 2 of them; write 0.025 or more"),
    "endless": (adhoc(epochs="1e18"), "less than or equal to 1000000"),
    "negative epochs": (adhoc(epochs="-1"), "greater than or equal to 0.001"),
    "tiny of no width": (adhoc(model="tiny[width=0]"), "greater than or equal to 1"),
    "negative width": (adhoc(model="resnet8[width=-1]"), "greater than or equal to 1"),
    "huge width": (adhoc(model="resnet8[width=99999]"), "less than or equal to 1024"),
    "classes of a model": (adhoc(model="tiny[classes=3]"), "It takes: width."),
    "foreign parameter": (adhoc(model="resnet18[nosuch=1]"), "cannot be built for 3x8x8 images"),
    "foreign none": (adhoc(model="resnet18[nosuch=none]"), "changes nothing; leave it out"),
    "foreign zero": (adhoc(model="vit_tiny_patch16_224[embed_dim=0]"), "cannot be built"),
    "foreign brackets": (adhoc(model=f'resnet18[layers="{"[" * 5000}"]'), "cannot be built"),
    "open width": (adhoc(model="tiny[width=?]"), "width=? is not valid"),
    "open size": (adhoc(dataset="digits[size=?]"), "size=? is not valid"),
    "compile backend": (adhoc("--set", "compile=inductr"), "Did you mean inductor?"),
    "compile nothing": (adhoc("--set", "compile="), "no backend ''"),
    "lr true": (adhoc("--set", "lr=true"), "lr: write a number (it is true)."),
    "lr as text": (adhoc("--set", 'lr="0.1"'), "lr: write a number (it is '0.1')."),
    "lr as date": (adhoc("--set", "lr=1979-05-27"), "write a number (it is 1979-05-27)."),
    "lr too large": (adhoc("--set", "lr=1e400"), "finite number"),
    "lr negative zero": (adhoc("--set", "lr=-0.0"), "greater than 0"),
    "lr deeply nested": (adhoc("--set", "lr=" + "[" * 100_000), "write a number"),
    "batch size true": (adhoc("--set", "batch_size=true"), "write a whole number (it is true)."),
    "batch size huge": (adhoc("--set", f"batch_size={2**70}"), "batch_size"),
    "nesterov 1": (adhoc("--set", "nesterov=1"), "nesterov: write true or false (it is 1)."),
    "workers": (adhoc("--set", "workers=100000"), "less than or equal to 256"),
    "nothing left": (adhoc("--set", "validation=0.999999"), "leave 1 to train; 2 at least"),
    "one sample": (adhoc(dataset="synthetic[samples=1]"), "leave 1 to train; 2 at least"),
    "one class": (adhoc(dataset="synthetic[classes=1]"), "greater than or equal to 2"),
    "memory": (
        adhoc(dataset="synthetic[samples=100000000,size=4096]"),
        "GiB of memory, and this machine has",
    ),
    "memory of digits": (adhoc(dataset="digits[size=4096,crop=1024]"), "GiB of memory"),
    "crop": (adhoc(dataset="digits[crop=99999999]"), "less than or equal to 1024"),
    "home": (adhoc(dataset="image_folder[path=~nobody-at-all/x]"), "there is no such home"),
    "empty path": (adhoc(dataset="image_folder[path=]"), "at least 1 character"),
    "seeds": (adhoc("--seeds", "9" * 5000), "is no number of seeds"),
    "empty name": (adhoc("--name", ""), "--name takes letters and digits"),
    "dots for a name": (adhoc("--name", "..."), "--name takes letters and digits"),
    "reserved name": (adhoc("--name", "artefacts"), "for something else"),
    "long name": (adhoc("--name", "x" * 300), "more than 200 bytes"),
    "empty match": (adhoc("--match", ""), "Cannot read ''"),
    "open without match": (adhoc(strategy="short_schedule[share=?]"), "name that one"),
    "a megabyte": (adhoc(strategy="a" * 2**20), "letters; write 10000 at most"),
    "deep brackets": (adhoc(strategy="a[" * 4000), "at position 1"),
    "spaces": (adhoc(strategy="amp[dtype=" + " " * 9000 + '"x"y]'), "Cannot read the parameters"),
    "unbalanced": (adhoc(strategy="amp[dtype=auto"), "at position 3"),
    "too much": (adhoc(strategy="amp[dtype=auto]]"), "at position 15"),
    "plus at the end": (adhoc(strategy="amp+"), "at position 4"),
    "twice": (adhoc(strategy="amp[dtype=auto,dtype=auto]"), "given twice"),
    "device": (adhoc("--device", ""), "cannot be used here"),
    "empty results": (adhoc("--results", ""), "it is empty"),
    "empty data": (adhoc("--data-root", ""), "it is empty"),
    "empty csv": (["leaderboard", "hand", "--csv", ""], "it is empty"),
    "csv is a folder": (["leaderboard", "hand", "--csv", "/"], "--csv takes a file"),
    "margin": (["leaderboard", "hand", "--margin", "nan"], "not a number"),
    "target": (["plot", "hand", "--target", "101"], "is not in the range"),
    "two forms": (["leaderboard", "hand", "--json", "--latex"], "exclude each other"),
    "figure": (["plot", "hand", "--figure", "\u202e"], "figure"),
    "port": (["report", "hand", "--port", "99999"], "is not in the range"),
    "same": (["compare", "hand", "base", "base"], "name two strategies"),
    "not run": (["compare", "hand", "base", "[" * 500], "was not run"),
    "task": (["compare", "hand", "base", "other", "--task", "\u202e"], "has no runs of a task"),
    "no analysis": (["analyze", "no such thing"], "Cannot read"),
    "analysis seed": (["analyze", "mixtrain", "quickstart", "--seed", "-1"], "not in the range"),
    "no download": (["datasets", "--download", "", "--data-root", "d"], "not downloadable"),
    "no hook": (["hooks", "setop"], "Did you mean setup?"),
    "no folder of plugins": (["hooks", "--plugins-dir", "gone"], "There is no plugins folder gone"),
    "plugin elsewhere": (["plugins", "new", "../x"], "is no name for a plugin"),
    "plugin with a slash": (["plugins", "new", "a/b"], "is no name for a plugin"),
    "plugin of a keyword": (["plugins", "new", "none"], "is no name for a plugin"),
    "plugin that is there": (["plugins", "new", "amp"], "There is a strategy amp already"),
    "uninstall what is not": (["plugins", "uninstall", "-y", "nosuch"], "is installed"),
    "no command": (["\u202e"], "There is no command"),
}


@pytest.mark.parametrize(("arguments", "part"), LIST.values(), ids=LIST)
def test_the_list(arguments, part):
    assert part in refused(*arguments)


# Words that make no sense, at every place --------------------------------------------------------

PLACES = {
    **{
        f"run {o}": adhoc(o, "{}") for o in ("--seeds", "--match", "--margin", "--set", "--timeout")
    },
    **{f"run {o}": adhoc(o, "{}") for o in ("-s", "--device", "--plugins-dir")},
    **{f"run of {key}": adhoc(**{key: "{}"}) for key in ("dataset", "model", "epochs")},
    **{
        f"{c} of": [c, "{}"]
        for c in ("run", "leaderboard", "plot", "report", "strategies", "models")
    },
    **{f"{c} of": [c, "{}"] for c in ("hooks", "analyze", "datasets", "suites", "tasks")},
    **{f"{c} --margin": [c, "hand", "--margin", "{}"] for c in ("leaderboard", "plot", "report")},
    **{f"{c} --target": [c, "hand", "--target", "{}"] for c in ("leaderboard", "plot", "report")},
    "compare of": ["compare", "{}", "base", "other"],
    "compare a": ["compare", "hand", "{}", "other"],
    "compare --task": ["compare", "hand", "base", "other", "--task", "{}"],
    "analyze --figure": ["analyze", "mixtrain", "quickstart", "--figure", "{}"],
    "analyze --seed": ["analyze", "mixtrain", "quickstart", "--seed", "{}"],
    "analyze --task": ["analyze", "mixtrain", "quickstart", "--task", "{}"],
    "plugins new": ["plugins", "new", "{}"],
    "plugins check": ["plugins", "check", "{}"],
    "plugins of": ["plugins", "{}"],
    "dataeff of": ["{}"],
}
# These are names that somebody may have given.
FINE = {("plugins new", "nan"), ("plugins new", "infinite"), ("plugins new", "long")}
EVERYWHERE = [(p, w) for p in PLACES for w in WORDS if (p, w) not in FINE]


@pytest.mark.parametrize(("place", "word"), drawn(EVERYWHERE, 15))
def test_words_that_make_no_sense_anywhere(place, word):
    refused(*(part.replace("{}", WORDS[word]) for part in PLACES[place]))


FIELDS = {k: f for k, f in Task.model_fields.items() if k not in ("dataset", "model", "epochs")}
# A switch may be on; and an absurd learning rate is no mistake, its cell diverges.
MEANT = {*((key, "true") for key, field in FIELDS.items() if "bool" in str(field.annotation))}
MEANT |= {("lr", "65 bits")}
KEYS = [(k, w) for k in FIELDS for w in ("true", "-1", *WORDS) if (k, w) not in MEANT]


@pytest.mark.parametrize(("key", "word"), drawn(KEYS, 12))
def test_keys_of_a_task(key, word):
    refused(*adhoc("--set", f"{key}={WORDS.get(word, word)}"))


NUMBERS = ["nothing", "nan", "infinite", "huge", "65 bits", "no word", "escape", "right to left"]


def _parameters():
    installed = load_plugins()
    for kind in ("datasets", "models", "strategies"):
        for name, entry in getattr(installed, kind).items():
            needed = "path=/nowhere," if name == "image_folder" else ""
            for key in entry.parameters:
                form = f"{name}[{'' if key == 'path' else needed}{key}={{}}]"
                yield from ((kind, form, word) for word in NUMBERS)


@pytest.mark.parametrize(("kind", "form", "word"), drawn(list(_parameters()), 18))
def test_parameters_of_all_that_is_bundled(kind, form, word):
    place = {"datasets": "dataset", "models": "model", "strategies": "strategy"}[kind]
    model = {"model": "resnet8[width=2]"} if kind == "strategies" else {}
    refused(*adhoc(**model, **{place: form.format(WORDS[word])}))


# Anything at all ---------------------------------------------------------------------------------

LETTERS = st.sampled_from("abz09[]=,+\"'.*?-/\\ \t\n\0\x1b\u202e\udcff名%{}$#")
SCRIBBLE = st.text(LETTERS, max_size=30) | st.text(max_size=20)


@anything
@given(SCRIBBLE)
def test_any_strategy(text):
    sensible(*adhoc("-s", text))


@anything
@given(st.sampled_from(sorted(Task.model_fields)), SCRIBBLE)
def test_any_setting(key, text):
    sensible(*adhoc("--set", f"{key}={text}"))


@anything
@given(st.sampled_from(["dataset", "model", "epochs"]), SCRIBBLE | st.floats().map(str))
def test_any_task(key, text):
    sensible(*adhoc(**{key: text}))


@anything
@given(SCRIBBLE)
def test_any_results_folder_is_inside(text):
    outside = set(Path("..").iterdir())
    if sensible(*adhoc("--name", text)):
        made = {path.name for path in Path("results").iterdir()}
        assert len(made) == 2
        assert not made & {"artefacts", "published"}
        for path in Path("results").iterdir():
            if path.name != "hand":
                for file in path.rglob("*"):
                    file.unlink()
                path.rmdir()
    assert set(Path("..").iterdir()) == outside


# Being asked to stop -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "where", "said"),
    [
        (
            adhoc(),
            "dataeff.door.running.run_cells",
            " The same command goes on from the last finished epoch.",
        ),
        (["leaderboard", "hand"], "dataeff.cli.leaderboard.results_folder", ""),
    ],
)
def test_sigterm_says_what_ctrl_c_says(monkeypatch, arguments, where, said):
    monkeypatch.setattr(where, lambda *given, **more: os.kill(os.getpid(), signal.SIGTERM))
    result = call(*arguments)
    assert result.exit_code == 143
    assert f"Stopped.{said}" in result.stderr.splitlines()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_is_left_to_who_has_a_use_for_it(monkeypatch):
    mine = signal.signal(signal.SIGTERM, lambda *given: None)
    try:
        with pytest.raises(Trained):
            call(*adhoc())
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, mine)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(call("tasks").exit_code))
    thread.start()
    thread.join()
    assert seen == [0]
