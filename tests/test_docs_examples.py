"""The examples of the documentation: each is a plugin that works as it is."""

from pathlib import Path

import pytest
import torch

from dataeff.analysis.study import Study
from dataeff.bench.desk import Desk
from dataeff.bench.suite import load_suite
from dataeff.plugins import load_plugins
from dataeff.testing import TASK, check_strategy, lab_of, train_tiny

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
OTHERS = ("dots", "diary")
STRATEGIES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in OTHERS)


@pytest.fixture(scope="module")
def examples():
    return load_plugins([EXAMPLES])


def test_all_are_found(examples):
    assert not [plugin.error for plugin in examples.plugins if plugin.error]
    assert set(STRATEGIES) <= set(examples.strategies)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_example_trains_two_epochs(examples, name):
    task = TASK.model_copy(update={"epochs": 2})
    assert train_tiny(name, installed=examples, task=task).record["status"] == "finished"


@pytest.mark.long
@pytest.mark.parametrize("name", STRATEGIES)
def test_an_example_conforms(examples, name):
    assert check_strategy(name, examples)


def test_what_an_example_reports_is_a_column(examples):
    record = train_tiny("every_other_half", installed=examples).record
    # 81 rows in batches of 16, a last one of one joined: five batches, of which two, four times.
    assert record["columns"]["batches_halved"] == 2 * 4


def test_data_network_suite_and_figure_of_ones_own(examples, tmp_path):
    lab = lab_of(examples)
    suite = load_suite("dots-quick", Desk.beside(lab))
    task = suite.tasks["dots"]
    data = lab.data(task)
    assert (data.classes, data.shape) == (3, (1, 16, 16))
    told = []
    study = Study("dots-quick", "dots", task, tmp_path, lab, tell=told.append)
    examples.analyses["progress"].factory(study)
    assert (tmp_path / "epochs.png").exists()
    assert "% in the end" in told[-1]
    assert torch.isfinite(torch.tensor(study.train("baseline").record["metrics"]["test_top1"]))


def test_a_logger_of_ones_own(examples, tmp_path):
    diary = examples.observers["diary"].factory(tmp_path / "suite", name="d.txt")
    diary.cell_started({"name": "c"})
    diary.epoch_ended({"name": "c"}, {"epoch": 0, "train_loss": 0.5})
    diary.epoch_ended({"name": "c"}, {"epoch": 1, "train_loss": 0.25, "test_top1": 90.0})
    diary.cell_ended({"name": "c"}, {"status": "finished"})
    told = (tmp_path / "suite/d.txt").read_text().splitlines()
    assert told == ["c epoch 0: loss 0.500", "c epoch 1: loss 0.250, 90.00%", "c: finished"]
