"""A strategy in a loop of its user's chooses, orders and weighs as in our own trainer."""

import pytest
import torch
from driving import (
    DRIVABLE,
    INSTALLED,
    KINDS,
    REFUSED,
    THREE,
    Loop,
    drive_of,
    same_weights,
    task_for,
    told,
    trained,
)

import dataeff
from dataeff import Strategy, hookimpl
from dataeff.composition import watching
from dataeff.testing import lab_of
from dataeff.training.demands import demands

COMPOSED = [
    "infobatch+selective_backprop_batch[start=0.2]",
    "random_subset[keep=0.8]+kakurenbo",
    "selective_backprop[stale=2,history=40]",
    "auto_assist[epoch=batches,bootstrap=0]",
    "self_paced[weights=soft]+progressive_resizing[mode=crop,delay=0,finetune=0]",
    "el2n[models=1,epochs=1,steps=fixed]",
    "mixtrain_mixup[selection=none]",
    "short_schedule[share=0.7]",
    "selective_backprop+auto_assist",
]


@pytest.mark.parametrize("text", [*DRIVABLE, *COMPOSED])
def test_same_samples_in_the_same_order_and_the_same_weights_bit_by_bit(text):
    task = task_for(text)
    batches, model = trained(text, task, seed=3)
    loop = Loop(drive_of(text, task, seed=3), task)
    loop.train(loop.drive)
    assert loop.batches == batches
    assert same_weights(loop.model, model)
    assert loop.drive.progress == 1


def test_validation_samples_are_those_of_the_trainer():
    task = THREE.model_copy(update={"validation": 0.3})
    batches, _ = trained("infobatch", task)
    loop = Loop(drive_of("infobatch", task), task)
    loop.train(loop.drive)
    assert loop.batches == batches
    assert len({sample for batch in batches for sample in batch}) == 63


def test_nothing_is_held_out_unless_asked():
    drive = dataeff.drive("baseline", THREE.dataset, epochs=1)
    assert drive._job.run.trainable.all()


def test_a_network_that_is_given_stays_the_users_and_is_scored():
    task = THREE
    batches, model = trained("selective_backprop", task)
    other = drive_of("baseline", task).model
    drive = drive_of("selective_backprop", task, model=other)
    assert drive.model is other
    loop = Loop(drive, task)
    loop.train(drive)
    assert loop.batches == batches
    assert same_weights(other, model)


def test_epoch_by_epoch_is_the_same():
    batches, model = trained("kakurenbo", THREE)
    loop = Loop(drive_of("kakurenbo", THREE), THREE)
    lengths = []
    for epoch in loop.drive.epochs():
        lengths.append(len(epoch))
        loop.train(epoch)
    assert len(lengths) == loop.drive.epoch_count == 3
    assert sum(lengths) == len(batches)
    assert same_weights(loop.model, model)


def test_a_loader_gives_one_epoch_each_time():
    batches, model = trained("infobatch", THREE)
    loop = Loop(drive_of("infobatch", THREE), THREE)
    loader = loop.drive.loader
    for number in range(3):
        assert loop.drive.epoch == number
        assert len(loader) > 0
        loop.train(loader)
    assert list(loader) == []
    assert len(loader) == 0
    assert same_weights(loop.model, model)
    assert loop.batches == batches


def test_an_epoch_that_is_left_early_ends_there():
    loop = Loop(drive_of("infobatch", THREE), THREE)
    for epoch in loop.drive.epochs():
        assert loop.train(epoch, 2)
    assert len(loop.batches) == 6
    assert loop.drive.progress == 1


def test_the_loss_is_the_weighted_mean():
    drive = drive_of("infobatch", THREE, model=None)
    seen = set()
    for batch in drive:
        losses = torch.linspace(0, 1, len(batch.y), requires_grad=True)
        loss = drive.step(losses)
        expected = (batch.weight * losses).sum() / len(losses)
        assert torch.allclose(loss, expected)
        loss.backward()
        assert torch.allclose(losses.grad, batch.weight / len(losses))
        seen |= set(batch.weight.tolist())
    assert seen == {1.0, 2.0}


