"""Selective mixing in real runs: they mix exactly whom a plain-Python reading says."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from conftest import drawn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import INSTALLED, Oracle, labelled
from probes import Stateless

from dataeff import hookimpl
from dataeff.testing import TASK, train_tiny


class Witness(Stateless):
    """Write down every batch: epoch, rows, losses, correctness."""

    def __init__(self):
        self.batches = []

    @hookimpl
    def observe_batch(self, run, batch, logits, losses):
        rows = {}
        for i, row in zip(batch.idx.tolist(), batch.row.tolist(), strict=True):
            rows.setdefault(row, []).append(i)
        right = (logits.argmax(1) == batch.y).tolist()
        seen = zip(batch.idx.tolist(), losses.tolist(), right, strict=True)
        self.batches.append(
            SimpleNamespace(
                epoch=run.epoch,
                rows=list(rows.values()),
                mixed=set(batch.idx[batch.mixed].tolist()),
                seen={i: (loss, correct) for i, loss, correct in seen},
            )
        )

    def epoch(self, number):
        """Return (rows, mixed samples, what was seen) of an epoch."""
        batches = [batch for batch in self.batches if batch.epoch == number]
        rows = [row for batch in batches for row in batch.rows]
        mixed = set().union(*(batch.mixed for batch in batches))
        return rows, mixed, {i: pair for batch in batches for i, pair in batch.seen.items()}


HARD = TASK.model_copy(
    update={
        "dataset": "synthetic[samples=90,test_samples=20,classes=4,size=8,difficulty=0.9]",
        "epochs": 7,
        "lr": 0.1,
    }
)
"""Noise, mostly: some samples stay wrong, and their losses rise now and then."""

RUNS = [
    ("mixtrain_cutmix", {}),
    ("mixtrain_cutmix", {"interference": "off", "batching": "homogeneous"}),
    ("mixtrain_cutmix", {"selection": "region3", "k": 2}),
    ("mixtrain_cutmix", {"selection": "incorr"}),
    ("mixtrain_cutmix", {"selection": "accuracy"}),
    ("mixtrain_cutmix", {"rise": "any", "memory": 0.5, "bootstrap": True}),
    ("mixtrain_mixup", {}),
    ("mixtrain_mixup", {"selection": "average_loss", "memory": 0.5}),
    ("mixtrain_mixup", {"selection": "region1", "mix_loss": "sum"}),
    ("mixtrain_mixup", {"selection": "region3", "rise": "any"}),
]
ORACLES = ("selection", "k", "rise", "memory", "bootstrap")


@pytest.mark.parametrize(("name", "options"), drawn(RUNS, 4))
def test_a_run_mixes_exactly_whom_the_oracle_says(name, options):
    """The oracle sees what the batches saw, in train mode and before each step; nothing else."""
    witness = Witness()
    result = train_tiny(labelled(name, options), witness, installed=INSTALLED, task=HARD)
    history = result.run.strategies[0].plugin.history
    samples = result.run.split("train").tolist()
    oracle = Oracle(samples, **{key: options[key] for key in ORACLES if key in options})
    ever = set()
    for epoch in range(HARD.epochs):
        rows, mixed, seen = witness.epoch(epoch)
        assert sorted(i for row in rows for i in row) == samples
        pairs = [frozenset(row) for row in rows if len(row) == 2]
        assert all(len(row) in (1, 2) for row in rows)
        assert set().union(*pairs) == mixed, "disjoint pairs of exactly the mixed samples"
        assert mixed <= oracle.mixed()
        assert len(oracle.mixed() - mixed) == len(oracle.mixed()) % 2
        ever |= mixed
        oracle.end_epoch(seen)
        for key, value in oracle.limits.items():
            assert history[epoch][key] == pytest.approx(value, rel=1e-12), (epoch, key)
    assert ever, "something was mixed"


def test_pairs_are_drawn_anew_in_each_epoch():
    witness = Witness()
    train_tiny("mixtrain_mixup[selection=none]", witness, installed=INSTALLED)
    pairings = [
        {frozenset(row) for row in witness.epoch(epoch)[0] if len(row) == 2} for epoch in range(4)
    ]
    assert [len(pairing) for pairing in pairings] == [40] * 4
    for one, other in combinations(pairings, 2):
        assert len(one & other) < 8, "by chance it is one pair in two epochs"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_that_skips_omits_exactly_whom_the_oracle_says(seed):
    witness = Witness()
    text = "mixtrain_cutmix[selection=region3,region3=skip,k=2]"
    result = train_tiny(text, witness, installed=INSTALLED, task=HARD, seed=seed)
    samples = set(result.run.split("train").tolist())
    oracle, omitted = Oracle(samples, selection="region3", k=2), 0
    for epoch in range(7):
        rows, mixed, seen = witness.epoch(epoch)
        assert not mixed
        assert set(seen) == samples - oracle.mixed()
        assert len(rows) == len(seen)
        omitted += len(samples) - len(seen)
        oracle.end_epoch(seen)
    assert omitted > 0
    assert result.record["rows"]["trained"] == 7 * len(samples) - omitted


@settings(max_examples=12)
@example(n=3, batch_size=2, seed=0)
@example(n=3, batch_size=16, seed=0)
@example(n=17, batch_size=16, seed=0)
@given(n=st.integers(3, 20), batch_size=st.integers(2, 7), seed=st.integers(0, 3))
def test_small_sets_and_odd_batches_follow_the_oracle(n, batch_size, seed):
    data = f"synthetic[samples={n},test_samples=8,classes=3,size=8,difficulty=0.3]"
    changes = {"dataset": data, "epochs": 5, "batch_size": batch_size, "validation": 0.0}
    task = TASK.model_copy(update=changes)
    witness = Witness()
    train_tiny("mixtrain_cutmix", witness, installed=INSTALLED, task=task, seed=seed)
    oracle = Oracle(range(n))
    for epoch in range(5):
        rows, mixed, seen = witness.epoch(epoch)
        assert sorted(i for row in rows for i in row) == list(range(n))
        assert mixed <= oracle.mixed()
        assert len(oracle.mixed() - mixed) == len(oracle.mixed()) % 2
        oracle.end_epoch(seen)
        sizes = [len(batch.rows) for batch in witness.batches if batch.epoch == epoch]
        full, rest = divmod(len(rows), batch_size)
        expected = [batch_size] * full + [rest] * (rest > 0)
        if 0 < rest <= 4 and full:
            expected[-2:] = [batch_size + rest]
        assert sizes == expected
