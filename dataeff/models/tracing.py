"""A network as a graph, and what each of its nodes gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, fx, nn

from dataeff.errors import one_line
from dataeff.models.small import Shape
from dataeff.models.trial import some

TRACED = 13
"""Images of a trace: a number that nothing else in a network is likely to be."""


class Undivided(Exception):
    """A network has no halves; the message says why."""


class _Tracer(fx.Tracer):
    """Looks into all modules but torch's own and those that are known to be opaque."""

    def __init__(self, opaque: set[type]) -> None:
        super().__init__()
        self.opaque = opaque
        self.inside: list[type] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # Torch's own layers, in a library's dress: a LayerNorm for maps, and the like.
        bases = type(m).__mro__[: type(m).__mro__.index(nn.Module)]
        is_layer = any(base.__module__.startswith("torch.nn.") for base in bases)
        if type(m) in self.opaque or (is_layer and not any(True for _ in m.children())):
            return True
        return super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.inside.append(type(m))
        found = super().call_module(m, forward, args, kwargs)
        # Not where it fails: who looks on wants to know where that was.
        self.inside.pop()
        return found


def traced(net: nn.Module) -> fx.Graph:
    """Trace a network; what no trace can follow is one node of the graph."""
    opaque: set[type] = set()
    while True:
        tracer = _Tracer(opaque)
        try:
            return tracer.trace(net)
        # A trace meets code that looks at values, which may do anything with what is none.
        except Exception as error:
            if not tracer.inside or tracer.inside[-1] in opaque:
                told = one_line(str(error)) or type(error).__name__
                raise Undivided(f"its forward cannot be traced ({told.rstrip('.')})") from error
            opaque.add(tracer.inside[-1])


class _Values(fx.Interpreter):
    """Runs a graph and keeps the shape of each tensor, and numbers as they are."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.seen: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        found = super().run_node(n)
        self.seen[n] = Size(found.shape) if isinstance(found, Tensor) else found
        return found


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of another kind is a value of the network's own."""


def values(net: nn.Module, graph: fx.Graph, shape: Shape) -> dict[fx.Node, Any]:
    """Return what each node gives; nothing where that cannot be had without data."""
    is_ghost = any(value.is_meta for value in net.parameters())
    x = some((TRACED, *shape)).to("meta" if is_ghost else "cpu")
    running = _Values(fx.GraphModule(net, graph))
    try:
        running.run(x)
    except Exception as error:
        # What cannot do without data is tried with it.
        if is_ghost:
            return {}
        raise Undivided(f"its trace fails ({one_line(str(error)).rstrip('.')})") from error
    return running.seen
