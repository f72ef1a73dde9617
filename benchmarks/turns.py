"""Turns against whole cells: how far times scatter around the ratio that they tell.

    OMP_NUM_THREADS=1 python benchmarks/turns.py BLOCKS FILE.csv

Blocks of the quickstart are run in turns and whole, one after the other in turn, while another
process keeps half a core busy. `twin` does nothing: it is the baseline against itself. That the
machine is busy is what is asked for, so flags are left out of account.
"""

import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from twin import TWIN

from dataeff.bench.cells import Settings
from dataeff.bench.desk import Desk, open_desk
from dataeff.bench.results import clocked_seconds
from dataeff.bench.runner import run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite

SUITE = Path(__file__).parent / "suites" / "quickstart.toml"
TIMINGS = ("turns", "whole")
# Half a core, in slices of a twentieth of a second.
BUSY = """
import time
while True:
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Range:
    """Where blocks are run: a desk, and what says how."""

    desk: Desk
    settings: Settings

    def seconds(self, timing: str, seed: int) -> dict[str, float]:
        """Run a block; return the clocked seconds of each strategy."""
        content = tomllib.loads(SUITE.read_text())
        content |= {"name": timing, "timing": timing, "controls": False, "seeds": f"{seed}-{seed}"}
        content["strategies"] = [*content["strategies"], "twin"]
        suite = make_suite(content, self.desk, where="turns.py")
        schedule = Schedule(suite, self.desk, self.settings.results)
        run_cells(schedule, self.desk, self.settings, lambda event: None)
        return {cell.strategy: clocked_seconds(cell.record()) for cell in schedule.cells}


def logs(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the log ratio of each strategy's time to the baseline's, by timing and seed."""
    wide = lines.pivot(index=["timing", "seed"], columns="strategy", values="seconds")
    return np.log(wide.drop(columns="baseline").div(wide["baseline"], axis=0))


def tell(lines: pd.DataFrame) -> None:
    """Say how far times scatter, and what the baseline is against itself."""
    found = logs(lines)
    spread = found.groupby("timing").std()
    pooled = np.sqrt((spread**2).mean(axis=1))
    print(spread.T.assign(ratio=spread.loc["turns"] / spread.loc["whole"]).round(4).to_string())
    print(f"pooled: {pooled['turns']:.4f} in turns, {pooled['whole']:.4f} whole, ", end="")
    print(f"ratio {pooled['turns'] / pooled['whole']:.2f}")
    for timing in TIMINGS:
        twin = found.loc[timing, "twin"]
        error = twin.std() / np.sqrt(len(twin))
        print(f"baseline against itself, {timing}: {twin.mean():+.4f}, standard error {error:.4f}")


def main(blocks: int, path: Path) -> None:
    """Write one line per cell, block by block, and say what they tell."""
    lines: list[dict] = []
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plugins").mkdir()
        (folder / "plugins" / "twin.py").write_text(TWIN)
        plugins, results = (folder / "plugins",), folder / "results"
        settings = Settings(results=results, plugin_dirs=plugins, device="cpu")
        try:
            with open_desk(settings) as desk:
                for seed in range(blocks):
                    order = TIMINGS if seed % 2 else TIMINGS[::-1]
                    for timing in order:
                        took = Range(desk, settings).seconds(timing, seed)
                        lines += [
                            {"timing": timing, "seed": seed, "strategy": name, "seconds": seconds}
                            for name, seconds in took.items()
                        ]
                        pd.DataFrame(lines).to_csv(path, index=False)
        finally:
            busy.kill()
    tell(pd.DataFrame(lines))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
