"""Suites: TOML files that name tasks and the strategies to compare on them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from dataeff.bench.desk import Desk
from dataeff.bench.lanes import Timing
from dataeff.bench.toml import read_toml
from dataeff.cost import MARGIN
from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.names import check_folder_name, check_suite_name
from dataeff.notation import is_open
from dataeff.printable import shortened, unseen
from dataeff.seeds import AUTO, Seeds, read_seeds
from dataeff.training.task import Task

# Where a task stands that belongs to no suite.
_ALONE = "alone"
# Letters of a name that is short.
_LONGEST_NAME = 40
# What to write, where the words of pydantic are those of a programmer.
_WRITE = {
    "float_type": "write a number",
    "int_type": "write a whole number",
    "bool_type": "write true or false",
    "string_type": "write a text in quotes",
    "list_type": "write a list in brackets",
    "tuple_type": "write a list in brackets",
    "dict_type": "write a table with keys",
    "model_type": "write a table with keys",
}


class Published(BaseModel, extra="forbid", strict=True, allow_inf_nan=False):
    """A figure from a paper, to be printed beside the measured one."""

    strategy: str
    task: str | None = None
    accuracy: float | None = None
    speedup: float | None = None
    macro_f1: float | None = None
    hours: float | None = None
    train_loss: float | None = None
    test_loss: float | None = None
    source: str


class Claim(BaseModel, extra="forbid", strict=True, allow_inf_nan=False):
    """What a paper says of a strategy, to be judged by the intervals that are measured."""

    text: str
    source: str = ""
    strategy: str
    against: str | None = None
    """The reference, where nothing is said."""
    task: str | None = None
    """Every task, where nothing is said."""
    accuracy: Literal["better", "no worse", "equal", "worse"] | None = None
    speedup: float | None = Field(None, gt=0)
    """At least this."""
    clock: Literal["total", "train"] = "total"
    """What the speed-up is of: prepare + train, or train alone."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.accuracy is None and self.speedup is None:
            raise ValueError("say what is claimed: accuracy, speedup, or both")
        if self.speedup is None and self.clock != "total":
            raise ValueError("clock goes with speedup; add that, or leave out clock")
        return self


class Suite(BaseModel, extra="forbid", allow_inf_nan=False):
    """One or more tasks and the strategies to compare on them; the first one is the reference."""

    name: str
    title: str = ""
    seeds: Seeds = AUTO
    """A number; or `auto`, until all is settled; or a range, which is run and not looked at."""
    margin: float = Field(MARGIN, ge=1e-6, le=100, strict=True)
    """Points of accuracy that a strategy may lose and still be no worse."""
    strategies: list[str] = Field(min_length=1)
    tasks: dict[str, Task] = Field(min_length=1)
    only: dict[str, list[str]] = {}
    """Strategies that are for some tasks, and the names of these."""
    published: list[Published] = []
    claims: list[Claim] = []
    controls: bool | list[str] = True
    """Add the line: training less at a few budgets; a list names its kinds."""
    timing: Timing = "turns"
    """Cells of a block take turns on their lane, or each runs as a whole."""
    match: str | None = None
    """The strategy whose time those with a value `?` are to take."""
    names: dict[str, str] = {}
    """What strategies are called where there is little room: in figures, and in papers."""

    @field_validator("seeds", mode="before")
    @classmethod
    def _are_seeds(cls, value: Any) -> Any:
        try:
            return read_seeds(value)
        except DataeffError as error:
            raise ValueError(str(error).removesuffix(".")) from None

    @field_validator("controls", mode="before")
    @classmethod
    def _are_named_in_a_list(cls, value: Any) -> Any:
        named = isinstance(value, list) and all(isinstance(name, str) for name in value)
        if not isinstance(value, bool) and not named:
            raise ValueError("write true, false, or a list of names in brackets")
        return value

    @property
    def reference(self) -> str:
        """Return the strategy that the others are compared with."""
        return self.strategies[0]

    @property
    def patterns(self) -> list[str]:
        """Return the strategies that have a value still to be found."""
        return [text for text in self.strategies if is_open(text)]

    @property
    def complete(self) -> list[str]:
        """Return the strategies that have all their values."""
        return [text for text in self.strategies if not is_open(text)]

    @property
    def matched(self) -> str:
        """Return the strategy that patterns are matched to: there is one where there are any."""
        return self.match or self.reference

    def complete_on(self, task: str) -> list[str]:
        """Return those of them that are for this task."""
        return [text for text in self.complete if task in self.only.get(text, self.tasks)]


