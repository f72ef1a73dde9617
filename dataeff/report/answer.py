"""The answer: what a table allows us to recommend, how sure we are, and what more would cost."""

from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from dataeff.plural import counted
from dataeff.report.frames import Key, Record
from dataeff.report.method import Method, costs, first_answer, in_points, method_of
from dataeff.report.price import Price, command_of
from dataeff.report.stats import Flags, Interval
from dataeff.report.words import percent
from dataeff.report.worth import Sure, Worth

BET, LESS, LOSES, SLOW = "best bet", "train less", "all lose too much", "nothing saves time"
UNSURE, ONE_SEED, FAILED, RUNNING = "too early", "one seed", "failed", "running"
"""Kinds of answers."""


@dataclass(frozen=True)
class Answer:
    """What one table allows us to recommend.

    `strategy` is what to take, or nothing. `headline` says it in one sentence, `detail` with its
    numbers, `open` what more would tell, `counts` what became of the others; `evidence` is how sure
    each question is answered. Intervals are those that judge the whole table: the winner was picked
    among many.
    """

    key: Key
    kind: str
    headline: str
    strategy: str = ""
    detail: str = ""
    open: str = ""
    counts: str = ""
    time_saved: Interval | None = None
    accuracy: Interval | None = None
    training_less: float | None = None
    gain: Interval | None = None
    evidence: dict[str, str] | None = None
    price: Price | None = None

    @property
    def sentences(self) -> list[str]:
        """Return all that is to be said, what matters most first."""
        return list(filter(None, [self.headline, self.detail, self.open, self.counts]))

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def numbers(self) -> Record:
        """Return all of it for programs."""
        task, conditions = self.key
        told = {name: value for name, value in asdict(self).items() if name != "key"}
        for name in ("time_saved", "accuracy", "gain", "price"):
            if value := getattr(self, name):
                told[name] = value._asdict()
        return {"task": task, "conditions": conditions, **told}


def answer(worth: Worth) -> Answer:
    """Return what a table allows us to recommend, whatever state it is in."""
    return _Telling(worth).answer()


