"""Every hook, and the loop that calls them: the one file a plugin author reads.

    setup(run)                                          # on start and on resume; cheap
    on_resume(run)                                      # only on resume, before weights are loaded
    prepare(run)                                        # once, on the prepare clock
    for epoch in range(ceil(run.epochs)):
        on_epoch_start(run, epoch)
        kept = AND of prune_dataset(run, epoch)         # over the training samples
        plan = plan_epoch(run, epoch, kept)             # rows: order, pairs, batch sizes
        for rows in plan, then until drain(run) is empty:
            batch = load(run, rows)                     # fetch and augment, each sample once
            select_batch(run, batch)                    # drop rows; an emptied batch takes no step
            resize_batch(run, batch)
            transform_batch(run, batch)                 # mix
            logits = forward(run, batch)                # calls network(run, x, between)
            losses = sample_losses(run, batch, logits)
            observe_batch(run, batch, logits, losses)   # detached; the ledger records here
            backward(run, reduce_loss(run, batch, logits, losses))
            if all(should_step(run)):
                finish_gradients(run)                   # divide, clip
                optimizer_step(run)                     # at schedule(progress) * lr_factor(run)
        a pending step is taken
        end_epoch(run)
        metrics = evaluate()                            # off the clock, no strategy code
        on_epoch_end(run, epoch, metrics)               # validation metrics only
        if any(should_stop(run, metrics)): break
    columns = report(run)

A strategy is a class that derives from `dataeff.Strategy`, whose methods carry `@hookimpl`. One may
take fewer arguments than its hook offers, never one with a default. What a strategy may declare of
itself stands in that base class (dataeff hooks strategy), what it may ask of its run in `Run`
(dataeff hooks run), and what a batch holds in `Batch` (dataeff hooks batch).

Its state, for a run that is stopped and resumed, is every attribute whose name does not begin with
an underscore, or what its own `state_dict` returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pluggy

if TYPE_CHECKING:
    import torch

    from dataeff.training.batch import Batch
    from dataeff.training.plan import Plan, Rows
    from dataeff.training.run import Run

PROJECT = "dataeff"
hookimpl = pluggy.HookimplMarker(PROJECT)

Kind = Literal["watch", "combine", "chain", "own"]
KINDS: dict[Kind, str] = {
    "watch": "All implementations run; what they return is ignored.",
    "combine": "All implementations run, in no order that matters; their results are combined.",
    "chain": "All implementations run in the order the user wrote, changing the batch in place.",
    "own": "One owner, any number of wrappers; an owner that returns None has done its work.",
}
"""The four kinds of hooks, each with the rule that its hooks follow."""
HOOKS: dict[str, Kind] = {}
"""Every hook by name, with its kind."""

_Spec = TypeVar("_Spec", bound=Callable[..., Any])
_hookspec = pluggy.HookspecMarker(PROJECT)


def hook(kind: Kind) -> Callable[[_Spec], _Spec]:
    """Mark a hook of this kind; its documentation ends with the rule of the kind."""

    def mark(spec: _Spec) -> _Spec:
        HOOKS[spec.__name__] = kind
        spec.__doc__ = f"{inspect.cleandoc(spec.__doc__ or '')}\n\n{KINDS[kind]}"
        return _hookspec(spec, firstresult=kind == "own")

    return mark


# Installing: called once per installed plugin module -------------------------------------------


@hook("watch")
def register_strategies(register: Callable[..., None]) -> None:
    """Call `register(name, Class)` for each strategy."""


@hook("watch")
def register_datasets(register: Callable[..., None]) -> None:
    """Call `register(name, factory)` for each dataset: a subclass of `dataeff.ImageSet`, or what
    returns arrays, tensors or Datasets, training and test."""


@hook("watch")
def register_models(register: Callable[..., None]) -> None:
    """Call `register(name, factory)` for each `factory(classes, shape, *, ...) -> nn.Module`."""


@hook("watch")
def register_suites(register: Callable[..., None]) -> None:
    """Call `register(name, path)` for each suite file."""


@hook("watch")
def register_analyses(register: Callable[..., None]) -> None:
    """Call `register(name, analysis)` for each `analysis(study, *, ...)` that draws figures.

    Its attribute `figures` lists their names; parameters that are keyword-only are the user's, in
    `name[key=value]`. `study` (see `dataeff.analysis.study.Study`) says which figures are wanted,
    trains what these need, and gives axes to draw on.
    """


@hook("watch")
def register_observers(register: Callable[..., None]) -> None:
    """Call `register(name, Class)` for each `dataeff.Observer`, who logs what cells come to.

    It is asked for by `dataeff run --log name`, is told of epochs where no clock runs, and changes
    nothing. Parameters of its constructor that are keyword-only are the user's, in
    `name[key=value]`.
    """


# Around a run ----------------------------------------------------------------------------------


@hook("watch")
def setup(run: Run) -> None:
    """Get ready, on start and on resume: may set `run.epochs`; must be cheap.

    A strategy that is not for this task raises DataeffError here, and is refused before anything
    is trained. One that can do nothing here says why in `self.no_effect`.
    """


@hook("watch")
def on_resume(run: Run) -> None:
    """Give the network the structure that the strategy's restored state speaks of.

    Called between a strategy's state and the weights, which must fit.
    """


@hook("watch")
def prepare(run: Run) -> None:
    """Do the work that precedes training (scoring models, pruning), on the prepare clock, once."""


@hook("combine")
def report(run: Run) -> Mapping[str, Any]:
    """Return extra columns for the results of this run.

    Merged; two strategies that write one column are an error.
    """


# Around an epoch -------------------------------------------------------------------------------


@hook("watch")
def on_epoch_start(run: Run, epoch: int) -> None:
    """Change the network or the selection before the epoch is planned, on the train clock."""


@hook("combine")
def prune_dataset(run: Run, epoch: int) -> torch.Tensor:
    """Return a boolean mask over all samples: True stays in this epoch.

    A sample stays if every mask keeps it.
    """


@hook("own")
def plan_epoch(run: Run, epoch: int, kept: torch.Tensor) -> Plan:
    """Return the rows of this epoch, in order, cut into batches. Strategies wrap it.

    The owner is always the default: permute all samples, then drop those not kept.
    """


@hook("chain")
def drain(run: Run) -> Batch | None:
    """Return a batch still held back once the plan is through, or None when nothing is left.

    A drained batch passes `select_batch` of the strategies written after the one that held it.
    """


@hook("watch")
def end_epoch(run: Run) -> None:
    """Finish the epoch on the train clock: forward hidden samples, update tables."""


@hook("watch")
def on_epoch_end(run: Run, epoch: int, metrics: Mapping[str, float]) -> None:
    """Look at the validation metrics of the epoch."""


@hook("combine")
def should_stop(run: Run, metrics: Mapping[str, float]) -> bool:
    """Say whether to end training after this epoch.

    Any True ends the run.
    """


# Within a batch: nothing below may read a tensor back to the host -------------------------------


@hook("own")
def load(run: Run, rows: Rows) -> Batch:
    """Fetch the samples of these rows, augmented, on the device."""


@hook("chain")
def select_batch(run: Run, batch: Batch) -> None:
    """Drop rows with `batch.keep_rows` (or samples with `batch.keep_samples`)."""


@hook("chain")
def resize_batch(run: Run, batch: Batch) -> None:
    """Change the resolution of `batch.x`."""


@hook("chain")
def transform_batch(run: Run, batch: Batch) -> None:
    """Mix the samples of each row into one image with `batch.mix_rows`, or change the images."""


@hook("own")
def forward(run: Run, batch: Batch) -> torch.Tensor:
    """Return float32 logits, one line per sample."""


@hook("own")
def network(run: Run, x: torch.Tensor, between: Callable | None) -> torch.Tensor:
    """Call the network once; `between` maps its last feature map to what the head reads.

    A `between` with a method `features(model, x)` also makes that map, in place of the network's
    own `forward_features`.
    """


@hook("own")
def sample_losses(run: Run, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
    """Return one plain loss per sample: no weights, no label smoothing."""


@hook("watch")
def observe_batch(run: Run, batch: Batch, logits: torch.Tensor, losses: torch.Tensor) -> None:
    """Look at detached logits and losses, one line per sample."""


@hook("own")
def reduce_loss(
    run: Run, batch: Batch, logits: torch.Tensor, losses: torch.Tensor
) -> tuple[torch.Tensor, float | torch.Tensor]:
    """Return (numerator, denominator) of the training loss; by default (sum(weight * loss), R).

    Gradients are divided by the denominators summed over the batches of a step.
    """


@hook("own")
def backward(run: Run, loss: tuple[torch.Tensor, float | torch.Tensor]) -> None:
    """Add the gradients of the numerator, and the denominator to `run.denominator`.

    Gradients may be kept in any unit that `run.unit` states; the default's is the denominator of
    the first batch of the step.
    """


@hook("combine")
def should_step(run: Run) -> bool:
    """Say whether the gradients gathered so far make a step.

    The step is taken if all agree; what is pending at the end of an epoch is taken there. It is
    asked after each batch that was trained, so not for one that was emptied.
    """


@hook("own")
def finish_gradients(run: Run) -> None:
    """Divide by the summed denominators and clip."""


@hook("combine")
def lr_factor(run: Run) -> float:
    """Return a factor on the scheduled learning rate.

    Factors are multiplied.
    """


@hook("own")
def optimizer_step(run: Run) -> None:
    """Step the optimizer; the learning rate is already set."""


@hook("combine")
def compute_factor(run: Run) -> float:
    """Return the share of the network's work that a row costs now (depth that is skipped).

    Factors are multiplied; they enter the ideal speed-up only, and are held against the FLOPs of a
    batch that ran: one that does not fit is an error.
    """
