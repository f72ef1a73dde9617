"""Oracle skipping against a plain reference that keeps its own books."""

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.oracle_skipping import easy

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny, weights

LONG = TASK.model_copy(update={"epochs": 8})


class Books:
    """Write down what each epoch trained, and every sample's loss by a forward of its own."""

    def __init__(self):
        self.seen = []
        self.now = []

    @hookimpl
    def on_epoch_start(self):
        self.seen.append({})

    @hookimpl
    def observe_batch(self, batch, logits, losses):
        right = logits.argmax(1) == batch.y
        for i, loss, correct in zip(
            batch.idx.tolist(), losses.tolist(), right.tolist(), strict=True
        ):
            self.seen[-1][i] = (loss, correct)

    @hookimpl(tryfirst=True)
    def end_epoch(self, run):
        run.model.eval()
        samples = run.split("train")
        with torch.no_grad():
            x = next(iter(run.train.stream([samples], None)))
            loss = F.cross_entropy(run.model(x), run.labels[samples], reduction="none")
        run.model.train()
        self.now.append(dict(zip(samples.tolist(), loss.tolist(), strict=True)))

    def state_dict(self):
        return {}


@pytest.fixture(scope="module")
def kept():
    books = Books()
    return books, train_tiny("oracle_skipping", books, task=LONG)


def test_who_is_skipped_follows_from_losses_of_earlier_epochs(kept):
    books, _ = kept
    everyone = set(books.now[0])
    skipped, right = set(), []
    for epoch, seen in enumerate(books.seen):
        assert set(seen) == everyone - skipped, f"epoch {epoch}"
        limit = sum(right) / len(right) if right else 0.0
        right += [loss for loss, correct in seen.values() if correct]
        loss = {i: seen[i][0] if i in seen else books.now[epoch][i] for i in everyone}
        hardest = sorted(everyone, key=loss.get, reverse=True)[: LONG.batch_size]
        skipped = {i for i in everyone if loss[i] < limit} - set(hardest)
    assert skipped, "nothing was ever skipped: the test has shown nothing"


def test_the_first_two_epochs_have_no_threshold_to_skip_by(kept):
    books, _ = kept
    assert len(books.seen[0]) == len(books.seen[1]) == len(books.now[0])
    assert len(books.seen[2]) < len(books.now[0])


def test_what_nobody_pays_for_is_counted_apart_and_not_ranked(kept):
    books, result = kept
    record = result.record
    skips = sum(len(books.now[0]) - len(seen) for seen in books.seen[1:])
    # Those skipped in an epoch are measured after it.
    assert record["rows"]["off_oracle_scored"] == skips
    assert record["rows"]["trained"] == sum(map(len, books.seen))
    assert "scored" not in record["rows"]
    assert record["clocks"]["off_oracle"] > 0
    assert record["ranked"] is False
    share = skips / len(books.now[0]) / len(books.seen)
    assert record["columns"]["skipped_share"] == pytest.approx(share)


def test_composed_with_a_random_subset_it_skips_among_those(kept):
    _, alone = kept
    pair = train_tiny("oracle_skipping+random_subset[keep=0.5]", task=LONG)
    assert pair.record["rows"]["trained"] < alone.record["rows"]["trained"]
    assert torch.isfinite(weights(pair)).all()


def test_easy_keeps_the_hardest_and_the_unknown():
    nan = float("nan")
    loss = torch.tensor([0.1, nan, 0.2, 0.3, 0.9])
    assert easy(loss, 0.5, 2).tolist() == [True, False, True, False, False]
    assert easy(loss, 0.0, 1).tolist() == [False] * 5
    assert easy(loss, 9.0, 0).tolist() == [True, False, True, True, True]
