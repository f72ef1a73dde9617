"""Networks of a user's own, at a place: how they are made, and what is refused and why."""

import copy
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from own_nets import CONV, builder, held, writer
from safetensors.torch import save_file
from shell import mistake, ok
from torch import nn

from dataeff.errors import DataeffError, UnknownName
from dataeff.models.identity import identity_of
from dataeff.models.own import OwnNet
from dataeff.models.places import renewed
from dataeff.testing import TASK, train_tiny


@pytest.fixture
def written(tmp_path, monkeypatch):
    return writer(tmp_path, monkeypatch)


@pytest.fixture
def build(installed):
    return builder(installed)


# How it is made ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maker", "width"),
    [
        ("make = Net", 4),
        ("def make(classes, shape): return Net(classes, shape, 5)", 5),
        ("def make(number): return Net(number, width=6)", 6),
        ("def make(): return Net(4, width=7)", 7),
        ("def make(shape, num_classes=1000): return Net(num_classes, shape, 3)", 3),
        ("def make(n_classes, /): return Net(n_classes, width=2)", 2),
        ("class Maker:\n    def __call__(self, classes, *, width=8): return Net(classes, "
         "width=width)\nmake = Maker()", 8),
    ],
)  # fmt: skip
def test_a_place_takes_classes_and_shape_or_one_or_nothing(build, written, maker, width):
    model = build(f"{written(CONV + maker)}:make")
    assert isinstance(model, OwnNet)
    assert model.net.conv.out_channels == width
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 4)


def test_what_stands_in_brackets_are_keyword_arguments(build, written):
    name = written(CONV + "def free(classes, **more): return Net(classes, **more)\n")
    assert build(f"{name}:Net[width=9]").net.conv.out_channels == 9
    assert build(f"{name}:free[width=9]").net.conv.out_channels == 9
    assert build(f'{name}:Net[shape="(1, 8, 8)"]', shape=(1, 8, 8)).net.conv.in_channels == 1
    with pytest.raises(UnknownName, match=r"no parameter 'wdith'. Did you mean width\? It takes"):
        build(f"{name}:Net[wdith=9]")
    with pytest.raises(DataeffError, match=r"width=wide is not valid"):
        build(f"{name}:Net[width=wide]")


def test_networks_of_a_library_stand_at_places_too(build):
    model = build("torchvision.models:shufflenet_v2_x0_5[num_classes=4]", shape=(3, 64, 64))
    assert model.pool_kind == "avg"
    with pytest.raises(DataeffError, match=r"gives \(2, 1000\) .*where \(2, 4\) logits are needed"):
        build("torchvision.models:shufflenet_v2_x0_5", shape=(3, 64, 64))


def test_a_network_that_stands_there_is_copied_and_drawn_anew_by_seed(build, written):
    name = written(CONV + "net = Net(4)\nnet.fc.weight.data.fill_(7)\n")
    build(f"{name}:net")
    original = sys.modules[name]
    before = copy.deepcopy(original.net.state_dict())
    first, again, other = (build(f"{name}:net", seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, held(again)[key]) for key, a in held(first).items())
    assert not torch.equal(held(first)["conv.weight"], held(other)["conv.weight"])
    assert held(first)["fc.weight"].abs().max() < 1
    after = original.net.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


