"""One method in its numbers: what it saves, what it costs, and how sure each of that is."""

import math
from dataclasses import dataclass

from dataeff.plural import counted
from dataeff.report.frames import Record
from dataeff.report.price import Price, price_of, settling
from dataeff.report.stats import Interval
from dataeff.report.words import NOT_TIMED, listed, number, percent, points, saved
from dataeff.report.worth import BEATS, KEEPS, SAVES, Sure, Worth

# Seeds after which there is an answer, where there is one seed only.
_ENOUGH = 5


@dataclass(frozen=True)
class Method:
    """What a table knows of one strategy against its reference.

    Intervals are those that judge the whole table. `gain` is over just training less, where anybody
    was compared with that; `sure` says of each question that can be asked how sure its answer is.
    `price` is that of settling what is open, and `open` says so.
    """

    name: str
    time_saved: Interval
    accuracy: Interval
    seeds: int
    gain: Interval | None
    sure: dict[str, Sure]
    margin: float
    price: Price | None
    open: str

    @property
    def training_less(self) -> float | None:
        """Return the accuracy of just training less for the same time, less the reference's."""
        return self.accuracy.mean - self.gain.mean if self.gain else None

    @property
    def evidence(self) -> dict[str, str]:
        """Return how sure the answer to each question is, in words."""
        return {question: level.word for question, level in self.sure.items()}

    # In words -------------------------------------------------------------------------------------

    @property
    def bargain(self) -> str:
        """Return what is saved for what is lost: `48% less time for -0.6 points`."""
        change = f"{number(self.accuracy.mean, '+z.1f')} points"
        if math.isnan(share := self.time_saved.mean):
            return f"{change}, {NOT_TIMED}"
        return f"{percent(abs(share))} {'less' if share > 0 else 'more'} time for {change}"

    @property
    def saving(self) -> str:
        """Return the time that is saved, with its interval."""
        mean, low, high = self.time_saved
        reach = f" ({percent(low)} to {percent(high)})" if math.isfinite(high - low) else ""
        return f"time saved {percent(mean)}{reach}" if math.isfinite(mean) else NOT_TIMED

    @property
    def level(self) -> str:
        """Return by how much accuracy differs, with its interval and seeds."""
        return f"accuracy {points(self.accuracy)} points, {counted(self.seeds, 'seed')}"

    @property
    def detail(self) -> str:
        """Return all of its numbers, and what just training less does for the same time."""
        told = f"{self.saving.capitalize()}; {self.level}."
        # Who is slower is beyond the line, which ends in the reference.
        if self.training_less is None or not self.time_saved.mean > 0:
            return told
        less = f"Simply training less {costs(self.training_less)} for the same time"
        return f"{told} {less}: the method is worth {self.worth}."

    @property
    def worth(self) -> str:
        """Return its gain over just training less."""
        return f"{points(self.gain)} points" if self.gain else ""

    @property
    def doubts(self) -> str:
        """Say how sure the questions are answered: what is open, else what is likely, else all."""
        said = {
            SAVES: "saves time",
            KEEPS: f"loses no more than {in_points(self.margin)}",
            BEATS: "beats simply training less",
        }
        doubtful = [said[name] for name, level in self.sure.items() if level <= Sure.OPEN]
        likely = [said[name] for name, level in self.sure.items() if level == Sure.LIKELY]
        if doubtful:
            return f"Whether it {listed(doubtful)} is open."
        return f"That it {listed(likely)} is likely, not proven." if likely else "All is proven."

    @property
    def answers(self) -> str:
        """Return how sure each of the three questions is, one by one, as far as it is asked."""
        asked = {
            SAVES: "Saves time",
            KEEPS: f"Loses no more than {in_points(self.margin)}",
            BEATS: "Beats training less",
        }
        return " ".join(f"{asked[name]}: {word}." for name, word in self.evidence.items())

    @property
    def sentences(self) -> list[str]:
        """Return all that is to be said of it, what matters most first."""
        return list(
            filter(None, [f"{self.name}: {self.bargain}.", self.detail, self.answers, self.open])
        )

    def numbers(self) -> Record:
        """Return all of it for programs."""
        return {
            "strategy": self.name,
            "time_saved": self.time_saved._asdict(),
            "accuracy": self.accuracy._asdict(),
            "seeds": self.seeds,
            "training_less": self.training_less,
            "gain": self.gain and self.gain._asdict(),
            "evidence": self.evidence,
            "price": self.price and self.price._asdict(),
            "sentences": self.sentences,
        }


def method_of(worth: Worth, i: int) -> Method:
    """Return one strategy of a table in its numbers."""
    judged = worth.judged
    gain = Interval(*map(float, judged.gain[:, i]))
    levels = {SAVES: worth.saves, KEEPS: worth.keeps, BEATS: worth.beats}
    asked = [question for question, words in worth.evidence().items() if words[i]]
    price, said = settling(worth, i) if judged.at.max(initial=0) > 1 else first_answer(worth)
    return Method(
        name=judged.grid.names[i],
        time_saved=saved(judged.speed.interval(i).exp()),
        accuracy=judged.points.interval(i),
        seeds=int(judged.points.n[i]),
        gain=gain if math.isfinite(gain.mean) else None,
        sure={question: Sure(levels[question][i]) for question in asked},
        margin=judged.margin,
        price=price,
        open=said,
    )


def method_between(worth: Worth, a: str, b: str) -> Method | None:
    """Return the method of two strategies whose other one is the reference; None of others.

    Before a look there is none either.
    """
    judged = worth.judged
    names, reference = judged.grid.names, judged.grid.reference
    others = [name for name in (a, b) if name != reference]
    if len(others) != 1:
        return None
    i = names.index(others[0])
    return method_of(worth, i) if judged.methods[i] and judged.seen[i] else None


def first_answer(worth: Worth) -> tuple[Price | None, str]:
    """Return the price of an answer where there is one seed, and how that is said."""
    price = price_of(worth, _ENOUGH)
    return price, f"To have an answer: {price.told}"


def costs(difference: float) -> str:
    """Say what a difference in accuracy costs, or brings."""
    if round(difference, 1) > 0:
        return f"brings {difference:.1f} points"
    return f"costs {abs(min(difference, 0.0)):.1f} points"


def in_points(margin: float) -> str:
    """Return what may be lost."""
    return f"{margin:g} point{'s' * (margin != 1)}"
