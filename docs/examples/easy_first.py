"""Easy first: go through each epoch from low to high losses."""

from dataeff import Plan, Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("easy_first", EasyFirst)


class EasyFirst(Strategy):
    """Sort the rows of an epoch by the loss that their first sample had when last trained."""

    @hookimpl(wrapper=True)
    def plan_epoch(self, run):
        plan = yield
        losses = run.ledger.last_loss.cpu().nan_to_num()
        order = losses[plan.rows[:, 0]].argsort(stable=True)
        return Plan(plan.rows[order], plan.sizes)
