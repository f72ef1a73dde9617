"""Networks of a user's own, at a place: halves that are found, and what is refused and why."""

import copy
import itertools
import pickle
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from shell import mistake, ok
from torch import nn

from dataeff.errors import DataeffError, Refused, UnknownName
from dataeff.models import build_model
from dataeff.models.identity import identity_of
from dataeff.models.own import OwnNet
from dataeff.models.places import renewed
from dataeff.testing import TASK, train_tiny

NUMBERS = itertools.count()
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
CONV = """
class Net(nn.Module):
    def __init__(self, classes, shape=(3, 8, 8), width: int = 4):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], width, 3, padding=1)
        self.bn = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        n = x.size(0)
        x = F.relu(self.bn(self.conv(x)))
        x = F.avg_pool2d(x, x.shape[-1]).view(n, -1)
        x = F.dropout(x, 0.5, self.training)
        return self.fc(x)
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return what writes a module of the user's own into this folder, and says its name."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text, name=None):
        name = name or f"own_nets_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(HEAD + text)
        return name

    return write


@pytest.fixture
def build(installed):
    def build(text, classes=4, shape=(3, 8, 8), seed=0, **options):
        torch.manual_seed(seed)
        return build_model(text, installed.models, classes=classes, shape=shape, **options)

    return build


def held(module):
    """Return a network's weights, by the names that its author gave."""
    return {key.removeprefix("net."): value for key, value in module.state_dict().items()}


def gives_its_logits(model, shape=(3, 8, 8), count=5):
    """Hold both halves against the whole, in both modes and for another number of images."""
    for training in (True, False):
        model.train(training)
        x = torch.randn(count, *shape, generator=torch.Generator().manual_seed(1))
        torch.manual_seed(3)
        whole = model(x)
        torch.manual_seed(3)
        found = model.forward_head(model.forward_features(x))
        torch.testing.assert_close(found, whole)


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


# Halves ------------------------------------------------------------------------------------------


class Blocks(nn.Module):
    """Looks at values within a block, which no trace can follow."""

    def __init__(self):
        super().__init__()
        self.block = Doubtful()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(self.block(x).mean([2, 3]))


class Doubtful(nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x.tanh()


def tokens(read):
    """Return a network of tokens, which reads them in this way."""

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 6, 4, 4)
            self.mix = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
            self.fc = nn.Linear(6, 4)

        def forward(self, x):
            z = self.patch(x).flatten(2).transpose(1, 2)
            return self.fc(read(self.mix(z)))

    return Tokens()


def sequence(*pool):
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), *pool)


SPLIT = {
    "pool": (sequence(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)), "avg", (5, 6, 6)),
    "dropout": (
        sequence(nn.AvgPool2d(6), nn.Dropout(), nn.Flatten(), nn.Linear(5, 4)), "avg", (5, 6, 6),
    ),
    "two layers": (
        sequence(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 7), nn.ReLU(),
                 nn.Linear(7, 4)), "avg", (5, 6, 6),
    ),
    "maximum": (
        sequence(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(5, 4)), "other", (5, 6, 6),
    ),
    "each cell": (sequence(nn.Flatten(), nn.Linear(180, 4)), "other", (5, 6, 6)),
    "four cells": (
        sequence(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(20, 4)), "other", (5, 2, 2),
    ),
    "zeros": (
        sequence(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)), "avg", (5, 6, 6),
    ),
    "opaque": (Blocks(), "avg", (3, 8, 8)),
    "tokens": (tokens(lambda z: z.mean(1)), "avg", (4, 6)),
    "first token": (tokens(lambda z: z[:, 0]), "token", (4, 6)),
    "last token": (tokens(lambda z: z[:, -1]), "other", (4, 6)),
}  # fmt: skip
nn.init.zeros_(SPLIT["zeros"][0][-1].weight)


@pytest.mark.parametrize("kind", SPLIT)
def test_halves_give_its_logits_and_pooling_is_known_by_numbers(installed, kind):
    net, pool_kind, size = SPLIT[kind]
    installed.models.register("mine", lambda classes, shape: copy.deepcopy(net))
    model = build_model("mine", installed.models, classes=4, shape=(3, 8, 8))
    assert model.pool_kind == pool_kind
    assert model.eval().forward_features(torch.zeros(1, 3, 8, 8)).shape[1:] == size
    gives_its_logits(model)
    weights = list(model.parameters())
    model.forward_head(model.forward_features(torch.rand(2, 3, 8, 8))).square().sum().backward()
    assert all(weight.grad is not None for weight in weights)
    assert torch.equal(model(torch.ones(2, 3, 8, 8)), model.net(torch.ones(2, 3, 8, 8)))


