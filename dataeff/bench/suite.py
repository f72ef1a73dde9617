"""Suites: TOML files that name tasks and the strategies to compare on them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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

    @property
    def reference(self) -> str:
        """Return the strategy that the others are compared with."""
        return self.strategies[0]


def load_suite(text: str, installed: Installed) -> Suite:
    """Load a suite by path or by registered name, with every strategy in canonical form."""
    path = Path(text)
    if path.suffix != ".toml":
        path = installed.suites[text].factory
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise DataeffError(
            f"There is no suite file {path}; dataeff suites lists those by name."
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise DataeffError(f"{path} is not valid TOML: {error}.") from None
    return make_suite({"name": path.stem, **content}, installed, where=str(path))


def make_suite(content: dict[str, Any], installed: Installed, where: str) -> Suite:
    """Validate a suite's content; an error names the place, the key and the fix."""
    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        raise DataeffError(_explain(error, where)) from None
    try:
        suite.strategies = [canonical(compose(text, installed)) for text in suite.strategies]
        for line in suite.published:
            line.strategy = canonical(compose(line.strategy, installed))
            if line.task is not None and line.task not in suite.tasks:
                raise UnknownName(f"published names no task of this suite: {line.task!r}.")
        for task in suite.tasks.values():
            part = parse_one(task.dataset)
            installed.datasets[part.name].read(part.params)
    except DataeffError as error:
        raise type(error)(f"{where}: {error}") from None
    repeated = {text for text in suite.strategies if suite.strategies.count(text) > 1}
    if repeated:
        raise DataeffError(f"{where}: strategies names {repeated.pop()} twice; delete one.")
    return suite


def _explain(error: ValidationError, where: str) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        table = Task if len(first["loc"]) > 1 and first["loc"][0] == "tasks" else Suite
        known = Published.model_fields if first["loc"][0] == "published" else table.model_fields
        name = str(first["loc"][-1])
        hint = did_you_mean(name, known) or f" Known keys: {', '.join(known)}."
        return f"{where}: there is no key {key!r}.{hint}"
    if first["type"] == "missing":
        return f"{where}: the key {key!r} is missing; add it."
    message = first["msg"].removeprefix("Value error, ")
    given = "" if isinstance(first["input"], dict) else f" (it is {first['input']!r})"
    return f"{where}: {key}: {message}{given}."
