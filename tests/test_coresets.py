"""What the subset strategies share, against autograd and against books of real little runs."""

import pytest
import torch
from dataeff_plugins._coresets import budgets, gradients, warm_epochs
from dataeff_plugins.craig import CRAIG
from dataeff_plugins.glister import GLISTER
from dataeff_plugins.gradmatch import GradMatch
from probes import Stateless
from subsets import booked, gradient, trained

from dataeff import StrategyConflict, hookimpl
from dataeff.composition import Composition
from dataeff.data.memory import MemorySplit

ALL = [CRAIG, GradMatch, GLISTER]


@pytest.mark.parametrize("features", [True, False])
def test_gradients_are_those_of_autograd(features):
    torch.manual_seed(0)
    head = torch.nn.Linear(5, 3)
    h, y = torch.randn(7, 5), torch.tensor([0, 1, 2, 0, 1, 2, 2])
    inputs = torch.cat([h, torch.ones(7, 1)], 1) if features else torch.ones(7, 1)
    ours = gradients(head(h).detach(), y, inputs)
    true = torch.stack([gradient(head, *pair) for pair in zip(h, y, strict=True)])
    true = true if features else true[:, :, -1:]
    flat, some = true.flatten(1), torch.tensor([4, 0])

    def close(a, b):
        return torch.allclose(a, b, atol=1e-6)

    assert len(ours) == 7
    assert close(ours.flat(), flat)
    assert close(ours[some].flat(), flat[some])
    assert close(ours.sum(), true.sum(0))
    assert close(ours.dot(true[3]), flat @ flat[3])
    assert close(ours.squares(), flat.square().sum(1))
    assert close(ours[some].products(ours), flat[some] @ flat.T)
    assert close(ours.of_class(2).flat(), true[:, 2])
    assert ours.double().errors.dtype == ours.double().inputs.dtype == torch.float64


def test_budgets_are_the_classes_parts_of_k_rounded_up():
    labels = torch.tensor([5, 0, 5, 5, 0, 5, 5, 2])
    found = {tuple(places.tolist()): budget for places, budget in budgets(labels, 3)}
    assert found == {(1, 4): 1, (7,): 1, (0, 2, 3, 5, 6): 2}


@pytest.mark.parametrize(
    ("warm", "keep", "epochs", "expected"),
    [(0.0, 0.3, 60, 0), (0.5, 0.3, 10, 2), (0.5, 0.3, 60, 9), (0.2, 0.4, 50, 4), (0.9, 1, 2.5, 3)],
)
def test_warm_epochs(warm, keep, epochs, expected):
    assert warm_epochs(warm, keep, epochs) == expected


@pytest.mark.parametrize("kind", ALL)
def test_a_subset_stays_for_so_many_epochs(kind):
    books, result = booked(kind(every=3), epochs=7)
    seen = [line.seen for line in books.epochs]
    assert seen[0] == seen[1] == seen[2] != seen[3] == seen[4] == seen[5] != seen[6]
    assert all(24 <= len(samples) <= 28 for samples in seen)
    columns, name = result.record["columns"], kind.__name__.lower()
    assert columns[f"{name}_selections"] == 3
    assert 0 < columns[f"{name}_seconds"] < result.record["clocks"]["train"]


@pytest.mark.parametrize("kind", ALL)
def test_scores_are_counted_and_never_augmented(kind, monkeypatch):
    views, stream = [], MemorySplit.stream

    def watch(self, batches, view):
        views.append(view)
        return stream(self, batches, view)

    monkeypatch.setattr(MemorySplit, "stream", watch)
    result = trained(kind(every=2))
    validation = 9 * (kind is GLISTER)
    assert result.record["rows"]["scored"] == 2 * (81 + validation)
    augmented = [view for view in views if view]
    assert augmented == [(0, 0), (0, 0), (0, 1), (0, 2), (0, 3)], "the warm-up and the epochs"