def test_halves_of_its_own_are_left_as_they_are(build, written):
    halves = "    def forward_features(self, x): return self.conv(x)\n"
    halves += "    def forward_head(self, z): return self.fc({}(z.mean((2, 3))))\n"
    whole = "    def forward(self, x): return self.forward_head(self.forward_features(x))\n"
    own = build(f"{written(CONV + 'class Own(Net):' + chr(10) + halves.format('') + whole)}:Own")
    assert not isinstance(own, OwnNet)
    assert own.pool_kind == "avg"
    # These are something else than halves of what it gives.
    other = build(f"{written(CONV + 'class Own(Net):' + chr(10) + halves.format('3*'))}:Own")
    assert isinstance(other, OwnNet)
    gives_its_logits(other)


class Skips(nn.Module):
    """Its head reads the images once more."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(self.conv(x).mean((2, 3))) + x.mean()


class Sees(nn.Module):
    """Looks at values at its top."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x.mean((2, 3))) if x.sum() > 0 else -self.fc(x.amax((2, 3)))


class Joined(nn.Module):
    """Puts two maps together, which it has pooled before."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1))


WHOLE = {
    "images twice": (Skips(), "reads the images themselves"),
    "values": (Sees(), "cannot be traced .*control flow"),
    "two maps": (Joined(), "puts together more than one tensor"),
    "no linear layer": (
        sequence(nn.Conv2d(5, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), "no linear layer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_what_cannot_be_split_trains_but_for_who_needs_the_halves(installed, kind):
    net, why = WHOLE[kind]
    installed.models.register("mine", lambda classes, shape: copy.deepcopy(net))
    task = TASK.model_copy(update={"model": "mine", "epochs": 1})
    for strategy in ("baseline", "infobatch", "selective_backprop", "mixtrain_mixup"):
        assert train_tiny(strategy, installed=installed, task=task).record["status"] == "finished"
    with pytest.raises(Refused, match=f"^mixtrain_cutmix: mine cannot be split .*{why}"):
        train_tiny("mixtrain_cutmix", installed=installed, task=task)
    off = "mixtrain_cutmix[interference=off]"
    assert train_tiny(off, installed=installed, task=task).record["status"] == "finished"


def test_split_propagation_reads_each_sample_off_its_own_cells(build, written, installed):
    """The same network with halves of its own and with those that were found: the same numbers."""
    plain = """
class Plain(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3, 2, 1), nn.Linear(4, classes)
    def forward(self, x): return self.fc(self.conv(x).relu().mean((2, 3)))
class Halved(Plain):
    def forward_features(self, x): return self.conv(x).relu()
    def forward_head(self, z): return self.fc(z.mean((2, 3)))
"""
    name = written(plain)
    found = []
    for which in ("Plain", "Halved"):
        task = TASK.model_copy(update={"model": f"{name}:{which}", "epochs": 2})
        result = train_tiny("mixtrain_cutmix[selection=none]", installed=installed, task=task)
        found.append(held(result.run.model) | {"rows": result.record["rows"]})
    assert isinstance(build(f"{name}:Plain"), OwnNet)
    assert not isinstance(build(f"{name}:Halved"), OwnNet)
    assert found[0].pop("rows") == found[1].pop("rows")
    for key, value in found[0].items():
        torch.testing.assert_close(value, found[1][key])


def test_a_network_of_its_own_trains_as_the_same_one_that_is_registered(installed, written):
    task = TASK.model_copy(update={"model": f"{written(CONV)}:Net", "epochs": 2})
    own = train_tiny("baseline", installed=installed, task=task)
    net = getattr(sys.modules[task.model.partition(":")[0]], "Net")  # noqa: B009
    net.forward_features = lambda self, x: F.relu(self.bn(self.conv(x)))
    net.forward_head = lambda self, z: self.fc(F.dropout(z.mean((2, 3)), 0.5, self.training))
    net.forward = lambda self, x: self.forward_head(self.forward_features(x))
    installed.models.register("mine", lambda classes, shape: net(classes, shape))
    named = TASK.model_copy(update={"model": "mine", "epochs": 2})
    other = train_tiny("baseline", installed=installed, task=named)
    assert not isinstance(other.run.model, OwnNet)
    for key, value in held(own.run.model).items():
        torch.testing.assert_close(value, other.run.model.state_dict()[key])


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


def test_halves_travel_compiled_and_pickled(build, written, installed):
    """What a network becomes on its way: compiled, copied, pickled with all its code."""
    place = f"{written(CONV)}:Net"
    task = TASK.model_copy(update={"model": place, "epochs": 1, "compile": "eager"})
    plain = task.model_copy(update={"compile": False})
    results = [train_tiny("mixtrain_cutmix", installed=installed, task=t) for t in (task, plain)]
    first, second = (held(result.run.model) for result in results)
    for key, value in first.items():
        torch.testing.assert_close(value, second[key])
    model = build(place).eval()
    x = torch.rand(3, 3, 8, 8)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.forward_head(other.forward_features(x)), model(x))


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
