"""Forms: the types of every JSON file of ours, deep enough that no reader trips over them.

What a form does not name is not read, or may be anything.
"""

from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator
from pydantic_core import core_schema as of

from dataeff.checked import Form
from dataeff.damage import cell_runs_again, got_anew, made_anew

_ANY, _TEXT, _BOOL = of.any_schema(), of.str_schema(strict=True), of.bool_schema(strict=True)
_NUMBER = of.float_schema(strict=True, allow_inf_nan=False)
_AMOUNT = of.float_schema(strict=True, ge=0, allow_inf_nan=False)
_COUNT = of.int_schema(strict=True, ge=0, le=2**53)
_POSITIVE = of.float_schema(strict=True, gt=0, allow_inf_nan=False)


def _maybe(schema: CoreSchema) -> CoreSchema:
    return of.nullable_schema(schema)


def _by_name(schema: CoreSchema = _ANY) -> CoreSchema:
    return of.dict_schema(of.str_schema(), schema, strict=True)


def _list(schema: CoreSchema, fewest: int | None = None, most: int | None = None) -> CoreSchema:
    return of.list_schema(schema, strict=True, min_length=fewest, max_length=most)


def _keys(needed: dict[str, CoreSchema], others: dict[str, CoreSchema]) -> CoreSchema:
    """Return what has these keys, and may have others."""
    fields = {name: of.typed_dict_field(schema) for name, schema in needed.items()}
    fields |= {name: of.typed_dict_field(one, required=False) for name, one in others.items()}
    return of.typed_dict_schema(fields, extra_behavior="allow", strict=True)


def _form(needed: dict[str, CoreSchema], others: dict[str, CoreSchema]) -> SchemaValidator:
    around = {"schema": _COUNT, "checksum": _TEXT}
    return SchemaValidator(_keys(needed, around | others))


def _entries(schema: CoreSchema) -> SchemaValidator:
    return _form({"entries": _list(schema)}, {})


_FIGURES = _by_name(_maybe(_NUMBER))
_TEXTS = _by_name(_TEXT)


# A cell ------------------------------------------------------------------------------------------


_CLASSES = _keys(
    {"accuracy": _list(_maybe(_NUMBER)), "trained": _list(_maybe(_NUMBER))},
    {"test": _list(_COUNT)},
)
_REUSED = _keys({"name": _TEXT, "key": _TEXT, "seconds": _NUMBER, "reuse": _BOOL}, {})
RECORD = Form(
    schema=3,
    check=_form(
        {
            **dict.fromkeys(("task_name", "conditions_id", "strategy", "task_id"), _TEXT),
            "seed": _COUNT,
            "status": of.literal_schema(["finished", "diverged", "failed"]),
            "conditions": _by_name(),
        },
        {
            **dict.fromkeys(("suite", "error", "ended", "no_effect"), _maybe(_TEXT)),
            **dict.fromkeys(("data", "network", "version", "peak_memory_of"), _maybe(_TEXT)),
            **dict.fromkeys(("metrics", "process_clocks", "phases", "rows"), _FIGURES),
            **dict.fromkeys(("steps", "epochs", "train_loss", "peak_memory"), _maybe(_NUMBER)),
            **dict.fromkeys(("ranked", "control"), _BOOL),
            "flops": _AMOUNT,
            "clocks": _by_name(_AMOUNT),
            "energy": _maybe(_by_name(_NUMBER)),
            "classes": _maybe(_CLASSES),
            "use": _maybe(_FIGURES),
            "machine": _maybe(_keys({}, {"flags": _list(_TEXT), "device_line": _maybe(_TEXT)})),
            "artefacts": _maybe(_list(_REUSED)),
            "columns": _by_name(),
            "outside": _maybe(_keys({"start": _AMOUNT, "parts": _POSITIVE}, {"off": _AMOUNT})),
            "heat": _TEXT,
            "heats": _by_name(_keys({"clocks": _by_name(_AMOUNT), "flags": _list(_TEXT)}, {})),
            "part": _maybe(_COUNT),
            "network_form": _maybe(_TEXT),
            "lanes": _COUNT,
            "weights": _maybe(_TEXT),
            "parameters": _maybe(_by_name(_by_name())),
            "sources": _maybe(_TEXTS),
            "provenance": _maybe(_keys({}, {"versions": _maybe(_by_name())})),
            "task": _by_name(),
            "files": _TEXTS,
        },
    ),
    cure=cell_runs_again,
    checked=3,
)
"""run.json: what a cell was, and what came of it."""


_WATCH = _keys({"seconds": _by_name(_AMOUNT), "parts": _COUNT}, {})
_WHOLE = _keys({"hits": _list(_BOOL), "classes": _list(_list(_COUNT))}, {})
_FINAL = {"epoch": _COUNT, "form": _TEXT, "images": _COUNT, "whole": _WHOLE}
BOOKS = Form(
    schema=2,
    check=_form(
        {
            "pages": _list(_keys({"next": _COUNT, "watch": _WATCH}, {})),
            "lines": _list(_keys({"epoch": _COUNT}, {})),
            "final": _keys({}, _FINAL),
        },
        {"heat": _TEXT},
    ),
    cure=cell_runs_again,
)
"""books.json: what the runner keeps of a cell while it runs."""


# A suite -----------------------------------------------------------------------------------------


