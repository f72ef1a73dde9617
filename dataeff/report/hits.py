"""Hits: which test images each cell got right, and what images add to the error of a difference.

Cells of one table are tested on the same images. An error over seeds says how far a difference
would move with new seeds on these images; with new images it would move further, by as much as
strategies differ in what they get right, and no number of seeds lessens that.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dataeff.checked import Sums, read_whole
from dataeff.damage import Damaged, cell_runs_again, put_aside
from dataeff.report.frames import numbers
from dataeff.report.grid import Grid
from dataeff.report.stats import Flags


def read_hits(path: str | Path, images: int, known: str | None = None) -> Flags | None:
    """Return which of so many test images a cell got right, in their order.

    None where there is no such file, as of cells from before it was kept, or one of other images;
    one of another checksum than is `known` is set aside.
    """
    try:
        content = read_whole(path, known)
    except Damaged as damage:
        put_aside(Path(path), damage, cell_runs_again)
        content = None
    if content is None or len(content) != -(-images // 8):
        return None
    packed = np.frombuffer(content, np.uint8)
    return np.unpackbits(packed, count=images).view(np.bool_)


def image_error(ours: Flags, theirs: Flags) -> float:
    """Return the standard error, in points, that the images add to the mean difference.

    Both are seeds x images, of the same seeds. A difference is taken as mu + seed + image + rest,
    all at random, and the variance of `image` is estimated by the analysis of variance; where less
    than none is found, it is none. NaN for fewer than two seeds or images.
    """
    difference = 100 * (ours.astype(float) - theirs)
    n, m = difference.shape
    if min(n, m) < 2:
        return np.nan
    of_images = difference.mean(0)
    rest = difference - of_images
    rest -= rest.mean(1, keepdims=True)
    mean_square_images = n * of_images.var(ddof=1)
    mean_square_rest = (rest**2).sum() / ((n - 1) * (m - 1))
    return float(np.sqrt(max(0.0, (mean_square_images - mean_square_rest) / n) / m))


def image_errors(folder: Path, grid: Grid, sums: Mapping[str, Sums]) -> dict[str, float]:
    """Return what the images add to the error of each strategy's difference to the reference.

    Who shares fewer than two seeds with the reference, of which it is known what they got right, is
    left out. `sums` are the checksums of each cell's files.
    """
    cells, reference = grid.cells, grid.reference
    # A table has one test set: another length, in a folder copied here, is another one.
    images = numbers(cells, "test_samples").min()
    if not images > 0:
        return {}
    hits: dict[str, dict[int, Flags]] = {name: {} for name in grid.names}
    for strategy, seed, cell in zip(cells["strategy"], cells["seed"], cells["folder"], strict=True):
        path, known = f"{folder}/{cell}/hits.bin", sums.get(cell, {}).get("hits.bin")
        if (found := read_hits(path, int(images), known)) is not None:
            hits[strategy][seed] = found
    theirs, errors = hits.pop(reference, {}), {}
    for strategy, ours in hits.items():
        seeds = [seed for seed in ours if seed in theirs]
        if len(seeds) > 1:
            errors[strategy] = image_error(
                *(np.stack([side[seed] for seed in seeds]) for side in (ours, theirs))
            )
    return errors
