"""What a drive may be given: data of each form, networks, devices; and what mistakes are told."""

import pytest
import torch
from driving import THREE, Loop, drive_of, same_weights, told, trained
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset, Subset, TensorDataset

import dataeff
from dataeff import Strategy, hookimpl
from dataeff.data.datasets import Synthetic
from dataeff.training.driving import _YOURS
from dataeff.training.keys import Keys
from dataeff.training.task import Task

LUCK = torch.Generator().manual_seed(0)
X = torch.randn(60, 1, 8, 8, generator=LUCK)
Y = torch.randint(0, 4, (60,), generator=LUCK)


class Items(Dataset):
    """Pairs, read one by one; the inputs are moved by one, as a transform would."""

    def __init__(self, targets=None):
        self.read = []
        if targets is not None:
            self.targets = targets

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        self.read.append(index)
        return X[index] + 1, int(Y[index])


def net():
    torch.manual_seed(7)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 4))


def driven(dataset, strategy="infobatch", **options):
    """Train two epochs; return the batches and the network."""
    model = net()
    options = {"model": model, "epochs": 2, "batch_size": 16, "seed": 2} | options
    drive = dataeff.drive(strategy, dataset, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = []
    for x, y, weight, indices in drive:
        assert torch.equal(y.cpu(), Y[indices.cpu()])
        assert weight.shape == y.shape
        batches.append((x, indices.tolist()))
        drive.step(cross_entropy(model(x), y, reduction="none")).backward()
        optimizer.step()
        optimizer.zero_grad()
    return batches, model


def test_tensors_arrays_and_items_are_the_same_samples():
    one, first = driven((X, Y))
    for given in ((X.numpy(), Y.numpy()), [X, Y], TensorDataset(X, Y), (X, Y.int())):
        other, second = driven(given)
        assert [indices for _, indices in other] == [indices for _, indices in one]
        assert same_weights(first, second)
    for x, indices in one:
        assert torch.equal(x, X[indices])


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["infobatch", "selective_backprop", "glister"])
@pytest.mark.parametrize("workers", [0, 1])
def test_items_are_collated_as_they_are(strategy, workers):
    options = {"validation": 0.1} if strategy == "glister" else {}
    batches, _ = driven(Items(Y), strategy, workers=workers, **options)
    assert batches
    for x, indices in batches:
        assert torch.equal(x, X[indices] + 1)


def test_items_that_are_not_chosen_are_not_read():
    items = Items(Y.tolist())
    drive = dataeff.drive("random_subset[keep=0.5]", items, epochs=1, batch_size=16)
    for batch in drive:
        drive.step(torch.ones(len(batch.y), requires_grad=True))
    assert len(items.read) == 1 + 30, "the first one is looked at"


def test_labels_that_nobody_names_are_read_once():
    items = Items()
    drive = dataeff.drive("infobatch", items, epochs=1)
    assert len(items.read) == 1 + 60
    assert torch.equal(drive._job.run.labels, Y)


def test_a_part_of_a_data_set_knows_the_labels_of_the_whole():
    items = Items(Y)
    drive = dataeff.drive("infobatch", Subset(items, [5, 3, 9, 40]), epochs=1)
    assert len(items.read) == 1
    assert torch.equal(drive._job.run.labels, Y[[5, 3, 9, 40]])


