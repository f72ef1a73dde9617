"""Centred gradients: take the mean out of each filter's gradient before the step."""

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("centred_gradients", CentredGradients)


class CentredGradients(Strategy):
    """Subtract its mean from the gradient of each filter, before gradients are clipped."""

    @hookimpl(wrapper=True)
    def finish_gradients(self, run):
        for parameter in run.model.parameters():
            gradient = parameter.grad
            if gradient is not None and gradient.ndim > 1:
                gradient -= gradient.mean(tuple(range(1, gradient.ndim)), keepdim=True)
        return (yield)
