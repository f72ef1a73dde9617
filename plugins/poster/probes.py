"""What looks on in the poster's runs."""

from dataeff import Strategy, hookimpl


class OnlyPrepare(Strategy):
    """Ends a run before its first epoch, when its strategies have scored the samples."""

    @hookimpl
    def prepare(self, run):
        run.stop()
