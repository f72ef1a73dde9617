"""Names and parameters: parsing, printing, validation, errors that teach."""

import importlib
import sys
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataeff import DataeffError, Share
from dataeff.composition import Composition
from dataeff.errors import UnknownName
from dataeff.notation import Part, format_part, parse, parse_one, split_parts
from dataeff.registry import Entry, Registry


@dataclass(eq=False)
class Example:
    """Show every kind of parameter."""

    keep: Share = 0.5
    mode: Literal["shrink", "fill"] = "shrink"
    count: int = 3
    on: bool = False
    size: int | None = None
    path: str = ""


@pytest.fixture
def registry():
    registry = Registry("strategy")
    registry.register("example", Example, source="mine")
    return registry


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", [Part("a")]),
        ("a[x=1]+b", [Part("a", {"x": "1"}), Part("b")]),
        (" a [ x = 1 , y = two ] + b ", [Part("a", {"x": "1", "y": "two"}), Part("b")]),
        ('f[path="/a b,c]/d+e"]', [Part("f", {"path": "/a b,c]/d+e"})]),
        ("torchvision:resnet18", [Part("torchvision:resnet18")]),
    ],
)
def test_parse(text, parts):
    assert parse(text) == parts


@pytest.mark.parametrize("text", ["", "a[", "a]", "a+", "+a", "a++b", "a[x]", "a[x=1,x=2]", "a b"])
def test_what_cannot_be_read_is_explained(text):
    with pytest.raises(DataeffError, match=r"write|twice"):
        parse(text)


def test_only_strategies_combine():
    with pytest.raises(DataeffError, match="names 2 things"):
        parse_one("digits+cifar10")


words = st.text("abcxyz /.,[]-_", max_size=12).map(str.strip)


@given(st.dictionaries(st.sampled_from(["k", "path", "mode"]), words))
def test_printing_and_reading_are_inverse(values):
    assert parse(format_part("name", values)) == [Part("name", values)]


def test_canonical_prints_shares_and_what_differs_in_one_order(registry):
    entry = registry["example"]
    values = entry.read({"count": "4", "keep": "0.50", "on": "TRUE", "size": "none"})
    assert entry.canonical(values) == "example[keep=0.5,count=4,on=true]"
    assert entry.canonical(entry.read({"keep": "1"})) == "example[keep=1]"
    assert entry.read({"size": "12"})["size"] == 12


def test_canonical_form_of_a_composition(installed):
    text = " random_backprop[mode=shrink, keep=0.250] + amp[dtype=auto]"
    assert Composition.read(text, installed).text == "random_backprop[keep=0.25]+amp"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kep": "1"}, r"no parameter 'kep'\. Did you mean keep\? It takes: keep, mode"),
        ({"keep": "1.5"}, "keep=1.5 is not valid, it should be less than or equal to 1"),
        ({"keep": "0"}, "keep=0 is not valid, it should be greater than 0"),
        ({"mode": "grow"}, "mode=grow is not valid, it should be 'shrink' or 'fill'"),
        ({"count": "x"}, "count=x is not valid"),
    ],
)
def test_a_bad_parameter_is_explained(registry, params, message):
    with pytest.raises(DataeffError, match=message):
        registry["example"].read(params)


def test_a_required_parameter_is_asked_for(installed):
    with pytest.raises(DataeffError, match=r"needs path: write image_folder\[path=...\]"):
        installed.datasets["image_folder"].read({})


def test_unknown_names_list_close_ones(registry):
    with pytest.raises(UnknownName, match=r"no strategy 'exmaple'\. Did you mean example\?"):
        registry["exmaple"]


def test_a_name_clash_raises(registry):
    with pytest.raises(DataeffError, match="registered by both mine and theirs"):
        registry.register("example", Example, source="theirs")


def test_wildcards(installed):
    names = [entry.name for entry in installed.strategies.entries("random_*")]
    assert names == ["random_backprop", "random_subset"]


def test_a_second_name_says_what_it_is_another_name_of(registry):
    registry.register("specimen", Example, source="mine")
    assert registry["specimen"].summary == "Another name of example."
    assert registry["example"].summary == "Show every kind of parameter."
    assert registry["specimen"].read({}) == registry["example"].read({})


def test_none_is_a_word_where_it_is_a_choice(installed):
    entry = installed.strategies["mixtrain_cutmix"]
    assert entry.read({"selection": "none"})["selection"] == "none"


def test_the_digest_covers_what_a_strategy_takes_from_its_own_package(tmp_path, monkeypatch):
    package = tmp_path / "two_files"
    package.mkdir()
    (package / "__init__.py").write_text("")
    text = "class Idea:\n    def f(self):\n        from two_files.formula import NUMBER\n"
    (package / "idea.py").write_text(text)
    formula = package / "formula.py"
    other = package / "other.py"
    other.write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def digest():
        for name in [name for name in sys.modules if name.startswith("two_files")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        module = importlib.import_module("two_files.idea")
        return Entry("strategy", "idea", module.Idea, "mine").digest

    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        formula.write_text("NUMBER = 1\n")
        first = digest()
        other.write_text("changed = True\n")
        assert digest() == first
        formula.write_text("NUMBER = 2\n")
        assert digest() != first
    finally:
        sys.dont_write_bytecode = before


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a+b", ["a", "b"]),
        ("a[x=1,y=2]+b[z=3]+c", ["a[x=1,y=2]", "b[z=3]", "c"]),
        ("a[x=1+2]", ["a[x=1+2]"]),
        ('a[x="]+"]+b', ['a[x="]+"]', "b"]),
        ("a[x=1+b", ["a[x=1+b"]),
        ('a[x="1+b', ['a[x="1+b']),
        ("", []),
    ],
)
def test_a_plus_inside_brackets_separates_nothing(text, parts):
    assert split_parts(text) == parts
