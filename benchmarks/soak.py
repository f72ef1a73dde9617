"""Runs that are killed again and again, and must end with the numbers of one that was not.

    python benchmarks/soak.py [ROUNDS [MINUTES [SEED]]]

A round is a cell that is killed, once or more, and brought to its end. The cells of a trial share
a folder and a command, `dataeff run`, which is started again until all have ended. What is killed
(the group, the run alone, a cell alone), by which signal and when is drawn. A round passes if
nothing but clocks differs from the uninterrupted run, no file is missing or left over, and no
process lives on.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

STRATEGIES = (
    "baseline",
    "mixtrain_cutmix",
    "selective_backprop",
    "el2n[keep=0.75,models=1,epochs=4]",
    "growing",
    "el2n[keep=0.5,models=1,epochs=4]+selective_backprop",
    "random_subset+mixtrain_mixup",
)
TASK = {
    "--dataset": "synthetic[samples=400,test_samples=60,classes=4,size=8]",
    "--model": "resnet8[width=4]",
    "--epochs": "40",
    "--set": "batch_size=32",
}
# What a clock or the system says; and what an artefact has cost.
TIMES = (
    *("clocks", "process_clocks", "phases", "peak_memory", "ended", "machine", "energy"),
    *("provenance", "artefacts", "outside", "files", "checksum"),
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
AT_A_TIME = 2
# Seconds: for a command to end, and for its processes to follow it.
LONGEST, FOLLOWS = 240.0, 20.0


# One command ------------------------------------------------------------------------------------


def start(folder: Path) -> subprocess.Popen:
    """Start or continue the run of a folder, in a group of its own."""
    command = [sys.executable, "-c", "from dataeff.cli import main; main()", "run", "--yes"]
    command += [word for pair in TASK.items() for word in pair]
    command += [word for name in STRATEGIES for word in ("-s", name)]
    command += ["--seeds", "1", "--no-controls", "--name", "soak", "--device", "cpu"]
    with (folder / "said.txt").open("a") as said:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def processes(folder: Path) -> dict[int, int]:
    """Return the processes that work in a folder, each with its parent; zombies are none."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            if (path / "cwd").readlink() == folder and state != "Z":
                found[int(path.name)] = int(parent)
        except OSError:
            continue
    return found


def cell_processes(folder: Path) -> list[int]:
    """Return the processes of cells: the children of the server that forks them."""
    alive = processes(folder)
    return [number for number, parent in alive.items() if "forkserver" in _command(parent)]


