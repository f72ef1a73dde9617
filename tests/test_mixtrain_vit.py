"""mixTrain's split for Vision Transformers: against forwards written out by hand."""

import pytest
import torch
from conftest import drawn
from dataeff_plugins.mixtrain.split import splitter
from dataeff_plugins.mixtrain.transformers import attention_mask
from probes import fresh_job, fresh_run

from dataeff import DataeffError
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.loop import batches, plan_epoch, prepare
from dataeff.training.network import Network, ghost
from dataeff.training.spying import reading_forbidden

SMALL = "patch_size=2,embed_dim=16,depth=2,num_heads=2"
MODELS = {
    "token": f"vit_tiny_patch16_224[{SMALL}]",
    "registers": f"vit_tiny_patch16_224[{SMALL},reg_tokens=2,no_embed_class=true,pre_norm=true]",
    "distilled": f"deit_tiny_distilled_patch16_224[{SMALL}]",
    "average": f"vit_tiny_patch16_224[{SMALL},global_pool=avg,class_token=false]",
    "average and prefix": f"vit_tiny_patch16_224[{SMALL},global_pool=avg,reg_tokens=2]",
    "average after norm": f"vit_tiny_patch16_224[{SMALL},global_pool=avg,fc_norm=false]",
}
AVERAGES = [name for name in MODELS if name.startswith("average")]
TOKENS = [name for name in MODELS if name not in AVERAGES]

# Three rows on a 4x4 grid of tokens: a pair, a sample alone, a pair with another patch.
ROW = torch.tensor([0, 0, 1, 2, 2])
ALONE = 2


def regions():
    first, second = torch.zeros(2, 4, 4)
    first[1:3, :3] = second[:, :1] = 1
    return torch.stack([first, 1 - first, torch.ones(4, 4), second, 1 - second])


def images():
    return torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def vit(installed, name, vit_split="tail"):
    """Return a network in eval mode and its split; weights large enough that attention matters."""
    run = fresh_run(installed, model=MODELS[name])
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in run.model.parameters():
            weight.normal_(std=0.3, generator=generator)
    return run.model.eval(), splitter(run, True, vit_split)


def logits(model, split, x, row=ROW, region=None):
    region = regions() if region is None else region
    with torch.no_grad():
        return Network(model)(x, split.between(row, region))


def by_hand(model, tokens):
    """Return the logits of final tokens (1, L, C), pooled as the network's kind of head does."""
    prefix = model.num_prefix_tokens
    if hasattr(model, "head_dist"):
        return ((model.head(tokens[:, 0]) + model.head_dist(tokens[:, 1])) / 2)[0]
    pooled = tokens[:, prefix:].mean(1) if model.global_pool == "avg" else tokens[:, 0]
    return model.head(model.fc_norm(pooled))[0]


# The read-out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AVERAGES)
def test_tail_averages_each_samples_own_tokens(installed, name):
    model, split = vit(installed, name)
    x = images()
    ours = logits(model, split, x)
    for sample, (row, region) in enumerate(zip(ROW, regions(), strict=True)):
        with torch.no_grad():
            tokens = model.forward_features(x[row : row + 1])
            prefix, patches = tokens.split([model.num_prefix_tokens, 16], dim=1)
            own = patches[:, region.flatten().bool()]
            torch.testing.assert_close(ours[sample], by_hand(model, torch.cat([prefix, own], 1)))
            read = split.between(ROW[sample:], regions()[sample:])(tokens.expand(3, -1, -1))
            assert torch.equal(read[:1, : model.num_prefix_tokens], prefix)


