"""A batch: S samples in R rows, with every per-sample column carried along."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Batch:
    """Samples that go through the network together, and the rows that hold them.

    Samples are sorted by row. `x` has S images until rows are mixed, R after that. Membership
    changes only through `keep_rows`, `keep_samples`, `cat` and `become`. Strategies multiply
    `weight`, never assign it, and keep their own per-sample columns in `fields`. `width` is how
    many samples each row holds, None where rows differ.
    """

    def __init__(
        self,
        x: Tensor,
        idx: Tensor,
        y: Tensor,
        row: Tensor | None = None,
        R: int | None = None,
        width: int | None = None,
    ) -> None:
        self.x = x
        self.idx = idx
        self.y = y
        self.R = len(idx) if R is None else R
        self.row = torch.arange(len(idx), device=idx.device) if row is None else row
        self.width = 1 if row is None else width
        self.weight = torch.ones(len(idx), device=idx.device)
        self.mixed = torch.zeros(len(idx), dtype=torch.bool, device=idx.device)
        self.fields: dict[str, Tensor] = {}
        self.merged = False

    @property
    def S(self) -> int:
        """Return the number of samples."""
        return len(self.idx)

    def keep_rows(self, rows: Tensor) -> None:
        """Keep these rows, in this order, with all their samples.

        Where all rows hold equally many samples nothing is read back; rows of unequal width cost
        one read, because how many samples stay depends on which rows do.
        """
        rows = self._indices(rows)
        numbers = torch.arange(len(rows), device=rows.device)
        if self.width == 1:
            return self._take(rows, numbers, len(rows), rows)
        place = torch.full((self.R,), len(rows), device=rows.device)
        place[rows] = numbers
        place = place[self.row]
        count = self.width * len(rows) if self.width else int((place < len(rows)).sum())
        samples = place.argsort(stable=True)[:count]
        return self._take(samples, place[samples], len(rows), rows)

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
        return self._take(samples, row, len(rows), rows)

    def _indices(self, chosen: Tensor) -> Tensor:
        if chosen.dtype == torch.bool:
            raise TypeError("give indices, not a mask: how many a mask keeps only the data knows")
        return chosen.to(self.idx.device, non_blocking=True)

    def _take(self, samples: Tensor, row: Tensor, R: int, rows: Tensor) -> None:
        self.x = self.x[rows if self.merged else samples]
        for name in ("idx", "y", "weight", "mixed"):
            setattr(self, name, getattr(self, name)[samples])
        self.fields = {name: column[samples] for name, column in self.fields.items()}
        self.row, self.R = row, R

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
        self.x, self.mixed, self.merged = x, self.mixed | mixed, True

    def become(self, other: Batch) -> None:
        """Turn into another batch, in place: for strategies that hold rows back and let them go."""
        vars(self).update(vars(other))

    @classmethod
    def cat(cls, batches: Sequence[Batch]) -> Batch:
        """Join batches; all must be mixed or none, with the same extra fields."""
        first = batches[0]
        if len({(batch.merged, *sorted(batch.fields)) for batch in batches}) > 1:
            raise ValueError("only batches in the same state (mixed, fields) can be joined")
        joined = cls.__new__(cls)
        for name in ("x", "idx", "y", "weight", "mixed"):
            setattr(joined, name, torch.cat([getattr(batch, name) for batch in batches]))
        joined.fields = {
            name: torch.cat([batch.fields[name] for batch in batches]) for name in first.fields
        }
        rows, offset = [], 0
        for batch in batches:
            rows.append(batch.row + offset)
            offset += batch.R
        joined.row, joined.R, joined.merged = torch.cat(rows), offset, first.merged
        widths = {batch.width for batch in batches}
        joined.width = widths.pop() if len(widths) == 1 else None
        return joined
