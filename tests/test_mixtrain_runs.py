"""Whole runs of mixTrain: what they count, what they refuse, and with whom they compose."""

from collections import defaultdict
from itertools import combinations

import pytest
import torch
from dataeff_plugins.mixtrain.split import MapSplit
from PIL import Image
from probes import Stateless, fresh_run
from torch import nn

from dataeff import DataeffError, hookimpl
from dataeff.errors import StrategyConflict
from dataeff.plugins import load_plugins
from dataeff.testing import TASK, lab_of, train_tiny, weights

INSTALLED = load_plugins()
N, EPOCHS = 81, 4
HARD = TASK.model_copy(
    update={
        "dataset": "synthetic[samples=90,test_samples=20,classes=4,size=8,difficulty=0.9]",
        "epochs": 6,
        "lr": 0.1,
    }
)
"""Noise, mostly: some samples stay wrong, and their losses rise now and then."""


class Counter(Stateless):
    """Count rows, pairs and samples of every batch."""

    def __init__(self):
        self.batches = defaultdict(list)
        self.seen = defaultdict(list)

    @hookimpl
    def observe_batch(self, run, batch, losses):
        widths = torch.bincount(batch.row, minlength=batch.R)
        self.batches[run.epoch].append(widths.tolist())
        self.seen[run.epoch] += batch.idx.tolist()
        assert int(batch.mixed.sum()) == 2 * int((widths == 2).sum())

    def rows(self, epoch):
        return sum(len(batch) for batch in self.batches[epoch])

    def pairs(self, epoch):
        return sum(batch.count(2) for batch in self.batches[epoch])


def counted(text, task=TASK, seed=0):
    """Train; return what was counted and the result."""
    counter = Counter()
    return counter, train_tiny(text, counter, installed=INSTALLED, task=task, seed=seed)


# Counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
@pytest.mark.parametrize("batching", ["units", "homogeneous"])
def test_with_nothing_mixed_it_is_the_baseline_to_the_bit(name, batching):
    text = f"{name}[selection=region3,k=100,batching={batching}]"
    result = train_tiny(text, installed=INSTALLED)
    plain = train_tiny("baseline", installed=INSTALLED)
    assert torch.equal(weights(result), weights(plain))
    assert result.record["rows"] == plain.record["rows"]
    assert result.record["steps"] == plain.record["steps"]
    assert result.record["columns"]["mixed_share"] == 0


@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_epoch_trains_as_many_rows_as_samples_less_pairs(name, seed):
    counter, result = counted(name, seed=seed)
    pairs = [counter.pairs(epoch) for epoch in range(EPOCHS)]
    assert [counter.rows(epoch) for epoch in range(EPOCHS)] == [N - count for count in pairs]
    assert pairs[:2] == [0, 0]
    assert pairs[2] > 0
    assert result.record["rows"]["trained"] == EPOCHS * N - sum(pairs)
    assert result.record["rows"]["forwarded"] == EPOCHS * N - sum(pairs), "one pass for a pair"
    assert result.record["rows"]["loaded"] == EPOCHS * N, "both samples of a pair are loaded"
    share = result.record["columns"]["mixed_share"]
    assert share == pytest.approx(2 * sum(pairs) / (EPOCHS * N))
    steps = sum(len(counter.batches[epoch]) for epoch in range(EPOCHS))
    assert result.record["steps"] == steps
    for epoch in range(EPOCHS):
        assert steps_of(counter.rows(epoch)) == len(counter.batches[epoch])
        assert sorted(counter.seen[epoch]) == sorted(counter.seen[0])


def steps_of(rows, batch_size=TASK.batch_size):
    full, rest = divmod(rows, batch_size)
    return max(1, full + (rest > 4))


@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
def test_batches_hold_pairs_and_singles_together_unless_asked(name):
    counter, _ = counted(name, task=HARD)
    kinds = [set(batch) for epoch in range(6) for batch in counter.batches[epoch]]
    assert {1, 2} in kinds