@pytest.mark.parametrize("kind", ALL)
def test_a_warm_start_trains_on_everyone_first(kind):
    books, result = booked(kind(every=2, warm=0.9, keep=0.4), epochs=5)
    sizes = [len(line.seen) for line in books.epochs]
    assert sizes[:2] == [81, 81], "ceil(0.9 * 0.4 * 5) epochs"
    assert max(sizes[2:]) < 50
    assert books.epochs[2].seen == books.epochs[3].seen != books.epochs[4].seen
    assert result.record["columns"][f"{kind.__name__.lower()}_selections"] == 2


def test_a_warm_start_is_a_share_of_the_epochs_that_are_really_trained():
    books, _ = booked(GLISTER(warm=0.9, keep=0.4), "short_schedule[share=0.5]", epochs=10)
    assert [len(line.seen) for line in books.epochs] == [81, 81, 32, 32, 32]


@pytest.mark.parametrize("kind", [CRAIG, GradMatch])
def test_weights_have_mean_one_over_the_subset_and_are_one_elsewhere(kind):
    books, _ = booked(kind(every=2))
    for line in books.epochs:
        inside = torch.zeros(90, dtype=torch.bool)
        inside[list(line.seen)] = True
        assert float(line.weight[inside].mean()) == pytest.approx(1, abs=1e-5)
        assert len(line.weight[inside].unique()) > 1
        assert (line.weight[inside] > 0).all()
        assert (line.weight[~inside] == 1).all()


class Loss(Stateless):
    """Write down what the loss of every batch is made of."""

    def __init__(self):
        self.batches = []

    @hookimpl(wrapper=True, tryfirst=True)
    def reduce_loss(self, batch, losses):
        before = batch.weight.clone()
        numerator, denominator = yield
        self.batches.append((batch.idx, batch.R, before, losses, numerator / denominator))
        return numerator, denominator


@pytest.mark.parametrize("kind", [CRAIG, GradMatch])
@pytest.mark.parametrize("other", ["baseline", "mixtrain_mixup[selection=none,mix_loss=sum]"])
def test_the_loss_is_divided_by_its_own_weights_and_by_nobody_elses(kind, other):
    loss, strategy = Loss(), kind()
    trained(loss, strategy, other, epochs=2)
    for idx, rows, theirs, losses, mean in loss.batches:
        mine = strategy.weight[idx]
        assert len(mine.unique()) > 1
        weighted = (mine * theirs * losses).sum() / (mine * theirs).sum()
        # What the others' weights amount to per row: 2 where both samples of a pair count fully.
        assert float(mean) == pytest.approx(float(weighted * theirs.sum() / rows), rel=1e-5)


def test_glister_leaves_the_loss_alone():
    loss = Loss()
    trained(loss, GLISTER())
    for _, _, weight, losses, mean in loss.batches:
        assert (weight == 1).all()
        assert float(mean) == pytest.approx(float(losses.mean()), rel=1e-5)


@pytest.mark.parametrize("pair", ["craig+gradmatch", "glister+craig", "gradmatch+glister"])
def test_two_subsets_do_not_go_together(installed, pair):
    with pytest.raises(StrategyConflict, match="coreset"):
        Composition.read(pair, installed)


def test_a_selection_does_not_touch_the_network():
    class Look(Stateless):
        def __init__(self):
            self.states = []

        @hookimpl(tryfirst=True)
        def on_epoch_start(self, run):
            self.states.append([value.clone() for value in run.model.state_dict().values()])

        @hookimpl
        def prune_dataset(self, run):
            now = run.model.state_dict().values()
            assert all(map(torch.equal, self.states[-1], now))
            assert run.model.training

    for kind in ALL:
        trained(Look(), kind(every=1, features=True))


def test_labels_are_smoothed_in_the_loss_only():
    """T4: gradients are those of the plain cross-entropy."""
    smooth, _ = booked(CRAIG(), label_smoothing=0.3, epochs=1)
    plain, _ = booked(CRAIG(), epochs=1)
    assert smooth.epochs[0].seen == plain.epochs[0].seen
