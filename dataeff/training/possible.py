"""What no task can ask of its data and of this machine: told before anything is trained."""

from dataeff.data import Dataset
from dataeff.errors import DataeffError, did_you_mean
from dataeff.registry import portion
from dataeff.training.task import Task

FEWEST = 2
"""Samples of an epoch, at least: BatchNorm has no variance of one."""


def check_possible(task: Task, data: Dataset) -> None:
    """Refuse a task that leaves next to nothing to train, or that nothing here can compile."""
    whole = len(data.train)
    samples = whole - portion(task.validation, whole)
    if samples < FEWEST:
        raise DataeffError(
            f"dataset {data.name}: {whole} samples, less the share validation={task.validation:g}, "
            f"leave {samples} to train; {FEWEST} at least are needed."
        )
    if round(min(1.0, task.epochs) * samples) < FEWEST:
        least = FEWEST / samples
        raise DataeffError(
            f"epochs={task.epochs:g} of {samples} training samples is less than {FEWEST} of them; "
            f"write {least:.2g} or more."
        )
    if isinstance(task.compile, str):
        _check_backend(task.compile)


def _check_backend(name: str) -> None:
    # Here, because it takes a second, and few ask for it.
    from torch._dynamo import list_backends

    known = list_backends(None)
    if name not in known:
        hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
        raise DataeffError(f"torch.compile has no backend {name!r} here.{hint}")
