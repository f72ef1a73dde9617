"""The numbers behind mixTrain's figures: against naive loops, and without a trace in training."""

import math
from itertools import pairwise

import pytest
import torch
from dataeff_plugins.mixtrain import analysis
from dataeff_plugins.mixtrain.probes import (
    Amenability,
    Detection,
    Regions,
    cutmix,
    read_split,
    shown_epoch,
)
from dataeff_plugins.mixtrain.runs import savings
from dataeff_plugins.mixtrain.selection import limits_of
from dataeff_plugins.mixtrain.split import splitter
from probes import fresh_run

from dataeff import Strategy, hookimpl
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.job import Place

FULL = "mixtrain_cutmix"
NAIVE = "mixtrain_cutmix[selection=none,interference=off]"


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels_of(n, classes, seed=1):
    return torch.randint(classes, (n, 2), generator=torch.Generator().manual_seed(seed))


# Composites --------------------------------------------------------------------------------------


def ranking(line):
    return line.argsort(descending=True).tolist()


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_right_after_mixing_is_the_papers_rule(classes):
    logits, labels = drawn(200, classes), labels_of(200, classes)
    right = analysis.right_after_mixing(logits, labels)
    assert (labels[:, 0] == labels[:, 1]).any(), "pairs of one class are among them"
    for line, pair, found in zip(logits, labels.tolist(), right.tolist(), strict=True):
        first, second = ranking(line)[:2]
        if pair[0] == pair[1]:
            assert found == [first == pair[0]] * 2
        elif {first, second} == set(pair):
            assert found == [True, True]
        else:
            assert found == [first == label for label in pair]


def test_a_label_that_is_second_behind_a_strangers_is_not_found():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    assert analysis.right_after_mixing(logits, torch.tensor([[1, 0]])).tolist() == [[False, False]]
    assert analysis.right_after_mixing(logits, torch.tensor([[1, 2]])).tolist() == [[True, True]]
    assert analysis.right_after_mixing(logits, torch.tensor([[1, 1]])).tolist() == [[False, False]]


def test_with_logits_of_its_own_a_sample_is_right_if_it_comes_first():
    logits, labels = drawn(50, 2, 4), labels_of(50, 4)
    expected = [
        [ranking(logits[i, j])[0] == labels[i, j] for j in range(2)] for i in range(len(labels))
    ]
    assert analysis.right_after_mixing(logits, labels).tolist() == expected


def test_the_second_sample_is_looked_for_in_the_top_five():
    logits, labels = drawn(300, 12), labels_of(300, 12)
    found, asked = analysis.second_in_top5(logits, labels)
    for line, (a, b), is_found, is_asked in zip(
        logits, labels.tolist(), found.tolist(), asked.tolist(), strict=True
    ):
        top = ranking(line)[:5]
        assert is_asked == (top[0] in (a, b) and a != b)
        other = b if top[0] == a else a
        assert is_found == (is_asked and other in top)
    assert 0 < int(found.sum()) < int(asked.sum())


def test_a_tally_counts_singles_and_boths():
    logits, labels = drawn(100, 6), labels_of(100, 6)
    right = analysis.right_after_mixing(logits, labels).tolist()
    counts = analysis.tally(logits, labels)
    assert counts["right"] == sum(map(sum, right))
    assert counts["single"] == sum(sum(pair) == 1 for pair in right)
    assert counts["both"] == sum(sum(pair) == 2 for pair in right)
    assert (counts["samples"], counts["pairs"]) == (200, 100)
    shares = analysis.shares(counts)
    assert shares["right"] == pytest.approx(shares["both"] + shares["single"] / 2)
    assert "second_asked" not in analysis.tally(drawn(5, 2, 6), labels_of(5, 6))
    assert math.isnan(analysis.shares({})["right"])


def test_each_constituent_has_its_own_loss():
    shared, own, labels = drawn(20, 5), drawn(20, 2, 5), labels_of(20, 5)
    together = analysis.constituent_losses(shared, labels).tolist()
    apart = analysis.constituent_losses(own, labels).tolist()
    for i, pair in enumerate(labels.tolist()):
        expected = [-float(shared[i].log_softmax(0)[y]) for y in pair]
        assert together[i] == pytest.approx(expected, abs=1e-5)
        expected = [-float(own[i, j].log_softmax(0)[y]) for j, y in enumerate(pair)]
        assert apart[i] == pytest.approx(expected, abs=1e-5)


