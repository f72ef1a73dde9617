"""Diary: a line of text for each epoch and each cell, for `dataeff run --log diary`."""

from dataeff import Observer, hookimpl


@hookimpl
def register_observers(register):
    register("diary", Diary)


class Diary(Observer):
    """Write `diary.txt` beside the results of the suite, or a file of another `name`."""

    def __init__(self, folder, *, name: str = "diary.txt"):
        super().__init__(folder)
        self.path = folder / name

    def epoch_ended(self, cell, line):
        tested = f", {line['test_top1']:.2f}%" if line.get("test_top1") is not None else ""
        self._write(f"{cell['name']} epoch {line['epoch']}: loss {line['train_loss']:.3f}{tested}")

    def cell_ended(self, cell, record):
        self._write(f"{cell['name']}: {record['status']}")

    def _write(self, text):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            print(text, file=file)
