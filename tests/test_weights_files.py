"""Weights that a network begins with: files and downloads, what fits and what is said."""

import socket

import pytest
import torch
from safetensors.torch import save_file
from shell import call, mistake
from torch import nn

from dataeff.errors import DataeffError
from dataeff.models import build_model
from dataeff.models.heads import heads_of
from dataeff.models.identity import identity_of

SHAPE = (3, 32, 32)
PLACE = "torchvision.models:shufflenet_v2_x0_5[num_classes=4]"
NETS = ["resnet8", "regnetx_002", "torchvision:shufflenet_v2_x0_5", PLACE]


@pytest.fixture
def build(installed):
    def build(text, classes=4, seed=0):
        torch.manual_seed(seed)
        return build_model(text, installed.models, classes=classes, shape=SHAPE)

    return build


def given(name, file):
    """Return the network that begins with a file."""
    return f"{name[:-1]},weights={file}]" if name.endswith("]") else f"{name}[weights={file}]"


def written(model, file, form="plain"):
    """Write the weights of a network as others do."""
    state = {key: value.clone() for key, value in model.state_dict().items()}
    if form == "author's":
        state = {key.removeprefix("net."): value for key, value in state.items()}
    if form == "parallel":
        state = {f"module.{key}": value for key, value in state.items()}
    if file.endswith(".safetensors"):
        save_file(state, file)
    else:
        torch.save({"state_dict": state, "epoch": torch.tensor(3)} if form == "wrapped" else state,
                   file)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "form"),
    [
        ("w.safetensors", "plain"),
        ("w.safetensors", "author's"),
        ("w.pt", "plain"),
        ("w.pt", "parallel"),
        ("w.pt", "wrapped"),
    ],
)
@pytest.mark.parametrize("name", NETS)
def test_a_network_begins_with_the_weights_of_a_file(build, name, file, form):
    source = build(name, seed=1)
    written(source, file, form)
    model = build(given(name, file), seed=2)
    plain = build(name, seed=2)
    assert model.said == []
    x = torch.rand(2, *SHAPE)
    assert torch.equal(model.eval()(x), source.eval()(x))
    assert not torch.equal(plain.eval()(x), source(x))


@pytest.mark.parametrize("name", NETS[:3])
def test_a_head_of_other_classes_begins_as_drawn_and_that_is_said(build, name):
    written(build(name, classes=7, seed=1), "w.safetensors")
    trunk = build(name, classes=7, seed=1).state_dict()
    model, plain = build(given(name, "w.safetensors"), seed=2), build(name, seed=2)
    (head,) = heads_of(model)
    (said,) = model.said
    assert head.removeprefix("net.") in said
    assert "begins as drawn" in said
    ours, drawn = model.state_dict(), plain.state_dict()
    for key, value in ours.items():
        expected = drawn if key.startswith(f"{head}.") else trunk
        assert torch.equal(value, expected[key]), key


def test_what_does_not_fit_is_refused(build):
    written(build("resnet8[width=4]"), "other.pt")
    with pytest.raises(DataeffError, match=r"conv.weight is 4x3x3x3 in other.pt and 16x3x3x3 here"):
        build("resnet8[weights=other.pt]")
    torch.save({"a": torch.ones(1)}, "nothing.pt")
    with pytest.raises(DataeffError, match=r"nothing.pt has no conv.weight and \d+ more"):
        build("resnet8[weights=nothing.pt]")
    state = build("resnet8").state_dict() | {"aux.weight": torch.ones(2)}
    torch.save(state, "more.pt")
    assert build("resnet8[weights=more.pt]").said == [
        "resnet8[weights=more.pt]: 1 of more.pt are not used, such as aux.weight."
    ]


class Evil:
    """Would write a file when it is unpickled."""

    def __reduce__(self):
        return open, ("broken_in", "w")


def test_a_file_that_is_none_is_refused_and_runs_no_code(build, tmp_path):
    with pytest.raises(DataeffError, match=r"There is no file w.pt with weights"):
        build("resnet8[weights=w.pt]")
    torch.save({"conv.weight": Evil()}, "evil.pt")
    with pytest.raises(DataeffError, match=r"evil.pt cannot be read as weights .*safetensors"):
        build("resnet8[weights=evil.pt]")
    assert not (tmp_path / "broken_in").exists()
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataeffError, match=r"w.safetensors cannot be read as weights"):
        build("resnet8[weights=w.safetensors]")
    torch.save([1, 2], "list.pt")
    with pytest.raises(DataeffError, match=r"list.pt holds no weights by name"):
        build("resnet8[weights=list.pt]")


def test_the_content_of_the_file_belongs_to_the_identity(build, installed):
    known = []
    for seed in (1, 1, 2):
        written(build("resnet8", seed=seed), "w.safetensors")
        known.append(identity_of("resnet8[weights=w.safetensors]", installed.models, 4, SHAPE))
    known.append(identity_of("resnet8", installed.models, 4, SHAPE))
    assert known[0] == known[1]
    assert len(set(known)) == 3


@pytest.mark.parametrize("name", ["resnet18", "torchvision:resnet18"])
def test_without_a_network_pretrained_weights_are_one_sentence(build, name, monkeypatch, tmp_path):
    def refused(*given, **options):
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    with pytest.raises(DataeffError, match="pretrained weights cannot be had here") as refusal:
        build(f"{name}[pretrained=true]")
    assert "\n" not in str(refusal.value)
    assert "weights=FILE" in str(refusal.value)


def test_pretrained_weights_that_nobody_has_are_refused(build):
    for name in ("botnet50ts_256", "coatnet_0_224"):
        with pytest.raises(DataeffError, match=f"model {name}: there are no pretrained weights"):
            build(f"{name}[pretrained=true]")


def test_torchvisions_pretrained_weights_are_read_where_they_are(build, monkeypatch):
    """What would be downloaded stands here: a head of 1000 classes, and all the rest."""
    import torchvision

    weights = torchvision.models.get_model_weights("shufflenet_v2_x0_5").DEFAULT
    source = torchvision.models.shufflenet_v2_x0_5()
    monkeypatch.setattr(type(weights), "get_state_dict", lambda *a, **b: source.state_dict())
    model = build("torchvision:shufflenet_v2_x0_5[pretrained=true,stem=imagenet]")
    assert torch.equal(model.net.conv1[0].weight, source.conv1[0].weight)
    (said,) = model.said
    assert "fc is of other classes" in said
    small = build("torchvision:shufflenet_v2_x0_5[pretrained=true]")
    assert torch.equal(small.net.conv1[0].weight, source.conv1[0].weight), "3x3 stays as it is"


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("resnet8", ["head"]),
        ("regnetx_002", ["head.fc"]),
        ("mobilenetv3_small_050", ["classifier"]),
        ("deit_tiny_distilled_patch16_224[patch_size=8,depth=1]", ["head", "head_dist"]),
        ("torchvision:squeezenet1_1", ["net.classifier.1"]),
    ],
)
def test_heads_are_what_gives_the_logits(build, name, heads):
    model = build(name)
    assert heads_of(model) == heads
    for head in heads:
        layer = model.get_submodule(head)
        assert isinstance(layer, nn.Linear | nn.Conv2d)
        assert len(layer.weight) == 4


def test_a_command_says_what_is_not_loaded_and_what_does_not_fit(build):
    written(build("resnet8", classes=7), "w.pt")
    data = "synthetic[samples=40,test_samples=20,classes=4,size=8]"
    task = ["run", "-d", data, "--epochs", "1", "--seeds", "1", "--no-controls", "-s", "baseline"]
    task += ["--in-process", "--device", "cpu", "--set", "batch_size=16"]
    told = call(*task, "-m", "resnet8[weights=w.pt]")
    assert told.exit_code == 0
    assert "head is of other classes in w.pt, or not there, and begins as drawn." in told.stderr
    assert "conv.weight is 16x3x3x3 in w.pt" in mistake(
        *task, "-m", "resnet8[width=4,weights=w.pt]"
    )
