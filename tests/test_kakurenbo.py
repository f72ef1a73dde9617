"""KAKURENBO against books of its own, with a forward of its own over those who hide."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.kakurenbo import facts, hidden, remaining

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.optimizing import schedule

LONG = TASK.model_copy(update={"epochs": 10})
STEPS = LONG.model_copy(update={"schedule": "step", "milestones": (4, 7), "gamma": 0.5})


class Books:
    """Write down what each epoch trained, its learning rates, and how everyone stands after it."""

    def __init__(self):
        self.seen, self.rates, self.now = [], [], []

    @hookimpl
    def on_epoch_start(self):
        self.seen.append({})
        self.rates.append([])

    @hookimpl
    def observe_batch(self, batch, logits, losses):
        self.seen[-1] |= by_hand(batch.idx, logits, batch.y)

    @hookimpl(wrapper=True)
    def optimizer_step(self, run):
        self.rates[-1].append((run.progress, run.optimizer.param_groups[0]["lr"]))
        return (yield)

    @hookimpl(tryfirst=True)
    def end_epoch(self, run):
        run.model.eval()
        samples = run.split("train")
        with torch.no_grad():
            x = next(iter(run.train.stream([samples], None)))
            self.now.append(by_hand(samples, run.model(x), run.labels[samples]))
        run.model.train()

    def state_dict(self):
        return {}


def by_hand(idx, logits, labels):
    """Return {sample: (loss, right, confidence)}, one sample at a time."""
    facts = {}
    for i, line, y in zip(idx.tolist(), logits.tolist(), labels.tolist(), strict=True):
        shares = [math.exp(value - max(line)) for value in line]
        shares = [share / sum(shares) for share in shares]
        facts[i] = (-math.log(shares[y]), shares[y] == max(shares), max(shares))
    return facts


def trained(text, task=LONG):
    books = Books()
    return books, train_tiny(text, books, task=task)


PHASES = [1.0, 1.0, 1.0, 0.8, 0.8, 0.8, 0.6, 0.6, 0.4, 0.4]
MILESTONES = [1.0, 1.0, 1.0, 1.0, 0.8, 0.8, 0.8, 0.6, 0.6, 0.6]


@pytest.mark.parametrize(
    ("text", "task", "phases"),
    [
        ("kakurenbo", LONG, PHASES),
        ("kakurenbo", STEPS, MILESTONES),
        ("kakurenbo[lr_by=target]", LONG, PHASES),
        ("kakurenbo[hide=0.7,tau=0.5,decay=0]", LONG, [1.0] * 10),
    ],
)
def test_epochs_follow_from_the_books(text, task, phases):
    books, result = trained(text, task)
    share, tau = (0.7, 0.5) if "hide=0.7" in text else (0.3, 0.7)
    everyone = result.run.split("train").tolist()
    known, hides, scored = {}, [], 0
    for epoch, seen in enumerate(books.seen):
        most = min(int(share * phases[epoch] * 81 + 1e-9), 81 - task.batch_size)
        lowest = sorted(known, key=lambda i: known[i][0])[:most]
        hide = {i for i in lowest if known[i][1] and known[i][2] >= tau}
        assert set(seen) == set(everyone) - hide, f"epoch {epoch}"
        off = share * phases[epoch] if "target" in text else len(hide) / 81
        for progress, rate in books.rates[epoch]:
            assert rate == pytest.approx(task.lr * schedule(task, progress) / (1 - off))
        # Those trained are known by that, those hidden by a forward after the epoch.
        known = seen | {i: books.now[epoch][i] for i in hide}
        hides.append(hide)
        scored += len(hide) if epoch < 9 else 0
    assert max(map(len, hides)) > 10, "hardly anyone hid: the test has shown nothing"
    assert any(len(hide) < int(share * part * 81) for hide, part in zip(hides, phases, strict=True))
    assert result.record["rows"]["scored"] == scored
    assert result.record["rows"]["trained"] == sum(map(len, books.seen))


def test_those_who_hide_come_back():
    books, _ = trained("kakurenbo[hide=0.7,tau=0.5]")
    absent = [set(books.now[0]) - set(seen) for seen in books.seen]
    back = [i for before, after in pairwise(absent) for i in before - after]
    assert back


def test_the_first_epoch_hides_nobody_and_keeps_its_learning_rate():
    books, _ = trained("kakurenbo")
    assert len(books.seen[0]) == 81
    assert books.rates[0][0][1] == pytest.approx(LONG.lr)


def test_confidence_is_a_share_of_the_classes_not_of_the_batch():
    logits = torch.tensor([[4.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.1, 0.0]])
    loss, right, confidence = facts(logits, torch.tensor([0, 1, 1])).unbind(1)
    assert confidence.tolist() == pytest.approx([0.965, 0.965, 0.356], abs=1e-3)
    assert right.tolist() == [1, 0, 1]
    assert torch.allclose(loss, F.cross_entropy(logits, torch.tensor([0, 1, 1]), reduction="none"))


def test_the_wrong_and_the_unsure_are_moved_back_without_replacement():
    nan = float("nan")
    loss = torch.tensor([0.5, 0.1, 0.2, nan, 0.3, 0.4])
    right = torch.tensor([1.0, 1.0, 0.0, nan, 1.0, 1.0])
    sure = torch.tensor([0.9, 0.7, 0.9, nan, 0.69, 0.9])
    assert hidden(loss, right, sure, 3, 0.7).tolist() == [False, True, *[False] * 4]
    assert hidden(loss, right, sure, 4, 0.7).tolist() == [False, True, *[False] * 3, True]
    assert hidden(loss, right, sure, 6, 0.0).tolist() == [True, True, False, False, True, True]
    assert not hidden(loss, right, sure, 0, 0.0).any()


def test_phases_are_shares_of_training_or_milestones():
    task = TASK.model_copy(update={"epochs": 200})
    steps = task.model_copy(update={"schedule": "step", "milestones": (60, 120, 160)})
    for each in (task, steps):
        parts = [remaining(epoch / 200, 0.2, each) for epoch in range(200)]
        expected = [1.0] * 60 + [0.8] * 60 + [0.6] * 40 + [0.4] * 40
        assert parts == pytest.approx(expected)
    assert remaining(0.99, 0.6, task) == 0
    assert remaining(0.99, 0.0, task) == 1


def test_a_batch_at_least_stays():
    books, _ = trained("kakurenbo[hide=0.99,tau=0,decay=0]")
    assert min(map(len, books.seen)) >= LONG.batch_size
    assert min(map(len, books.seen)) < 40


def test_composed_with_a_subset_it_hides_among_those():
    books, _ = trained("random_subset[keep=0.6]+kakurenbo[tau=0.3,decay=0]")
    subset = set(books.seen[0])
    assert len(subset) == 48
    hides = [len(subset - set(seen)) for seen in books.seen]
    assert max(hides) == int(0.3 * 48)
    last = hides[-1] / 48
    progress, rate = books.rates[-1][0]
    assert rate == pytest.approx(LONG.lr * schedule(LONG, progress) / (1 - last))


def test_where_nobody_is_sure_it_is_the_baseline_to_the_bit():
    never = train_tiny("kakurenbo[tau=1]")
    assert torch.equal(weights(never), weights(train_tiny("baseline")))
    assert "scored" not in never.record["rows"]