def test_composites_are_two_halves_and_each_is_read_off_its_own(installed):
    run = fresh_run(installed)
    x = torch.stack([torch.full(run.shape, float(value)) for value in range(6)])
    pairs = torch.tensor([[0, 1], [2, 3], [4, 5]])
    with run.scoring():
        parts = splitter(run, True, "tail")
        images, cells = cutmix(run, parts, x, pairs)
        for pair, image in zip(pairs.tolist(), images, strict=True):
            assert sorted(image.unique().tolist()) == pair
            assert float((image == pair[0]).float().mean()) == 0.5
        logits = read_split(run, parts, images, cells)
        assert logits.shape == (3, 2, 4)
        swapped = read_split(run, parts, images, 1 - cells)
        torch.testing.assert_close(logits, swapped.flip(1))


# Losses and epochs -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5, 12, 13, 90, 300])
def test_epochs_are_spread_evenly_and_the_last_is_there(count):
    epochs = analysis.spread(count, 12)
    assert epochs[-1] == count - 1
    assert len(epochs) <= 12
    assert epochs == sorted(set(epochs))
    if count <= 12:
        assert epochs == list(range(count))
    else:
        gaps = [b - a for a, b in pairwise(epochs)]
        assert max(gaps) - min(gaps) <= 1


def test_bins_of_the_loss_hold_means():
    loss = 10 ** drawn(500).abs().neg()
    value = drawn(500, seed=3)
    lines = analysis.by_loss(loss, {"value": value}, per_decade=2, least=5)
    assert sum(line["samples"] for line in lines) >= 480
    for line in lines:
        low, high = line["loss"] / 10**0.25, line["loss"] * 10**0.25
        inside = [
            v for one, v in zip(loss.tolist(), value.tolist(), strict=True) if low <= one < high
        ]
        assert line["samples"] == pytest.approx(len(inside), abs=1)
        assert line["value"] == pytest.approx(sum(inside) / len(inside), abs=0.05)


def test_shares_and_quantiles():
    part, whole = torch.tensor([1, 0, 1, 0]).bool(), torch.tensor([1, 1, 0, 1]).bool()
    assert analysis.share_of(part, whole) == pytest.approx(1 / 3)
    assert math.isnan(analysis.share_of(part, torch.zeros(4).bool()))
    loss = torch.arange(101.0)
    right = torch.ones(101).bool()
    assert analysis.loss_below_which(loss, right) == pytest.approx(95)
    assert math.isnan(analysis.loss_below_which(loss, ~right))


def test_a_histogram_counts_as_a_loop_does():
    values = drawn(200).abs()
    edges = [0.0, 0.2, 0.5, 1.0]
    heights = analysis.histogram(values, edges)
    expected = [0, 0, 0]
    for value in values.tolist():
        expected[0 if value < 0.2 else 1 if value < 0.5 else 2] += 1
    assert heights == pytest.approx([count / 200 for count in expected])
    assert all(math.isnan(height) for height in analysis.histogram(values[:0], edges))


def test_the_shown_epoch_is_30_or_the_middle():
    assert [shown_epoch(count) for count in (4, 12, 30, 31, 90)] == [2, 6, 15, 30, 30]


def test_savings_compare_work_and_seconds():
    def record(flops, seconds):
        return {"flops": flops, "clocks": {"prepare": 0.0, "train": seconds}}

    saved = savings(record(50, 8.0), record(100, 10.0))
    assert saved["speedup_counted"] == 2
    assert saved["speedup_measured"] == pytest.approx(1.25)
    assert (saved["saved_counted"], saved["saved_measured"]) == pytest.approx((0.5, 0.2))


# Probes ------------------------------------------------------------------------------------------

LOOKING = [
    ("baseline", Regions),
    (NAIVE, lambda: Detection(operators=("cutmix", "zeropatch", "mixup", "split"))),
    (FULL, Amenability),
]