@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
@pytest.mark.parametrize("batch_size", [5, 16])
def test_homogeneous_batches_are_of_one_kind(name, batch_size):
    task = HARD.model_copy(update={"batch_size": batch_size})
    counter, _ = counted(f"{name}[batching=homogeneous]", task=task)
    kinds = set()
    for epoch in range(6):
        batches, pairs = counter.batches[epoch], counter.pairs(epoch)
        assert all(len(set(batch)) == 1 for batch in batches), "the case has more than one of each"
        assert min(len(batch) for batch in batches) > 1
        singles = counter.rows(epoch) - pairs
        expected = sum(steps_of(rows, batch_size) for rows in (pairs, singles) if rows)
        assert len(batches) == expected
        kinds |= {batch[0] for batch in batches}
    assert kinds == {1, 2}


@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
@pytest.mark.parametrize("interference", ["on", "off"])
def test_naive_mixing_trains_half_as_many_rows(name, interference):
    text = f"{name}[selection=none,interference={interference}]"
    counter, result = counted(text)
    for epoch in range(EPOCHS):
        assert (counter.rows(epoch), counter.pairs(epoch)) == (41, 40)
    assert result.record["rows"]["trained"] == EPOCHS * 41


@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
def test_skipping_omits_samples_and_mixes_none(name):
    counter, result = counted(f"{name}[selection=region3,region3=skip]", task=HARD)
    trained = [len(counter.seen[epoch]) for epoch in range(6)]
    assert trained[:2] == [N, N]
    assert min(trained) < N
    assert result.record["rows"]["trained"] == sum(trained)
    assert result.record["rows"]["loaded"] == sum(trained)
    assert not any(counter.pairs(epoch) for epoch in range(6))
    times = result.samples["times_trained"]
    assert int(times.sum()) == sum(trained)


def test_ablations_mix_different_samples():
    """Up to the first mixed epoch all train alike, so that their choices can be compared."""
    task = HARD.model_copy(update={"epochs": 2})
    sets = {}
    for kind in ("full", "region1", "region3", "average_loss", "incorr"):
        result = train_tiny(f"mixtrain_cutmix[selection={kind}]", installed=INSTALLED, task=task)
        assert result.record["rows"]["trained"] == 2 * N
        sets[kind] = set(result.run.strategies[0].plugin.status.nonzero()[:, 0].tolist())
    assert sets["full"] == sets["region1"] | sets["region3"]
    assert not sets["region1"] & sets["region3"]
    assert sets["full"] < sets["incorr"], "no rise is needed there"
    for one, other in combinations(sets, 2):
        assert sets[one] != sets[other], (one, other)


def test_ablations_train_different_rows():
    rows = {}
    for kind in ("full", "region3", "accuracy", "none"):
        rows[kind] = counted(f"mixtrain_cutmix[selection={kind}]", task=HARD)[0]
    pairs = {kind: [counter.pairs(epoch) for epoch in range(6)] for kind, counter in rows.items()}
    assert pairs["none"] == [40] * 6
    assert pairs["accuracy"][0] == 0 < pairs["accuracy"][1], "it needs no thresholds"
    assert sum(pairs["region3"]) < sum(pairs["full"]) < 6 * 40
    assert len({tuple(line) for line in pairs.values()}) == 4


def test_options_that_change_the_loss_or_the_image_change_the_weights():
    texts = [
        "mixtrain_cutmix",
        "mixtrain_cutmix[interference=off]",
        "mixtrain_cutmix[mix_loss=sum]",
        "mixtrain_cutmix[patch=cutmix_beta]",
        "mixtrain_cutmix[patch=cutmix_beta,cells=soft]",
        "mixtrain_cutmix[batching=homogeneous]",
        "mixtrain_mixup",
        "mixtrain_mixup[interference=off]",
        "mixtrain_mixup[clip=0.3]",
        "mixtrain_mixup[mix_loss=sum]",
    ]
    found = {text: weights(train_tiny(text, installed=INSTALLED)) for text in texts}
    for one, other in combinations(texts, 2):
        assert not torch.equal(found[one], found[other]), (one, other)