def test_reading_labels_leaves_no_trace_in_the_users_luck():
    class Drawing(Items):
        """Draw for each item."""

        def __getitem__(self, index):
            torch.rand(3)
            return super().__getitem__(index)

    before = torch.get_rng_state()
    dataeff.drive("infobatch", Drawing(), epochs=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.long
def test_our_own_data_sets_are_given_by_name_by_object_or_loaded():
    text = "synthetic[samples=90,test_samples=20,classes=4,size=8,difficulty=0.3]"
    made = Synthetic(samples=90, test_samples=20, classes=4, size=8, difficulty=0.3)
    batches, model = trained("infobatch", THREE)
    for given in (text, made, made.load("mine", root=None)):
        loop = Loop(drive_of("infobatch", THREE, dataset=given), THREE)
        loop.train(loop.drive)
        assert loop.batches == batches
        assert same_weights(loop.model, model)


@pytest.mark.long
def test_networks_are_made_by_functions_with_and_without_arguments():
    def sized(classes, shape):
        assert (classes, shape) == (4, (1, 8, 8))
        return net()

    for make in (net, sized):
        drive = dataeff.drive("el2n[models=1,epochs=1]", (X, Y), model=make, epochs=1)
        assert isinstance(drive.model, nn.Sequential)
        trained = 0
        for batch in drive:
            trained += len(batch.y)
            drive.step(ones(len(batch.y)))
        assert trained == 45


def test_keys_are_those_of_a_task():
    known = {"dataset", "model", "epochs", *Keys.__annotations__}
    assert known == set(Task.model_fields)
    for key in _YOURS:
        assert "is up to whoever has the loop" in told(
            dataeff.drive, "infobatch", (X, Y), epochs=1, **{key: True}
        )


def test_label_smoothing_is_the_trainers():
    task = THREE.model_copy(update={"label_smoothing": 0.1})
    _, model = trained("baseline", task)
    drive = drive_of("baseline", task, label_smoothing=0.1)
    loop = Loop(drive, task)
    with pytest.raises(dataeff.DataeffError, match="label_smoothing looks at what the network"):
        loop.train(drive)
    loop = Loop(drive_of("baseline", task, label_smoothing=0.1), task, looks=True)
    loop.train(loop.drive)
    assert same_weights(loop.model, model)


# Mistakes -----------------------------------------------------------------------------------------

WRONG_DATA = {
    "a dict": ({"x": X}, "give a name such as 'digits'"),
    "a number": (3, "dataset is of type int: give a name"),
    "nothing": (None, "dataset is of type NoneType"),
    "a stream": (iter([(X[0], 1)]), "dataset is of type list_iterator"),
    "bytes": (((255 * X).byte(), Y), "inputs are a tensor of torch.uint8"),
    "too few labels": ((X, Y[:9]), "one whole number for each of the 60 samples"),
    "labels of floats": ((X, Y.float()), "one whole number for each of the 60"),
    "labels in columns": ((X, nn.functional.one_hot(Y)), "one whole number for each"),
    "negative labels": ((X, Y - 1), "A label is -1: classes are numbered from 0"),
    "items alone": ([X[0], X[1], X[2]], "each has to be a pair (x, y)"),
    "no items": ([], "The first item of the data set is of type NoneType"),
    "one sample": ((X[:1], Y[:1]), "2 at least are needed"),
    "a misspelt name": ("digitz", "Did you mean digits?"),
}


@pytest.mark.parametrize(("given", "said"), WRONG_DATA.values(), ids=WRONG_DATA)
def test_data_that_are_none(given, said):
    assert said in told(dataeff.drive, "infobatch", given, epochs=1)


WRONG_KEYS = {
    "no epochs": ({}, "epochs is missing; write epochs="),
    "a misspelt key": (
        {"epochs": 1, "batchsize": 3},
        "no key 'batchsize'. Did you mean batch_size",
    ),
    "negative epochs": ({"epochs": -1}, "dataeff.drive: epochs: Input should be greater"),
    "a text": ({"epochs": 1, "batch_size": "3"}, "batch_size: Input should be a valid integer"),
    "what does not fit": ({"epochs": 1, "schedule": "step"}, "and milestones = [...] go together"),
    "a device": ({"epochs": 1, "device": "abacus"}, "Device 'abacus' cannot be used here"),
}


@pytest.mark.parametrize(("keys", "said"), WRONG_KEYS.values(), ids=WRONG_KEYS)
def test_keys_that_are_none(keys, said):
    message = told(dataeff.drive, "infobatch", (X, Y), **keys)
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("infobach", "Did you mean infobatch?"),
        ("infobatch[keep=0.7]", "keep"),
        ("short_schedule[share=?]", "has a value to be found; write one for it"),
        (Strategy, "strategy is of type type: give what you would type after -s"),
        ("rho_loss", "rho_loss trains networks of its own"),
    ],
)
def test_strategies_that_are_none(text, said):
    assert said in told(dataeff.drive, text, (X, Y), epochs=1, model=net())


def test_what_setup_refuses_is_said_as_it_says_it():
    said = told(dataeff.drive, "glister", (X, Y), epochs=1, model=net())
    assert said.startswith("glister chooses by the validation loss")


def waiting(strategy="infobatch", **options):
    """Return a drive with a batch that waits for its losses, and the batch."""
    drive = dataeff.drive(strategy, (X, Y), epochs=2, batch_size=16, **options)
    return drive, next(iter(drive))


def ones(count, **options):
    return torch.ones(count, requires_grad=True, **options)


def test_losses_that_are_none():
    drive, _ = waiting()
    assert "was given a single number: give one loss per sample" in told(drive.step, ones(16).sum())
    assert "was given float: give one loss per sample" in told(drive.step, 0.5)
    assert "of shape (15,) for a batch of 16 samples: give one loss" in told(drive.step, ones(15))
    assert "of shape (16, 1) for a batch of 16" in told(drive.step, ones(16)[:, None])
    assert "The losses have no gradient" in told(drive.step, torch.ones(16))
    assert "of shape (3, 4)" in told(drive.step, ones(16), torch.ones(3, 4))
    assert drive.step(ones(16)).item() == 1


