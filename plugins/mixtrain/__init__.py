"""mixTrain: two inputs in one, for the samples that tolerate it."""

from dataeff_plugins.mixtrain.strategies import CutMix, MixUp

from dataeff import hookimpl


@hookimpl
def register_strategies(register):
    register("mixtrain_cutmix", CutMix)
    register("mixtrain_mixup", MixUp)
    register("intertrain_randpatch", CutMix)
    register("intertrain_linavg", MixUp)


@hookimpl
def register_analyses(register):
    from dataeff_plugins.mixtrain.figures import mixtrain

    register("mixtrain", mixtrain)