def test_bootstrap_mixes_from_the_second_epoch():
    counter, _ = counted("mixtrain_cutmix[bootstrap=true]")
    assert counter.pairs(0) == 0
    assert counter.pairs(1) > 0


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
@pytest.mark.parametrize("batching", ["units", "homogeneous"])
def test_sets_of_a_few_samples_train(n, name, batching):
    changes = {"dataset": f"synthetic[samples={n},test_samples=4,classes=2,size=8]"}
    task = TASK.model_copy(update={**changes, "validation": 0.0, "epochs": 2, "batch_size": 2})
    counter, result = counted(f"{name}[selection=none,batching={batching}]", task=task)
    assert result.record["status"] == "finished"
    assert [counter.rows(epoch) for epoch in range(2)] == [n - n // 2] * 2
    assert torch.isfinite(weights(result)).all()
    if n > 2:
        assert min(len(batch) for batch in counter.batches[0]) > 1


# With others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["shrink", "accumulate"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
def test_random_backprop_drops_of_what_is_mixed_and_mixes_of_what_is_left(name, mode, first):
    """Rows are dropped of the plan with pairs, or samples before they are paired."""
    drop = f"random_backprop[keep=0.5,mode={mode}]"
    pair = [f"{name}[selection=none]", drop]
    counter, result = counted("+".join(pair if first else pair[::-1]))
    for epoch in range(EPOCHS):
        assert counter.rows(epoch) == 20
        assert counter.pairs(epoch) == len(counter.seen[epoch]) - 20 >= 19
        assert len(set(counter.seen[epoch])) == len(counter.seen[epoch])
    assert result.record["rows"]["trained"] == EPOCHS * 20


@pytest.mark.parametrize("mode", ["shrink", "accumulate"])
@pytest.mark.parametrize("first", [True, False])
def test_random_backprop_and_selective_mixing_both_show(mode, first):
    drop = f"random_backprop[keep=0.5,mode={mode}]"
    pair = ["mixtrain_cutmix[bootstrap=true]", drop]
    counter, result = counted("+".join(pair if first else pair[::-1]))
    trained = result.record["rows"]["trained"]
    for alone in pair:
        assert trained < counted(alone)[1].record["rows"]["trained"]
    for epoch in range(EPOCHS):
        assert counter.rows(epoch) <= 40
    assert sum(counter.pairs(epoch) for epoch in range(EPOCHS)) > 0
    samples = sum(len(counter.seen[epoch]) for epoch in range(EPOCHS))
    pairs = sum(counter.pairs(epoch) for epoch in range(EPOCHS))
    assert trained == samples - pairs


@pytest.mark.parametrize("redraw", ["never", "epoch"])
@pytest.mark.parametrize("first", [True, False])
def test_random_subset_leaves_fewer_samples_to_pair(redraw, first):
    pair = ["mixtrain_mixup[selection=none]", f"random_subset[keep=0.4,redraw={redraw}]"]
    counter, _ = counted("+".join(pair if first else pair[::-1]))
    for epoch in range(EPOCHS):
        assert len(counter.seen[epoch]) == 32
        assert (counter.rows(epoch), counter.pairs(epoch)) == (16, 16)
    selective = ["mixtrain_mixup[bootstrap=true]", pair[1]]
    counter, result = counted("+".join(selective if first else selective[::-1]))
    pairs = sum(counter.pairs(epoch) for epoch in range(EPOCHS))
    assert pairs > 0
    assert result.record["rows"]["trained"] == EPOCHS * 32 - pairs


@pytest.mark.parametrize("first", [True, False])
def test_short_schedule_leaves_fewer_epochs_to_mix_in(first):
    pair = ["mixtrain_cutmix[selection=none]", "short_schedule[share=0.5]"]
    _, result = counted("+".join(pair if first else pair[::-1]))
    assert result.record["rows"]["trained"] == 2 * 41


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["mixtrain_cutmix", "mixtrain_mixup"])
def test_amp_and_mixing_both_show(name, first):
    kinds = set()

    class Look(Stateless):
        @hookimpl(wrapper=True)
        def network(self):
            result = yield
            kinds.add(result.dtype)
            return result

    pair = [f"{name}[selection=none]", "amp"]
    result = train_tiny(Look(), "+".join(pair if first else pair[::-1]), installed=INSTALLED)
    assert result.record["rows"]["trained"] == EPOCHS * 41
    assert kinds == {torch.bfloat16}
    close = train_tiny(pair[0], installed=INSTALLED)
    assert result.record["train_loss"] == pytest.approx(close.record["train_loss"], abs=0.1)