def test_a_batch_has_one_step():
    drive, _ = waiting()
    drive.step(ones(16))
    assert "no batch waits for any: take the next batch first" in told(drive.step, ones(16))
    fresh = dataeff.drive("infobatch", (X, Y), epochs=1)
    assert "no batch waits" in told(fresh.step, ones(16))
    assert "There is no batch" in told(fresh.per_sample, ones(16))


def test_a_batch_without_a_step_is_told_when_the_next_is_asked_for():
    drive, _ = waiting()
    assert told(next, iter(drive)) == (
        "A batch has no losses yet, and the next one is asked for: call drive.step(losses) once "
        "for each."
    )
    drive, _ = waiting()
    epochs = drive.epochs()
    next(epochs)
    assert "and its epoch ends" in told(next, epochs)


def test_who_looks_at_logits_asks_for_them():
    drive, _ = waiting("kakurenbo", model=net())
    assert told(drive.step, ones(16)) == (
        "kakurenbo looks at what the network said: write drive.step(losses, logits)."
    )


def test_who_changes_the_learning_rate_is_asked_by_how_much():
    drive, _ = waiting("kakurenbo", model=net())
    drive.step(ones(16), torch.zeros(16, 4))
    assert "multiply yours by drive.lr_factor" in told(next, iter(drive))
    assert drive.lr_factor == 1
    next(iter(drive))
    fresh = dataeff.drive("kakurenbo", (X, Y), epochs=1, model=net())
    assert "ask for drive.lr_factor after a batch" in told(lambda: fresh.lr_factor)
    assert dataeff.drive("infobatch", (X, Y), epochs=1).lr_factor == 1


def test_several_processes_are_refused(monkeypatch):
    drive = dataeff.drive("infobatch", (X, Y), epochs=1)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    assert told(next, iter(drive)).startswith("4 processes share this loop")


def test_samples_that_share_an_input_are_told_apart():
    drive, batch = waiting("mixtrain_mixup[selection=none]")
    assert (len(batch.x), len(batch.y)) == (16, 32)
    assert "in 16 rows: call drive.per_sample on what" in told(drive.step, ones(16), ones(16))
    lines = drive.per_sample(torch.zeros(16, 4, requires_grad=True))
    losses = cross_entropy(lines, batch.y, reduction="none")
    drive.step(losses, lines).backward()


def test_vectors_are_taken():
    for strategy in ("selective_backprop_batch[start=0]", "auto_assist", "craig"):
        drive = dataeff.drive(strategy, (X.flatten(1), Y), epochs=1, model=net())
        batch = next(iter(drive))
        drive.step(ones(len(batch.y)), torch.zeros(len(batch.y), 4))


def test_who_asks_for_a_feature_map_wants_a_network_that_has_one():
    said = told(dataeff.drive, "input_scaling", (X, Y), epochs=1, model=net())
    assert said.startswith("input_scaling[")
    assert "Sequential has no forward_features, as timm's networks have" in said


def test_a_mistake_in_a_hook_is_told_in_its_name():
    class Broken(Strategy):
        """Fail."""

        @hookimpl
        def observe_batch(self):
            raise KeyError("oh")

    drive = dataeff.drive(Broken(), (X, Y), epochs=1)
    batch = next(iter(drive))
    assert "Broken, in observe_batch: KeyError: 'oh'" in told(drive.step, ones(len(batch.y)))


def test_a_loss_that_is_not_finite_is_told_at_the_end_of_the_epoch():
    drive = dataeff.drive("infobatch", (X, Y), epochs=2)
    batch = next(iter(drive))
    drive.step(ones(len(batch.y)) * torch.nan)
    assert "The loss of epoch 0 is nan" in told(next, iter(drive))


def test_labels_that_items_deny_are_told():
    drive = dataeff.drive("infobatch", Items(Y.flip(0)), epochs=1)
    assert "are not those of the data set's targets" in told(next, iter(drive))


def test_there_is_a_network_only_where_one_was_given():
    assert "There is no network here" in told(
        lambda: dataeff.drive("baseline", (X, Y), epochs=1).model
    )


def test_what_can_do_nothing_says_why():
    assert "memory of the CPU" in dataeff.drive("pin_memory", (X, Y), epochs=1).no_effect
    assert dataeff.drive("infobatch", (X, Y), epochs=1).no_effect == ""


def test_losses_of_half_precision_are_taken():
    drive, _ = waiting()
    losses = ones(16, dtype=torch.bfloat16)
    loss = drive.step(losses)
    loss.backward()
    assert losses.grad.dtype == torch.bfloat16
    assert drive._job.run.ledger.last_loss.dtype == torch.float32
