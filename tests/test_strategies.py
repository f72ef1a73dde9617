"""The bundled strategies against naive references of what they claim to do."""

from copy import deepcopy
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.amp import AMP
from dataeff_plugins.random_backprop import draw, kept_per_batch
from hypothesis import given
from hypothesis import strategies as st

from dataeff import hookimpl, is_accelerated, portion
from dataeff.testing import TASK, train_tiny, weights
from dataeff.training.optimizing import schedule

sizes_of_batches = st.lists(st.integers(1, 40), min_size=1, max_size=12)


class Recorder:
    """Write down the samples of every batch that is trained."""

    def __init__(self):
        self.batches = []

    @hookimpl
    def observe_batch(self, run, batch):
        self.batches.append((run.epoch, batch.idx.tolist()))

    def state_dict(self):
        return {}

    def epoch(self, number):
        return [batch for epoch, batch in self.batches if epoch == number]

    def samples(self, number):
        return [sample for batch in self.epoch(number) for sample in batch]


def record(text, installed, seed=0):
    recorder = Recorder()
    result = train_tiny(text, recorder, installed=installed, seed=seed)
    return recorder, result


# baseline --------------------------------------------------------------------------------------


def test_baseline_is_plain_sgd(installed):
    """The whole loop against a hand-written one: same order, same images, same rule."""
    start = []

    class Snapshot:
        @hookimpl
        def prepare(self, run):
            start.append(deepcopy(run.model))

        def state_dict(self):
            return {}

    result = train_tiny("baseline", Snapshot(), installed=installed)
    run, model = result.run, start[0]
    order = torch.Generator().manual_seed(run.rng("order").initial_seed())
    optimizer = torch.optim.SGD(
        model.parameters(), lr=TASK.lr, momentum=TASK.momentum, weight_decay=TASK.weight_decay
    )
    for epoch in range(4):
        permuted = torch.randperm(90, generator=order)
        permuted = permuted[run.trainable[permuted]]
        batches = permuted.split([16, 16, 16, 16, 17])
        for b, (idx, x) in enumerate(
            zip(batches, run.train.stream(batches, (0, epoch)), strict=True)
        ):
            optimizer.param_groups[0]["lr"] = TASK.lr * schedule(TASK, (epoch + b / 5) / 4)
            optimizer.zero_grad()
            F.cross_entropy(model(x), run.labels[idx]).backward()
            optimizer.step()
    ours = torch.cat([p.detach().flatten() for p in run.model.parameters()])
    theirs = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.allclose(ours, theirs, atol=1e-4)


# random_backprop -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["shrink", "accumulate"])
@pytest.mark.parametrize("keep", [0.5, 0.25, 0.7, 1.0])
def test_random_backprop_trains_exactly_the_floor_of_its_share(installed, mode, keep):
    recorder, result = record(f"random_backprop[keep={keep},mode={mode}]", installed)
    for epoch in range(4):
        samples = recorder.samples(epoch)
        assert len(samples) == len(set(samples)) == int(keep * 81)
    assert result.record["rows"]["loaded"] == 4 * int(keep * 81), "what is dropped is not loaded"


def test_random_backprop_shrinks_batches_or_fills_them(installed):
    shrink, _ = record("random_backprop[keep=0.5]", installed)
    fill, _ = record("random_backprop[keep=0.5,mode=accumulate]", installed)
    assert [len(batch) for batch in shrink.epoch(0)] == [8, 8, 8, 8, 8]
    assert [len(batch) for batch in fill.epoch(0)] == [16, 16, 8]


def test_random_backprop_keeps_rows_of_their_own_batch(installed):
    whole, _ = record("baseline", installed)
    some, _ = record("random_backprop[keep=0.5]", installed)
    for epoch in range(4):
        for kept, batch in zip(some.epoch(epoch), whole.epoch(epoch), strict=True):
            assert [sample for sample in batch if sample in set(kept)] == kept


def test_random_backprop_draws_anew_each_epoch_and_seed(installed):
    recorder, _ = record("random_backprop[keep=0.5]", installed)
    other, _ = record("random_backprop[keep=0.5]", installed, seed=1)
    epochs = [frozenset(recorder.samples(epoch)) for epoch in range(4)]
    assert len(set(epochs)) == 4
    assert frozenset(other.samples(0)) != epochs[0]


