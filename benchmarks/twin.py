"""The baseline against itself under another name, in many small tables: how often told apart?

    python benchmarks/twin.py TABLES FILE.csv

Its accuracies are those of the baseline to the last image, so that only speed is asked. Each table
has three seeds; every cell is trained anew, in a process of its own. What is said here is wrong.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd

from dataeff.bench.asked import write_suite
from dataeff.bench.cells import Settings
from dataeff.bench.desk import open_desk
from dataeff.bench.runner import run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.report.board import read_board

TASK = {"dataset": "digits[size=16]", "model": "resnet8", "epochs": 2, "batch_size": 64}
TWIN = '''
from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("twin", Twin)


class Twin(Strategy):
    """Does nothing."""
'''
SAID = ("faster", "slower")
KEPT = ["n", "difference", "speedup", "speedup_low", "speedup_high", "verdict", "trouble"]


def told(number: int, folder: Path) -> dict:
    """Train one table; return what it says of the twin."""
    settings = Settings(results=folder / "results", plugin_dirs=(folder / "plugins",))
    content = {"name": f"twin-{number}", "seeds": 3, "controls": False, "tasks": {"digits": TASK}}
    with open_desk(settings) as desk:
        suite = make_suite(content | {"strategies": ["baseline", "twin"]}, desk, where="twin.py")
        schedule = Schedule(suite, desk, settings.results)
        write_suite(schedule, settings.results / suite.name, "python benchmarks/twin.py")
        run_cells(schedule, desk, settings, lambda event: None)
    table = read_board(settings.results / suite.name).table.set_index("strategy")
    return {"table": number, **table.loc["twin", KEPT]}


def main(tables: int, path: Path) -> None:
    """Write one line per table, as they come; say how many told the two apart."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plugins").mkdir()
        (folder / "plugins" / "twin.py").write_text(TWIN)
        lines: list[dict] = []
        for number in range(tables):
            lines.append(told(number, folder))
            pd.DataFrame(lines).to_csv(path, index=False)
    apart = [line for line in lines if any(word in line["verdict"] for word in SAID)]
    print(f"told apart in {len(apart)} of {len(lines)} tables")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
