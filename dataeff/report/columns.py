"""The columns of leaderboard.csv, each in one place: how it is headed, written, explained, shown.

The order is that of the file. Places in the other forms are numbers from 1; 0 is not shown there.
"""

from typing import NamedTuple

import pandas as pd


class Column(NamedTuple):
    """One column; the first sentence of its meaning is what the page says of it.

    A form is that of `format`, and after a space its unit; `yes` is for what is true, and nothing
    for texts. `head` and `short` are title and form in the terminal, where they differ. `text` is
    the place in terminal, plain text and Markdown; `drop` says when a narrow terminal leaves it
    out: 1 is the first to go, 0 always stays. A `rare` one is in the terminal only where it says
    anything, one that is there `always` on the page even where it says nothing, `more` only when
    asked for; `up` is sorted upwards first.
    """

    name: str
    title: str = ""
    form: str = ""
    meaning: str = ""
    head: str = ""
    short: str = ""
    text: int = 0
    page: int = 0
    drop: int = 0
    rare: bool = False
    always: bool = False
    more: bool = False
    up: bool = False

    @property
    def heading(self) -> str:
        """Return its title in the terminal."""
        return self.head or self.title

    @property
    def brief(self) -> str:
        """Return the first sentence of its meaning."""
        return f"{self.meaning.partition('. ')[0].removesuffix('.')}."

    def says(self, lines: pd.DataFrame) -> bool:
        """Say whether any line has something in it."""
        values = lines[self.name]
        return bool(values.notna().any() if values.dtype.kind == "f" else values.astype(bool).any())


