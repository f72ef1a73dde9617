"""Own data as users run them: at a place, from a plugin, in cells, and on from a stop."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from owned import images
from shell import mistake, ok

from dataeff import ImageSet
from dataeff.data import HostSplit, MemorySplit, load_dataset
from dataeff.data.itemwise import ItemSplit
from dataeff.errors import DataeffError
from dataeff.lab import Lab
from dataeff.testing import weights
from dataeff.training.job import Place
from dataeff.training.task import Task

MODULE = """
import numpy as np
import torch
from torch.utils.data import Dataset, random_split

from dataeff import ImageSet


def make_data(samples=60, *, bright: bool = False):
    draw = np.random.default_rng(0)
    images = draw.integers(0, 128 + 127 * bright, (samples + 24, 8, 8, 3), dtype=np.uint8)
    labels = np.array(["cat", "dog", "dog", "dog"])[np.arange(samples + 24) % 4]
    images[labels == "dog", 2:6, 2:6] //= 4
    return (images[:samples], labels[:samples]), (images[samples:], labels[samples:])


class Mine(Dataset):
    def __init__(self, count, draws):
        self.count, self.draws = count, draws

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        images, labels = make_data()[0]
        image = torch.from_numpy(images[index % 60]).permute(2, 0, 1)
        if self.draws and torch.rand(()) < 0.5:
            image = image.flip(2)
        return image, index % 2


def make_sets():
    return {"train": Mine(40, True), "test": Mine(20, False), "crop": 1}


def split_at_random(root):
    assert root is None
    return random_split(Mine(40, False), [30, 10])


def needs(path):
    return path


def broken():
    raise KeyError("the disk")


class Class(ImageSet):
    def read(self, root):
        (x, y), (x2, y2) = make_data()
        return x, (y == "dog").astype(int), x2, (y2 == "dog").astype(int), 2


DATA = make_data(30)
SOME = 5


def shake(images):
    return images.roll(int(torch.randint(0, 8, ())), 3)
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """Return the name of a module in the folder that one is in."""
    name = "own_" + "".join(letter for letter in request.node.name if letter.isalnum())[:60]
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def load(text, installed):
    return load_dataset(text, installed.datasets)


def run(dataset, *options):
    """Run two strategies of one seed; return the records by strategy."""
    words = ("--model", "resnet8[width=4]", "--epochs", 2, "--seeds", 1, "--device", "cpu")
    ok(
        "run",
        "--dataset",
        dataset,
        *words,
        "-s",
        "baseline",
        "-s",
        "amp",
        "--no-controls",
        *options,
    )
    paths = Path("results").glob("*/*/run.json")
    found = [json.loads(path.read_text()) for path in paths]
    return {record["strategy"]: record for record in found}


# At a place ---------------------------------------------------------------------------------------


def test_parameters_in_brackets_are_the_functions_or_the_options(module, installed):
    data = load(f"{module}:make_data[samples=40,bright=true,crop=1,subset=20]", installed)
    assert data.name == f"{module}:make_data[samples=40,bright=true,subset=20,crop=1]"
    assert isinstance(data.train, MemorySplit)
    assert (len(data.train), len(data.test), data.train.crop) == (20, 24, 1)
    assert data.train.data.max() > 200
    assert data.class_names == ("cat", "dog")


def test_what_may_stand_at_a_place(module, installed):
    assert len(load(f"{module}:DATA", installed).train) == 30
    assert isinstance(load(f"{module}:Class[memory=host]", installed).train, HostSplit)
    sets = load(f"{module}:make_sets", installed)
    assert isinstance(sets.train, ItemSplit)
    seen = [images(sets.train, [list(range(40))], (0, epoch)) for epoch in (0, 1)]
    assert not torch.equal(*seen)
    once, again = (load(f"{module}:split_at_random", installed) for _ in range(2))
    assert once.fingerprint == again.fingerprint


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("make_dat", "has no 'make_dat'. Did you mean make_data"),
        ("make_data[sample=3]", "has no parameter 'sample'. Did you mean samples"),
        ("make_data[samples=many]", "samples=many is not valid, it should be a valid integer"),
        ("needs", "needs path: write"),
        ("needs[path=digit]", "There is no dataset 'digit'. Did you mean digits?"),
        ("broken", "KeyError: 'the disk' ("),
        ("SOME", "int is not a training and a test part; give ((x_train, y_train)"),
    ],
)
def test_what_is_refused_at_a_place(module, installed, rest, said):
    with pytest.raises(DataeffError) as error:
        load(f"{module}:{rest}", installed)
    assert said in str(error.value)


def test_the_command_line_says_it_in_one_sentence(module):
    told = ("--model", "resnet8", "--epochs", 1, "-s", "baseline")
    assert "Did you mean make_data" in mistake("run", "--dataset", f"{module}:make_dat", *told)
    assert "KeyError: 'the disk'" in mistake("run", "--dataset", f"{module}:broken", *told)


# In cells -----------------------------------------------------------------------------------------

FIGURES = ("test_loss", "test_top1", "validation_loss")


