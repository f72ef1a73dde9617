"""The Python door with data and networks of a program's own, in processes of their own."""

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import dataeff
from dataeff.door.handed import Handed
from dataeff.errors import DataeffError

TASK = {"epochs": 2, "batch_size": 16, "lr": 0.05, "device": "cpu"}
QUICK = {"seeds": 1, "controls": False, "in_process": True, **TASK}
LABELS = np.array(["dark", "light", "lined"])[np.arange(90) % 3]


def images(seed):
    drawn = np.random.default_rng(seed).integers(0, 100, (90, 8, 8, 1)).astype(np.uint8)
    drawn[LABELS == "light"] += 100
    drawn[LABELS == "lined", ::2] += 100
    return drawn


TRAIN, TEST = (images(0), LABELS), (images(1), LABELS)


class Net(nn.Module):
    """A network with no halves of its own."""

    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean((2, 3)))


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [Net, partial(Net, width=4), lambda: Net(6), Net(8)],
    ids=["class", "partial", "lambda", "net"],
)
def test_networks_in_every_form_are_compared(model):
    result = dataeff.compare(TRAIN, TEST, model, ["infobatch"], name="mine", **QUICK)
    assert set(result.runs()["status"]) == {"finished"}
    assert result.board.suite["tasks"]["mine"]["dataset"] == "own-mine"
    assert result.board.suite["tasks"]["mine"]["model"].startswith("own-")


def test_what_was_handed_over_is_known_by_what_it_is():
    first = dataeff.compare(TRAIN, TEST, Net, ["infobatch"], name="mine", **QUICK)
    again = dataeff.compare(TRAIN, TEST, Net, ["infobatch"], name="mine", **QUICK)
    assert list(first.runs()["folder"]) == list(again.runs()["folder"])
    assert list(first.runs()["ended"]) == list(again.runs()["ended"]), "nothing ran again"
    other = (images(2), LABELS)
    changed = dataeff.compare(other, TEST, Net, ["infobatch"], name="mine", **QUICK)
    assert not set(changed.runs()["folder"]) & set(first.runs()["folder"])
    wider = dataeff.compare(TRAIN, TEST, partial(Net, width=5), ["infobatch"], name="mine", **QUICK)
    assert not set(wider.runs()["folder"]) & set(first.runs()["folder"])


def test_a_module_is_drawn_anew_for_each_seed_unless_it_is_pretrained():
    module = Net()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    drawn = dataeff.train(TRAIN, TEST, module, "baseline", **{**TASK, "lr": 1e-9})
    assert not torch.allclose(drawn.last.weight, module.last.weight)
    kept = dataeff.train(TRAIN, TEST, module, "baseline", pretrained=True, **{**TASK, "lr": 1e-9})
    assert torch.allclose(kept.last.weight, module.last.weight)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    with pytest.raises(DataeffError, match="keeps the weights of a module that is given"):
        dataeff.train(TRAIN, TEST, Net, "baseline", pretrained=True, **TASK)


def test_pretrained_weights_belong_to_what_a_network_is_known_by():
    one, two = Net(), Net()
    assert Handed("a", {}, one)._content() == Handed("a", {}, two)._content()
    assert Handed("a", {}, one, True)._content() != Handed("a", {}, two, True)._content()


def test_what_is_trained_is_the_users_own_module_with_its_own_names(tmp_path):
    net = dataeff.train(TRAIN, TEST, Net, "infobatch", weights=tmp_path / "net.safetensors", **TASK)
    assert type(net) is Net
    mine = Net()
    mine.load_state_dict(load_file(tmp_path / "net.safetensors"))
    assert torch.equal(mine.last.weight, net.last.weight)
    assert 0 <= net.trained["test_top1"] <= 100


def test_without_a_test_set_a_network_is_trained_and_not_tested():
    net = dataeff.train(TRAIN, None, Net, "baseline", **TASK)
    assert "test_top1" not in net.trained
    with pytest.raises(DataeffError, match="There is nothing to test on"):
        dataeff.compare(TRAIN, None, Net, ["infobatch"], **TASK)


def test_own_augmentation_and_sizes_are_kept():
    def flipped(x):
        return x.flip(-1)

    dataset = torch.utils.data.TensorDataset(torch.from_numpy(images(0)), torch.arange(90) % 3)
    tests = torch.utils.data.TensorDataset(torch.from_numpy(images(1)), torch.arange(90) % 3)
    more = {"transform": flipped, "size": 12, "crop": 1}
    result = dataeff.compare(dataset, tests, Net, ["infobatch"], name="mine", **more, **QUICK)
    assert set(result.runs()["status"]) == {"finished"}


SCRIPT = """
import numpy as np, torch
from torch import nn
import dataeff

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)
    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean((2, 3)))

class Items(torch.utils.data.Dataset):
    def __init__(self, seed):
        self.seed = seed
    def __len__(self):
        return 60
    def __getitem__(self, i):
        draw = np.random.default_rng((self.seed, i))
        x = draw.integers(0, 100, (8, 8, 1)).astype(np.uint8) + np.uint8(60 * (i % 3))
        return torch.from_numpy(x).permute(2, 0, 1), i % 3

result = dataeff.compare(
    Items(0), Items(1), Mine, ["infobatch"], epochs=2, batch_size=16, lr=0.05,
    seeds=1, name="mine", controls=False, device="cpu",
)
print(sorted(result.runs()["status"]), result.runs()["start_seconds"].notna().all())
"""


@pytest.mark.long
def test_what_a_script_defines_goes_to_its_cells(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "['finished', 'finished'] True"
    assert "in this process" not in ran.stdout


class Locked(torch.utils.data.TensorDataset):
    """A Dataset that cannot be copied."""

    def __init__(self):
        super().__init__(torch.from_numpy(images(0)), torch.arange(90) % 3)
        self.lock = threading.Lock()


def test_what_cannot_travel_is_trained_on_here_and_that_is_said(capsys):
    given = {key: value for key, value in QUICK.items() if key != "in_process"}
    result = dataeff.compare(Locked(), Locked(), Net, ["infobatch"], name="mine", **given)
    assert "Cells run in this process, without its guards" in capsys.readouterr().out
    assert set(result.runs()["status"]) == {"finished"}


def test_nothing_of_what_was_handed_over_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Handed("a", {"train": TRAIN, "test": TEST}, Net).laid_out() as (folder, trouble):
        assert trouble == ""
        assert {path.name for path in Path(folder).iterdir()} == {
            "handed.py",
            "data.pkl",
            "model.pkl",
        }
    assert list(tmp_path.iterdir()) == []
