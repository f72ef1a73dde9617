"""EL2N, GraNd and forgetting against plain references, and who is kept by a score."""

import math

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins._pruning import kept_by_score
from dataeff_plugins.el2n import error_norm
from dataeff_plugins.forgetting import EventCounter
from dataeff_plugins.grand import gradient_norm, last_layer_norm
from hypothesis import given
from hypothesis import strategies as st
from probes import Stateless, fresh_run

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny, weights


def plugin_of(text, **options):
    result = train_tiny(text, **options)
    return result.run.strategies[0].plugin, result


class Networks(Stateless):
    """Train scoring networks by hand, as the strategy is to do it."""

    def __init__(self, name, models, until, shared=False):
        self.given = name, models, until, shared
        self.children = []

    @hookimpl
    def prepare(self, run):
        name, models, until, shared = self.given
        self.children = [
            run.train_child(name, k, TASK.epochs, until=until, shared=shared) for k in range(models)
        ]


def networks(*given):
    probe = Networks(*given)
    result = train_tiny(probe)
    return probe.children, result.run


def images(run, samples):
    return next(iter(run.train.stream([samples], None)))


# The scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reuse", [False, True])
def test_el2n_is_the_mean_over_networks_of_the_errors_length(reuse):
    plugin, result = plugin_of(f"el2n[models=3,epochs=2,reuse={str(reuse).lower()}]")
    children, run = networks("el2n", 3, 2, reuse)
    samples = run.split("train").tolist()
    for i in samples:
        total = 0.0
        for child in children:
            child.model.eval()
            with torch.no_grad():
                p = child.model(images(run, torch.tensor([i])))[0].softmax(0).tolist()
            y = int(run.labels[i])
            total += math.sqrt(sum((p[c] - (c == y)) ** 2 for c in range(4)))
        assert float(plugin.scores[i]) == pytest.approx(total / 3, rel=1e-4)
    held_out = result.run.split("validation")
    assert torch.isnan(plugin.scores[held_out]).all()


def test_el2n_lies_between_nothing_and_the_root_of_two():
    sure = torch.tensor([[50.0, 0, 0], [50.0, 0, 0]])
    assert error_norm(sure, torch.tensor([0, 1])).tolist() == pytest.approx([0, math.sqrt(2)])


@pytest.mark.parametrize("layers", ["all", "last"])
def test_grand_is_the_mean_over_networks_of_the_gradients_length(layers):
    plugin, _ = plugin_of(f"grand[models=2,epochs=1,layers={layers}]")
    children, run = networks("grand", 2, 1)
    for i in run.split("train").tolist()[::7]:
        total = 0.0
        for child in children:
            child.model.eval()
            child.model.zero_grad()
            x, y = images(run, torch.tensor([i])), run.labels[i : i + 1]
            F.cross_entropy(child.model(x), y).backward()
            part = child.model if layers == "all" else child.model.head
            total += math.sqrt(sum(float((p.grad**2).sum()) for p in part.parameters()))
        assert float(plugin.scores[i]) == pytest.approx(total / 2, rel=1e-3)


def test_a_gradient_does_not_hang_on_the_rest_of_the_batch():
    run = train_tiny("baseline").run
    x, y = images(run, torch.arange(8)), run.labels[:8]
    together = gradient_norm(run.model.eval(), x, y)
    alone = torch.cat([gradient_norm(run.model, x[i : i + 1], y[i : i + 1]) for i in range(8)])
    assert torch.allclose(together, alone, rtol=1e-4)
    assert all(p.grad is None for p in run.model.parameters())


def test_gradients_are_counted_as_work():
    rows = plugin_of("grand[models=2,epochs=1]")[1].record["rows"]
    assert rows["gradient"] == 2 * 81
    flops = [
        plugin_of(f"grand[models=1,epochs=1,layers={layers}]")[1].record["flops"]
        for layers in ("all", "last")
    ]
    run = train_tiny("baseline").record
    row = run["flops"] / (3 * run["rows"]["trained"])
    assert flops[0] - flops[1] == pytest.approx(2 * 81 * row)


def test_last_layer_norm_is_that_of_the_outer_product():
    generator = torch.Generator().manual_seed(0)
    logits, h = (torch.randn(5, k, generator=generator) for k in (3, 7))
    y = torch.tensor([0, 1, 2, 0, 1])
    error = logits.softmax(1) - F.one_hot(y, 3)
    for i, norm in enumerate(last_layer_norm(logits, y, h).tolist()):
        gradient = torch.cat([torch.outer(error[i], h[i]).flatten(), error[i]])
        assert norm == pytest.approx(float(gradient.norm()), rel=1e-5)


class Presentations(Stateless):
    """Write down, per sample, whether each presentation was right."""

    def __init__(self):
        self.right = {}

    @hookimpl
    def observe_batch(self, batch, logits):
        for i, hit in zip(batch.idx.tolist(), (logits.argmax(1) == batch.y).tolist(), strict=True):
            self.right.setdefault(i, []).append(hit)


def forgotten(right):
    """Count as the paper does, one presentation after the other."""
    if not any(right):
        return len(right)
    events, before = 0, False
    for now in right:
        events += before and not now
        before = now
    return events