@pytest.mark.long
@pytest.mark.parametrize(
    "rest", ["make_data[crop=1,transform={0}:shake]", "make_sets", "make_sets[transform={0}:shake]"]
)
def test_cells_of_their_own_see_the_same_as_one_process(module, rest, tmp_path, monkeypatch):
    dataset = f"{module}:{rest.format(module)}"
    apart = run(dataset)
    (tmp_path / "together").mkdir()
    monkeypatch.chdir(tmp_path / "together")
    together = run(dataset, "--in-process")
    assert apart.keys() == together.keys() == {"baseline", "amp"}
    for name in apart:
        assert apart[name]["status"] == "finished"
        pairs = [
            (record["metrics"][key] for record in (apart[name], together[name])) for key in FIGURES
        ]
        assert all(one == other for one, other in pairs)
        assert apart[name]["train_loss"] == together[name]["train_loss"]


def test_balanced_accuracy_stands_beside_accuracy_of_an_uneven_test_set(module):
    record = run(f"{module}:make_data")["baseline"]
    table = pd.read_csv(next(Path("results").glob("*/leaderboard.csv"))).set_index("strategy")
    assert record["classes"]["test"] == [6, 18]
    by_class = record["classes"]["accuracy"]
    assert table["balanced_accuracy"]["baseline"] == pytest.approx(np.mean(by_class))
    assert table["accuracy"]["baseline"] == pytest.approx((by_class[0] + 3 * by_class[1]) / 4)


def test_streamed_sets_run_with_loader_processes(module):
    assert run(f"{module}:make_sets", "--set", "workers=1")["baseline"]["status"] == "finished"


@pytest.mark.long
@pytest.mark.parametrize("rest", ["make_data", "make_sets[transform={0}:shake]"])
def test_a_cell_is_trained_again_when_its_data_are_others(module, rest, tmp_path):
    dataset = f"{module}:{rest.format(module)}"

    def trained():
        run(dataset)
        return {path: path.stat().st_mtime_ns for path in Path("results").glob("*/*/run.json")}

    first = trained()
    assert len(first) == 2
    assert trained() == first
    path = tmp_path / f"{module}.py"
    path.write_text(path.read_text().replace("128 + 127 * bright", "129 + 126 * bright"))
    again = trained()
    # Cells of other data are other cells.
    assert len(again) == 4
    assert first.items() <= again.items()


PLUGIN = """
from dataeff import hookimpl


@hookimpl
def register_datasets(register):
    register("own_arrays", make_data)
    register("own_sets", make_sets)
    register("own_class", Class)
    register("own_data", DATA)
"""


@pytest.mark.parametrize("name", ["own_arrays[samples=40]", "own_sets"])
def test_data_sets_of_a_loose_plugin(name, tmp_path):
    (tmp_path / "ideas").mkdir()
    (tmp_path / "ideas" / "own_data.py").write_text(MODULE + PLUGIN)
    records = run(name, "--plugins-dir", "ideas")
    assert [record["status"] for record in records.values()] == ["finished"] * 2


def test_data_sets_of_a_plugin_are_listed(tmp_path):
    (tmp_path / "ideas").mkdir()
    (tmp_path / "ideas" / "own_data.py").write_text(MODULE + PLUGIN)
    listed = json.loads(ok("datasets", "--plugins-dir", "ideas", "--json"))
    offers = {offer["name"]: offer for offer in listed}
    assert {"own_arrays", "own_sets", "own_class", "own_data"} <= offers.keys()
    assert offers["own_arrays"]["parameters"] == ["samples=60", "bright=false"]
    assert (offers["own_data"]["parameters"], offers["own_data"]["summary"]) == ([], "")


# On from a stop -----------------------------------------------------------------------------------


class Stopped(Exception):
    """Stands for a kill between two epochs."""


def stop(epoch, epochs, record):
    if epoch == 1:
        raise Stopped


@pytest.mark.parametrize(
    "rest", ["make_sets[transform={0}:shake]", "make_data[transform={0}:shake]"]
)
def test_a_run_goes_on_to_the_same_weights(module, installed, tmp_path, rest):
    dataset = f"{module}:{rest.format(module)}"
    task = Task(dataset=dataset, model="resnet8[width=4]", epochs=3, batch_size=8)
    alone, stopped, again = (Lab(installed, "cpu") for _ in range(3))
    whole = alone.run(task, alone.composition("infobatch"), 3)
    place = Place(folder=tmp_path / "cell", saves=True)
    with pytest.raises(Stopped):
        stopped.run(task, stopped.composition("infobatch"), 3, place, stop)
    resumed = again.run(task, again.composition("infobatch"), 3, place)
    assert resumed.epochs[0]["epoch"] == 0
    assert torch.equal(weights(resumed), weights(whole))
    assert not torch.equal(
        weights(whole), weights(alone.run(task, alone.composition("infobatch"), 4))
    )


# What a class of images may return ----------------------------------------------------------------


class Returned(ImageSet):
    """Returns what it is told to."""

    def __init__(self, *raw):
        super().__init__()
        self.raw = raw

    def read(self, root):
        return self.raw


def test_read_may_return_arrays():
    x = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    y = np.arange(6) % 2
    tensors = Returned(*map(torch.from_numpy, (x, y, x[:4], y[:4])), 2).load("mine", root=None)
    arrays = Returned(x, y, x[:4], y[:4], 2).load("mine", root=None)
    floats = Returned(x / 255, y, x[:4] / 255, list(y[:4]), 2).load("mine", root=None)
    for data in (arrays, floats):
        assert torch.equal(data.train.data, tensors.train.data)
        assert data.fingerprint == tensors.fingerprint
    assert torch.equal(floats.test.labels, tensors.test.labels)