def load_suite(text: str, desk: Desk) -> Suite:
    """Load a suite by path or by registered name, with every strategy in canonical form."""
    path, name = Path(text), Path(text).stem
    if path.suffix != ".toml":
        path, name = desk.suite_file(text), text
    check_suite_name(name)
    content = read_toml(path)
    if "name" in content:
        raise DataeffError(
            f"{path}: there is no key 'name': the suite is called {name}; use title for more."
        )
    suite = make_suite({"name": name, **content}, desk, where=str(path))
    # Here and not for every suite: one whose strategies are chosen on the command line keeps its
    # claims, some of which then wait for their runs, and its names.
    _check_named(suite, desk, str(path))
    for number, claim in enumerate(suite.claims):
        for key in ("strategy", "against"):
            strategy = getattr(claim, key)
            if strategy not in suite.strategies:
                raise DataeffError(
                    f"{path}: claims.{number}.{key}: this suite does not run {strategy}, so the "
                    "claim could never be judged; add it to strategies."
                    f"{did_you_mean(strategy, suite.strategies)}"
                )
    return suite


def make_task(content: Mapping[str, Any], where: str) -> Task:
    """Validate the keys of a task that belongs to no suite."""
    suite = {"name": "one", "strategies": ["baseline"], "tasks": {_ALONE: dict(content)}}
    return _validated(suite, where).tasks[_ALONE]


def _validated(content: dict[str, Any], where: str) -> Suite:
    try:
        return Suite.model_validate(content)
    except ValidationError as error:
        # A task that belongs to no suite has keys, and no place among others.
        raise DataeffError(_explain(error, where).replace(f"tasks.{_ALONE}.", "")) from None


def make_suite(content: dict[str, Any], desk: Desk, where: str) -> Suite:
    """Validate a suite's content; an error names the place, the key and the fix."""
    suite = _validated(content, where)
    check_suite_name(suite.name)
    for name in suite.tasks:
        check_folder_name(f"{where}: the task", name)
    with _place(f"{where}: strategies"):
        suite.strategies = [desk.composition(text).text for text in suite.strategies]
        repeated = [text for text in suite.strategies if suite.strategies.count(text) > 1]
        if repeated:
            raise DataeffError(f"{repeated[0]} is there twice; delete one.")
        if is_open(suite.reference):
            raise DataeffError(f"{suite.reference} is the reference; write its value.")
    with _place(f"{where}: only"):
        suite.only = {desk.composition(text).text: names for text, names in suite.only.items()}
        _check_only(suite)
    with _place(f"{where}: match"):
        _check_match(suite, desk)
    with _place(f"{where}: controls"):
        desk.kinds(suite.controls)
    with _place(f"{where}: names"):
        named = [(desk.composition(text).text, name) for text, name in suite.names.items()]
        _check_names(named)
        suite.names = dict(named)
    for name, task in suite.tasks.items():
        with _place(f"{where}: tasks.{name}.dataset"):
            desk.check_dataset(task.dataset)
    for number, line in enumerate(suite.published):
        with _place(f"{where}: published.{number}.strategy"):
            line.strategy = desk.composition(line.strategy).text
        _check_task(line.task, suite, f"{where}: published.{number}.task")
    for number, claim in enumerate(suite.claims):
        place = f"{where}: claims.{number}"
        for key in ("strategy", "against"):
            with _place(f"{place}.{key}"):
                text = getattr(claim, key) or suite.reference
                setattr(claim, key, desk.composition(text).text)
        _check_task(claim.task, suite, f"{place}.task")
        if claim.strategy == claim.against:
            raise DataeffError(f"{place}: strategy and against are both {claim.strategy}.")
    return suite