def test_forgetting_counts_events_over_complete_runs():
    class Parent(Stateless):
        @hookimpl
        def prepare(self, run):
            self.books = [Presentations() for _ in range(2)]
            for k, book in enumerate(self.books):
                run.train_child("forgetting", k, TASK.epochs, probe=book)

    parent = Parent()
    run = train_tiny(parent).run
    plugin, _ = plugin_of("forgetting[models=2]")
    for i in run.split("train").tolist():
        counts = [forgotten(book.right[i]) for book in parent.books]
        assert len(parent.books[0].right[i]) == TASK.epochs
        assert float(plugin.scores[i]) == sum(counts) / 2
    assert plugin.scores.nan_to_num().sum() > 0


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_the_counter_counts_what_the_paper_counts(right):
    class One:
        idx, y = torch.tensor([1]), torch.tensor([0])

    counter = EventCounter(3, torch.device("cpu"))
    for hit in right:
        counter.observe_batch(One, torch.tensor([[1.0, 0.0] if hit else [0.0, 1.0]]))
    assert counter.score().tolist() == [0, forgotten(right), 0]


def test_equal_counts_are_told_apart_at_random():
    masks = [plugin_of("forgetting[models=1,epochs=1,keep=0.5]", seed=s)[0] for s in (0, 1)]
    first = masks[0]
    kept = first.mask.nonzero()[:, 0]
    tied = (first.scores == first.scores[kept].min()).nonzero()[:, 0]
    chosen = first.mask[tied]
    assert chosen.any()
    assert not chosen.all(), "the border runs through equal counts, as this test needs it"
    assert not torch.equal(chosen, chosen.sort(descending=True).values)
    assert not torch.equal(chosen, chosen.sort().values)


# Scoring networks --------------------------------------------------------------------------------


def test_scoring_networks_stand_where_the_tasks_schedule_is():
    """At epoch 1 of 4, a cosine has hardly fallen; compressed into one epoch it would be zero."""
    (child,), _ = networks("el2n", 1, 1)
    assert child.epoch == 1
    assert child.optimizer.param_groups[0]["lr"] > 0.8 * TASK.lr


def test_no_epochs_means_untrained_networks():
    plugin, result = plugin_of("grand[models=2,epochs=0]")
    assert "prepare_trained" not in result.record["rows"]
    assert plugin.scores.nan_to_num().sum() > 0


def test_scoring_ends_with_the_task():
    _, result = plugin_of("el2n[models=1,epochs=50]")
    assert result.record["rows"]["prepare_trained"] == 81 * TASK.epochs


# Who is kept -------------------------------------------------------------------------------------


@given(
    scores=st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5]), min_size=3, max_size=30),
    keep=st.sampled_from([0.1, 0.29, 0.5, 0.75, 1.0]),
    choose=st.sampled_from(["hardest", "easiest", "offset"]),
)
def test_who_is_kept(scores, keep, choose):
    offset = min(0.2, 1 - keep) if choose == "offset" else 0.0
    ascending = sorted(range(len(scores)), key=lambda i: scores[i])
    n = max(1, math.floor(keep * len(scores) + 1e-9))
    skip = math.floor(offset * len(scores) + 1e-9)
    first = {"hardest": len(scores) - n, "easiest": 0, "offset": skip}[choose]
    got = kept_by_score(torch.tensor(scores), keep, choose, offset)
    assert got.tolist() == ascending[first : first + n]


def test_stratified_keeps_the_share_of_every_class():
    labels = torch.tensor([0] * 8 + [1] * 4 + [2] * 2)
    scores = torch.arange(14.0)
    kept = kept_by_score(scores, 0.5, labels=labels)
    assert labels[kept].bincount().tolist() == [4, 2, 1]
    assert sorted(kept.tolist()) == [4, 5, 6, 7, 10, 11, 13]


def test_the_mask_is_what_trains():
    plugin, result = plugin_of("el2n[models=1,epochs=1,keep=0.5]")
    run = result.run
    trained = run.ledger.times_trained > 0
    assert torch.equal(trained, plugin.mask)
    samples = run.split("train")
    assert int(trained.sum()) == 40
    dropped = samples[~trained[samples]]
    assert plugin.scores[dropped].max() <= plugin.scores[samples[trained[samples]]].min()


def test_fixed_steps_train_longer_on_less():
    plain = train_tiny("baseline").record
    _, fixed = plugin_of("el2n[models=1,epochs=1,keep=0.5,steps=fixed]")
    _, fewer = plugin_of("el2n[models=1,epochs=1,keep=0.5]")
    assert fixed.record["epochs"] == 2 * plain["epochs"]
    assert fixed.record["rows"]["trained"] == pytest.approx(plain["rows"]["trained"], abs=8)
    assert fewer.record["rows"]["trained"] == 40 * TASK.epochs


def test_keeping_all_changes_nothing_but_the_preparation():
    assert torch.equal(
        weights(train_tiny("el2n[models=1,epochs=1,keep=1]")), weights(train_tiny("baseline"))
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("el2n[offset=0.1]", "offset is for choose=offset"),
        ("el2n[choose=offset,offset=0.5]", "leaves less than keep"),
    ],
)
def test_what_does_not_fit_is_refused(text, why):
    with pytest.raises(Exception, match=why):
        train_tiny(text)


def test_features_are_what_the_last_linear_layer_reads(installed):
    run = fresh_run(installed)
    head = run.model.head

    def logits_again(logits, y, h):
        return h @ head.weight.T + head.bias - logits

    assert run.score_dataset(logits_again, features=True).abs().max() < 1e-5
    assert not head._forward_pre_hooks
