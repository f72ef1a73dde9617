"""Fewer steps: gather more and more batches for each step."""

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("fewer_steps", FewerSteps)


class FewerSteps(Strategy):
    """Step for each batch in the first quarter, for two in the second, up to four in the last."""

    # What is left at the end of an epoch is stepped there.
    @hookimpl
    def on_epoch_start(self):
        self._gathered = 0

    @hookimpl
    def should_step(self, run):
        self._gathered += 1
        is_full = self._gathered > int(4 * run.progress)
        if is_full:
            self._gathered = 0
        return is_full