@given(sizes_of_batches, st.integers(1, 100))
def test_quotas_carry_their_remainders(sizes, percent):
    """Naive reference: walk over the batches and carry what is left over."""
    quota = kept_per_batch(torch.tensor(sizes), percent / 100).tolist()
    carried, expected = 0, []
    for size in sizes:
        carried += percent * size
        expected.append(carried // 100)
        carried -= 100 * expected[-1]
    assert quota == expected
    assert sum(quota) == percent * sum(sizes) // 100


@given(sizes_of_batches, st.integers(0, 2**31))
def test_draws_are_without_replacement_and_within_batches(sizes, seed):
    sizes = torch.tensor(sizes)
    quota = (sizes * 0.6).long()
    chosen = draw(sizes, quota, torch.Generator().manual_seed(seed))
    assert chosen.unique().numel() == chosen.numel() == int(quota.sum())
    bounds = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    counts = [int(((chosen >= a) & (chosen < b)).sum()) for a, b in pairwise(bounds)]
    assert counts == quota.tolist()


def test_draws_are_uniform():
    sizes, quota = torch.tensor([10, 5]), torch.tensor([3, 4])
    generator = torch.Generator().manual_seed(0)
    hits = torch.zeros(15)
    for _ in range(4000):
        hits[draw(sizes, quota, generator)] += 1
    share = hits / 4000
    assert torch.allclose(share[:10], torch.tensor(0.3), atol=0.03)
    assert torch.allclose(share[10:], torch.tensor(0.8), atol=0.03)


# random_subset ---------------------------------------------------------------------------------


def test_random_subset_is_static_by_default(installed):
    recorder, result = record("random_subset[keep=0.4]", installed)
    epochs = {frozenset(recorder.samples(epoch)) for epoch in range(4)}
    assert len(epochs) == 1
    assert len(epochs.pop()) == int(0.4 * 81)
    assert int((result.samples["times_trained"] == 4).sum()) == int(0.4 * 81)


def test_random_subset_is_redrawn_each_epoch_if_asked(installed):
    recorder, _ = record("random_subset[keep=0.4,redraw=epoch]", installed)
    epochs = [frozenset(recorder.samples(epoch)) for epoch in range(4)]
    assert len(set(epochs)) == 4
    assert {len(epoch) for epoch in epochs} == {int(0.4 * 81)}


# short_schedule --------------------------------------------------------------------------------


def test_short_schedule_is_the_baseline_of_a_shorter_task(installed):
    short = train_tiny("short_schedule[share=0.5]", installed=installed)
    task = TASK.model_copy(update={"epochs": 2})
    direct = train_tiny("baseline", installed=installed, task=task)
    assert torch.equal(weights(short), weights(direct))


# amp -------------------------------------------------------------------------------------------


def test_amp_runs_the_network_in_bfloat16_and_returns_float32(installed):
    kinds = []

    class Look:
        @hookimpl(wrapper=True)
        def network(self):
            result = yield
            kinds.append(("network", result.dtype))
            return result

        @hookimpl
        def observe_batch(self, run, batch, logits, losses):
            kinds.append(("logits", logits.dtype))
            kinds.append(("losses", losses.dtype))

        @hookimpl
        def end_epoch(self, run):
            run.score_dataset(indices=torch.arange(3))

        def state_dict(self):
            return {}

    result = train_tiny(Look(), "amp", installed=installed)
    assert set(kinds) == {
        ("network", torch.bfloat16),
        ("logits", torch.float32),
        ("losses", torch.float32),
    }
    assert result.record["rows"]["scored"] == 12
    assert {p.dtype for p in result.run.model.parameters()} == {torch.float32}
    close = train_tiny("baseline", installed=installed)
    assert result.job.train_loss == pytest.approx(close.job.train_loss, abs=0.1)
    assert not torch.equal(weights(result), weights(close))


def test_amp_says_whether_the_processor_helps(installed):
    columns = train_tiny("amp", installed=installed).record["columns"]
    assert columns["amp_dtype"] == "bfloat16"
    assert columns["amp_accelerated"] is is_accelerated("cpu", torch.bfloat16)
    assert columns["amp_probed_speedup"] > 0
    assert bool(columns["amp_note"]) is not columns["amp_accelerated"]


@pytest.mark.parametrize("native", [True, False])
def test_amp_does_not_take_emulation_for_support(monkeypatch, native):
    def supported(including_emulation=True):
        return native or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert is_accelerated("cuda", torch.bfloat16) is native
    assert is_accelerated("cuda", torch.float16)


class Look:
    """Write down the scale of the loss and the gradient that reaches the optimizer."""

    def __init__(self):
        self.scales, self.gradients = [], []

    @hookimpl(wrapper=True, tryfirst=True)
    def reduce_loss(self, losses):
        numerator, denominator = yield
        self.scales.append(float((numerator / losses.sum()).detach()))
        return numerator, denominator

    @hookimpl(wrapper=True)
    def finish_gradients(self, run):
        result = yield
        self.gradients.append(run.model.head.weight.grad.clone())
        return result

    def state_dict(self):
        return {}


def test_amp_with_float16_scales_the_loss_and_takes_the_scale_back(installed):
    half, plain = Look(), Look()
    train_tiny(half, AMP(dtype="float16"), installed=installed)
    train_tiny(plain, installed=installed)
    assert half.scales[0] == pytest.approx(2.0**16)
    assert plain.scales[0] == pytest.approx(1.0)
    assert torch.allclose(half.gradients[0], plain.gradients[0], atol=2e-3)


@pytest.mark.parametrize("first", [True, False])
def test_amp_scales_what_others_add_to_the_loss_in_either_order(installed, first):
    class Lasso:
        @hookimpl(wrapper=True)
        def reduce_loss(self, run, batch):
            numerator, denominator = yield
            penalty = sum(p.square().sum() for p in run.model.parameters())
            return numerator + 0.5 * batch.R * penalty, denominator

    def size(result):
        return sum(float(p.detach().square().sum()) for p in result.run.model.parameters())

    pair = [Lasso(), AMP(dtype="float16")]
    both = size(train_tiny(*(pair if first else pair[::-1]), installed=installed))
    assert both == pytest.approx(size(train_tiny(Lasso(), installed=installed)), rel=0.02)
    assert both < 0.8 * size(train_tiny(installed=installed))


def test_a_share_of_a_count_is_that_of_decimal_numbers(installed):
    for keep, n in ((0.29, 100), (0.57, 100), (0.58, 100), (0.7, 10)):
        assert portion(keep, n) == round(keep * n)
