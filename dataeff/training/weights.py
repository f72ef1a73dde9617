"""Weights that travel: how a network reaches a process that tests it without a strategy's code.

Where the task's own network, given these weights, says the same as the run's, the weights are
enough. Where a strategy has changed more than weights (structure, what a layer does), the network
is exported as a program. What cannot be exported is pickled: that needs the strategy's code, so
nobody can verify it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from dataeff.errors import DataeffError
from dataeff.files import written_whole
from dataeff.saving import save
from dataeff.training.network import eval_mode
from dataeff.training.rng import forked

if TYPE_CHECKING:
    from dataeff.training.job import Job

Form = Literal["weights", "program", "pickle"]
FILES: dict[Form, str] = {
    "weights": "weights.pt",
    "program": "weights.pt2",
    "pickle": "weights.pkl",
}
"""What a network is kept in, by its form."""
# How many images must give the same logits.
_PROBED = 8


class Packer:
    """Writes the network of a run, in the simplest form that says the same."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._plain: nn.Module | None = None

    @torch.no_grad()
    def pack(self, folder: Path) -> Form:
        """Write the network into a folder, in place of what is there of it."""
        job = self._job
        model, (x,) = job.run.model, job.images([job.run.split("train")[:_PROBED]], None)
        with eval_mode(model), forked(job.run.device):
            form = self._write(model, x, folder)
        for other in set(FILES) - {form}:
            (folder / FILES[other]).unlink(missing_ok=True)
        return form

    def _write(self, model: nn.Module, x: Tensor, folder: Path) -> Form:
        if self._fits(model, x):
            _save(model.state_dict(), folder / FILES["weights"])
            return "weights"
        try:
            with written_whole(folder / FILES["program"]) as partial:
                _export(model, x, partial)
            return "program"
        except DataeffError:
            raise
        # Anything at all may be in the way of a compiler.
        except Exception:
            _save(model, folder / FILES["pickle"])
            return "pickle"

    def _fits(self, model: nn.Module, x: Tensor) -> bool:
        """Say whether the task's own network says the same with these weights."""
        job = self._job
        if self._plain is None:
            plain = job.ground.build().to(job.run.device)
            self._plain = plain.to(memory_format=job.layout).eval()  # type: ignore[call-overload]
        try:
            self._plain.load_state_dict(model.state_dict())
        except RuntimeError:
            return False
        # A run that has diverged says nan, as its weights do.
        return torch.allclose(self._plain(x), model(x), rtol=0.0, atol=0.0, equal_nan=True)


def _save(value: Any, path: Path) -> None:
    with written_whole(path) as partial, partial.open("wb") as file:
        save(value, file)


def _export(model: nn.Module, x: Tensor, path: Path) -> None:
    batch = {0: torch.export.Dim.AUTO}
    with warnings.catch_warnings(), path.open("wb") as file:
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (x,), dynamic_shapes=(batch,), strict=False)
        torch.export.save(program, file)


def unpacked(form: Form, path: Path, plain: nn.Module | None) -> nn.Module:
    """Return the network of a file, ready to be tested; `plain` is the task's own.

    Programs and pickles may run any code: they are not for a process that knows labels.
    """
    if form == "weights" and plain is not None:
        plain.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
        return plain
    if form == "program":
        with path.open("rb") as file:
            return torch.export.load(file).module()
    return cast(nn.Module, torch.load(path, weights_only=False))