def test_two_ways_of_mixing_are_a_conflict():
    for pair in ("mixtrain_cutmix+mixtrain_mixup", "intertrain_linavg+mixtrain_cutmix"):
        with pytest.raises(StrategyConflict, match="rows"):
            train_tiny(pair, installed=INSTALLED)


@pytest.mark.parametrize(
    ("alias", "name"),
    [("intertrain_randpatch", "mixtrain_cutmix"), ("intertrain_linavg", "mixtrain_mixup")],
)
def test_the_first_names_are_the_same_methods(alias, name):
    one, other = (train_tiny(text, installed=INSTALLED) for text in (alias, name))
    assert torch.equal(weights(one), weights(other))
    assert one.record["rows"] == other.record["rows"]


# Networks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "size", "says"),
    [
        ("torchvision:squeezenet1_1", 32, "does not average its last feature map"),
        ("test_resnet[global_pool=max]", 32, "does not average its last feature map"),
        ("tiny", 4, "has one cell"),
    ],
)
def test_a_network_that_cannot_be_split_is_refused_before_training(model, size, says):
    data = f"synthetic[samples=20,test_samples=4,classes=3,size={size}]"
    task = TASK.model_copy(update={"model": model, "dataset": data, "epochs": 1})
    counter = Counter()
    with pytest.raises(DataeffError, match=says) as refused:
        train_tiny("mixtrain_cutmix", counter, installed=INSTALLED, task=task)
    sentence = str(refused.value)
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "mixtrain_mixup" in sentence, "it says what to do"
    assert not counter.batches


@pytest.mark.parametrize("text", ["mixtrain_mixup", "mixtrain_cutmix[interference=off]"])
def test_what_the_refusal_recommends_trains(text):
    data = "synthetic[samples=20,test_samples=4,classes=3,size=4]"
    task = TASK.model_copy(update={"dataset": data, "epochs": 3})
    counter, result = counted(text, task=task)
    assert result.record["status"] == "finished"
    assert counter.pairs(2) > 0


@pytest.mark.parametrize("model", ["test_efficientnet", "test_byobnet"])
def test_squeeze_excite_trains_and_says_that_it_leaks(model):
    data = "synthetic[samples=24,test_samples=4,classes=3,size=32]"
    changes = {"model": model, "dataset": data, "epochs": 2, "validation": 0.0}
    task = TASK.model_copy(update=changes)
    result = train_tiny("mixtrain_cutmix[selection=none]", installed=INSTALLED, task=task)
    assert result.record["status"] == "finished"
    assert result.record["rows"]["trained"] == 2 * 12
    assert "sees both samples" in result.record["columns"]["mixtrain_note"]


def test_plain_convolutions_leave_no_note():
    for text in ("mixtrain_cutmix", "mixtrain_mixup"):
        columns = train_tiny(text, installed=INSTALLED).record["columns"]
        assert "mixtrain_note" not in columns


