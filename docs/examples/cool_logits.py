"""Cool logits: train with a temperature."""

from dataclasses import dataclass

from pydantic import PositiveFloat

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("cool_logits", CoolLogits)


@dataclass(eq=False)
class CoolLogits(Strategy):
    """Divide the logits of training by a temperature."""

    temperature: PositiveFloat = 2.0

    @hookimpl(wrapper=True)
    def forward(self):
        logits = yield
        return logits / self.temperature
