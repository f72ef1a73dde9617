"""RHO-Loss against its rule, with irreducible losses from networks trained by hand."""

import pytest
import torch
import torch.nn.functional as F
from dataeff_plugins.rho_loss import without_short_end
from probes import Stateless
from selections import watched

from dataeff import DataeffError, Plan, hookimpl
from dataeff.testing import TASK, train_tiny, weights

QUICK = "epochs=1"
AUGMENTED = TASK.dataset.replace("]", ",crop=1,flip=true]")


class Children(Stateless):
    """Keep the networks that are trained beforehand, and whom they were trained on."""

    def __init__(self):
        self.models = []

    @hookimpl
    def setup(self, run):
        train_child = run.train_child

        def watched_child(*args):
            child = train_child(*args)
            who = (child.ledger.times_trained > 0).nonzero()[:, 0].tolist()
            self.models.append((child.model, set(who), child.epoch))
            return child

        run.train_child = watched_child


def irreducible(run, model):
    """Return the loss of each sample by this network, in eval mode, without augmentation."""
    everyone = torch.arange(len(run.labels))
    (x,) = run.train.stream([everyone], None)
    with torch.no_grad():
        return F.cross_entropy(model.eval()(x), run.labels, reduction="none").tolist()


def naive(rows, table, keep):
    """Return the samples of the rows whose hardest sample is furthest above its own table line."""
    count = max(2, round(keep * len(rows)))
    excess = [max(loss - table[i] for i, loss in row) for row in rows]
    best = sorted(range(len(rows)), key=lambda r: -excess[r])[:count]
    return [[i for i, _ in rows[r]] for r in best]


@pytest.mark.parametrize(
    ("keep", "holdout", "others"),
    [
        (0.25, "validation", ()),
        (0.4, "halves", ()),
        (0.25, "validation", ("mixtrain_mixup[selection=none]",)),
    ],
)
def test_rows_are_those_furthest_above_their_irreducible_loss(installed, keep, holdout, others):
    children = Children()
    text = f"rho_loss[keep={keep},holdout={holdout},{QUICK}]"
    before, after, result = watched(text, installed, children, *others, dataset=AUGMENTED)
    run = result.run
    train, validation = (set(run.split(name).tolist()) for name in ("train", "validation"))
    tables = [irreducible(run, model) for model, _, _ in children.models]
    if holdout == "validation":
        ((_, who, epochs),) = children.models
        assert who == validation
        assert epochs == 1
        table = tables[0]
    else:
        (_, one, _), (_, other, _) = children.models
        assert one | other == train
        assert not one & other
        assert len(one) - len(other) in (0, 1)
        table = [tables[1][i] if i in one else tables[0][i] for i in range(90)]
    for (*_, rows), (_, kept) in zip(before.batches, after.batches, strict=True):
        assert kept == naive(rows, table, keep)
        assert len(kept) < len(rows), "nothing was selected"


@pytest.mark.parametrize(("keep", "size"), [(0.1, 7), (0.3, 7), (0.5, 16), (0.75, 10)])
def test_whole_batches_of_candidates_leave_a_batch_of_the_tasks_size(installed, keep, size):
    text = f"rho_loss[keep={keep},{QUICK}]"
    before, after, result = watched(text, installed, epochs=2, batch_size=size)
    candidates = round(size / keep)
    offered = [len(rows) for *_, rows in before.batches]
    left = [len(rows) for _, rows in after.batches]
    per_epoch = len(offered) // 2
    assert sum(offered[:per_epoch]) == sum(offered[per_epoch:]) == 81
    for number, (many, few) in enumerate(zip(offered, left, strict=True), 1):
        if number % per_epoch:
            assert (many, few) == (candidates, size)
        else:
            assert few == max(2, round(keep * many)) > 4
    assert result.record["rows"]["scored"] == 2 * 81 + 81, "candidates, and the table once"


def test_keeping_all_is_the_baseline(installed):
    result = train_tiny(f"rho_loss[keep=1,{QUICK}]", installed=installed)
    assert torch.equal(weights(result), weights(train_tiny(installed=installed)))


def test_the_holdouts_network_is_paid_for_beforehand(installed):
    record = train_tiny("rho_loss[epochs=3]", installed=installed).record
    assert record["rows"]["prepare_trained"] == 3 * 9
    halves = train_tiny("rho_loss[epochs=3,holdout=halves]", installed=installed).record
    assert halves["rows"]["prepare_trained"] == 3 * 81
    assert halves["clocks"]["prepare"] > 0


def test_halves_are_drawn_anew_by_each_seed(installed):
    drawn = []
    for seed in (0, 0, 1):
        children = Children()
        text = f"rho_loss[holdout=halves,{QUICK}]"
        train_tiny(children, text, installed=installed, seed=seed)
        drawn.append(children.models[0][1])
    assert drawn[0] == drawn[1] != drawn[2]


def test_batch_norm_counts_candidates_only_in_train_mode(installed):
    counted = {}
    for mode in ("eval", "train"):
        text = f"rho_loss[keep=0.3,{QUICK},score_mode={mode}]"
        result = train_tiny(text, installed=installed)
        state = result.run.model.state_dict()
        (counted[mode],) = {int(v) for k, v in state.items() if k.endswith("num_batches_tracked")}
        assert result.record["steps"] == 8
    assert counted == {"eval": 8, "train": 16}


@pytest.mark.parametrize(
    ("rows", "sizes"), [(90, [64, 26]), (85, [64, 21]), (81, [81]), (66, [66]), (17, [17])]
)
def test_a_last_batch_of_candidates_that_leaves_few_joins_the_one_before(rows, sizes):
    assert without_short_end(Plan.cut(torch.arange(rows), 64), keep=0.25).sizes == sizes


def test_without_validation_samples_it_says_what_to_write(installed):
    task = TASK.model_copy(update={"validation": 0})
    with pytest.raises(DataeffError, match=r"write rho_loss\[holdout=halves\], or set validation"):
        train_tiny("rho_loss", installed=installed, task=task)
    record = train_tiny(f"rho_loss[holdout=halves,{QUICK}]", installed=installed, task=task).record
    assert record["status"] == "finished"
