"""Datasets: what is read, how it is augmented, and how its batches reach the device."""

from dataeff.data.base import Dataset, ImageSet, Raw
from dataeff.data.images import Split
from dataeff.data.memory import HostSplit, MemorySplit
from dataeff.data.offered import load_dataset
from dataeff.data.own import Around, dataset_of
from dataeff.data.stream import StreamSplit

__all__ = [
    "Around",
    "Dataset",
    "HostSplit",
    "ImageSet",
    "MemorySplit",
    "Raw",
    "Split",
    "StreamSplit",
    "dataset_of",
    "load_dataset",
]
