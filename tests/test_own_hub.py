"""Hugging Face datasets, as objects and by name; and the page that tells of own data."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from owned import IMAGES, images
from PIL import Image

from dataeff.data import MemorySplit, dataset_of, load_dataset
from dataeff.data.itemwise import ItemSplit
from dataeff.errors import DataeffError

PAGE = Path(__file__).parent.parent / "docs" / "data.md"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Return the package, with a cache of its own that is empty."""
    found = pytest.importorskip("datasets")
    for home in ("HF_HOME", "HF_DATASETS_CACHE", "HF_HUB_CACHE", "HF_MODULES_CACHE"):
        monkeypatch.setenv(home, str(tmp_path / "cache"))
    found.disable_progress_bars()
    return found


def table(hub, count, labels=("cat", "dog", "owl"), **more):
    features = {"image": hub.Image(), "label": hub.ClassLabel(names=list(labels))}
    features |= {name: hub.ClassLabel(names=["x", "y"]) for name in more}
    content = {
        "image": [Image.fromarray(image) for image in IMAGES[:count]],
        "label": [index % len(labels) for index in range(count)],
    }
    return hub.Dataset.from_dict(content | more, features=hub.Features(features))


def test_a_small_one_is_held_in_memory(hub):
    parts = hub.DatasetDict(train=table(hub, 30), test=table(hub, 6), unsupervised=table(hub, 3))
    data = dataset_of("mine", parts, None, {"crop": 1})
    assert isinstance(data.train, MemorySplit)
    assert torch.equal(data.train.data[:, 1:-1, 1:-1], torch.from_numpy(IMAGES))
    assert data.train.labels.tolist() == [index % 3 for index in range(30)]
    assert (data.class_names, data.shape) == (("cat", "dog", "owl"), (3, 8, 8))


def test_a_large_one_is_streamed_as_it_would_be_held(hub, monkeypatch):
    parts = table(hub, 30), table(hub, 6)
    held = dataset_of("mine", *parts, {"crop": 1, "flip": True})
    monkeypatch.setattr("dataeff.data.own._HELD_AT_MOST", 100)
    streamed = dataset_of("mine", *parts, {"crop": 1, "flip": True})
    assert isinstance(streamed.train, ItemSplit)
    for view in (None, (0, 1)):
        assert torch.equal(*(images(d.train, [list(range(30))], view) for d in (held, streamed)))
    assert torch.equal(streamed.train.labels, held.train.labels)


def test_rows_that_were_chosen_have_their_labels(hub):
    chosen = table(hub, 30).select([4, 8, 3, 29]).shuffle(seed=1)
    data = dataset_of("mine", chosen, table(hub, 6))
    order = [
        int(np.flatnonzero((np.array(row["image"]) == IMAGES).all((1, 2, 3)))[0]) for row in chosen
    ]
    assert data.train.labels.tolist() == [index % 3 for index in order]
    assert torch.equal(data.train.data, torch.from_numpy(IMAGES[order]))


def test_its_own_transform_is_seeded_by_sample(hub):
    def augment(batch):
        batch["image"] = [torch.rand(3, 8, 8) for _ in batch["image"]]
        return batch

    parts = [table(hub, count).with_transform(augment) for count in (30, 6)]
    split = dataset_of("mine", *parts).train
    assert isinstance(split, ItemSplit)
    whole = images(split, [list(range(30))], (0, 0))
    assert torch.equal(images(split, [[20, 7]], (0, 0)), whole[[7, 20]])
    assert not torch.equal(images(split, [[7]], (0, 1))[0], whole[7])


def test_several_labels_are_to_be_chosen_from(hub):
    parts = [table(hub, count, kind=[index % 2 for index in range(count)]) for count in (30, 6)]
    with pytest.raises(DataeffError, match="several columns may be the label; write label_column="):
        dataset_of("mine", *parts)
    data = dataset_of("mine", *parts, {"label_column": "kind"})
    assert data.class_names == ("x", "y")


def test_by_name_from_a_folder(hub, installed, tmp_path):
    parts = hub.DatasetDict(train=table(hub, 30), validation=table(hub, 6))
    parts.save_to_disk(str(tmp_path / "saved"))
    data = load_dataset("hf:saved[subset=9,crop=1]", installed.datasets)
    assert (data.name, len(data.train), len(data.test)) == ("hf:saved[subset=9,crop=1]", 9, 6)
    same = dataset_of("mine", dict(parts), None, {"subset": 9, "crop": 1})
    assert data.fingerprint == same.fingerprint
    with pytest.raises(DataeffError, match="no split 'tset'; write test=SPLIT with one of: train"):
        load_dataset("hf:saved[test=tset]", installed.datasets)


def test_what_is_not_in_the_cache_is_not_fetched(hub, installed):
    with pytest.raises(DataeffError) as error:
        load_dataset("hf:nobody/has-this[config=small]", installed.datasets)
    assert "is not in the cache of this machine (" in str(error.value)
    assert "datasets.load_dataset('nobody/has-this', 'small')" in str(error.value)
    assert not sys.modules["huggingface_hub"].constants.HF_HUB_OFFLINE


def test_without_the_package_it_is_said_what_to_install(installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataeffError) as error:
        load_dataset("hf:mnist", installed.datasets)
    assert "hf:mnist needs the package of Hugging Face" in str(error.value)
    assert str(error.value).endswith("pip install 'dataeff[hf]'")


# The page -----------------------------------------------------------------------------------------


def shown():
    """Return the data sets of the commands that the page shows, without those to be fetched."""
    lines = re.findall(r"^dataeff run .*", PAGE.read_text(encoding="utf-8"), flags=re.M)
    words = [shlex.split(line) for line in lines]
    return [line[line.index("--dataset") + 1] for line in words]


@pytest.mark.parametrize("dataset", [name for name in shown() if not name.startswith("hf:")])
def test_what_the_page_shows_is_there(dataset, installed, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "my_data", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "my_data.py").write_text(code)
    data = load_dataset(dataset, installed.datasets)
    seen = [images(data.train, [list(range(20))], (0, epoch)) for epoch in (0, 1)]
    is_augmented = "augment" in dataset or "make_sets" in dataset
    assert torch.equal(*seen) != is_augmented
    monkeypatch.delitem(sys.modules, "my_data", raising=False)


def test_options_of_the_page_are_those_there_are(installed):
    from dataeff.data.own import OPTIONS

    text = PAGE.read_text(encoding="utf-8")
    told = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", text[text.index("| option |") :], flags=re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(told))) == sorted(OPTIONS)
