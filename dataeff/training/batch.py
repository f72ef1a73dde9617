"""A batch: S samples in R rows, with every per-sample column carried along."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Batch:
    """Samples that go through the network together, and the rows that hold them.

    Samples are sorted by row. `x` has S images until rows are mixed, R after that. Membership
    changes only through `keep_rows`, `keep_samples`, `cat` and `become`. Strategies multiply
    `weight`, never assign it, and keep their own per-sample columns in `fields`.
    """

    x: Tensor
    """The images: one per sample, or one per row once rows are mixed."""
    idx: Tensor
    """The index of each sample in the training set, (S,)."""
    y: Tensor
    """The label of each sample, (S,)."""
    R: int
    """The number of rows."""
    width: int | None
    """How many samples each row holds, None where rows differ."""
    fields: dict[str, Tensor]
    """A strategy's own columns, one line per sample."""
    merged: bool
    """Whether the images are one per row."""

    def __init__(
        self,
        x: Tensor,
        idx: Tensor,
        y: Tensor,
        row: Tensor | None = None,
        R: int | None = None,
        width: int | None = None,
    ) -> None:
        self.x, self.idx, self.y = x, idx, y
        self.R = len(idx) if R is None else R
        self.width = 1 if row is None else width
        self.fields = {}
        self.merged = False
        # Made when somebody asks: most batches go through without, and each costs an operation.
        self._row = row
        self._weight: Tensor | None = None
        self._mixed: Tensor | None = None

    @property
    def S(self) -> int:
        """The number of samples."""
        return len(self.idx)

    @property
    def row(self) -> Tensor:
        """The row of each sample, (S,)."""
        if self._row is None:
            self._row = torch.arange(len(self.idx), device=self.idx.device)
        return self._row

    @property
    def weight(self) -> Tensor:
        """What each sample counts in the loss, (S,): multiply it, never assign another."""
        if self._weight is None:
            self._weight = torch.ones(len(self.idx), device=self.idx.device)
        return self._weight

    @weight.setter
    def weight(self, weight: Tensor) -> None:
        self._weight = weight

    @property
    def weighted(self) -> bool:
        """Whether anybody has asked for weights: else all are 1."""
        return self._weight is not None

    @property
    def mixed(self) -> Tensor:
        """Whether each sample shares its image with another one, (S,)."""
        if self._mixed is None:
            self._mixed = torch.zeros(len(self.idx), dtype=torch.bool, device=self.idx.device)
        return self._mixed

    def keep_rows(self, rows: Tensor) -> None:
        """Keep these rows, in this order, with all their samples.

        Where all rows hold equally many samples nothing is read back; rows of unequal width cost
        one read, because how many samples stay depends on which rows do.
        """
        rows = self._indices(rows)
        if self.width == 1:
            return self._take(rows, None, rows)
        numbers = torch.arange(len(rows), device=rows.device)
        place = torch.full((self.R,), len(rows), device=rows.device)
        place[rows] = numbers
        place = place[self.row]
        count = self.width * len(rows) if self.width else int((place < len(rows)).sum())
        samples = place.argsort(stable=True)[:count]
        return self._take(samples, place[samples], rows)

    def keep_samples(self, samples: Tensor) -> None:
        """Keep these samples; a row that loses all of its samples goes. Not after mixing."""
        if self.width == 1:
            return self.keep_rows(samples)
        if self.merged:
            raise ValueError("samples of a mixed row share one image: use keep_rows after mixing")
        samples = self._indices(samples)
        samples = samples[self.row[samples].argsort(stable=True)]
        rows, row = self.row[samples].unique(return_inverse=True)
        self.width = None
        return self._take(samples, row, rows)

    def _indices(self, chosen: Tensor) -> Tensor:
        if chosen.dtype == torch.bool:
            raise TypeError("give indices, not a mask: how many a mask keeps only the data knows")
        return chosen.to(self.idx.device, non_blocking=True)

    def _take(self, samples: Tensor, row: Tensor | None, rows: Tensor) -> None:
        self.x = self.x[rows if self.merged else samples]
        for name in ("idx", "y", "_weight", "_mixed"):
            column = getattr(self, name)
            setattr(self, name, None if column is None else column[samples])
        self.fields = {name: column[samples] for name, column in self.fields.items()}
        self._row, self.R = row, len(rows)

    def per_row(self, values: Tensor) -> Tensor:
        """Return one value per row: that of its hardest (largest) sample."""
        if self.width == 1:
            return values
        lowest = values.new_zeros(self.R)
        return lowest.scatter_reduce_(0, self.row, values, "amax", include_self=False)

    def per_sample(self, lines: Tensor) -> Tensor:
        """Return one line per sample of what the network said of `x`."""
        return lines[self.row] if self.merged else lines

    def ends(self) -> tuple[Tensor, Tensor]:
        """Return where the first and the last sample of each row stand; the same one if alone."""
        rows = torch.arange(self.R, device=self.row.device)
        first = torch.searchsorted(self.row, rows)
        return first, torch.searchsorted(self.row, rows, right=True) - 1

    def mix_rows(self, x: Tensor, mixed: Tensor) -> None:
        """Replace the images by one per row, and mark the samples that now share theirs."""
        if len(x) != self.R:
            raise ValueError(f"mixing must give one image per row: {self.R} rows, {len(x)} images")
        self.x, self._mixed, self.merged = x, self.mixed | mixed, True

    def become(self, other: Batch) -> None:
        """Turn into another batch, in place: for strategies that hold rows back and let them go."""
        vars(self).update(vars(other))

    @classmethod
    def cat(cls, batches: Sequence[Batch]) -> Batch:
        """Join batches; all must be mixed or none, with the same extra fields."""
        first = batches[0]
        if len({(batch.merged, *sorted(batch.fields)) for batch in batches}) > 1:
            raise ValueError("only batches in the same state (mixed, fields) can be joined")
        x, idx, y = (torch.cat([getattr(b, name) for b in batches]) for name in ("x", "idx", "y"))
        joined = cls(x, idx, y)
        joined.fields = {
            name: torch.cat([batch.fields[name] for batch in batches]) for name in first.fields
        }
        for name in ("weight", "mixed"):
            if any(getattr(batch, f"_{name}") is not None for batch in batches):
                column = torch.cat([getattr(batch, name) for batch in batches])
                setattr(joined, f"_{name}", column)
        widths = {batch.width for batch in batches}
        joined.width = widths.pop() if len(widths) == 1 else None
        joined.R, joined.merged = sum(batch.R for batch in batches), first.merged
        if joined.width != 1:
            starts = torch.tensor([0, *(batch.R for batch in batches)]).cumsum(0).tolist()
            rows = zip(batches, starts, strict=False)
            joined._row = torch.cat([batch.row + start for batch, start in rows])
        return joined
