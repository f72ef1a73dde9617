"""The ledger against a dictionary kept by hand."""

import torch

from dataeff import Batch, hookimpl
from dataeff.testing import train_tiny
from dataeff.training.ledger import Ledger


class Notes:
    """Keep the same tables in plain Python."""

    def __init__(self):
        self.last, self.previous, self.times, self.correct = {}, {}, {}, {}

    @hookimpl
    def observe_batch(self, batch, logits, losses):
        right = (logits.argmax(1) == batch.y).tolist()
        for sample, loss, hit in zip(batch.idx.tolist(), losses.tolist(), right, strict=True):
            self.previous[sample] = self.last.get(sample)
            self.last[sample], self.correct[sample] = loss, hit
            self.times[sample] = self.times.get(sample, 0) + 1

    def state_dict(self):
        return {}


def test_tables_are_those_kept_by_hand(installed):
    notes = Notes()
    ledger = train_tiny("random_backprop[keep=0.4]", notes, installed=installed).run.ledger
    for sample in range(90):
        times = notes.times.get(sample, 0)
        assert ledger.times_trained[sample] == times
        if times:
            assert ledger.last_loss[sample] == notes.last[sample]
            assert ledger.last_correct[sample] == notes.correct[sample]
        else:
            assert ledger.last_loss[sample].isnan()
        if times > 1:
            assert ledger.previous_loss[sample] == notes.previous[sample]
        else:
            assert ledger.previous_loss[sample].isnan()


def test_mixed_samples_are_marked_and_unmarked():
    ledger = Ledger(4, torch.device("cpu"))

    def record(idx, mix):
        idx = torch.tensor(idx)
        batch = Batch(torch.zeros(len(idx), 1), idx, torch.zeros_like(idx))
        if mix:
            batch.mix_rows(batch.x, torch.ones(len(idx), dtype=torch.bool))
        ledger.record(batch, torch.zeros(len(idx), 2), torch.ones(len(idx)))

    record([0, 1], mix=False)
    assert not ledger.last_mixed.any()
    record([1, 2], mix=True)
    record([2, 3], mix=False)
    assert ledger.last_mixed.tolist() == [False, True, False, False]


def test_the_mean_loss_of_an_epoch_is_over_samples():
    ledger = Ledger(4, torch.device("cpu"))
    for idx, loss in (([0, 1, 2], 1.0), ([3], 5.0)):
        idx = torch.tensor(idx)
        batch = Batch(torch.zeros(len(idx), 1), idx, torch.zeros_like(idx))
        ledger.record(batch, torch.zeros(len(idx), 2), torch.full((len(idx),), loss))
    assert ledger.close_epoch() == (2.0, 4, 0)
    assert ledger.close_epoch() == (0.0, 0, 0)
