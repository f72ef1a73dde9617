"""Suites: TOML files that name tasks and the strategies to compare on them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dataeff.bench.controls import control_kinds
from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.plugins import Installed, canonical, compose
from dataeff.registry import parse_one
from dataeff.training.task import Task


class Published(BaseModel):
    """A figure from a paper, to be printed beside the measured one."""

    model_config = ConfigDict(extra="forbid")

    strategy: str
    task: str | None = None
    accuracy: float | None = None
    speedup: float | None = None
    source: str


class Suite(BaseModel):
    """One or more tasks and the strategies to compare on them; the first one is the reference."""

    model_config = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    seeds: int = Field(3, ge=1)
    strategies: list[str] = Field(min_length=1)
    tasks: dict[str, Task] = Field(min_length=1)
    published: list[Published] = []
    controls: bool | list[str] = Field(
        True, description="add controls of each method's measured cost; a list names which"
    )

    @field_validator("controls", mode="before")
    @classmethod
    def _are_named_in_a_list(cls, value: Any) -> Any:
        if not isinstance(value, bool | list):
            raise ValueError("write true, false, or a list of names in brackets")
        return value

    @property
    def reference(self) -> str:
        """Return the strategy that the others are compared with."""
        return self.strategies[0]


def load_suite(text: str, installed: Installed) -> Suite:
    """Load a suite by path or by registered name, with every strategy in canonical form."""
    path, name = Path(text), Path(text).stem
    if path.suffix != ".toml":
        path, name = Path(installed.suites[text].factory), text
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataeffError(
            f"There is no suite file {path}; dataeff suites lists those by name."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataeffError(f"{path} is not valid TOML: {error}.") from None
    if "name" in content:
        raise DataeffError(
            f"{path}: there is no key 'name': the suite is called {name}; use title for more."
        )
    return make_suite({"name": name, **content}, installed, where=str(path))


def make_suite(content: dict[str, Any], installed: Installed, where: str) -> Suite:
    """Validate a suite's content; an error names the place, the key and the fix."""
    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        raise DataeffError(_explain(error, where)) from None
    with _place(f"{where}: strategies"):
        suite.strategies = [canonical(compose(text, installed)) for text in suite.strategies]
        repeated = [text for text in suite.strategies if suite.strategies.count(text) > 1]
        if repeated:
            raise DataeffError(f"{repeated[0]} is there twice; delete one.")
    with _place(f"{where}: controls"):
        control_kinds(suite.controls, installed)
    for name, task in suite.tasks.items():
        with _place(f"{where}: tasks.{name}.dataset"):
            part = parse_one(task.dataset)
            installed.datasets[part.name].read(part.params)
    for number, line in enumerate(suite.published):
        with _place(f"{where}: published.{number}.strategy"):
            line.strategy = canonical(compose(line.strategy, installed))
        if line.task is not None and line.task not in suite.tasks:
            hint = did_you_mean(line.task, suite.tasks) or f" They are: {', '.join(suite.tasks)}."
            raise UnknownName(
                f"{where}: published.{number}.task: there is no task {line.task!r}.{hint}"
            )
    return suite


@contextmanager
def _place(where: str) -> Iterator[None]:
    """Put the place of a mistake before its message."""
    try:
        yield
    except DataeffError as error:
        raise type(error)(f"{where}: {error}") from None


def _explain(error: ValidationError, where: str) -> str:
    # A misspelt key is also a missing one; its own error helps more.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        table = {"tasks": Task, "published": Published}.get(first["loc"][0], Suite)
        known = [name for name in table.model_fields if (table, name) != (Suite, "name")]
        hint = did_you_mean(str(first["loc"][-1]), known) or f" Known keys: {', '.join(known)}."
        return f"{where}: there is no key {key!r}.{hint}"
    if first["type"] == "missing":
        return f"{where}: the key {key!r} is missing; add it."
    if first["type"] == "model_type" and first["loc"][0] == "tasks":
        return f"{where}: {key} is no task; write [tasks.NAME] and its keys below that."
    message = first["msg"].removeprefix("Value error, ")
    given = "" if isinstance(first["input"], dict) else f" (it is {first['input']!r})"
    return f"{where}: {key}: {message}{given}."