class _Telling:
    """Says one table."""

    def __init__(self, worth: Worth) -> None:
        self.worth, self.judged, self.grid = worth, worth.judged, worth.judged.grid
        self.tried = self.judged.methods & (self.judged.idle == "")
        self.failures = self._failures()
        self.say = partial(Answer, self.judged.table.key)
        self.margin = in_points(self.judged.margin)
        self.command = command_of(self.judged.table.suite)

    def answer(self) -> Answer:
        judged, worth = self.judged, self.worth
        if stopped := self._too_early():
            return stopped
        if not (self.tried & (worth.saves >= Sure.LIKELY)).any():
            return self._nothing_saves()
        if not worth.fits.any():
            return self._less(LOSES)
        above = worth.fits & (judged.gain[0] > 0) if worth.has_line else worth.fits
        if not above.any():
            return self._less(LESS)
        return self._bet(int(np.where(above, worth.least, -np.inf).argmax()))

    # Where nothing can be recommended -------------------------------------------------------------

    def _too_early(self) -> Answer | None:
        """Return the answer of a table of which nothing may be said yet; None of the others."""
        judged, failures = self.judged, self.failures
        run = self._of(self.tried)
        waiting = [name for name in judged.table.methods if name not in run]
        if not run and not waiting:
            return self.say(UNSURE, "No method was compared: the table has yardsticks alone.")
        ended = set(self.grid.cells["strategy"])
        reference = judged.table.suite["reference"]
        if reference in failures and reference not in ended:
            why = f"{reference} failed, so nothing can be compared: {failures[reference]}."
            return self.say(FAILED, why)
        if not waiting and all(name in failures and name not in ended for name in run):
            told = [f"{name} ({failures[name]})" for name in run[:3]]
            more = f" and {len(run) - 3} more" if len(run) > 3 else ""
            return self.say(FAILED, f"All failed: {', '.join(told)}{more}.")
        if not judged.against:
            why = judged.waiting() or "no look is planned"
            return self.say(RUNNING, f"Nothing may be said yet: {why}.")
        return self._one_seed() if judged.at.max(initial=0) < 2 else None

    def _one_seed(self) -> Answer:
        """Return who is ahead after one seed, which says nothing of what another one would be."""
        judged, (price, said) = self.judged, first_answer(self.worth)
        speeds = np.where(self.tried & judged.able, judged.speed.mean, np.nan)
        detail = ""
        if not np.isnan(speeds).all():
            fastest = self._method(int(np.nanargmax(speeds)))
            detail = f"Fastest was {fastest.name}: {fastest.bargain}."
        return self.say(
            ONE_SEED,
            "One seed proves nothing: another may tell the opposite.",
            detail=detail,
            open=said,
            counts=self._counts(),
            price=price,
        )

    def _nothing_saves(self) -> Answer:
        """Return the answer where nobody is likely to be faster."""
        saves = self.worth.saves[self.tried]
        if (saves <= Sure.UNLIKELY).all():
            who = f"all {len(saves)} are" if len(saves) > 1 else "the one that was tried is"
            headline = f"Nothing here saves time: {who} slower than training as usual."
            return self.say(SLOW, headline, counts=self._counts())
        speeds = np.where(self.tried, self.judged.speed.mean, np.nan)
        if np.isnan(speeds).all():
            return self.say(
                UNSURE,
                "Whether anything here saves time is open: no time that was measured can be "
                "trusted.",
                open=f"To measure them again: {self.command} --rerun-flagged",
                counts=self._counts(),
            )
        closest = self._method(int(np.nanargmax(speeds)))
        return self.say(
            UNSURE,
            "Whether anything here saves time is open.",
            detail=f"Closest is {closest.name}: {closest.saving}.",
            open=closest.open,
            counts=self._counts(),
            price=closest.price,
        )

    def _less(self, kind: str) -> Answer:
        """Return the answer where no method is better than just training less."""
        if (at := self._on_line()) is None:
            headline = f"Nothing here saves time without losing more than {self.margin}."
            return self.say(LOSES, headline, counts=self._counts())
        less = self._method(at)
        offer = f"{percent(less.time_saved.mean)} less time {costs(less.accuracy.mean)}"
        headline = f"Nothing here beats training less: {offer}."
        if kind == LOSES:
            headline = (
                f"All that saves time here loses more than {self.margin}. Training less: {offer}."
            )
        return self.say(
            kind,
            headline,
            strategy=less.name,
            detail=f"That is {less.name}: {less.saving}, {less.level}.",
            open=self._closest(),
            counts=self._counts(),
            time_saved=less.time_saved,
            accuracy=less.accuracy,
        )

    def _on_line(self) -> int | None:
        """Return the point of the line that saves most and keeps what must be kept.

        Where all lose more, the one that loses least; None where there is none.
        """
        judged = self.judged
        on = np.isin(self.grid.names, judged.table.on_line())
        on = on & self.grid.others & (judged.speed.mean > 0) & ~np.isnan(judged.points.mean)
        if not on.any():
            return None
        keeping = on & (judged.points.mean >= -judged.margin)
        if keeping.any():
            return int(np.where(keeping, judged.speed.mean, -np.inf).argmax())
        return int(np.where(on, judged.points.mean, -np.inf).argmax())

    def _closest(self) -> str:
        """Say who comes closest to the line, of those that may be taken."""
        worth = self.worth
        if not worth.fits.any():
            return ""
        closest = self._method(int(np.where(worth.fits, worth.least, -np.inf).argmax()))
        told = f"Closest to it is {closest.name}: {closest.worth} for the same time."
        return told if closest.gain else ""

    # What to take ---------------------------------------------------------------------------------

    def _bet(self, i: int) -> Answer:
        best = self._method(i)
        return self.say(
            BET,
            f"{best.name} is the best bet: {best.bargain}. {best.doubts}",
            strategy=best.name,
            detail=best.detail,
            open=best.open,
            counts=self._counts(),
            time_saved=best.time_saved,
            accuracy=best.accuracy,
            training_less=best.training_less,
            gain=best.gain,
            evidence=best.evidence,
            price=best.price,
        )

    def _method(self, i: int) -> Method:
        return method_of(self.worth, i)

    # What became of the others --------------------------------------------------------------------

    def _counts(self) -> str:
        """Say how many were tried, and what became of them."""
        judged, tried = self.judged, self.tried
        failed = [name for name in self.failures if name in self._of(tried)]
        said = []
        if self.worth.has_line:
            above = int((tried & (judged.gain[0] > 0)).sum())
            lie = "lies" if above == 1 else "lie"
            said.append(f"{above} {lie} above what just training less reaches")
        if losing := int((tried & (judged.points.mean < -judged.margin)).sum()):
            said.append(f"{losing} lose{'s' * (losing == 1)} more than {self.margin}")
        if slower := int((tried & (judged.speed.mean < 0)).sum()):
            said.append(f"{slower} {'is' if slower == 1 else 'are'} slower")
        if failed:
            said.append(f"{len(failed)} failed ({failed[0]}: {self.failures[failed[0]]})")
        told = f": {', '.join(said)}" if said else ""
        return f"{counted(int(tried.sum()), 'method was', 'methods were')} tried{told}."

    def _of(self, who: Flags) -> list[str]:
        return [name for name, is_so in zip(self.grid.names, who, strict=True) if is_so]

    def _failures(self) -> dict[str, str]:
        """Return what ended cells of each strategy before their time, by its first one."""
        group = self.judged.table.group
        lines = group[group["status"] != "finished"]
        return {
            name: _short(next(filter(None, part["error"].fillna("")), part["status"].iloc[0]))
            for name, part in lines.groupby("strategy", sort=False)
        }


def _short(error: str) -> str:
    """Return the first sentence of an error, without its full stop."""
    return error.strip().partition("\n")[0].partition(". ")[0].rstrip(".")