@pytest.mark.parametrize("vit_split", ["tail", "block"])
@pytest.mark.parametrize("name", MODELS)
def test_a_sample_alone_or_with_all_cells_sees_the_ordinary_network(installed, name, vit_split):
    model, split = vit(installed, name, vit_split)
    x, region = images(), regions()
    region[0], region[1] = 1, 0
    ours = logits(model, split, x, region=region)
    with torch.no_grad():
        plain = model(x)
    torch.testing.assert_close(ours[ALONE], plain[1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours[0], plain[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(ours[3], plain[2], atol=1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_block_is_a_forward_over_each_samples_own_tokens(installed, name):
    model, split = vit(installed, name, "block")
    x = images()
    ours = logits(model, split, x)
    for sample, (row, region) in enumerate(zip(ROW, regions(), strict=True)):
        with torch.no_grad():
            tokens = model._pos_embed(model.patch_embed(x[row : row + 1]))
            prefix, patches = tokens.split([model.num_prefix_tokens, 16], dim=1)
            tokens = torch.cat([prefix, patches[:, region.flatten().bool()]], dim=1)
            tokens = model.norm(model.blocks(model.norm_pre(tokens)))
            expected = by_hand(model, tokens)
        torch.testing.assert_close(ours[sample], expected, atol=1e-5, rtol=1e-5)


# Who sees whom ---------------------------------------------------------------------------------


def changed_by_the_other(model, split):
    """Return whose logits change, beyond rounding, with the pixels of the first row's second."""
    x, pixels = images(), regions()[1].repeat_interleave(2, 0).repeat_interleave(2, 1)
    before = logits(model, split, x)
    x[0] += 3 * pixels
    return ((logits(model, split, x) - before).abs().amax(1) > 1e-5).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_block_hides_the_other_sample_and_tail_does_not(installed, name):
    block, tail = (vit(installed, name, vit_split) for vit_split in ("block", "tail"))
    assert changed_by_the_other(*block) == [False, True, False, False, False]
    assert changed_by_the_other(*tail) == [True, True, False, False, False]
    assert not block[1].note
    assert "attention" in tail[1].note


@pytest.mark.parametrize("name", TOKENS)
def test_tail_keeps_prefix_tokens_to_their_own_patches(installed, name):
    """In one block, patches cannot pass on what they hear: the prefix hears its own alone."""
    model, split = vit(installed, name)
    model.blocks = model.blocks[:1]
    assert changed_by_the_other(model, split) == [False, True, False, False, False]


@pytest.mark.parametrize("block", [False, True])
def test_attention_mask_by_hand(block):
    # Two prefixes A and B, then patches: a of the first, b of the second; in a row of one, a and a.
    free = not block
    owned = torch.tensor([[[1, 0], [0, 1]], [[1, 1], [0, 0]]]).bool()
    pair = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, free], [0, 1, free, 1]]
    alone = [[1, 0, 1, 1], [0, 1, 0, 0], [1, 0, 1, 1], [1, 0, 1, 1]]
    mask = attention_mask(owned, 1, block)
    assert torch.equal(mask, torch.tensor([[pair], [alone]]).bool())


def test_attention_need_not_be_fused(installed):
    model, split = vit(installed, "token", "block")
    fused = logits(model, split, images())
    for block in model.blocks:
        block.attn.fused_attn = False
    torch.testing.assert_close(logits(model, split, images()), fused)


# On devices and in training --------------------------------------------------------------------


@pytest.mark.parametrize("vit_split", ["tail", "block"])
@pytest.mark.parametrize("name", MODELS)
def test_needs_no_data_and_gives_gradients(installed, name, vit_split):
    model, split = vit(installed, name, vit_split)
    between = split.between(ROW.to("meta"), regions().to("meta"))
    assert Network(ghost(model))(images().to("meta"), between).shape == (5, 4)
    # The second of a pair alone: its copy of the prefix is the same parameter.
    Network(model)(images(), split.between(ROW, regions()))[1].sum().backward()
    for weight, parameter in model.named_parameters():
        assert parameter.grad is not None, weight
        assert parameter.grad.isfinite().all(), weight
        assert parameter.grad.any(), weight


TRAININGS = [
    ("average", "mixtrain_cutmix"),
    ("average", "mixtrain_cutmix[selection=none]+amp"),
    ("average and prefix", "mixtrain_cutmix[selection=none,vit_split=block]"),
    ("token", "mixtrain_cutmix"),
    ("token", "mixtrain_cutmix[selection=none]+amp"),
    ("token", "mixtrain_cutmix[selection=none,vit_split=block]"),
    ("token", "mixtrain_cutmix[selection=none,vit_split=block,patch=cutmix_beta,cells=soft]"),
    ("distilled", "mixtrain_cutmix[selection=none]"),
]


@pytest.mark.parametrize(("name", "strategy"), drawn(TRAININGS, 3))
def test_trains(installed, name, strategy):
    task = TASK.model_copy(update={"model": MODELS[name]})
    result = train_tiny(strategy, installed=installed, task=task)
    record = result.record
    assert record["status"] == "finished", record["error"]
    assert torch.isfinite(weights(result)).all()
    assert record["columns"]["mixed_share"] > 0
    assert ("mixtrain_note" in record["columns"]) == ("block" not in strategy)
    assert result.epochs[-1]["train_loss"] < result.epochs[0]["train_loss"]


@pytest.mark.parametrize("vit_split", ["tail", "block"])
@pytest.mark.parametrize("name", ["average", "token"])
def test_hot_loop_reads_nothing_back(installed, name, vit_split):
    text = f"mixtrain_cutmix[selection=none,vit_split={vit_split}]"
    job = fresh_job(installed, text, model=MODELS[name])
    prepare(job)
    plan = plan_epoch(job)
    with reading_forbidden(job):
        for _ in batches(job, plan):
            pass


# What it refuses -------------------------------------------------------------------------------

RELPOS = "vit_relpos_small_patch16_224[patch_size=2,embed_dim=16,depth=1,num_heads=2]"


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            "torchvision:vit_b_16[patch_size=4,hidden_dim=8,mlp_dim=8,num_layers=1,num_heads=1]",
            "timm's vit_",
        ),
        ("eva02_tiny_patch14_224[patch_size=2,embed_dim=24,depth=1,num_heads=3]", "timm's vit_"),
        (RELPOS, "timm's vit_"),
        (f"vit_tiny_patch16_224[{SMALL},global_pool=map]", "timm's vit_"),
        (f"vit_tiny_patch16_224[{SMALL},patch_drop_rate=0.5]", "patch_drop_rate: leave that"),
        (
            f"vit_tiny_patch16_224[{SMALL},global_pool=avg,pool_include_prefix=true]",
            "pool_include_prefix: leave that",
        ),
        (f"vit_tiny_patch16_224[{SMALL.replace('size=2', 'size=8')}]", "smaller patch_size"),
    ],
)
def test_what_cannot_be_split_is_said_before_training(installed, model, says):
    with pytest.raises(DataeffError, match=says) as error:
        fresh_job(installed, "mixtrain_cutmix", model=model)
    assert "mixtrain_mixup" in str(error.value)


@pytest.mark.parametrize("instead", ["mixtrain_mixup", "mixtrain_cutmix[interference=off]"])
def test_what_is_offered_instead_trains(installed, instead):
    task = TASK.model_copy(update={"model": RELPOS})
    assert train_tiny(instead, installed=installed, task=task).record["status"] == "finished"