class Scaled(nn.Module):
    """Draws what is within it in a way of its own."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def reset_parameters(self):
        nn.init.constant_(self.fc.weight, 0.25)


def test_who_holds_others_has_the_last_word_when_drawn_anew():
    new = renewed(nn.Sequential(nn.Flatten(), Scaled()), "it")
    assert (new[1].fc.weight == 0.25).all()
    assert new[1].fc.bias.isfinite().all()


def test_weights_that_nothing_draws_anew_are_refused(build, written):
    free = "class Free(Net):\n    def __init__(self):\n        super().__init__(4)\n"
    free += "        self.scale = nn.Parameter(torch.ones(1))\nnet = Free()\n"
    with pytest.raises(DataeffError, match=r"whose scale no reset_param.* give a function that"):
        build(f"{written(CONV + free)}:net")
    with pytest.raises(DataeffError, match=r"takes no parameters: give a function .* width"):
        build(f"{written(CONV + 'net = Net(4)')}:net[width=3]")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def make(classes): return 7", "gives a int, which is no torch.nn.Module"),
        ("make = 'net'", "is of type str: give a torch.nn.Module"),
        ("def make(classes): raise KeyError('blocks')", r"cannot be built .*KeyError: 'blocks'"),
        ("def make(classes, shape, depth): return Net(classes)", r"needs depth: .*make\[depth="),
        ("def make(): return Net(5)", r"gives \(2, 5\) .* where \(2, 4\) logits"),
        ("def make(classes): return Net(classes, (1, 8, 8))", "fails on 3x8x8 images .*channels"),
        ("def make(classes): return nn.Conv2d(3, classes, 3)", r"gives \(2, 4, 6, 6\)"),
        ("NET = Net(4)\ndef make(): return NET", "one network again and again"),
        ("class make(Net):\n    def forward(self, x): return [super().forward(x)]",
         "gives a list in training, where logits"),
        ("class make(Net):\n    def forward(self, x): return super().forward(x).argmax(1)",
         r"gives \(2,\) torch.int64"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_in_one_sentence(build, written, text, why):
    name = written(CONV + text)
    with pytest.raises(DataeffError, match=why) as refusal:
        [build(f"{name}:make") for _ in range(2)]
    assert "\n" not in str(refusal.value)


def test_auxiliary_outputs_in_training_are_refused(build):
    with pytest.raises(DataeffError, match="gives a GoogLeNetOutputs in training"):
        build("torchvision.models:googlenet[num_classes=4,init_weights=false]", shape=(3, 64, 64))


VIEWED = "class Viewed(Net):\n    def __init__(self, classes):\n        super().__init__(classes)\n"
VIEWED += "        self.fc = nn.Linear(4 * 64, classes)\n"
VIEWED += "    def forward(self, x): return self.fc(self.conv(x).view(-1, 4 * 64))\n"


def test_who_needs_channels_first_is_told_the_key(build, written):
    name = written(CONV + VIEWED)
    assert build(f"{name}:Viewed")
    with pytest.raises(DataeffError, match="channels first: write channels_last = false"):
        build(f"{name}:Viewed", layout=torch.channels_last)


@pytest.mark.parametrize("channels", [1, 3])
def test_who_needs_channels_first_has_them(written, installed, channels):
    """Images of one channel look to convolutions as if their channels were last."""
    viewed = VIEWED.replace(
        "super().__init__(classes)", f"super().__init__(classes, ({channels},))"
    )
    name = written(CONV + viewed)
    data = TASK.dataset.replace("size=8", f"size=8,channels={channels}")
    changes = {"model": f"{name}:Viewed", "dataset": data, "channels_last": False, "epochs": 1}
    for strategy in ("baseline", "infobatch"):
        task = TASK.model_copy(update=changes)
        assert train_tiny(strategy, installed=installed, task=task).record["status"] == "finished"


def test_layers_of_no_size_yet_are_refused(build, written):
    lazy = "def make(classes): return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))\n"
    lazy += "net = make(4)\ndef called(classes, shape):\n"
    lazy += "    net = make(classes)\n    net(torch.zeros(2, *shape))\n    return net\n"
    name = written(lazy)
    for place in ("make", "net"):
        with pytest.raises(DataeffError, match="size that is not known yet: call the network once"):
            build(f"{name}:{place}")
    assert build(f"{name}:called")(torch.zeros(2, 3, 8, 8)).shape == (2, 4)


def test_a_network_that_cannot_do_without_data_is_not_refused(build, written, installed):
    text = CONV + (
        "class Looks(Net):\n    def forward(self, x):\n"
        "        return super().forward(x) * float(x.max().item() >= 0)\n"
    )
    name = written(text)
    assert build(f"{name}:Looks")(torch.ones(2, 3, 8, 8)).shape == (2, 4)
    task = TASK.model_copy(update={"model": f"{name}:Looks", "epochs": 1})
    assert train_tiny("baseline", installed=installed, task=task).record["flops"] > 0


# Identity, and the command line -----------------------------------------------------------------


def test_a_network_at_a_place_is_known_by_the_source_of_it_and_of_what_lies_beside(
    installed, written, monkeypatch
):
    def known(place, classes=4):
        for module in [key for key in sys.modules if key.startswith("own_id")]:
            del sys.modules[module]
        return identity_of(place, installed.models, classes, (3, 8, 8))

    written(CONV, "own_id_blocks")
    written("from own_id_blocks import Net\n", "own_id_nets")
    place = "own_id_nets:Net"
    first = known(place)
    assert known(place) == first
    written("from own_id_blocks import Net\nmore = 1\n", "own_id_nets")
    edited = known(place)
    written(CONV.replace("0.5", "0.4"), "own_id_blocks")
    others = [edited, known(place), known(place, classes=5), known(f"{place}[width=3]")]
    assert len({first, *others}) == 5


def test_a_network_at_a_place_runs_as_a_command(written):
    name = written(CONV)
    small = "synthetic[samples=90,test_samples=20,classes=4,size=8,difficulty=0.3]"
    task = ["-d", small, "-m", f"{name}:Net[width=3]", "--epochs", "1", "--set", "batch_size=16"]
    told = ok("run", *task, "-s", "baseline", "-s", "infobatch", "--seeds", "2", "--no-controls",
              "--device", "cpu", "--name", "mine")  # fmt: skip
    assert "infobatch" in told
    assert "0 failed" not in told


def test_a_command_refuses_in_one_sentence_before_anything_is_trained(written, tmp_path):
    name = written(CONV + "def wrong(): return Net(7)\n")
    small = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
    task = ["run", "-d", small, "--epochs", "1", "-s", "baseline", "--device", "cpu"]
    assert "where (2, 4) logits are needed" in mistake(*task, "-m", f"{name}:wrong")
    assert "Did you mean wrong?" in mistake(*task, "-m", f"{name}:wrongs")
    assert "There is no module 'nobodys'" in mistake(*task, "-m", "nobodys:net")
    assert not list(tmp_path.glob("results/*/*/run.json"))


def test_what_the_page_of_networks_shows_can_be_typed(build, tmp_path, monkeypatch):
    """Its network is written as the page says, and all that its commands name is built."""
    page = (Path(__file__).parent.parent / "docs" / "networks.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    (tmp_path / "my_nets.py").write_text(code)
    monkeypatch.setattr(sys, "path", list(sys.path))
    image = (1, 32, 32)
    save_file(build("resnet8", 10, image, seed=5).state_dict(), "w.safetensors")
    lines = [line for line in page.splitlines() if line.startswith("dataeff run")]
    texts = [shlex.split(line)[shlex.split(line).index("-m") + 1] for line in lines]
    assert len(texts) == 5
    for text in texts:
        shape = (3, 32, 32) if text.startswith("torchvision") else image
        if "pretrained" not in text:
            assert build(text, 10, shape)(torch.zeros(2, *shape)).shape == (2, 10)
    assert build("my_nets:make_net[width=64]", 10, image).pool_kind == "avg"
    sys.modules.pop("my_nets")
