"""Data sets of Hugging Face by their names, from the cache of this machine: nothing is fetched."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataeff.errors import DataeffError, one_line

_HELD_OUT = ("test", "validation", "val")


def hugging_face(
    name: str, *, config: str | None = None, train: str = "train", test: str | None = None
) -> dict[str, Any]:
    """A data set of Hugging Face by its name, hf:NAME, or of a folder that `save_to_disk` wrote.

    It is read from the cache of this machine. `train` and `test` are splits, the latter by default
    test or else validation.
    """
    parts = _read(name, config)
    if not isinstance(parts, dict):
        raise DataeffError(f"hf:{name} has one split alone; save a DatasetDict of train and test.")
    held_out = test or next((split for split in _HELD_OUT if split in parts), "test")
    for key, split in (("train", train), ("test", held_out)):
        if split not in parts:
            raise DataeffError(
                f"hf:{name} has no split {split!r}; write {key}=SPLIT with one of: "
                f"{', '.join(map(str, parts))}."
            )
    return {"train": parts[train], "test": parts[held_out]}


def _read(name: str, config: str | None) -> Any:
    with _offline():
        try:
            import datasets
            from tqdm import tqdm
        except ImportError as error:
            raise DataeffError(
                f"hf:{name} needs the package of Hugging Face ({one_line(str(error))}): "
                "pip install 'dataeff[hf]'"
            ) from None
        datasets.disable_progress_bars()
        # Its own lock is one between processes, and is left behind.
        tqdm.set_lock(threading.RLock())
        folder = Path(name).expanduser()
        try:
            if folder.is_dir():
                return datasets.load_from_disk(str(folder))
            return datasets.load_dataset(name, config)
        # It has many errors of its own, and those of the files below.
        except Exception as error:
            why = one_line(str(error)) or type(error).__name__
            more = f", {config!r}" if config else ""
            raise DataeffError(
                f"hf:{name} is not in the cache of this machine ({why}); fetch it once, in Python: "
                f"import datasets; datasets.load_dataset({name!r}{more})"
            ) from error


@contextmanager
def _offline() -> Iterator[None]:
    """Keep its packages from the network, whether they have been imported before or not."""
    homes = ("datasets.config", "huggingface_hub.constants")
    loaded = [sys.modules[home] for home in homes if home in sys.modules]
    before: list[Any] = [getattr(home, "HF_HUB_OFFLINE", False) for home in loaded]
    told = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    _set(loaded, [True] * len(loaded))
    try:
        yield
    finally:
        _set(loaded, before)
        if told is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = told


def _set(homes: list[Any], values: list[Any]) -> None:
    for home, value in zip(homes, values, strict=True):
        home.HF_HUB_OFFLINE = value
