"""The contract of a strategy is a type: what nobody would read is refused at once."""

from dataclasses import dataclass, fields

import pytest
from probes import Stateless

from dataeff import Strategy, StrategyError, hookimpl
from dataeff.errors import StrategyConflict
from dataeff.plugins import load_plugins
from dataeff.strategy import adopted
from dataeff.testing import check_pair, train_tiny


def wrap(self):
    return (yield)


def with_default(self, run=None):
    pass


BROKEN = {
    "an unknown declaration": (
        {"colour": "red"},
        r"Bad declares 'colour', which nobody reads\. A parameter needs a type",
    ),
    "a misspelt declaration": (
        {"save": "rows"},
        r"'save', which nobody reads\. Did you mean saves",
    ),
    "another misspelt declaration": ({"read_back": True}, "Did you mean reads_back"),
    "a text where texts are wanted": ({"reserves": "rows"}, r"reserves must be texts.*not 'rows'"),
    "numbers where texts are wanted": ({"reserves": (1,)}, "reserves must be texts"),
    "savings that nobody measures": ({"saves": "time"}, "saves must be one of rows, forward"),
    "a number for a truth": ({"control": 1}, "control must be True or False, not 1"),
    "a text for a truth": ({"precision": "yes"}, "precision must be True or False, not 'yes'"),
    "a type on a declaration": (
        {"saves": "rows", "__annotations__": {"saves": str}},
        "saves has a type, which makes it a parameter; write it without",
    ),
    "a forgotten mark": (
        {"select_batch": lambda self, batch: None},
        r"Bad\.select_batch has the name of a hook; write @hookimpl above it",
    ),
    "an unknown hook": (
        {"chose_batch": hookimpl(lambda self, batch: None)},
        "there is no hook 'chose_batch'",
    ),
    "a misspelt hook": (
        {"select_batches": hookimpl(lambda self, batch: None)},
        r"there is no hook 'select_batches'\. Did you mean select_batch",
    ),
    "a default in a signature": (
        {"setup": hookimpl(with_default)},
        "in setup: run must not have a default",
    ),
    "a wrapper of the old kind": (
        {"forward": hookimpl(hookwrapper=True)(wrap)},
        "in forward: write wrapper=True instead of hookwrapper=True",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_class_cannot_be_made(case):
    inside, message = BROKEN[case]
    with pytest.raises(StrategyError, match=message):
        type("Bad", (Strategy,), dict(inside))


@pytest.mark.parametrize("case", BROKEN)
def test_a_mixin_that_is_no_strategy_is_held_to_the_same_rules(case):
    inside, message = BROKEN[case]
    mixin = type("Bad", (), dict(inside))
    with pytest.raises(StrategyError, match=message):
        type("Whole", (mixin, Strategy), {})


@pytest.mark.parametrize("case", BROKEN)
def test_a_plain_class_is_held_to_the_same_rules_when_it_is_registered(case, installed):
    inside, message = BROKEN[case]
    with pytest.raises(StrategyError, match=message):
        installed.add_strategy("bad", type("Bad", (), dict(inside)), "test")
    assert "bad" not in installed.strategies


def test_claims_of_a_strategy_are_asked_to_be_called_reserves():
    with pytest.raises(StrategyError, match="Did you mean reserves"):
        type("Bad", (Strategy,), {"claims": ("rows",)})


class OldPair:
    """A plain class of version 0.1."""

    claims = ("rows",)


def test_claims_of_a_plain_class_are_read_as_reserves_with_a_note(installed):
    (note,) = installed.add_strategy("old_pair", OldPair, "test")
    assert note == "OldPair: claims is called reserves now; rename it."
    kind = installed.strategies["old_pair"].factory
    assert issubclass(kind, Strategy)
    assert kind.reserves == ("rows",)
    (answer,) = check_pair("old_pair", "mixtrain_cutmix", installed)
    assert "both reserve 'rows'" in answer


def test_one_claim_may_be_a_text():
    kind, _ = adopted(type("Old", (), {"claims": "normaliser"}))
    assert kind.reserves == ("normaliser",)


def test_what_there_is_to_say_of_a_plain_class_is_said_of_its_plugin(tmp_path):
    (tmp_path / "old.py").write_text(
        "from dataeff import hookimpl\n\n\nclass Old:\n    claims = ('rows',)\n\n\n"
        "@hookimpl\ndef register_strategies(register):\n    register('old', Old)\n"
    )
    plugins = {plugin.name: plugin for plugin in load_plugins([tmp_path]).plugins}
    assert plugins["old"].notes == ["Old: claims is called reserves now; rename it."]
    assert not plugins["old"].error
    assert not plugins["amp"].notes


def test_a_class_registered_under_two_names_stays_one(installed):
    installed.add_strategy("old_pair", OldPair, "test")
    assert installed.add_strategy("another", OldPair, "test") == []
    assert installed.strategies["another"].alias_of == "old_pair"


def test_equal_strategies_must_stay_two(installed):
    @dataclass
    class Equal(Strategy):
        """Compare by value."""

    @dataclass
    class Plain:
        """Compare by value, and derive from nothing."""

    for kind in (Equal, Plain):
        with pytest.raises(StrategyError, match=r"write @dataclass\(eq=False\)"):
            installed.add_strategy("equal", kind, "test")


def test_what_is_no_class_is_refused(installed):
    with pytest.raises(StrategyError, match="takes a strategy's class"):
        installed.add_strategy("function", lambda: None, "test")


@dataclass(eq=False)
class Declared(Strategy):
    """Declare everything."""

    reserves = ("rows", "normaliser")
    saves = "rows"
    precision = True
    reads_back = True
    control = True
    keep: float = 0.5
    _own = 3
    LIMIT = 4

    @staticmethod
    def at_cost(share):
        return {"keep": share}

    def helper(self):
        return self._own

    @property
    def half(self):
        return self.keep / 2


def test_declarations_are_no_parameters(installed):
    assert [field.name for field in fields(Declared)] == ["keep"]
    installed.add_strategy("declared", Declared, "test")
    assert list(installed.strategies["declared"].parameters) == ["keep"]
    assert Declared(0.25).half == 0.125


def test_declarations_are_inherited_and_may_be_taken_back():
    @dataclass(eq=False)
    class Child(Declared):
        """Save something else."""

        reserves = ()

    assert (Child.reserves, Child.saves, Child.control) == ((), "rows", True)


def test_a_declaration_may_hang_on_parameters():
    """What is saved may be a question of the mode."""

    @dataclass(eq=False)
    class Either(Strategy):
        """Save rows, or not."""

        keep: float = 0.5

        @property
        def saves(self):
            return "rows" if self.keep < 1 else ""

    assert [Either(keep).saves for keep in (0.5, 1)] == ["rows", ""]


def test_why_it_does_nothing_may_be_said_in_setup(installed):
    class Idle(Stateless):
        @hookimpl
        def setup(self):
            self.no_effect = "there is nothing to do here"

    idle = Idle()
    assert idle.no_effect == ""
    result = train_tiny(idle, installed=installed)
    assert result.record["no_effect"] == "there is nothing to do here"


def test_what_two_reserve_is_named_before_anything_is_trained(installed):
    class First(Stateless):
        reserves = ("normaliser",)

    class Second(First):
        pass

    with pytest.raises(StrategyConflict, match=r"first and second cannot.*reserve 'normaliser'"):
        train_tiny(First(), Second(), installed=installed)


def test_every_bundled_strategy_derives_from_the_base(installed):
    plain = [e.name for e in installed.strategies.entries() if not issubclass(e.factory, Strategy)]
    assert plain == []
    assert [plugin.name for plugin in installed.plugins if plugin.notes] == []
