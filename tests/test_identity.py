"""Nothing mixed up: who edits a network or a strategy gets other cells, and only those count."""

import json
import sys
from collections import Counter
from types import ModuleType

import pytest
import torch
from benches import TASK, Bench, record, rewrite
from shell import ok

from dataeff import lab as labs
from dataeff import notation
from dataeff.bench.asked import write_suite
from dataeff.forms import RECORD
from dataeff.models import identity
from dataeff.models.identity import identity_of
from dataeff.registry import Registry

NETWORK = '''
"""A network, and a strategy that does nothing, of somebody else's."""

from dataclasses import dataclass

from dataeff import Strategy, hookimpl
from dataeff.models.small import TinyNet


@hookimpl
def register_models(register):
    register("mine", mine)


@hookimpl
def register_strategies(register):
    register("idea", Idea)


def mine(classes, shape):
    return TinyNet(classes, shape, 8)


@dataclass(eq=False)
class Idea(Strategy):
    """Version 1."""
'''
EDITED = NETWORK.replace(
    "TinyNet(classes, shape, 8)", "TinyNet(classes, shape, 8).double().float()"
)
SHAPE = (1, 8, 8)


@pytest.fixture
def bench(tmp_path, installed):
    return Bench(tmp_path, installed)


def run(bench, *strategies, **task):
    """Run a suite as a command does; return its cells and those that were trained."""
    schedule = bench.schedule(*strategies, epochs=1, **task)
    events = bench.run(schedule)
    write_suite(schedule, bench.root, "dataeff run try")
    return schedule.cells, [event.cell for event in events if event.kind == "ended"]


def counted(bench, strategy):
    """Return the one version of a strategy that suite.json counts."""
    (version,) = bench.suite["counts"]["blobs"][strategy].values()
    return version


# Networks ----------------------------------------------------------------------------------------


def test_who_edits_a_network_gets_another_cell_and_only_that_one_counts(bench):
    bench.with_loose_plugins(NETWORK)
    (old,), trained = run(bench, "baseline", model="mine")
    assert trained == [old]
    before = bench.suite
    bench.write_plugin(EDITED)
    (new,), trained = run(bench, "baseline", model="mine")
    assert trained == [new]
    assert new.folder != old.folder
    assert new.scene.data == old.scene.data
    assert record(new)["network"] != record(old)["network"]
    assert counted(bench, "baseline") == new.version == record(new)["version"]
    assert bench.suite["networks"] != before["networks"]
    assert old.version not in json.dumps(bench.suite)
    assert run(bench, "baseline", model="mine")[1] == [], "what is there is not trained again"


def test_results_of_another_network_are_not_of_what_was_asked(bench):
    """A strategy that only the command before the edit named has no cells of this network."""
    bench.with_loose_plugins(NETWORK)
    run(bench, "baseline", "idea", model="mine")
    bench.write_plugin(EDITED)
    run(bench, "baseline", model="mine")
    assert bench.suite["strategies"] == ["baseline"]
    assert bench.suite["counts"]["blobs"].keys() == {"baseline"}


FACTORY = """
import torch
from dataeff.models.small import TinyNet

weights = torch.full((3,), {weight})


class Mine(TinyNet):
    {body}


def mine(classes, shape):
    network = Mine(classes, shape, {width})
    network.start = weights
    return network
"""


def without_source(weight=1.0, width=8, body="pass"):
    """Return a registry with a factory that no file holds, as in a notebook."""
    names = {"__name__": "__main__"}
    exec(FACTORY.format(weight=weight, width=width, body=body), names)
    registry = Registry("model")
    registry.register("mine", names["mine"])
    return registry


def test_a_network_without_source_is_known_by_its_code_and_its_weights(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))

    def known(**changes):
        return identity_of("mine", without_source(**changes), 4, SHAPE)

    assert known() == known(), "where its tensors lie in memory is no matter"
    changed = [known(weight=2.0), known(width=4), known(body="more = 1")]
    assert len({known(), *changed}) == 4


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("torchvision:squeezenet1_1", "[dropout=0.1]"), ("test_resnet", "[drop_rate=0.1]")],
)
def test_a_network_of_a_library_is_known_by_name_arguments_names_and_shapes(
    shared_installed, monkeypatch, name, arguments
):
    models, image = shared_installed.models, (3, 32, 32)
    first = identity_of(name, models, 4, image)
    assert identity_of(name, models, 4, image) == first
    others = [identity_of(name, models, 5, image), identity_of(name, models, 4, (1, 32, 32))]
    others.append(identity_of(f"{name}{arguments}", models, 4, image))
    build = identity.build_model

    def other_version(*given, **options):
        """Build it as another version of its library may."""
        network = build(*given, **options)
        network.register_buffer("more", torch.zeros(1))
        return network

    monkeypatch.setattr(identity, "build_model", other_version)
    others.append(identity_of(name, models, 4, image))
    assert len({first, *others}) == 1 + len(others)