def _says_something(claim: dict[str, Any]) -> dict[str, Any]:
    if claim["accuracy"] is None and claim["speedup"] is None:
        raise ValueError("a claim that claims nothing")
    return claim


_FIGURE = _keys(
    {"strategy": _TEXT, "task": _maybe(_TEXT)},
    dict.fromkeys(
        ("accuracy", "speedup", "macro_f1", "hours", "train_loss", "test_loss"), _maybe(_NUMBER)
    )
    | {"source": _TEXT},
)
_CLAIM = of.no_info_after_validator_function(
    _says_something,
    _keys(
        {
            **dict.fromkeys(("text", "source", "strategy", "against"), _TEXT),
            "task": _maybe(_TEXT),
            "accuracy": _maybe(of.literal_schema(["better", "no worse", "equal", "worse"])),
            "speedup": _maybe(_NUMBER),
            "clock": of.literal_schema(["total", "train"]),
        },
        {},
    ),
)
_CALIBRATION = _keys({"devices": _TEXT, "change": _NUMBER, "error": _AMOUNT}, {})
_TASK = _keys({}, {"epochs": _NUMBER, "batch_size": _COUNT})
SUITE = Form(
    schema=1,
    check=_form(
        {
            "name": _TEXT,
            "reference": _TEXT,
            "seeds": of.union_schema(
                [
                    of.int_schema(strict=True, ge=1, le=10_000),
                    of.str_schema(strict=True, pattern=r"^(auto|\d+-\d+)$"),
                ]
            ),
            "strategies": _list(_TEXT),
            "task_ids": _TEXTS,
            "tasks": _by_name(_TASK),
            "published": _list(_FIGURE),
        },
        {
            **dict.fromkeys(("title", "command", "devices"), _TEXT),
            "conditions": _TEXTS,
            "unplanned": _by_name(_list(_TEXT)),
            "calibration": _maybe(_CALIBRATION),
            "timing": of.literal_schema(["turns", "whole"]),
            "match": _maybe(_TEXT),
            "commands": _list(_TEXT, fewest=1),
            "margin": _maybe(_POSITIVE),
            "awaited": _list(_TEXT),
            "line": _maybe(_list(_TEXT)),
            "claims": _list(_CLAIM),
            **dict.fromkeys(("data", "networks"), _by_name(_maybe(_TEXT))),
            "counts": _by_name(_by_name(_TEXTS)),
            "sources": _by_name(_TEXTS),
            "names": _TEXTS,
        },
    ),
    cure=made_anew,
    twice=True,
)
"""suite.json: what was asked for."""

_ENDS = _list(_maybe(_NUMBER), fewest=3, most=3)
_LOOK = {
    **dict.fromkeys(("task", "conditions", "about", "of"), _TEXT),
    "n": _COUNT,
    "chance": _NUMBER,
}
_ANSWERS = {
    "reference": {"difference": _ENDS, "speed": _ENDS, "diverged": _BOOL},
    "line": {"gain": _ENDS, "line": _list(_TEXT)},
}
LOOKS = Form(
    schema=1,
    check=_entries(
        of.tagged_union_schema(
            {
                about: _keys(_LOOK | {"answers": _by_name(_keys({"cells": _TEXT} | told, {}))}, {})
                for about, told in _ANSWERS.items()
            },
            discriminator="about",
        )
    ),
    cure=made_anew,
    twice=True,
)
"""looks.json: what each look has said."""

BUDGETS = Form(
    schema=1,
    check=_entries(_keys({"task": _TEXT, "conditions": _TEXT, "budgets": _list(_POSITIVE)}, {})),
    cure=made_anew,
    twice=True,
)
"""line.json: the budgets of the line."""

MATCHES = Form(
    schema=1,
    check=_entries(
        _keys(
            {
                **dict.fromkeys(("task", "conditions_id", "pattern", "match"), _TEXT),
                **dict.fromkeys(("strategy", "note"), _TEXT),
            },
            {},
        )
    ),
    cure=made_anew,
    twice=True,
)
"""match.json: what patterns have become."""

_FINDING: dict[str, CoreSchema] = {
    **dict.fromkeys(("cell", "strategy", "outcome", "why", "repeated", "checksum"), _TEXT),
    "seed": _COUNT,
}
VERIFIED = Form(schema=1, check=_entries(_keys(_FINDING, {})), cure=made_anew)
"""verified.json: what was found of cells that were looked at again."""

CHECKSUMS = Form(schema=1, check=_form({"files": _TEXTS}, {}), cure=made_anew)
"""checksums.json: those of the tables beside it."""

CONDITIONS = Form(schema=1, check=_form({}, {}), cure=got_anew)
"""conditions.json: of published results, as someone has written it."""


# Scores ------------------------------------------------------------------------------------------


def _by_the_next_cell(path: Path) -> str:
    return "the next cell that needs these scores makes them anew"


_COST = _keys(
    dict.fromkeys(("wall", "process", "energy", "rows"), _by_name(_NUMBER)) | {"flops": _NUMBER}, {}
)
ARTEFACT = Form(
    schema=1,
    check=_form({"name": _TEXT, "cost": _COST}, {"files": _TEXTS}),
    cure=_by_the_next_cell,
)
"""The part of an artefact that says what made it, and what that cost."""
