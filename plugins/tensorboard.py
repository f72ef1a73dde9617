"""TensorBoard: epochs of cells as curves, a folder for each cell.

dataeff run quickstart --log tensorboard; tensorboard --logdir results/quickstart/tensorboard
"""

from dataeff_plugins._numbers import numbers

from dataeff import DataeffError, Observer, hookimpl


@hookimpl
def register_observers(register):
    register("tensorboard", TensorBoard)


class TensorBoard(Observer):
    """Write the numbers of each epoch to `tensorboard/CELL` in the results of the suite."""

    def __init__(self, folder):
        super().__init__(folder)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise DataeffError(
                "TensorBoard is not installed; type: pip install 'dataeff[tensorboard]'"
            ) from None
        self._writer, self._open = SummaryWriter, {}

    def cell_started(self, cell):
        self._close(cell)

    def epoch_ended(self, cell, line):
        step = int(line["epoch"]) + 1
        if cell["name"] not in self._open:
            place = self.folder / "tensorboard" / cell["name"]
            # What a cell that was stopped had told of these epochs gives way.
            self._open[cell["name"]] = self._writer(place, purge_step=step)
        for name, value in numbers(line).items():
            self._open[cell["name"]].add_scalar(name, value, step)
        self._open[cell["name"]].flush()

    def cell_ended(self, cell, record):
        if writer := self._open.get(cell["name"]):
            writer.add_text("cell", f"{cell['strategy']} seed {cell['seed']}: {record['status']}")
        self._close(cell)

    def run_ended(self):
        for name in list(self._open):
            self._close({"name": name})

    def _close(self, cell):
        if writer := self._open.pop(cell["name"], None):
            writer.close()
