"""The analyses of the Diet Selective-Backprop poster: who is pruned, and what that costs.

Lu, Zamoshchin and Chen, Diet Selective-Backprop: Accelerating Training in Deep Learning by Pruning
Examples, Stanford
"""

from dataeff import hookimpl


@hookimpl
def register_analyses(register):
    from dataeff_plugins.poster.images import images
    from dataeff_plugins.poster.overlap import overlap
    from dataeff_plugins.poster.usage import usage

    for analysis in (overlap, images, usage):
        register(analysis.__name__, analysis)
