"""A batch: S samples in R rows, with every per-sample column carried along."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Batch:
    """Samples that go through the network together, and the rows that hold them.

    `x` has S images until rows are mixed, R after that. Membership changes only through
    `keep_rows`, `keep_samples` and `cat`. Strategies multiply `weight`, never assign it, and keep
    their own per-sample columns in `fields`.
    """

    def __init__(
        self,
        x: Tensor,
        idx: Tensor,
        y: Tensor,
        row: Tensor | None = None,
        R: int | None = None,
    ) -> None:
        self.x = x
        self.idx = idx
        self.y = y
        self.R = len(idx) if R is None else R
        self.row = torch.arange(len(idx), device=idx.device) if row is None else row
        self.weight = torch.ones(len(idx), device=idx.device)
        self.mixed = torch.zeros(len(idx), dtype=torch.bool, device=idx.device)
        self.fields: dict[str, Tensor] = {}
        self.merged = False

    @property
    def S(self) -> int:
        """Return the number of samples."""
        return len(self.idx)

    @property
    def plain(self) -> bool:
        """Return whether every row is one sample, in order, so that rows and samples coincide."""
        return self.R == self.S

    def keep_rows(self, rows: Tensor) -> None:
        """Keep these rows, in this order, with all their samples.

        Where rows hold one sample each, or all hold equally many, nothing is read back; rows of
        unequal width cost one read, because how many samples stay depends on which rows do.
        """
        if self.plain:
            return self._take(rows, torch.arange(len(rows), device=rows.device), len(rows), rows)
        place = torch.full((self.R,), len(rows), device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        place = place[self.row]
        width, ragged = divmod(self.S, self.R)
        count = int((place < len(rows)).sum()) if ragged else width * len(rows)
        samples = place.argsort(stable=True)[:count]
        return self._take(samples, place[samples], len(rows), rows)

    def keep_samples(self, samples: Tensor) -> None:
        """Keep these samples; a row that loses all of its samples goes. Not after mixing."""
        if self.plain:
            return self.keep_rows(samples)
        if self.merged:
            raise ValueError("samples of a mixed row share one image: use keep_rows after mixing")
        rows, row = self.row[samples].unique(return_inverse=True)
        return self._take(samples, row, len(rows), rows)

    def _take(self, samples: Tensor, row: Tensor, R: int, rows: Tensor) -> None:
        self.x = self.x[rows if self.merged else samples]
        for name in ("idx", "y", "weight", "mixed"):
            setattr(self, name, getattr(self, name)[samples])
        self.fields = {name: column[samples] for name, column in self.fields.items()}
        self.row, self.R = row, R

    def per_row(self, values: Tensor) -> Tensor:
        """Return one value per row: that of its hardest (largest) sample."""
        if self.plain:
            return values
        return values.new_zeros(self.R).scatter_reduce_(
            0, self.row, values, "amax", include_self=False
        )

    def mix_rows(self, x: Tensor, mixed: Tensor) -> None:
        """Replace the images by one per row, and mark the samples that now share theirs."""
        if len(x) != self.R:
            raise ValueError(f"mixing must give one image per row: {self.R} rows, {len(x)} images")
        self.x, self.mixed, self.merged = x, self.mixed | mixed, True

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
        return joined
