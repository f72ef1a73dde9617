"""Which ways to train on less data really save time, at what accuracy, and how sure are we?"""

from dataeff.data import ImageSet
from dataeff.errors import DataeffError, StrategyConflict, StrategyError
from dataeff.hookspecs import hookimpl
from dataeff.registry import Share, portion
from dataeff.training.batch import Batch
from dataeff.training.plan import Plan

__all__ = [
    "Batch",
    "DataeffError",
    "ImageSet",
    "Plan",
    "Share",
    "StrategyConflict",
    "StrategyError",
    "hookimpl",
    "portion",
]