# Strategies --------------------------------------------------------------------------------------


def test_going_back_to_a_version_trains_nothing_and_its_cells_count_again(bench):
    first = NETWORK
    second = NETWORK.replace("Version 1", "Version 2")
    bench.with_loose_plugins(first)
    (base, one), trained = run(bench, "baseline", "idea")
    assert {cell.folder for cell in trained} == {base.folder, one.folder}
    bench.write_plugin(second)
    (_, two), trained = run(bench, "baseline", "idea")
    assert [cell.strategy for cell in trained] == ["idea"]
    assert counted(bench, "idea") == two.version != one.version

    # A clock that was set back: the version that counts must not be the one that ended last.
    for cell, ended in ((one, "2001-01-01"), (two, "2099-01-01")):
        rewrite(cell, ended=f"{ended}T00:00:00.000000+00:00")
    bench.write_plugin(first)
    (_, again), trained = run(bench, "baseline", "idea")
    assert trained == []
    assert (again.folder, again.version) == (one.folder, one.version)
    assert counted(bench, "idea") == one.version
    assert (two.folder / "run.json").exists(), "what was measured stays"


def test_of_each_strategy_its_last_command_decides(bench):
    """A command that does not name a strategy leaves its cells as they count."""
    bench.with_loose_plugins(NETWORK)
    (_, old), _ = run(bench, "baseline", "idea")
    bench.write_plugin(NETWORK.replace("Version 1", "Version 2"))
    run(bench, "baseline", "random_subset")
    assert counted(bench, "idea") == old.version
    assert bench.suite["counts"]["blobs"].keys() == {"baseline", "idea", "random_subset[keep=0.5]"}
    (_, new), _ = run(bench, "baseline", "idea")
    assert counted(bench, "idea") == new.version != old.version


def test_seeds_share_a_version_and_conditions_count_beside_one_another(bench, monkeypatch):
    schedule = bench.schedule("baseline", seeds=2)
    here, other = schedule.cells
    assert here.version == other.version
    assert here.folder != other.folder
    elsewhere = here.scene.conditions | {"threads": 64}
    monkeypatch.setattr(bench.desk, "_conditions", elsewhere)
    (there,) = bench.schedule("baseline").cells
    assert bench.suite["counts"]["blobs"]["baseline"] == {
        here.scene.conditions_id: here.version,
        there.scene.conditions_id: there.version,
    }


# What is written and what is done once -----------------------------------------------------------


def test_a_record_says_in_which_form_it_is_written(bench):
    (cell,), _ = run(bench, "baseline")
    stored = record(cell)
    assert next(iter(stored)) == "schema"
    assert stored["schema"] == RECORD.schema
    assert (stored["version"], stored["data"]) == (cell.version, cell.scene.data)
    assert bench.suite["data"] == {"blobs": cell.scene.data}
    assert bench.suite["networks"] == {"blobs": cell.scene.network}


COUNTING = '''
from dataclasses import dataclass
from dataeff import Strategy, hookimpl

MADE = []


@hookimpl
def register_strategies(register):
    register("counting", Counting)


@dataclass(eq=False)
class Counting(Strategy):
    """Counts how often it is built."""

    share: float = 0.5

    def __post_init__(self):
        MADE.append(self.share)
'''


def test_a_whole_run_loads_data_once_reads_texts_at_most_twice_and_builds_each_once_to_check(
    bench, monkeypatch
):
    bench.with_loose_plugins(COUNTING)
    read, loaded = Counter(), []
    plain_parse, plain_load = notation.parse, labs.load_dataset

    def parse(text):
        read[text] += 1
        return plain_parse(text)

    def load(name, *arguments, **options):
        loaded.append(name)
        return plain_load(name, *arguments, **options)

    monkeypatch.setattr("dataeff.composition.parse", parse)
    monkeypatch.setattr("dataeff.lab.load_dataset", load)
    task = ["-d", TASK["dataset"], "-m", "tiny", "--epochs", "1", "--set", "batch_size=16"]
    what = ["-s", "counting", "-s", "counting[share=0.9]", "--seeds", "1", "--no-controls"]
    ok("run", *task, *what, "--in-process", "--device", "cpu", "--plugins-dir", "plugins")
    made = Counter(sys.modules["dataeff_loose_trouble"].MADE)
    assert loaded == [TASK["dataset"]]
    assert set(read) == {"counting", "counting[share=0.9]"}
    assert max(read.values()) <= 2
    assert made == {0.5: 3, 0.9: 3}, "to check what was typed, for its cell, and to warm that up"
