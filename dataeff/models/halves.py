"""Where a network divides into features and head: at the map that its last linear layer reads.

The network is traced into a graph. From the last linear layer we go back, past what flattens and
pools, to a map (B, C, h, w) or to tokens (B, T, C): what comes before are the features.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, fx, nn

from dataeff.models.small import Shape
from dataeff.models.tracing import TRACED, Size, Undivided, traced, values
from dataeff.models.trial import empty_copy, still

_FLAT = ("flatten", "view", "reshape")


class Piece:
    """A part of a network's forward pass, as code that is called with the network itself."""

    def __init__(self, code: str, names: dict[str, Any]) -> None:
        self.code, self.names = code, names
        self._call: Callable[[nn.Module, Tensor], Tensor] | None = None

    @classmethod
    def of(cls, graph: fx.Graph) -> Piece:
        """Return what a graph does."""
        graph.lint()
        made = graph.python_code("self")
        return cls(made.src, made.globals)

    def __call__(self, net: nn.Module, x: Tensor) -> Tensor:
        if self._call is None:
            names = dict(self.names)
            exec(compile(self.code, "<half of a network>", "exec"), names)
            self._call = names["forward"]
        return self._call(net, x)

    def __getstate__(self) -> dict[str, Any]:
        """Return what can be pickled: modules are none of it, but have names."""
        names = {
            key: ("module", value.__name__) if isinstance(value, types.ModuleType) else value
            for key, value in self.names.items()
        }
        return {"code": self.code, "names": names, "_call": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        for key, value in self.names.items():
            if isinstance(value, tuple) and value[:1] == ("module",):
                self.names[key] = __import__(value[1], fromlist=["*"])


@dataclass(frozen=True, eq=False)
class Halves:
    """Features and head of a network in one mode, and the size of the features of an image."""

    features: Piece
    head: Piece
    size: tuple[int, ...]


def divide(net: nn.Module, shape: Shape, training: bool) -> Halves:
    """Return the halves of a network in one mode; it is traced, and may be left the worse for it.

    Whether they give its logits is for numbers to say.
    """
    # What is traced keeps what it has met: that is no part of the network.
    ghost = empty_copy(net)
    with still(ghost, training):
        graph = traced(ghost)
        seen = values(ghost, graph, shape) or values(net, graph, shape)
    view = _View(net, graph, seen)
    cut = view.cut()
    return Halves(Piece.of(_before(graph, cut)), Piece.of(_after(view, cut)), view.size(cut)[1:])


# Where to cut ------------------------------------------------------------------------------------


class _View:
    """A graph, with what each node gave."""

    def __init__(self, net: nn.Module, graph: fx.Graph, seen: dict[fx.Node, Any]) -> None:
        self.net, self.graph, self.seen = net, graph, seen

    def cut(self) -> fx.Node:
        """Return the node of the last map, or of the tokens, that the last linear layer reads."""
        linear = [node for node in self.graph.nodes if self.is_linear(node)]
        if not linear:
            raise Undivided("it has no linear layer whose input could be traced")
        node = self.before(linear[-1])
        while len(self.size(node)) < 3:
            node = self.before(node)
        node = self.unflattened(node)
        return self.unpooled(node)

    @property
    def result(self) -> fx.Node:
        """Return the node of what the network gives."""
        (found,) = next(node for node in self.graph.nodes if node.op == "output").args
        if not isinstance(found, fx.Node):
            raise Undivided("it gives more than one tensor")
        return found

    def size(self, node: fx.Node) -> tuple[int, ...]:
        """Return the shape of what a node gave."""
        found = self.seen.get(node)
        if not isinstance(found, Size):
            raise Undivided(f"its {node.name} gives something else than one tensor")
        return found

    def cells(self, node: fx.Node) -> int:
        """Return the number of cells of a map, or of tokens."""
        size = self.size(node)
        return math.prod(size[2:]) if len(size) == 4 else size[1]

    def layer(self, node: fx.Node) -> nn.Module | None:
        """Return the module that a node calls."""
        return self.net.get_submodule(str(node.target)) if node.op == "call_module" else None

    def is_linear(self, node: fx.Node) -> bool:
        """Say whether a node is a linear layer."""
        return node.target is F.linear or isinstance(self.layer(node), nn.Linear)

    def before(self, node: fx.Node) -> fx.Node:
        """Return the one tensor that a node is made of, weights left out."""
        found = [n for n in node.all_input_nodes if n.op != "get_attr" and self.is_tensor(n)]
        if len(found) != 1:
            kind = "reads no" if not found else "puts together more than one"
            raise Undivided(f"on the way to its last linear layer, {node.name} {kind} tensor")
        return found[0]

    def is_tensor(self, node: fx.Node) -> bool:
        """Say whether a node gave a tensor."""
        return isinstance(self.seen.get(node), Size)

    def called(self, node: fx.Node) -> str:
        """Return what a node does, in one word."""
        layer = self.layer(node)
        name = type(layer).__name__ if layer else getattr(node.target, "__name__", node.target)
        return str(name).lower()

    def unflattened(self, node: fx.Node) -> fx.Node:
        """Return the map that tokens are nothing but another form of."""
        while len(self.size(node)) == 3 and any(word in self.called(node) for word in _FLAT):
            found = self.before(node)
            if len(self.size(found)) != 4:
                break
            node = found
        return node

    def unpooled(self, node: fx.Node) -> fx.Node:
        """Return the map that one cell is made of; the cell where it is no pool's."""
        first, pooled = node, None
        while self.cells(node) == 1 and node.op != "placeholder":
            try:
                found = self.before(node)
            except Undivided:
                break
            if len(self.size(found)) < 3:
                break
            if "pool" in self.called(node) or "mean" in self.called(node):
                pooled = found
            layer = self.layer(node)
            has_weights = layer is not None and any(True for _ in layer.parameters())
            if self.cells(found) > 1 or (has_weights and pooled is not None):
                break
            node = found
        return pooled or first


# Cutting -----------------------------------------------------------------------------------------


def _before(graph: fx.Graph, cut: fx.Node) -> fx.Graph:
    """Return the graph up to a node; all of it, so that random numbers are drawn as ever."""
    half = fx.Graph()
    own: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        own[node] = half.node_copy(node, lambda n: own[n])
        if node is cut:
            break
    half.output(own[cut])
    return half


def _after(view: _View, cut: fx.Node) -> fx.Graph:
    """Return the graph from a node on, of what its output is made of."""
    half = fx.Graph()
    features = half.placeholder("z")
    own: dict[fx.Node, Any] = {cut: features}
    later = {cut}
    for node in view.graph.nodes:
        if later & set(node.all_input_nodes):
            later.add(node)
    needed = _needed(view, cut, later)
    count = half.call_method("size", (features, 0))
    for node in view.graph.nodes:
        if node in needed and node is not cut:
            computed = node in later or view.is_tensor(node)
            own[node] = (
                half.node_copy(node, lambda n: own[n])
                if computed
                else _renumbered(view.seen[node], count)
            )
    half.output(own[view.result])
    if not count.users:
        half.erase_node(count)
    return half


def _needed(view: _View, cut: fx.Node, later: set[fx.Node]) -> set[fx.Node]:
    """Return what the output is made of, from a node on, and numbers that it takes from before."""
    needed: set[fx.Node] = set()
    waiting = [view.result]
    while waiting:
        node = waiting.pop()
        if node in needed:
            continue
        needed.add(node)
        if node is cut or (node not in later and not view.is_tensor(node)):
            continue
        if node.op == "placeholder":
            raise Undivided("its head reads the images themselves, beside what is made of them")
        waiting += node.all_input_nodes
    if cut not in needed:
        raise Undivided("what its last linear layer reads has no part in its logits")
    return needed


def _renumbered(found: Any, count: fx.Node) -> Any:
    """Return a number as the head may have it: that of the images is not always the same."""
    if isinstance(found, tuple):
        return tuple(_renumbered(part, count) for part in found)
    return count if isinstance(found, int) and found == TRACED else found
