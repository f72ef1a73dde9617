"""Plugins: found one by one, a broken one harms nobody, loose files work."""

import pytest

from dataeff.composition import Composition
from dataeff.errors import DataeffError, UnknownName
from dataeff.plugins import load_plugins
from dataeff.strategy import hooks_of
from dataeff.testing import train_tiny

GOOD = '''"""Lose half.

Nobody 2026, https://example.org/paper
"""

from dataclasses import dataclass

import torch

from dataeff import Share, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("lose", Lose)


@dataclass(eq=False)
class Lose(Strategy):
    """Keep the first rows of each batch."""

    keep: Share = 0.5
    saves = "rows"

    @hookimpl
    def select_batch(self, run, batch):
        batch.keep_rows(torch.arange(max(1, int(self.keep * batch.R)), device=run.device))
'''


def by_name(installed, name):
    return next(plugin for plugin in installed.plugins if plugin.name == name)


def test_bundled_strategies_come_through_entry_points():
    installed = load_plugins()
    assert by_name(installed, "amp").source == "bundled"
    assert not [plugin for plugin in installed.plugins if plugin.error]
    expected = {"amp", "baseline", "random_backprop", "random_subset", "short_schedule"}
    assert expected <= {entry.name for entry in installed.strategies.entries()}


def test_a_loose_file_is_a_plugin(tmp_path):
    (tmp_path / "lose.py").write_text(GOOD)
    installed = load_plugins([tmp_path])
    entry = installed.strategies["lose"]
    assert entry.summary == "Keep the first rows of each batch."
    assert entry.paper == "Nobody 2026, https://example.org/paper"
    assert hooks_of(entry.factory) == ["select_batch"]
    record = train_tiny("lose[keep=0.25]", installed=installed).record
    assert record["rows"]["trained"] == 4 * (4 * 4 + 4)
    assert record["parameters"] == {"lose": {"keep": 0.25}}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("def broken(:", "SyntaxError"),
        (GOOD.replace('"lose"', '"amp"'), "registered by both amp and bad"),
        (GOOD.replace("register_strategies", "register_stratagems"), "register_stratagems"),
    ],
)
def test_a_broken_plugin_harms_nobody_and_says_why(tmp_path, content, error):
    (tmp_path / "bad.py").write_text(content)
    (tmp_path / "good.py").write_text(GOOD)
    installed = load_plugins([tmp_path])
    assert error in by_name(installed, "bad").error
    assert "lose" in installed.strategies
    with pytest.raises(UnknownName, match=r"dataeff strategies\. Plugin bad failed to load: .*"):
        Composition.read("bad", installed)


def test_a_test_beside_a_plugin_is_no_plugin(tmp_path):
    (tmp_path / "lose.py").write_text(GOOD)
    (tmp_path / "test_lose.py").write_text("import lose")
    installed = load_plugins([tmp_path])
    assert "lose" in installed.strategies
    assert not [plugin.name for plugin in installed.plugins if plugin.error]


def test_a_plain_class_that_claims_is_taken_with_a_note(tmp_path):
    plain = GOOD.replace("class Lose(Strategy)", "class Lose")
    (tmp_path / "old.py").write_text(plain.replace('saves = "rows"', 'claims = ("rows",)'))
    installed = load_plugins([tmp_path])
    assert installed.strategies["lose"].factory.reserves == ("rows",)
    (note,) = by_name(installed, "old").notes
    assert note == "Lose: claims is called reserves now; rename it."


def test_the_documentation_of_a_strategy_is_its_own(tmp_path):
    (tmp_path / "lose.py").write_text(GOOD)
    about = load_plugins([tmp_path]).strategies["lose"].about
    assert about == ["Keep the first rows of each batch."]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataeffError, match="nothing-here"):
        load_plugins([tmp_path / "nothing-here"])


def test_third_party_plugins_can_be_limited(monkeypatch):
    class Point:
        def __init__(self, name):
            self.name, self.loads = name, 0
            self.dist = type("Dist", (), {"name": f"dataeff-{name}", "version": "1"})

        def load(self):
            self.loads += 1
            raise ImportError("on purpose")

    one, two = Point("one"), Point("two")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [one, two])
    for wanted, loads in ((None, (1, 1)), ("", (0, 0)), ("one", (1, 0)), ("dataeff-two", (0, 1))):
        one.loads = two.loads = 0
        if wanted is None:
            monkeypatch.delenv("DATAEFF_LOAD_PLUGINS", raising=False)
        else:
            monkeypatch.setenv("DATAEFF_LOAD_PLUGINS", wanted)
        load_plugins()
        assert (one.loads, two.loads) == loads
