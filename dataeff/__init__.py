"""Which ways to train on less data really save time, at what accuracy, and how sure are we?"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataeff.data import ImageSet
    from dataeff.door.compare import compare
    from dataeff.door.result import Result, read
    from dataeff.door.train import train
    from dataeff.errors import DataeffError, StrategyConflict, StrategyError
    from dataeff.hookspecs import hookimpl
    from dataeff.observer import Observer
    from dataeff.registry import Share, portion
    from dataeff.strategy import Strategy
    from dataeff.training.batch import Batch
    from dataeff.training.devices import is_accelerated
    from dataeff.training.driving import drive
    from dataeff.training.plan import Plan
    from dataeff.training.run import Run

__all__ = [
    "Batch",
    "DataeffError",
    "ImageSet",
    "Observer",
    "Plan",
    "Result",
    "Run",
    "Share",
    "Strategy",
    "StrategyConflict",
    "StrategyError",
    "compare",
    "drive",
    "hookimpl",
    "is_accelerated",
    "portion",
    "read",
    "train",
]

# Imported when asked for: reading results needs no torch, which takes longer than all the rest.
_HOMES = {
    "dataeff.data": ("ImageSet",),
    "dataeff.door.compare": ("compare",),
    "dataeff.door.result": ("Result", "read"),
    "dataeff.door.train": ("train",),
    "dataeff.errors": ("DataeffError", "StrategyConflict", "StrategyError"),
    "dataeff.hookspecs": ("hookimpl",),
    "dataeff.observer": ("Observer",),
    "dataeff.registry": ("Share", "portion"),
    "dataeff.strategy": ("Strategy",),
    "dataeff.training.batch": ("Batch",),
    "dataeff.training.devices": ("is_accelerated",),
    "dataeff.training.driving": ("drive",),
    "dataeff.training.plan": ("Plan",),
    "dataeff.training.run": ("Run",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            try:
                return getattr(importlib.import_module(home), name)
            except ModuleNotFoundError as error:
                # Of what reads results alone, the rest is not there.
                if error.name not in ("torch", home, home.rpartition(".")[0]):
                    raise
                from dataeff.errors import needs_all

                raise ImportError(str(needs_all(f"dataeff.{name}"))) from error
    raise AttributeError(f"module 'dataeff' has no attribute {name!r}")