# Formatted by hand: one argument per line would hide the table that this is.
# fmt: off
COLUMNS = (
    Column("task", meaning="What was trained."),
    Column("strategy", "strategy", text=1, page=1, always=True, up=True, meaning=
           "The method with its parameters. In the form that you type."),
    Column("verdict", "verdict", text=2, page=2, drop=17, always=True, up=True, meaning=
           "What may be said against the reference. Read off the intervals, in a few words (see "
           "below)."),
    Column("sentence", meaning="The verdict as a sentence, with its numbers."),
    Column("settled", meaning="True where more seeds would tell nothing that matters: speed and "
           "accuracy are known, or it has lost."),
    Column("look", meaning="Seeds of the look that judged it; 0 before there was one."),
    Column("n", "seeds", ".0f", head="n", text=3, page=3, drop=15, always=True, meaning=
           "Finished runs. One per seed; of early termination, seeds that had a test by then."),
    Column("accuracy", "accuracy %", ".2f", text=4, page=4, always=True, meaning=
           "On the test set after the last epoch. Mean over seeds, in percent; of early "
           "termination, on the images that curves are of."),
    Column("balanced_accuracy", "balanced %", ".2f", text=5, page=5, drop=8, rare=True, more=True,
           meaning="Mean accuracy of the classes. Each counts alike, however many test images it "
           "has; empty where they have as many, so that it is the accuracy."),
    Column("accuracy_std", meaning="Its standard deviation over seeds."),
    Column("difference", "difference", "+z.2f", head="vs reference", text=6, page=6,
           always=True, meaning="Points against the reference. Mean, paired by seed."),
    Column("difference_low", meaning="Where the interval that judges it begins; of a control, the "
           "one for itself."),
    Column("difference_high", meaning="Where it ends."),
    Column("image_error", meaning="Standard error in points that other test images would add to "
           "the difference; no number of seeds lessens it."),
    Column("margin", meaning="Points that a strategy may lose and still be no worse."),
    Column("gain", "gain", "+z.2f", head="over training less", text=9, page=8, drop=16,
           rare=True, meaning="Accuracy less that of just training less in the same time. Seed by "
           "seed, over the better of its kinds: shorter schedules, random choice."),
    Column("gain_low", meaning="Where the interval that judges it begins; infinite where the line "
           "does not reach as far."),
    Column("gain_high", meaning="Where it ends."),
    Column("against_line", meaning="What may be said of that, with its numbers."),
    Column("saves_time", meaning="How sure it is that it saves time. Proven (by the intervals of "
           "the table), likely (by its own), open, likely not, proven not; empty of the reference, "
           "of yardsticks, and before there was a look."),
    Column("loses_no_more", meaning="How sure it is that it loses no more than the margin. In the "
           "same words."),
    Column("beats_training_less", meaning="How sure it is that it is above what just training less "
           "reaches in its time. In the same words; empty where there is no line."),
    Column("macro_f1", "F1 %", ".2f", text=17, page=19, drop=4, more=True, meaning=
           "Macro F1 on the test set. Mean over classes and seeds, in percent."),
    Column("worst_class", "worst class %", ".2f", short=".1f", text=16, page=20, drop=7, more=True,
           meaning="Accuracy of the worst class. Of each run, mean over seeds; all classes are in "
           "classes.csv."),
    Column("train_loss", meaning="Mean loss of the last epoch's training rows, mean over seeds."),
    Column("test_loss", meaning="Mean loss of the test set after that epoch, mean over seeds."),
    Column("prepare_seconds", "prep s", ".2f", text=15, page=14, drop=5, more=True, up=True,
           meaning="Seconds on the prepare clock. Wall time, mean over seeds."),
    Column("train_seconds", "train s", ".2f", text=14, page=10, drop=9, up=True, meaning=
           "Seconds on the train clock. Wall time, mean over seeds."),
    Column("speedup", "speed-up", ".2f x", text=7, page=7, always=True, meaning=
           "Seconds of the reference over ours. Of prepare + train, geometric mean over seeds."),
    Column("speedup_low", head="from-to", text=8, drop=13, meaning=
           "Where the interval that judges it begins; of a control, the one for itself."),
    Column("speedup_high", meaning="Where it ends."),
    Column("oracle", "oracle", ".2f x", text=25, page=29, rare=True, more=True, meaning=
           "Speed-up if what is off the clock cost nothing. What was left off on purpose, that is; "
           "`speedup` counts it."),
    Column("train_speedup", "without prep", ".2f x", page=15, more=True, meaning=
           "Speed-up, preparation left out."),
    Column("amortised_speedup", "shared prep", ".2f x", page=16, more=True, meaning=
           "Speed-up, reused scores shared. By the finished runs that reuse them (`reuse=true`); "
           "`speedup` charges each in full."),
    Column("artefact_uses", "uses", ".0f", page=17, more=True, meaning=
           "Runs that share the scores."),
    Column("ideal_speedup", "ideal", ".2f x", text=10, page=9, drop=14, meaning=
           "Speed-up by counted work: forward 1, backward 2. Times the FLOPs of a row."),
    Column("realised", "real/ideal", ".2f", text=11, page=18, drop=12, more=True, meaning=
           "Realised over ideal speed-up. By `oracle` where part of the work is off the clock."),
    Column("target", "target %", ".2f", page=22, more=True, meaning=
           "The accuracy to reach. On the images that curves are of: what `--target` says; by "
           "default the reference's mean less the margin."),
    Column("target_seconds", "s to target", ".2f", head="to target s", text=13, page=21, drop=10,
           more=True, up=True, meaning="Seconds until the target. Of prepare + train, to the first "
           "test that showed it, where all seeds got there."),
    Column("target_reached", "reached", ".0%", page=23, more=True, meaning=
           "Share of seeds that reached the target."),
    Column("reference_at_same_time", "reference then %", ".2f", head="ref. by then %", text=12,
           page=24, drop=11, more=True, meaning="Accuracy of the reference at the moment the "
           "strategy was done. On its own curve, and the images that this is of; empty before its "
           "first test."),
    Column("early_speedup", "reference as good", ".2f x", page=25, more=True, meaning=
           "Speed-up of the reference, stopped as soon as it is as accurate as the strategy. Early "
           "termination as MixTrain has it, seed by seed; empty where a seed never was. It is "
           "chosen by tests on the test set, which favours the reference."),
    Column("pareto", "Pareto", "yes", page=11, meaning=
           "Nothing else is both faster and more accurate. Among those that are on the clock."),
    Column("rows_trained", "rows", ",.0f", text=20, page=26, drop=2, more=True, up=True, meaning=
           "Rows trained. Those that went through a backward pass."),
    Column("never_trained", "never trained", ".1%", short=".0%", text=18, page=27, drop=6,
           more=True, up=True, meaning="Share of samples never used."),
    Column("class_balance", "balance", ".2f", text=19, page=28, drop=3, more=True, meaning=
           "Class balance of what was trained; 1 is even. How often the least trained class was "
           "trained over the most trained one, per sample."),
    Column("energy_joules", "joules", ",.0f", head="energy J", text=22, page=30, rare=True,
           more=True, up=True, meaning="Energy, where a meter exists. Of prepare + train: NVML on "
           "CUDA, RAPL on a CPU, with all that ran beside it."),
    Column("peak_memory_mib", "peak MiB", ",.0f", short=".0f", text=21, page=31, drop=1, more=True,
           up=True, meaning="Most memory in use. Of the device, or of the process where the "
           "device has no count."),
    Column("on_clock", meaning="False where part of the work was left off the clock on purpose, "
           "and where nothing was run (early termination)."),
    Column("control", meaning="True where the strategy is a yardstick: random choice, the "
           "reference with a shorter schedule, or the reference stopped early."),
    Column("contended", "contended", ".0f", page=13, meaning=
           "Runs during which something else used the machine, or it stood still. How is in "
           "runs.csv."),
    Column("trouble", "trouble", text=26, page=12, rare=True, meaning=
           "Runs that failed, diverged or have no pair. And those that were contended."),
    Column("note", "note", page=34, more=True, meaning="What the strategy says of its runs."),
    Column("conditions", meaning="Short name of device, versions, threads and flags; lines with "
           "different ones are never compared."),
    Column("device", meaning="Where it ran, with its driver, and why not on CUDA."),
    Column("published_accuracy", "paper %", ".2f", text=23, page=32, rare=True, more=True,
           meaning="Accuracy that was published. For this strategy on this task, as all that "
           "follows, where the suite carries it."),
    Column("published_speedup", "paper speed-up", ".2f x", text=24, page=33, rare=True,
           more=True, meaning="Speed-up that was published."),
    Column("published_macro_f1", meaning="Macro F1 that was published."),
    Column("published_hours", meaning="Hours that were published."),
    Column("published_train_loss", meaning="Training loss that was published."),
    Column("published_test_loss", meaning="Test loss that was published."),
    Column("published_source", meaning="The paper."),
)
# fmt: on

NAMES = [column.name for column in COLUMNS]
"""The columns of leaderboard.csv, in order."""


def _placed(form: str) -> tuple[Column, ...]:
    there = [column for column in COLUMNS if getattr(column, form)]
    return tuple(sorted(there, key=lambda column: getattr(column, form)))


TEXT, PAGE, DISPENSABLE = map(_placed, ("text", "page", "drop"))
"""The columns of each form in its own order, and those that a narrow terminal leaves out."""