@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.BatchNorm2d(4)])
def test_norms_over_the_image_leak_too(norm):
    network = fresh_run(INSTALLED)
    network.model.layers[1] = norm
    leaks = not isinstance(norm, nn.BatchNorm2d)
    assert bool(MapSplit(network).note) == leaks


# Other shapes and sizes ------------------------------------------------------------------------


class Shrink(Stateless):
    """Train every other batch at half the resolution."""

    @hookimpl
    def resize_batch(self, run, batch):
        if run.batch % 2:
            batch.x = batch.x[:, :, ::2, ::2]


class Layouts(Stateless):
    """Note the shape and the layout of what the network is given."""

    def __init__(self):
        self.shapes = set()
        self.last = True

    @hookimpl
    def observe_batch(self, batch):
        self.shapes.add(tuple(batch.x.shape[1:]))
        self.last &= batch.x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("patch", ["grid", "half", "cutmix_beta"])
def test_patches_follow_the_resolution_of_the_batch(patch):
    size = "synthetic[samples=90,test_samples=20,classes=4,size=16,channels=3]"
    task = TASK.model_copy(update={"dataset": size})
    layouts = Layouts()
    text = f"mixtrain_cutmix[selection=none,patch={patch}]"
    result = train_tiny(text, Shrink(), layouts, installed=INSTALLED, task=task)
    assert layouts.shapes == {(3, 16, 16), (3, 8, 8)}
    assert layouts.last, "mixing must leave the layout that convolutions are fastest in"
    assert torch.isfinite(weights(result)).all()


def test_images_that_are_streamed_from_files_are_mixed_too(tmp_path):
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", 12), ("val", 2)):
        for label in ("a", "b"):
            (tmp_path / split / label).mkdir(parents=True)
            for i in range(count):
                pixels = torch.randint(0, 255, (20, 24, 3), generator=generator, dtype=torch.uint8)
                Image.fromarray(pixels.numpy()).save(tmp_path / split / label / f"{i}.png")
    dataset = f"image_folder[path={tmp_path},size=16]"
    task = TASK.model_copy(update={"dataset": dataset, "batch_size": 8, "validation": 0.0})
    counter, result = counted("mixtrain_cutmix[selection=none]", task)
    assert counter.rows(0) == 12
    assert sorted(counter.seen[0]) == list(range(24))
    assert result.record["rows"]["loaded"] == 4 * 24, "mixing reads every image of a row"


def test_a_compiler_sees_few_graphs_however_many_pairs_a_batch_holds():
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    task = HARD.model_copy(update={"compile": "eager"})
    compiled = train_tiny("mixtrain_cutmix", installed=INSTALLED, task=task)
    counter, plain = counted("mixtrain_cutmix", HARD)
    assert len({sum(batch) for batches in counter.batches.values() for batch in batches}) > 5
    # Plain and split; with one size and with any; and scoring without gradients.
    assert counters["stats"]["unique_graphs"] <= 6
    assert torch.allclose(weights(compiled), weights(plain), atol=1e-4)


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ("mixtrain_cutmix[cells=soft]", "cells has no effect with patch=grid"),
        ("mixtrain_cutmix[interference=off,vit_split=block]", "vit_split has no effect"),
        ("mixtrain_cutmix[selection=region1,k=2]", "k has no effect with selection=region1"),
        ("mixtrain_mixup[selection=none,bootstrap=true]", "bootstrap has no effect"),
        ("mixtrain_mixup[selection=accuracy,memory=0.5]", "memory has no effect"),
        ("mixtrain_mixup[interference=off,clip=0.1]", "clip has no effect with interference=off"),
    ],
)
def test_a_parameter_without_effect_is_refused(text, idle):
    with pytest.raises(DataeffError, match=idle):
        lab_of(INSTALLED).composition(text)