def test_a_strategy_of_ones_own_is_an_object():
    class Odd(Strategy):
        """Train samples of odd numbers."""

        @hookimpl
        def prune_dataset(self, run):
            return torch.arange(len(run.labels)) % 2 == 1

    drive = dataeff.drive(Odd(), THREE.dataset, epochs=1)
    for batch in drive:
        assert (batch.indices % 2 == 1).all()
        drive.step(torch.ones(len(batch.y), requires_grad=True))


def test_what_strategies_see_between_epochs_is_what_the_trainer_shows():
    class Reader(Strategy):
        """Keep what validation says, and stop after two epochs."""

        def __init__(self):
            self.seen = []

        @hookimpl
        def on_epoch_end(self, epoch, metrics):
            self.seen.append(dict(metrics))

        @hookimpl
        def should_stop(self, run):
            return run.epoch == 1

    task = THREE.model_copy(update={"validation": 0.3})
    mine, ours = Reader(), Reader()
    loop = Loop(drive_of(mine, task), task)
    loop.train(loop.drive)
    lab_of(INSTALLED).run(task, [watching(ours)], 0)
    assert mine.seen == ours.seen
    assert len(mine.seen) == 2
    assert "loss" in mine.seen[0]


# Who goes which way -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_who_needs_our_loop_is_refused_by_the_hook(name):
    said = told(drive_of, name, THREE)
    assert said.startswith(f"{name} cannot be driven, because its hook {REFUSED[name]} ")
    assert said.endswith(f"dataeff run -s {name}.")


def test_one_that_is_refused_refuses_the_composition():
    assert told(drive_of, "infobatch+amp", THREE).startswith("amp cannot be driven")


@pytest.mark.parametrize("text", DRIVABLE)
def test_who_asks_for_a_network_is_refused_without_one(text):
    name = text.partition("[")[0]
    needs, task = demands(KINDS[name]), task_for(text)
    said = told(drive_of, text, task, model=None)
    net = drive_of("baseline", task).model
    if needs.children:
        assert said.startswith(f"{name} trains networks of its own: give model=")
        assert told(drive_of, text, task, model=net) == said
    elif needs.network:
        assert (
            said == f"{name} asks the network that you train: give it as model= to dataeff.drive."
        )
        assert not told(drive_of, text, task, model=net)
    else:
        assert not said


@pytest.mark.parametrize(
    "text", [t for t in DRIVABLE if not demands(KINDS[t.partition("[")[0]]).network]
)
def test_who_needs_no_network_gets_through_without_one(text):
    drive = drive_of(text, THREE, model=None)
    logits = demands(KINDS[text.partition("[")[0]]).logits
    for batch in drive:
        lines = torch.zeros(len(batch.y), 4, requires_grad=True)
        losses = torch.nn.functional.cross_entropy(lines, batch.y, reduction="none")
        drive.step(losses, lines if logits else None)
    assert drive.progress == 1


def test_code_that_asks_for_our_optimizer_is_refused():
    class Stepping(Strategy):
        """Look at the optimizer."""

        @hookimpl
        def on_epoch_start(self, run):
            run.optimizer.zero_grad()

    said = told(dataeff.drive, Stepping(), THREE.dataset, epochs=1)
    assert "it asks for our optimizer (run.optimizer)" in said


def test_code_without_a_source_is_told_when_it_asks():
    names = {"Strategy": Strategy, "hookimpl": hookimpl}
    lines = [
        "class Hidden(Strategy):",
        "    @hookimpl",
        "    def select_batch(self, run, batch): run.score(batch)",
        "    @hookimpl",
        "    def end_epoch(self, run): run.ledger.last_correct",
    ]
    exec("\n".join(lines), names)
    drive = dataeff.drive(names["Hidden"](), THREE.dataset, epochs=1)
    assert "give model= to dataeff.drive" in told(next, iter(drive))
    lines[2] = "    def select_batch(self): pass"
    exec("\n".join(lines), names)
    drive = dataeff.drive(names["Hidden"](), THREE.dataset, epochs=1, batch_size=16)
    batches = iter(drive)
    for _ in range(6):
        drive.step(torch.ones(len(next(batches).y), requires_grad=True))
    assert "give drive.step(losses, logits) what the network said" in told(next, batches)
