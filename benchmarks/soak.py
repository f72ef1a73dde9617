"""Runs that are killed again and again, and must end with the numbers of one that was not.

    python benchmarks/soak.py [ROUNDS [MINUTES [SEED]]]

A round is a kill. The cells of a trial share a folder and a command, `dataeff run`, on two lanes
where they take turns; it is started again until all have ended. What is killed (the group, the run
alone, a process that it has started), by which signal and when is drawn. The rounds of a trial pass
if nothing but clocks of its cells differs from the uninterrupted run, no file is missing or left
over, and no process lives on.
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
import time
from collections import Counter
from collections.abc import Callable
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
    *("provenance", "artefacts", "outside", "files", "checksum", "heat", "heats", "lanes"),
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SEEDS = 2
# Kills of a trial, at the most.
MOST = 6
# Seconds: for a command to end, and for its processes to follow it.
LONGEST, FOLLOWS = 240.0, 20.0


# One command ------------------------------------------------------------------------------------


def start(folder: Path) -> subprocess.Popen:
    """Start or continue the run of a folder, in a group of its own."""
    command = [sys.executable, "-c", "from dataeff.cli import main; main()", "run", "--yes"]
    command += [word for pair in TASK.items() for word in pair]
    command += [word for name in STRATEGIES for word in ("-s", name)]
    command += ["--seeds", str(SEEDS), "--no-controls", "--name", "soak", "--devices", "cpu*2"]
    with (folder / "said.txt").open("a") as said:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(folder / "state")},
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


def until(condition: Callable[[], Any], seconds: float) -> Any:
    """Wait for a condition; return what it gave, or nothing after so many seconds."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


# What a run leaves ------------------------------------------------------------------------------


def finished(folder: Path) -> dict[str, Path]:
    """Return the folder of each cell that has ended well."""
    found = {}
    for path in folder.glob("results/soak/*/run.json"):
        if json.loads(path.read_text())["status"] == "finished":
            found[path.parent.name] = path.parent
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
    """A folder whose run is killed some times, and then brought to its end.

    `kills` are what was killed and by which signal, in order; `pace` is the longest pause before
    one, in seconds.
    """

    def __init__(self, folder: Path, number: int, seed: int, kills: int, pace: float = 5.0) -> None:
        self.folder = folder / f"trial-{number}"
        self.folder.mkdir()
        self.kills: list[str] = []
        self.trouble: list[str] = []
        self._draw = random.Random(f"{seed}/{number}")
        self._left, self._pace = kills and self._draw.randint(2, kills), pace

    def run(self, deadline: float) -> None:
        """Start the run until all of its cells have ended; after the deadline, kill no more."""
        for _ in range(MOST + 4):
            run = start(self.folder)
            try:
                while self._left and time.monotonic() < deadline and self._kill(run):
                    pass
                run.wait(LONGEST)
            except subprocess.TimeoutExpired:
                self.trouble.append(f"a run did not end within {LONGEST:g} seconds")
            finally:
                self._end(run)
            if self.trouble or len(finished(self.folder)) == SEEDS * len(STRATEGIES):
                return
        self.trouble.append(f"{MOST + 4} runs were not enough")

    def _kill(self, run: subprocess.Popen) -> bool:
        """Kill something at a random moment; say whether the run goes on."""
        draw = self._draw
        # Now and then at once; but most of a run is its start, of which there is little to learn.
        if draw.random() < 0.9:
            training = self.folder.glob
            until(lambda: run.poll() is not None or any(training("results/soak/*/books.json")), 60)
        time.sleep(draw.uniform(0, self._pace))
        if run.poll() is not None:
            return False
        what, how = draw.choice(("group", "run", "cell", "cell")), draw.choice(SIGNALS)
        cells = sorted(cell_processes(self.folder))
        if what == "cell" and not cells:
            return True
        self._left -= 1
        self.kills.append(f"{what} {how.name}")
        if what == "group":
            os.killpg(run.pid, how)
        elif what == "run":
            run.send_signal(how)
        else:
            # Cells leave Ctrl-C to the run. The evaluators are among them, and die as well.
            _signal(draw.choice(cells), signal.SIGKILL if how == signal.SIGINT else how)
        return what == "cell"

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


def wrong(trial: Trial, whole: Path) -> list[str]:
    """Say what is wrong with a trial; nothing where all is as if nothing had been killed."""
    found, wanted = finished(trial.folder), finished(whole)
    said = list(trial.trouble)
    if left := sorted(files(trial.folder / "results") ^ files(whole / "results")):
        said.append(f"files differ: {', '.join(left)}")
    for name, cell in wanted.items():
        if name not in found:
            said.append(f"{name} has not ended")
        elif numbers(found[name]) != numbers(cell):
            said.append(f"{name}: numbers differ")
    return said


# All of them ------------------------------------------------------------------------------------


def soak(rounds: int, minutes: float, seed: int, folder: Path) -> bool:
    """Run trials until there are enough rounds, or time is up; say how many passed."""
    began = time.monotonic()
    # A trial that has begun is brought to its end, without kills.
    deadline = began + 60 * minutes - min(90, 20 * minutes)
    whole = Trial(folder, 0, seed, kills=0)
    whole.run(deadline)
    cells = len(finished(whole.folder))
    assert cells == SEEDS * len(STRATEGIES), (whole.folder / "said.txt").read_text()
    done: Counter[str] = Counter()
    failed = 0
    for number in itertools.count(1):
        if time.monotonic() > deadline or done.total() >= rounds:
            break
        trial = Trial(folder, number, seed, min(MOST, rounds - done.total() + 1))
        trial.run(deadline)
        done.update(trial.kills)
        if said := wrong(trial, whole.folder):
            failed += max(1, len(trial.kills))
            print(f"{'; '.join(said)}; see {trial.folder}", flush=True)
    for what, count in sorted(done.items()):
        print(f"{count:4} x {what}")
    minutes_taken = (time.monotonic() - began) / 60
    passed = done.total() - failed
    print(f"{passed} passed, {failed} failed, {cells} cells each, in {minutes_taken:.1f} min")
    return done.total() > 0 and not failed


def main(rounds: str = "60", minutes: str = "30", seed: str = "0") -> None:
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
