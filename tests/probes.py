"""What tests share to look into a run."""


class Stateless:
    """A probe that a checkpoint need not hold."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass
