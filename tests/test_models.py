"""Models: one protocol over registered, timm and torchvision networks."""

from copy import deepcopy

import pytest
import torch
from conftest import drawn
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dataeff.errors import DataeffError, UnknownName
from dataeff.lab import Lab
from dataeff.models import build_model, model_names, small
from dataeff.registry import Registry
from dataeff.training.task import Task

RGB = (3, 32, 32)
CONV_NETS = [
    "resnet8",
    "resnet20[width=8]",
    "tiny",
    "resnet18",
    "resnet26d",
    "mobilenetv2_100",
    "efficientnet_b0",
    "regnetx_002",
    "torchvision:resnet18",
    "torchvision:googlenet",
    "torchvision:mobilenet_v2",
    "torchvision:mobilenet_v3_small",
    "torchvision:shufflenet_v2_x0_5",
    "torchvision:mnasnet0_5",
    "torchvision:regnet_x_400mf",
    "torchvision:densenet121",
    "torchvision:squeezenet1_1",
]
OTHER_NETS = [
    "convnext_atto",
    "vit_tiny_patch16_224[patch_size=4,depth=2]",
    "vit_tiny_patch16_224[patch_size=8,depth=2,global_pool=avg,class_token=false]",
    "vit_relpos_small_patch16_224[depth=2]",
    "torchvision:convnext_tiny",
    "torchvision:swin_t",
    "torchvision:vit_b_16[patch_size=8,num_layers=2,num_heads=4,hidden_dim=64,mlp_dim=128]",
]
NETS = CONV_NETS + OTHER_NETS


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # On a busy machine, threads that wait for one another make tiny batches ten times slower.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def registry() -> Registry:
    registry = Registry("model")
    small.register_models(registry.register)
    return registry


@pytest.fixture(scope="module")
def build(registry):
    def build(text, classes=10, shape=RGB, seed=0):
        torch.manual_seed(seed)
        return build_model(text, registry, classes=classes, shape=shape)

    return build


def images(shape=RGB, count=2):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))


def seeded(model, x):
    """Run a module or function with dropout and stochastic depth drawn alike."""
    torch.manual_seed(0)
    return model(x)


@pytest.mark.parametrize("text", drawn(NETS, 8))
def test_protocol(build, text):
    model, x = build(text), images()

    # In train mode first: with fresh running statistics some networks give zeros in eval mode.
    logits = seeded(model, x)
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()
    assert torch.equal(seeded(lambda x: model.forward_head(model.forward_features(x)), x), logits)
    if hasattr(model, "net"):
        torch.testing.assert_close(seeded(model.net, x), logits)

    logits.square().sum().backward()
    missing = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not missing

    model.eval()
    with torch.no_grad():
        assert torch.equal(model.forward_head(model.forward_features(x)), model(x))


@pytest.mark.parametrize("text", drawn(NETS, 8))
def test_average_pooling_is_recognised(build, text):
    model = build(text).eval()
    nn.init.normal_([p for p in model.parameters() if p.dim() > 1][-1])  # some heads start at zero
    z = torch.rand_like(model.forward_features(images(count=1)))
    # A head that reads the mean alone cannot tell two images that share it.
    dims = (2, 3) if z.dim() == 4 else (1,)
    if z.dim() == 4 and z.shape[2:] == (1, 1):
        z = z.repeat(1, 1, 2, 2).mul_(torch.rand(1, 1, 2, 2))
    with torch.no_grad():
        logits = model.forward_head(z.clone())
        of_mean = model.forward_head(z.mean(dims, keepdim=True).expand_as(z).clone())
    reads_mean = torch.allclose(logits, of_mean, rtol=1e-4, atol=1e-4)
    assert reads_mean == (model.pool_kind == "avg")
    assert model.pool_kind in ("avg", "token", "other")


@pytest.mark.parametrize(
    "text", ["vgg11[mlp_ratio=0.01]", "swin_tiny_patch4_window7_224", "efficientvit_b0"]
)
def test_heads_that_do_more_than_average_the_map_are_other(build, text):
    assert build(text).pool_kind == "other"


def test_networks_that_fail_on_such_images_are_refused(shared_installed):
    task = Task(dataset="digits", model="inception_v3[stem=imagenet]", epochs=1)
    why = r"^model inception_v3.* fails on 3x32x32 images \(.*\)\.$"
    with pytest.raises(DataeffError, match=why):
        Lab(shared_installed, "cpu").try_network(task, 10, RGB)


@pytest.mark.parametrize("text", drawn(CONV_NETS, 5))
def test_one_channel(build, text):
    model = build(text, classes=7, shape=(1, 28, 28))
    assert model(images((1, 28, 28))).shape == (2, 7)


@pytest.mark.parametrize("text", OTHER_NETS[1:3] + OTHER_NETS[-1:])
def test_transformers_take_one_channel_and_other_sizes(build, text):
    model = build(text, shape=(1, 16, 16))
    assert model(images((1, 16, 16))).shape == (2, 10)


@pytest.mark.parametrize("text", drawn(CONV_NETS, 6))
def test_last_map_of_small_images_can_be_split(build, text):
    z = build(text).eval().forward_features(images())
    assert z.dim() == 4
    assert min(z.shape[2:]) >= 2


