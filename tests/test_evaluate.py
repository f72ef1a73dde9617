"""Evaluation against scikit-learn, and without a trace in the model."""

import pytest
import torch
from sklearn.metrics import f1_score, log_loss, recall_score, top_k_accuracy_score

from dataeff import hookimpl
from dataeff.data import load_dataset
from dataeff.models import build_model
from dataeff.testing import TASK, train_tiny
from dataeff.training.evaluate import evaluate, metrics


def test_metrics_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(200, 8, generator=generator)
    y = torch.randint(0, 8, (200,), generator=generator)
    ours = metrics(logits, y)
    share = logits.softmax(1).double().numpy()
    assert ours["top1"] == pytest.approx(100 * (logits.argmax(1) == y).double().mean().item())
    assert ours["top5"] == pytest.approx(100 * top_k_accuracy_score(y, share, k=5))
    f1 = f1_score(y, logits.argmax(1), average="macro")
    assert ours["macro_f1"] == pytest.approx(100 * f1, rel=1e-5)
    assert ours["loss"] == pytest.approx(log_loss(y, share / share.sum(1, keepdims=True)), rel=1e-5)
    samples, right = ours["classes"]
    assert samples == y.bincount(minlength=8).tolist()
    recall = recall_score(y, logits.argmax(1), average=None)
    assert [r / s for r, s in zip(right, samples, strict=True)] == pytest.approx(recall.tolist())


def test_fewer_than_five_classes():
    ours = metrics(torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]]), torch.tensor([0, 0]))
    assert (ours["top1"], ours["top5"]) == (50.0, 100.0)


def test_a_class_that_never_occurs_does_not_count():
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    assert metrics(logits, torch.tensor([0, 1]))["macro_f1"] == 100.0


def test_evaluation_leaves_the_model_as_it_was(installed):
    data = load_dataset("digits", installed.datasets)
    model = build_model("tiny", installed.models, classes=10, shape=data.shape).train()
    frozen = next(m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d))
    frozen.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    figures = evaluate(model, data.test, torch.arange(500), 64)
    assert set(figures) == {"top1", "top5", "macro_f1", "loss", "classes", "hits"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not frozen.training
    assert evaluate(model, data.train, torch.arange(0), 64) == {}


class StopAfter:
    """End training after the second epoch."""

    @hookimpl
    def should_stop(self, run):
        return run.epoch == 1


@pytest.mark.parametrize(
    ("extra", "looks"), [((), [False, False, True, True]), ((StopAfter(),), [False, True])]
)
def test_the_test_set_is_looked_at_now_and_then_and_at_the_end(extra, looks):
    task = TASK.model_copy(update={"test_every": 3})
    result = train_tiny(*extra, task=task)
    assert ["test_top1" in line for line in result.epochs] == looks
    assert all("validation_top1" in line for line in result.epochs)
    often = train_tiny(*extra).record["metrics"]
    assert result.record["metrics"] == often, "how often one looks changes nothing"
