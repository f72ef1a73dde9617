"""Good enough: stop at an accuracy."""

from dataclasses import dataclass

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("good_enough", GoodEnough)


@dataclass(eq=False)
class GoodEnough(Strategy):
    """End training once the validation accuracy is `target` percent."""

    target: float = 50.0

    @hookimpl
    def should_stop(self, metrics):
        return metrics["top1"] >= self.target