def _command(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text()
    except OSError:
        return ""


def current(folder: Path) -> Path | None:
    """Return the folder of the cell that is held now; asking for its lock would disturb."""
    locks = {line.split()[5].rpartition(":")[2] for line in _locks()}
    for path in folder.glob("results/soak/*/held"):
        if str(path.stat().st_ino) in locks:
            return path.parent
    return None


def _locks() -> list[str]:
    lines = Path("/proc/locks").read_text().splitlines()
    return [line for line in lines if " FLOCK " in line and "->" not in line]


def until(condition: Callable[[], Any], seconds: float) -> Any:
    """Wait for a condition; return what it gave, or nothing after so many seconds."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


# What a run leaves ------------------------------------------------------------------------------


def records(folder: Path) -> dict[str, Path]:
    """Return the folder of each strategy's cell that has ended well."""
    found = {}
    for path in folder.glob("results/soak/*/run.json"):
        record = json.loads(path.read_text())
        if record["status"] == "finished":
            found[record["strategy"]] = path.parent
    return found


def numbers(cell: Path) -> list[Any]:
    """Return all that must be the same however often a cell was killed."""
    record = json.loads((cell / "run.json").read_text())
    rest = {key: value for key, value in record.items() if key not in TIMES}
    rest["columns"] = {k: v for k, v in rest["columns"].items() if not k.endswith("_seconds")}
    epochs = pd.read_csv(cell / "epochs.csv").drop(columns=["prepare_seconds", "train_seconds"])
    samples = pd.read_parquet(cell / "samples.parquet")
    tables = [table.fillna(-1).to_dict("list") for table in (epochs, samples)]
    return [rest, *tables, (cell / "hits.bin").read_bytes()]


def files(folder: Path) -> set[str]:
    """Return the names of all files and folders below one."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# One trial --------------------------------------------------------------------------------------


class Trial:
    """A folder whose cells are killed until each has ended, and what came of it.

    `pace` is the longest pause before a kill, in seconds; at 0 nothing is killed.
    """

    def __init__(self, folder: Path, number: int, seed: int, pace: float) -> None:
        self.folder = folder / f"trial-{number}"
        self.folder.mkdir()
        self.kills: Counter[str] = Counter()
        self.resumed: Counter[str] = Counter()
        self.trouble: list[str] = []
        self._name, self._pace = f"{seed}/{number}", pace
        self._draw = random.Random(self._name)

    def run(self, deadline: float) -> None:
        """Start the run until all of its cells have ended; after the deadline, kill no more."""
        for _ in range(40):
            run = start(self.folder)
            try:
                while self._pace and time.monotonic() < deadline and self._kill(run):
                    pass
                run.wait(LONGEST)
            except subprocess.TimeoutExpired:
                self.trouble.append(f"a run did not end within {LONGEST:g} seconds")
            finally:
                self._end(run)
            if self.trouble or len(records(self.folder)) == len(STRATEGIES):
                return
        self.trouble.append("forty runs were not enough")

    def _kill(self, run: subprocess.Popen) -> bool:
        """Kill something at a random moment; say whether the run goes on."""
        draw = self._draw
        # Now and then at once; but most of a run is its start, of which there is little to learn.
        if draw.random() < 0.95 or not self.kills:
            until(lambda: run.poll() is not None or self._mortal(), LONGEST)
        time.sleep(draw.uniform(0, self._pace))
        if run.poll() is not None:
            return False
        what, how = draw.choice(("group", "run", "cell", "cell", "cell")), draw.choice(SIGNALS)
        cells = cell_processes(self.folder)
        if what == "cell" and not cells:
            return True
        self._count()
        if what == "group":
            os.killpg(run.pid, how)
        elif what == "run":
            run.send_signal(how)
        else:
            # Cells leave Ctrl-C to the run.
            _signal(cells[0], signal.SIGKILL if how == signal.SIGINT else how)
            until(lambda: cells[0] not in processes(self.folder), FOLLOWS)
            return True
        return False

    def _mortal(self) -> bool:
        """Tell whether the cell that runs now is still to be killed: once or twice each."""
        cell = current(self.folder)
        if cell is None or not cell_processes(self.folder):
            return False
        return self.kills[cell.name] < random.Random(f"{self._name}/{cell.name}").randint(1, 2)

    def _count(self) -> None:
        cell = current(self.folder)
        name = cell.name if cell else ""
        self.kills[name] += 1
        self.resumed[name] += bool(cell and (cell / "checkpoint.pt").exists())

    def _end(self, run: subprocess.Popen) -> None:
        """See that nobody outlives the run; end those who do."""
        until(lambda: run.poll() is not None and not processes(self.folder), FOLLOWS)
        if orphans := sorted(processes(self.folder)):
            self.trouble.append(f"{len(orphans)} processes outlived the run")
            for number in orphans:
                _signal(number, signal.SIGKILL)
        run.wait()


def _signal(number: int, how: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(number, how)


def judge(trial: Trial, whole: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each strategy with what is wrong with its round."""
    wanted, found = records(whole), records(trial.folder)
    cells = {cell.name for cell in wanted.values()}
    left = sorted(files(trial.folder / "results") ^ files(whole / "results"))
    for name, cell in wanted.items():
        wrong = list(trial.trouble)
        # What belongs to no cell is held against all.
        others = cells - {cell.name}
        if mine := [path for path in left if not others & set(Path(path).parts)]:
            wrong.append(f"files differ: {', '.join(mine)}")
        if name not in found:
            wrong.append("it has not ended")
        elif numbers(found[name]) != numbers(cell):
            wrong.append("numbers differ")
        yield name, wrong


# All of them ------------------------------------------------------------------------------------


def total(tally: dict[str, Counter[str]], key: str) -> int:
    """Return the sum of a count over all strategies."""
    return sum(counts[key] for counts in tally.values())


def soak(rounds: int, minutes: float, seed: int, folder: Path) -> bool:
    """Run trials until there are enough rounds, or time is up; say how each strategy fared."""
    began = time.monotonic()
    # A trial that has begun is brought to its end, without kills.
    deadline = began + 60 * minutes - min(90, 20 * minutes)
    whole = Trial(folder, 0, seed, pace=0)
    whole.run(deadline)
    names = {cell.name: name for name, cell in records(whole.folder).items()}
    assert len(names) == len(STRATEGIES), (whole.folder / "said.txt").read_text()
    tally: dict[str, Counter[str]] = {name: Counter() for name in sorted(names.values())}
    lock, numbers_of_trials = threading.Lock(), itertools.count(1)

    def work() -> None:
        while time.monotonic() < deadline and total(tally, "rounds") < rounds:
            with lock:
                trial = Trial(folder, next(numbers_of_trials), seed, pace=3.0)
            trial.run(deadline)
            with lock:
                note(trial)

    def note(trial: Trial) -> None:
        cells = {name: cell for cell, name in names.items()}
        for name, wrong in judge(trial, whole.folder):
            kills = trial.kills[cells[name]]
            tally[name].update(kills=kills, resumed=trial.resumed[cells[name]])
            if kills or wrong:
                tally[name].update(rounds=1, identical=not wrong)
            for reason in wrong:
                print(f"{name}: {reason}; see {trial.folder}", flush=True)

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for worker in [pool.submit(work) for _ in range(AT_A_TIME)]:
            worker.result()
    for name, counts in tally.items():
        figures = (f"{counts[key]:4} {key}" for key in ("rounds", "kills", "resumed", "identical"))
        print(f"{name:52} {', '.join(figures)}")
    done, passed = total(tally, "rounds"), total(tally, "identical")
    print(f"{passed} passed, {done - passed} failed in {(time.monotonic() - began) / 60:.1f} min")
    return done > 0 and passed == done


def main(rounds: str = "200", minutes: str = "30", seed: str = "0") -> None:
    """Soak in a temporary folder, which stays if anything failed."""
    # In the background of a shell, Ctrl-C is ignored by all that is started.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="soak-")).resolve()
    well = soak(int(rounds), float(minutes), int(seed), folder)
    if well:
        shutil.rmtree(folder)
    sys.exit(not well)


if __name__ == "__main__":
    main(*sys.argv[1:])
