"""Guests: plugins whose import ends or hangs a process are listed as broken, and others work."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from benches import TASK
from shell import call, mistake, ok

from dataeff.bench.guest import Died
from dataeff.bench.service import PluginService, Service
from dataeff.catalogue import Survey
from dataeff.errors import DataeffError, UnknownName

GOOD = """
from dataeff import Strategy, hookimpl

@hookimpl
def register_strategies(register):
    register("fine", Fine)

class Fine(Strategy):
    '''Does nothing.'''
"""
REGISTERS = """
from dataeff import hookimpl

@hookimpl
def register_strategies(register):
    {}
"""
BROKEN = {
    "leaves": ("import sys; sys.exit(0)", "SystemExit: 0"),
    "vanishes": ("import os; os._exit(0)", "the process ended with exit code 0 and left no result"),
    "crashes": ("import ctypes; ctypes.string_at(0)", "the process was ended by SIGSEGV"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
    "raises": ("class Own(BaseException): pass\nraise Own('odd')", "Own: odd"),
    "numbered": (
        REGISTERS.format("register(42, int)"),
        "DataeffError: 42 is no name for",
    ),
    "textual": (
        REGISTERS.format("register('textual', 'text')"),
        "StrategyError: 'text' is no class",
    ),
    "halfway": (
        GOOD.replace("fine", "lost")
        .replace("Fine)", "Fine); os._exit(3)")
        .replace("from dataeff", "import os\nfrom dataeff", 1),
        "the process ended with exit code 3",
    ),
}


@pytest.fixture
def broken(tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name, (text, _) in BROKEN.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "whole.py").write_text(GOOD)
    return folder


@pytest.mark.long
def test_whoever_ends_the_process_that_imports_him_is_listed_and_everybody_else_works(broken):
    text = ok("plugins", "list", "--plugins-dir", broken)
    for name, (_, why) in BROKEN.items():
        said = text[text.index(f"\n{name}  ") :].split("\n")[2]
        assert said.startswith(f"    did not load: {why}"), name
    assert "lost" not in text, "what it has registered before is taken back"
    told = ok("strategies", "fine", "--plugins-dir", broken)
    assert "Does nothing." in told


@pytest.mark.long
def test_a_run_goes_on_without_them(broken):
    task = ("--dataset", TASK["dataset"], "--model", "tiny", "--epochs", 1, "--seeds", 1)
    where = ("--plugins-dir", broken, "--no-controls")
    found = call("run", *task, *where, "-s", "baseline", "-s", "fine")
    assert found.exit_code == 0, found.output
    assert "synthetic fine seed 0: " in found.stdout
    said = mistake("run", *task, *where, "-s", "lost")
    assert "There is no strategy 'lost'" in said
    assert "Plugin halfway failed to load: the process ended with exit code 3" in said


@pytest.mark.long
def test_who_ends_the_process_that_makes_him_is_a_mistake_in_the_suite(tmp_path):
    made = f"{GOOD}\n    def __init__(self):\n        os._exit(3)\n"
    (tmp_path / "made.py").write_text(f"import os\n{made}")
    task = "".join(f"{key} = {json.dumps(value)}\n" for key, value in TASK.items())
    text = f'strategies = ["baseline", "fine"]\n[tasks.one]\n{task}'
    (tmp_path / "mine.toml").write_text(text)
    said = mistake("run", tmp_path / "mine.toml", "--plugins-dir", tmp_path)
    assert "mine.toml: strategies: " in said
    assert "the process ended with exit code 3" in said


@pytest.mark.long
def test_an_import_that_hangs_is_given_up(tmp_path):
    warm_up = PluginService(Survey, [], limit=60)
    warm_up.call("offers")
    warm_up.end()
    (tmp_path / "sleeps.py").write_text("import time; time.sleep(600)")
    (tmp_path / "whole.py").write_text(GOOD)
    service = PluginService(Survey, [tmp_path], limit=4)
    try:
        (content, _) = service.call("offers")
    finally:
        service.end()
    assert service.broken == {"sleeps": "it did not answer within 4 seconds, so it was stopped"}
    assert "fine" in [offer["name"] for offer in content["strategies"]]


# Services --------------------------------------------------------------------------------------


class Odd:
    """Does what it is asked for."""

    def __init__(self, tell, word):
        self.tell, self.word = tell, word

    def say(self, *words):
        self.tell("listen")
        return [self.word, *words, os.getpid(), os.getcwd(), os.environ.get("ODD")]

    def refuse(self):
        raise UnknownName("nobody knows")

    def fail(self):
        raise ValueError("first line\nsecond line")

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def hang(self):
        time.sleep(600)


@pytest.fixture
def service():
    service = Service(Odd, "word", limit=60)
    yield service
    service.end()


def test_a_service_answers_in_a_process_of_its_own(service, monkeypatch):
    monkeypatch.setenv("ODD", "yes")
    heard = []
    word, first, number, folder, told = service.call("say", 1, hear=heard.append)
    assert (word, first, heard) == ("word", 1, ["listen"])
    assert number != os.getpid()
    assert (folder, told) == (os.getcwd(), "yes"), "as they are now, not when the first one began"
    assert service.call("say")[1] == number


def test_what_it_raises_is_raised_here(service):
    with pytest.raises(UnknownName, match=r"^nobody knows$"):
        service.call("refuse")
    with pytest.raises(DataeffError, match=r"^ValueError: first line$"):
        service.call("fail")
    assert service.call("say")[0] == "word"


@pytest.mark.long
def test_after_a_death_the_next_call_finds_another_process(service):
    before = service.call("say")[1]
    with pytest.raises(Died, match="ended by SIGKILL"):
        service.call("die")
    assert service.call("say")[1] != before
    with pytest.raises(Died, match="it did not answer within 1 seconds"):
        service.call("hang", limit=1)
    assert not Path(f"/proc/{before}").exists()