def _check_task(task: str | None, suite: Suite, place: str) -> None:
    if task is not None and task not in suite.tasks:
        hint = did_you_mean(task, suite.tasks) or f" They are: {', '.join(suite.tasks)}."
        raise UnknownName(f"{place}: there is no task {task!r}.{hint}")


def _check_only(suite: Suite) -> None:
    for text, names in suite.only.items():
        if is_open(text) or text in (suite.reference, suite.match):
            raise DataeffError(f"{text} is needed on every task; leave it out here.")
        for name in names:
            _check_task(name, suite, text)


def _check_match(suite: Suite, desk: Desk) -> None:
    """Bring `match` into canonical form; there is one if, and only if, something is to be found."""
    if suite.match is None:
        for text in suite.patterns:
            raise DataeffError(
                f"{text} takes the time of another strategy, so name that one: write "
                'match = "..." in a suite, or --match; or write a value instead of the ?.'
            )
        return
    suite.match = desk.composition(suite.match).text
    if is_open(suite.match):
        raise DataeffError(f"{suite.match} has itself a value to be found; write it.")
    if suite.match not in suite.strategies:
        known = ", ".join(suite.complete)
        raise DataeffError(f"{suite.match} is none of the strategies, which are: {known}.")
    if not suite.patterns:
        raise DataeffError(
            f"there is nothing to match with {suite.match}; add a strategy with a value to be "
            "found, such as short_schedule[share=?], or leave match out."
        )


def _check_names(named: Sequence[tuple[str, str]]) -> None:
    texts, names = zip(*named, strict=True) if named else ((), ())
    for text, name in named:
        if not name.strip() or len(name) > _LONGEST_NAME or unseen(name):
            raise DataeffError(
                f"{text}: write a short name, of {_LONGEST_NAME} letters at most "
                f"(it is {shortened(repr(name), 100)})."
            )
        if texts.count(text) > 1:
            raise DataeffError(f"{text} is there twice; delete one.")
        if names.count(name) > 1:
            raise DataeffError(f"{name!r} is the name of several strategies; rename one.")


def _check_named(suite: Suite, desk: Desk, where: str) -> None:
    """Refuse a short name of a strategy that this suite does not run."""
    if not suite.names:
        return
    known = [*suite.strategies, *(kind.pattern for kind in desk.kinds(suite.controls))]
    for text in suite.names:
        if text not in known:
            hint = did_you_mean(text, known) or f" It runs: {', '.join(known)}."
            raise UnknownName(f"{where}: names: this suite does not run {text}.{hint}")


@contextmanager
def _place(where: str) -> Iterator[None]:
    """Put the place of a mistake before its message."""
    try:
        yield
    except DataeffError as error:
        # The same error, whatever else it holds: not all are made from a message alone.
        error.args = (f"{where}: {error}",)
        raise


def _explain(error: ValidationError, where: str) -> str:
    # A misspelt key is also a missing one; its own error helps more.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        tables: dict[Any, Any] = {"tasks": Task, "published": Published, "claims": Claim}
        table = tables.get(first["loc"][0], Suite)
        known = [name for name in table.model_fields if (table, name) != (Suite, "name")]
        hint = did_you_mean(str(first["loc"][-1]), known) or f" Known keys: {', '.join(known)}."
        return f"{where}: there is no key {key!r}.{hint}"
    if first["type"] == "missing":
        return f"{where}: the key {key!r} is missing; add it."
    if first["type"] == "model_type" and first["loc"][0] == "tasks":
        return f"{where}: {key} is no task; write [tasks.NAME] and its keys below that."
    message = _WRITE.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    given = first["input"]
    told = "" if isinstance(given, dict) else f" (it is {shortened(_as_written(given), 100)})"
    return f"{where}: {key}: {message}{told}."


def _as_written(value: Any) -> str:
    """Return a value as a suite file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, date | time) else repr(value)
