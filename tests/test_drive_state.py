"""A drive that is stopped goes on with the same choices, in the middle of an epoch and between."""

import copy
import io
import random
from itertools import permutations

import pytest
import torch
from conftest import drawn
from driving import ALIASES, DRIVABLE, THREE, Loop, drive_of, same_weights, task_for, told, trained

import dataeff
from dataeff import Strategy, StrategyConflict, hookimpl

TEXTS = [
    *DRIVABLE,
    "selective_backprop[stale=2,history=40]",
    "selective_backprop+auto_assist",
    "infobatch[anneal=0.5]+random_backprop[mode=accumulate]",
    "self_paced[weights=soft]",
    "mixtrain_mixup[selection=none]",
    "auto_assist[epoch=batches,bootstrap=0]",
    "glister[mode=stochastic,every=1]+infobatch",
]


def through_a_file(*states):
    """Return what torch.save has written, read as nothing but data."""
    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def stopped_and_resumed(text, task, stop):
    """Train up to where `stop` says in a loop, and all that is left in a new one."""
    first = Loop(drive_of(text, task, seed=1), task)
    stop(first)
    states = first.drive.state_dict(), first.model.state_dict(), first.optimizer.state_dict()
    drive, model, optimizer = through_a_file(*states)
    # What goes on changes nothing of what was kept.
    first.train(first.drive)
    second = Loop(drive_of(text, task, seed=1), task)
    second.drive.load_state_dict(drive)
    second.model.load_state_dict(model)
    second.optimizer.load_state_dict(optimizer)
    assert second.drive.progress <= 1
    second.train(second.drive)
    return first, second


def in_the_middle(count):
    """Stop after so many batches."""
    return lambda loop: loop.train(iter(loop.drive), count)


def after_an_epoch(loop):
    """Stop between two epochs."""
    loop.train(next(loop.drive.epochs()))
    # The generator is gone, and with it nothing: the epoch has ended by itself.
    assert loop.drive.epoch == 1


@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize("text", TEXTS)
def test_in_the_middle_of_an_epoch(text, count):
    task = task_for(text)
    batches, model = trained(text, task, seed=1)
    first, second = stopped_and_resumed(text, task, in_the_middle(count))
    assert first.batches == batches
    assert second.batches == batches[count:]
    assert same_weights(second.model, model)


@pytest.mark.parametrize("text", TEXTS)
def test_between_epochs(text):
    task = task_for(text)
    batches, model = trained(text, task, seed=1)
    _, second = stopped_and_resumed(text, task, after_an_epoch)
    assert second.batches == batches[-len(second.batches) :]
    assert same_weights(second.model, model)


# Another name of one is the same strategy once more.
PAIRS = [f"{one}+{other}" for one, other in permutations(DRIVABLE, 2) if not {one, other} & ALIASES]


@pytest.mark.parametrize("text", drawn(PAIRS, 10))
def test_pairs(text):
    task = task_for(*text.split("+"))
    try:
        batches, model = trained(text, task, seed=1)
    except StrategyConflict:
        assert "cannot run together" in told(drive_of, text, task)
        return
    count = random.Random(text).randrange(len(batches) + 1)
    first, second = stopped_and_resumed(text, task, in_the_middle(count))
    assert (first.batches, second.batches) == (batches, batches[count:])
    assert same_weights(first.model, model)
    assert same_weights(second.model, model)


def test_a_last_epoch_may_be_a_part():
    task = THREE.model_copy(update={"epochs": 1.4})
    batches, model = trained("infobatch", task, seed=1)
    _, second = stopped_and_resumed("infobatch", task, in_the_middle(7))
    assert second.batches == batches[7:]
    assert same_weights(second.model, model)
    assert second.drive.epoch_count == 2


def test_at_every_batch():
    batches, model = trained("selective_backprop", THREE, seed=1)
    for count in range(len(batches) + 1):
        _, second = stopped_and_resumed("selective_backprop", THREE, in_the_middle(count))
        assert second.batches == batches[count:]
        assert same_weights(second.model, model)


def test_before_the_first_and_after_the_last():
    batches, _ = trained("el2n[models=1,epochs=1]", THREE, seed=1)
    _, second = stopped_and_resumed("el2n[models=1,epochs=1]", THREE, lambda loop: None)
    assert second.batches == batches
    _, second = stopped_and_resumed("infobatch", THREE, lambda loop: loop.train(loop.drive))
    assert second.batches == []
    assert second.drive.progress == 1


def test_what_was_prepared_is_not_prepared_again(monkeypatch):
    text = "el2n[models=1,epochs=1]"
    loop = Loop(drive_of(text, THREE), THREE)
    loop.train(iter(loop.drive), 2)
    state = loop.drive.state_dict()
    drive = drive_of(text, THREE)
    drive.load_state_dict(state)
    monkeypatch.setattr(drive._job, "train_child", None)
    assert len(list(next(iter(drive)).indices)) > 1


def test_a_state_stays_as_it_was_while_training_goes_on():
    loop = Loop(drive_of("kakurenbo", THREE), THREE)
    loop.train(iter(loop.drive), 3)
    state = loop.drive.state_dict()
    before = copy.deepcopy(state)
    loop.train(loop.drive)
    assert torch.equal(state["ledger"]["times_trained"], before["ledger"]["times_trained"])
    seen = [one["strategies"][0]["seen"] for one in (state, before)]
    assert torch.equal(*(table.nan_to_num(-1) for table in seen))


def test_a_state_of_another_drive_is_refused():
    state = drive_of("infobatch", THREE).state_dict()
    said = told(drive_of("infobatch", THREE, seed=1).load_state_dict, state)
    assert said == "The state is of another drive: its seed is 0, here it is 1."
    said = told(drive_of("infobatch[prune=0.4]", THREE).load_state_dict, state)
    assert "its strategy is 'infobatch" in said
    said = told(drive_of("infobatch", THREE, batch_size=8).load_state_dict, state)
    assert "its batch_size is 16, here it is 8" in said
    for wrong in ({}, None, torch.nn.Linear(1, 1).state_dict()):
        said = told(drive_of("infobatch", THREE).load_state_dict, wrong)
        assert said.startswith("This is no state of a drive: give what drive.state_dict returned")


def test_a_drive_that_has_begun_takes_no_state():
    drive = drive_of("infobatch", THREE)
    state = drive.state_dict()
    next(iter(drive))
    assert told(drive.load_state_dict, state).startswith("This drive has begun")


def test_a_batch_without_losses_is_in_no_state():
    drive = drive_of("infobatch", THREE)
    next(iter(drive))
    assert told(drive.state_dict).startswith("A batch has no losses yet, and its state is asked")


def test_what_no_file_can_hold_is_told_in_the_middle_of_an_epoch_only():
    class Closing(Strategy):
        """Keep a function for an epoch."""

        @hookimpl
        def on_epoch_start(self):
            self._made = lambda: None

    drive = dataeff.drive(Closing(), THREE.dataset, epochs=2, batch_size=16)
    for epoch in drive.epochs():
        assert "Closing._made, in the middle of an epoch, is a function" in told(drive.state_dict)
        for batch in epoch:
            drive.step(torch.ones(len(batch.y), requires_grad=True))
        assert drive.state_dict()["within"] is None
