"""Tables made by hand: strategies by points above the reference and the time they take."""

import math

import numpy as np
from sides import cell, judged

from dataeff.report.answer import answer
from dataeff.report.worth import Worth

LUCK = np.random.default_rng(3).normal(0, 1, (40, 20))
COMMAND = "dataeff run mine --seeds 5"


class Trial:
    """A table made by hand: strategies by points above the reference and the time they take."""

    def __init__(self, seeds=5):
        self.seeds, self.cells, self.names = seeds, [], []
        self.add("base")

    def add(self, name, points=0.0, share=1.0, spread=0.2, **more):
        place = len(self.names)
        self.names.append(name)
        luck = LUCK[place] - LUCK[place, : self.seeds].mean() * (self.seeds > 1)
        self.cells += [
            cell(
                name,
                seed,
                90 + points + spread * luck[seed],
                {"forward": 10 * share * (1 + 0.01 * LUCK[place + 20, seed])},
                flops=300.0 * share,
                evaluate_seconds=1.0,
                **({"control": False, "ranked": True} | more),
            )
            for seed in range(self.seeds)
        ]
        return self

    def lined(self, slope=9.0):
        """Add a line that loses so many points for each e-th part of the time."""
        for share in (0.3, 0.5, 0.7):
            self.add(f"short[share={share}]", slope * math.log(share), share, 0.1, control=True)
        return self

    def failing(self, name, status="failed", error="ValueError: no. More of it", at=range(99)):
        for one in self.cells:
            if one["strategy"] == name and one["seed"] in at:
                one |= {"status": status, "error": error, "test_top1": math.nan}
        return self

    def worth(self, margin=0.5, **suite):
        methods = [name for name in self.names if not name.startswith("short")]
        told = {"line": ["short[share=?]"], "strategies": methods, "commands": [COMMAND]}
        for one in self.cells:
            one.setdefault("error", "")
        (table,) = judged(self.cells, margin, **(told | suite))
        return Worth(table)

    def answer(self, margin=0.5, **suite):
        return answer(self.worth(margin, **suite))
