"""The ledger against a dictionary kept by hand."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from probes import Stateless

from dataeff import Batch, hookimpl
from dataeff.testing import train_tiny
from dataeff.training.ledger import Ledger


class Notes(Stateless):
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


# Written lazily ----------------------------------------------------------------------------------

SAMPLES = 7
COLUMNS = (
    *("last_loss", "previous_loss", "last_correct", "last_mixed", "last_weight"),
    "times_trained",
)


class Reference:
    """The same tables, written sample by sample as the batches come."""

    def __init__(self):
        self.last_loss, self.previous_loss = [math.nan] * SAMPLES, [math.nan] * SAMPLES
        self.last_correct, self.last_mixed = [False] * SAMPLES, [False] * SAMPLES
        self.times_trained, self.last_weight = [0] * SAMPLES, [1.0] * SAMPLES

    def record(self, samples, losses, right, mixed, weight):
        for i, loss, hit in zip(samples, losses, right, strict=True):
            self.previous_loss[i], self.last_loss[i] = self.last_loss[i], loss
            self.last_correct[i], self.last_mixed[i] = hit, mixed
            self.last_weight[i] = 1.0 if weight is None else weight
            self.times_trained[i] += 1


@st.composite
def lessons(draw):
    """Draw a batch: its samples, each once, their losses, who was right, if mixed, the weight."""
    samples = draw(st.lists(st.integers(0, SAMPLES - 1), unique=True, min_size=1))
    count = len(samples)
    losses = draw(st.lists(st.integers(0, 40), min_size=count, max_size=count))
    right = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    weight = draw(st.none() | st.integers(0, 8))
    return samples, [loss / 4 for loss in losses], right, draw(st.booleans()), weight


def show(ledger, samples, losses, right, how):
    mixed, weight = how
    idx = torch.tensor(samples)
    batch = Batch(torch.zeros(len(idx), 1), idx, torch.ones_like(idx))
    if mixed:
        batch.mix_rows(batch.x, torch.ones(len(idx), dtype=torch.bool))
    if weight is not None:
        batch.weight *= weight
    ledger.record(batch, torch.tensor([[1 - hit, hit] for hit in right]).float(), losses)


def read(holder, name):
    column = getattr(holder, name)
    column = column.tolist() if isinstance(column, torch.Tensor) else column
    return [None if isinstance(value, float) and math.isnan(value) else value for value in column]


events = st.one_of(
    lessons(), st.sampled_from(COLUMNS), st.just("epoch"), st.just("stop and resume")
)


@given(st.lists(events, max_size=16))
def test_what_waits_is_read_as_if_it_had_been_written_at_once(history):
    """Samples come back in later batches; tables are read in mid-epoch, or not at all."""
    ledger, reference = Ledger(SAMPLES, torch.device("cpu")), Reference()
    seen, mixed = set(), {}
    for event in history:
        if event in COLUMNS:
            assert read(ledger, event) == read(reference, event)
        elif event == "epoch":
            told = ledger.close_epoch()
            assert told[1:] == (len(seen), sum(mixed.values()))
            seen, mixed = set(), {}
        elif event == "stop and resume":
            ledger.close_epoch()
            seen, mixed = set(), {}
            state, ledger = ledger.state_dict(), Ledger(SAMPLES, torch.device("cpu"))
            ledger.load_state_dict(state)
        else:
            samples, losses, right, shared, weight = event
            show(ledger, samples, torch.tensor(losses), right, (shared, weight))
            reference.record(*event)
            seen |= set(samples)
            mixed |= dict.fromkeys(samples, shared)
    for name in COLUMNS:
        assert read(ledger, name) == read(reference, name)


@given(st.lists(lessons(), min_size=1, max_size=8))
def test_the_mean_loss_does_not_hang_on_when_tables_are_read(history):
    means = []
    for often in (True, False):
        ledger = Ledger(SAMPLES, torch.device("cpu"))
        for samples, losses, right, *how in history:
            show(ledger, samples, torch.tensor(losses), right, how)
            if often:
                ledger.tables()
        means.append(ledger.close_epoch())
    assert means[0] == means[1]
