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

A strategy is a class whose methods carry `@hookimpl`; it may take fewer arguments than a hook
offers, never one with a default. Class attributes say what the harness must know of it:

    claims = ("rows",)      what no second strategy of the run may claim as well
    saves = "rows"          what must fall below the baseline's: rows, forward, loading or flops
    precision = True        only changes number formats, so scoring runs keep it
    reads_back = True       reads one number per batch from the device
    control = True          a yardstick: methods are compared with it where it costs the same
    at_cost(share)          of a yardstick, static: the parameters at which it costs that share
    no_effect = "..."       set in setup: why it can do nothing here; its row gets no verdict

Its state, for a run that is stopped and resumed, is every attribute whose name does not begin with
an underscore, or what its own `state_dict` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import torch

    from dataeff.training.batch import Batch
    from dataeff.training.plan import Plan, Rows
    from dataeff.training.run import Run

PROJECT = "dataeff"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

WATCH = "All implementations run; what they return is ignored."
COMBINE = "All implementations run, in no order that matters; their results are combined."
CHAIN = "All implementations run in the order the user wrote, changing the batch in place."
OWN = "One owner, any number of wrappers; an owner that returns None has done its work."

# Installing: called once per installed plugin module -------------------------------------------


@hookspec
def register_strategies(register: Callable[..., None]) -> None:
    """Call `register(name, Class)` for each strategy.

    All implementations run; what they return is ignored.
    """


@hookspec
def register_datasets(register: Callable[..., None]) -> None:
    """Call `register(name, Class)` for each dataset, a subclass of `dataeff.ImageSet`.

    All implementations run; what they return is ignored.
    """


@hookspec
def register_models(register: Callable[..., None]) -> None:
    """Call `register(name, factory)` for each `factory(classes, shape, *, ...) -> nn.Module`.

    All implementations run; what they return is ignored.
    """


@hookspec
def register_suites(register: Callable[..., None]) -> None:
    """Call `register(name, path)` for each suite file.

    All implementations run; what they return is ignored.
    """


@hookspec
def register_analyses(register: Callable[..., None]) -> None:
    """Call `register(name, analysis)` for each `analysis(study, *, ...)` that draws figures.

    All implementations run; what they return is ignored.
    Its attribute `figures` lists their names; parameters that are keyword-only are the user's, in
    `name[key=value]`. `study` (see `dataeff.bench.study.Study`) says which figures are wanted,
    trains what these need, and gives axes to draw on.
    """


# Around a run ----------------------------------------------------------------------------------


@hookspec
def setup(run: Run) -> None:
    """Get ready, on start and on resume: may set `run.epochs`; must be cheap.

    All implementations run; what they return is ignored. A strategy that is not for this task
    raises DataeffError here, and is refused before anything is trained.
    """


@hookspec
def on_resume(run: Run) -> None:
    """Give the network the structure that the strategy's restored state speaks of.

    All implementations run; what they return is ignored.
    Called between a strategy's state and the weights, which must fit.
    """


@hookspec
def prepare(run: Run) -> None:
    """Do the work that precedes training (scoring models, pruning), on the prepare clock, once.

    All implementations run; what they return is ignored.
    """


@hookspec
def report(run: Run) -> Mapping[str, Any]:
    """Return extra columns for the results of this run.

    All implementations run, in no order that matters; their results are combined.
    Merged; two strategies that write one column are an error.
    """


# Around an epoch -------------------------------------------------------------------------------


@hookspec
def on_epoch_start(run: Run, epoch: int) -> None:
    """Change the network or the selection before the epoch is planned, on the train clock.

    All implementations run; what they return is ignored.
    """


@hookspec
def prune_dataset(run: Run, epoch: int) -> torch.Tensor:
    """Return a boolean mask over all samples: True stays in this epoch.

    All implementations run, in no order that matters; their results are combined.
    A sample stays if every mask keeps it.
    """


@hookspec(firstresult=True)
def plan_epoch(run: Run, epoch: int, kept: torch.Tensor) -> Plan:
    """Return the rows of this epoch, in order, cut into batches. Strategies wrap it.

    One owner, any number of wrappers; an owner that returns None has done its work.
    The owner is always the default: permute all samples, then drop those not kept.
    """


@hookspec
def drain(run: Run) -> Batch | None:
    """Return a batch still held back once the plan is through, or None when nothing is left.

    All implementations run in the order the user wrote, changing the batch in place.
    A drained batch passes `select_batch` of the strategies written after the one that held it.
    """