@pytest.mark.parametrize("name", ["resnet18", "torchvision:resnet18"])
def test_stem(build, name):
    def cells(text, side):
        return (
            build(text, shape=(3, side, side))
            .eval()
            .forward_features(images((3, side, side)))
            .shape[2]
        )

    assert cells(name, 64) == 8
    assert cells(f"{name}[stem=imagenet]", 64) == 2
    assert cells(name, 96) == 3
    assert cells(f"{name}[stem=small]", 96) == 12


def test_new_first_convolution_keeps_the_scale_of_the_initialisation(build):
    conv = build("torchvision:resnet18", shape=(1, 32, 32)).net.conv1
    plain = build("torchvision:resnet18[stem=imagenet]").net.conv1
    assert conv.weight.shape == (64, 1, 3, 3)
    variance, expected = ((w.var() * w[0].numel()).item() for w in (conv.weight, plain.weight))
    assert variance == pytest.approx(expected, rel=0.2)


def test_stem_errors(build):
    for name in ("vit_tiny_patch16_224", "torchvision:vgg11", "convnext_atto"):
        with pytest.raises(DataeffError, match=f"{name} has no small-image stem"):
            build(f"{name}[stem=small]")
    with pytest.raises(DataeffError, match=r"stem=big is not valid.*auto, small, imagenet"):
        build("resnet18[stem=big]")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("resnet9", "resnet8"),
        ("resnet_18", "resnet18"),
        ("torchvision:resnet19", "torchvision:resnet18"),
    ],
)
def test_did_you_mean(build, typo, meant):
    with pytest.raises(UnknownName, match=f"no model '{typo}'. Did you mean .*{meant}"):
        build(typo)


@pytest.mark.parametrize(
    "name", ["resnet8", "resnet18", "torchvision:resnet18", "torchvision:vit_b_16"]
)
def test_bad_parameter_names_model_and_parameter(build, name):
    with pytest.raises(DataeffError, match=rf"model {name}.*wdith"):
        build(f"{name}[wdith=3]")


def test_bad_values(build):
    with pytest.raises(DataeffError, match="width=wide is not valid"):
        build("resnet8[width=wide]")
    with pytest.raises(DataeffError, match=r"vit_b_16.* cannot be built for 1x28x28 images"):
        build("torchvision:vit_b_16", shape=(1, 28, 28))
    with pytest.raises(DataeffError, match="pretrained=true"):
        build("resnet18[pretrained=true]")
    with pytest.raises(DataeffError, match="needs forward_features"):
        build("resnet18[features_only=true]")
    with pytest.raises(DataeffError, match=r"maxvit_t is not supported.*resnet, resnext"):
        build("torchvision:maxvit_t")


def test_model_names(registry):
    names = model_names(registry)
    assert names[:5] == ["resnet20", "resnet32", "resnet56", "resnet8", "tiny"]
    assert "torchvision:vit_b_16" in names
    assert "torchvision:fasterrcnn_resnet50_fpn" not in names
    assert model_names(registry, "*:squeezenet*") == [
        "torchvision:squeezenet1_0",
        "torchvision:squeezenet1_1",
    ]
    assert {"resnet8", "resnet18"} <= set(model_names(registry, "resnet*"))


@pytest.mark.parametrize("text", ["resnet8", "resnet18", "torchvision:resnet18", NETS[-1]])
def test_same_seed_same_weights(build, text):
    first, again, other = (build(text, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize(
    ("name", "millions"), [("resnet20", 0.27), ("resnet32", 0.46), ("resnet56", 0.85)]
)
def test_parameter_counts_of_the_paper(build, name, millions):
    count = sum(weight.numel() for weight in build(name).parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.01)


def test_residual_blocks_stand_open(build):
    stages = build("resnet20").stages
    assert [len(stage) for stage in stages] == [3, 3, 3]
    block = stages[1][0]
    assert isinstance(block, small.BasicBlock)
    assert not list(block.shortcut.parameters())
    x = images((16, 9, 9)).relu()
    skipped = block.shortcut(x)
    assert torch.equal(skipped[:, :16], x[:, :, ::2, ::2])
    assert not skipped[:, 16:].any()
    nn.init.zeros_(block.bn2.weight)
    torch.testing.assert_close(block(x), skipped)


def test_channels_last_holds_throughout(build):
    model = build("resnet8").to(memory_format=torch.channels_last)
    x = images().to(memory_format=torch.channels_last)
    strayed = []

    def watch(module, inputs, output):
        if output.dim() == 4 and not output.is_contiguous(memory_format=torch.channels_last):
            strayed.append(module)

    for module in model.modules():
        module.register_forward_hook(watch)
    model(x)
    assert not strayed


@pytest.mark.parametrize(
    "text", drawn(["resnet20", "resnet18", "torchvision:googlenet", *NETS[-3:]], 2)
)
def test_a_copy_on_meta_counts_flops(build, text):
    model = build(text)
    copy = deepcopy(model).to("meta")
    with FlopCounterMode(display=False) as counter:
        assert copy(images().to("meta")).shape == (2, 10)
    assert counter.get_total_flops() > 1e6
    assert not any(weight.is_meta for weight in model.parameters())
    if text == "resnet20":  # 40.6 million multiply-adds an image, by hand
        assert counter.get_total_flops() / 4 == pytest.approx(40.6e6, rel=0.02)