@pytest.mark.parametrize(
    ("strategy", "probe"), LOOKING, ids=["regions", "detection", "amenability"]
)
def test_looking_on_changes_nothing(installed, strategy, probe):
    alone = train_tiny(strategy, installed=installed)
    watched = train_tiny(strategy, probe(), installed=installed)
    assert torch.equal(weights(watched), weights(alone))
    assert watched.record["flops"] == alone.record["flops"]
    for kind, rows in alone.record["rows"].items():
        assert watched.record["rows"][kind] == rows
    assert not watched.record["ranked"]


def test_looking_on_takes_no_time_of_training(installed, monkeypatch):
    plain, clocks = Detection._found, set()

    def watched(self, run, *rest):
        clocks.add(run._job.meter.running[-1])
        return plain(self, run, *rest)

    monkeypatch.setattr(Detection, "_found", watched)
    result = train_tiny(NAIVE, Detection(), installed=installed)
    assert clocks == {"off_diagnostics"}
    assert result.record["rows"]["off_diagnostics_scored"] > 0
    assert "scored" not in result.record["rows"]


def test_a_stopped_probe_goes_on_to_the_same_numbers(installed, tmp_path):
    class Stop(Exception):
        pass

    def stop(epoch, epochs, record):
        if epoch == 3:
            raise Stop

    whole, stopped, resumed = (Amenability() for _ in range(3))
    train_tiny(FULL, whole, installed=installed)
    with pytest.raises(Stop):
        train_tiny(FULL, stopped, installed=installed, place=Place(tmp_path), on_epoch=stop)
    train_tiny(FULL, resumed, installed=installed, place=Place(tmp_path))
    for name in ("lines", "gaps", "kept"):
        assert str(getattr(resumed, name)) == str(getattr(whole, name)), "as texts: nan is not nan"
    assert torch.equal(resumed.shown["loss"], whole.shown["loss"])


def test_regions_are_those_of_the_policy(installed):
    """Replay the baseline's losses with a loop over the samples."""

    class Diary(Strategy):
        def __init__(self):
            self._pages = []

        @hookimpl
        def on_epoch_end(self, run):
            ledger = run.ledger
            self._pages.append((ledger.last_loss.tolist(), ledger.last_correct.tolist()))

    diary, probe = Diary(), Regions()
    noisy = TASK.dataset.replace("difficulty=0.3", "label_noise=0.3")
    task = TASK.model_copy(update={"dataset": noisy})
    run = train_tiny("baseline", diary, probe, installed=installed, task=task).run
    samples = run.split("train").tolist()
    hard = dict.fromkeys(samples, 0)
    right, wrong = [], []
    for loss, correct in diary._pages:
        limit = sum(wrong) / len(wrong) if wrong else math.inf
        for i in samples:
            hard[i] += loss[i] > limit
        right += [loss[i] for i in samples if correct[i]]
        wrong += [loss[i] for i in samples if not correct[i]]
    assert {i: int(probe.hard[i]) for i in samples} == hard
    assert sum(hard.values()) > 0
    assert probe.epochs == len(diary._pages) - 1
    assert limits_of(probe.sums).incorr == pytest.approx(sum(wrong) / len(wrong))


def test_amenability_looks_where_the_policy_looks(installed):
    probe = Amenability()
    run = train_tiny(FULL, probe, installed=installed).run
    history = run.strategies[0].plugin.history
    assert [line["epoch"] for line in probe.lines] == [1, 2, 3], "epoch 0 has no thresholds"
    last, samples = probe.lines[-1], run.split("train")
    assert last["mid"] == history[-1]["mid"]
    loss, right = run.ledger.last_loss[samples], run.ledger.last_correct[samples]
    below = [one < last["mid"] for one, ok in zip(loss.tolist(), right.tolist(), strict=True) if ok]
    assert last["right_below"] == pytest.approx(sum(below) / len(below))
    assert len(probe.shown["loss"]) == len(samples)
    assert {line["epoch"] for line in probe.gaps} == {0, 1, 2, 3}


def test_a_probe_mixes_no_more_samples_and_epochs_than_it_may(installed):
    probe = Detection(samples=20, epochs=2, operators=("mixup",))
    record = train_tiny(NAIVE, probe, installed=installed).record
    assert [line["epoch"] for line in probe.lines] == [0, 3]
    looked = record["rows"]["off_diagnostics_scored"]
    assert 2 * 20 <= looked <= 2 * (20 + 5 * 10)