@hookspec
def end_epoch(run: Run) -> None:
    """Finish the epoch on the train clock: forward hidden samples, update tables.

    All implementations run; what they return is ignored.
    """


@hookspec
def on_epoch_end(run: Run, epoch: int, metrics: Mapping[str, float]) -> None:
    """Look at the validation metrics of the epoch.

    All implementations run; what they return is ignored.
    """


@hookspec
def should_stop(run: Run, metrics: Mapping[str, float]) -> bool:
    """Say whether to end training after this epoch.

    All implementations run, in no order that matters; their results are combined.
    Any True ends the run.
    """


# Within a batch: nothing below may read a tensor back to the host -------------------------------


@hookspec(firstresult=True)
def load(run: Run, rows: Rows) -> Batch:
    """Fetch the samples of these rows, augmented, on the device.

    One owner, any number of wrappers; an owner that returns None has done its work.
    """


@hookspec
def select_batch(run: Run, batch: Batch) -> None:
    """Drop rows with `batch.keep_rows` (or samples with `batch.keep_samples`).

    All implementations run in the order the user wrote, changing the batch in place.
    """


@hookspec
def resize_batch(run: Run, batch: Batch) -> None:
    """Change the resolution of `batch.x`.

    All implementations run in the order the user wrote, changing the batch in place.
    """


@hookspec
def transform_batch(run: Run, batch: Batch) -> None:
    """Mix the samples of each row into one image with `batch.mix_rows`, or change the images.

    All implementations run in the order the user wrote, changing the batch in place.
    """


@hookspec(firstresult=True)
def forward(run: Run, batch: Batch) -> torch.Tensor:
    """Return float32 logits, one line per sample.

    One owner, any number of wrappers; an owner that returns None has done its work.
    """


@hookspec(firstresult=True)
def network(run: Run, x: torch.Tensor, between: Callable | None) -> torch.Tensor:
    """Call the network once; `between` maps its last feature map to what the head reads.

    One owner, any number of wrappers; an owner that returns None has done its work.
    A `between` with a method `features(model, x)` also makes that map, in place of the network's
    own `forward_features`.
    """


@hookspec(firstresult=True)
def sample_losses(run: Run, batch: Batch, logits: torch.Tensor) -> torch.Tensor:
    """Return one plain loss per sample: no weights, no label smoothing.

    One owner, any number of wrappers; an owner that returns None has done its work.
    """


@hookspec
def observe_batch(run: Run, batch: Batch, logits: torch.Tensor, losses: torch.Tensor) -> None:
    """Look at detached logits and losses, one line per sample.

    All implementations run; what they return is ignored.
    """


@hookspec(firstresult=True)
def reduce_loss(
    run: Run, batch: Batch, logits: torch.Tensor, losses: torch.Tensor
) -> tuple[torch.Tensor, float | torch.Tensor]:
    """Return (numerator, denominator) of the training loss; by default (sum(weight * loss), R).

    One owner, any number of wrappers; an owner that returns None has done its work.
    Gradients are divided by the denominators summed over the batches of a step.
    """


@hookspec(firstresult=True)
def backward(run: Run, loss: tuple[torch.Tensor, float | torch.Tensor]) -> None:
    """Add the gradients of the numerator, and the denominator to `run.denominator`.

    One owner, any number of wrappers; an owner that returns None has done its work.
    Gradients may be kept in any unit that `run.unit` states; the default's is the denominator of
    the first batch of the step.
    """


@hookspec
def should_step(run: Run) -> bool:
    """Say whether the gradients gathered so far make a step.

    All implementations run, in no order that matters; their results are combined.
    The step is taken if all agree; what is pending at the end of an epoch is taken there. It is
    asked after each batch that was trained, so not for one that was emptied.
    """


@hookspec(firstresult=True)
def finish_gradients(run: Run) -> None:
    """Divide by the summed denominators and clip.

    One owner, any number of wrappers; an owner that returns None has done its work.
    """


@hookspec
def lr_factor(run: Run) -> float:
    """Return a factor on the scheduled learning rate.

    All implementations run, in no order that matters; their results are combined.
    Factors are multiplied.
    """


@hookspec(firstresult=True)
def optimizer_step(run: Run) -> None:
    """Step the optimizer; the learning rate is already set.

    One owner, any number of wrappers; an owner that returns None has done its work.
    """


@hookspec
def compute_factor(run: Run) -> float:
    """Return the share of the network's work that a row costs now (depth that is skipped).

    All implementations run, in no order that matters; their results are combined.
    Factors are multiplied; they enter the ideal speed-up only.
    """
