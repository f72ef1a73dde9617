"""Weights that a network begins with: `resnet18[weights=w.safetensors]`, or `pretrained=true`."""

import hashlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from dataeff.errors import DataeffError, one_line
from dataeff.models.heads import heads_of

State = Mapping[str, Tensor]
# What trainers wrap the weights of a network in.
_WRAPPED = ("state_dict", "model_state_dict", "model")


def digest_of(path: str) -> str:
    """Return a short hash of what a file of weights holds."""
    with _there(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def read_weights(path: str) -> State:
    """Read a file of safetensors, or what torch.save has made of a state dict; it runs no code."""
    file = _there(path)
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        found = torch.load(file, map_location="cpu", weights_only=True)
    # Either reader may raise anything at all for a file that is none of its own.
    except Exception as error:
        told = one_line(str(error)).partition(". ")[0].rstrip(".")
        raise DataeffError(
            f"{path} cannot be read as weights ({type(error).__name__}: {told}): give a "
            ".safetensors file, or torch.save(model.state_dict(), FILE)."
        ) from error
    while isinstance(found, Mapping) and (inner := set(found) & set(_WRAPPED)):
        found = found[min(inner)]
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise DataeffError(
            f"{path} holds no weights by name: write it by torch.save(model.state_dict(), FILE)."
        )
    return found


def _there(path: str) -> Path:
    if not (file := Path(path).expanduser()).is_file():
        raise DataeffError(f"There is no file {path} with weights; write weights=FILE.")
    return file


def load_weights(model: nn.Module, state: State, what: str, origin: str) -> list[str]:
    """Give a network these weights; return what there is to say of it.

    A head of another number of classes stays as it was drawn. All else must fit.
    """
    plain = {key.removeprefix("module."): value for key, value in state.items()}
    target = _named_alike(model, plain)
    ours = target.state_dict()
    heads = tuple(f"{name}." for name in heads_of(target))
    left = [key for key in ours if key.startswith(heads) and _differ(plain.get(key), ours[key])]
    given = {key: plain[key] for key in ours if key in plain and key not in left}
    for key, value in given.items():
        if _differ(value, ours[key]):
            there, here = ("x".join(map(str, one.shape)) for one in (value, ours[key]))
            small = ", or stem=imagenet" if value.dim() == 4 else ""
            raise DataeffError(
                f"model {what}: {key} is {there} in {origin} and {here} here; give weights of "
                f"this network{small}."
            )
    counters = "num_batches_tracked"
    missing = [key for key in ours if key not in (*given, *left) and not key.endswith(counters)]
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise DataeffError(
            f"model {what}: {origin} has no {missing[0]}{more}; give weights of this network."
        )
    target.load_state_dict(given, strict=False)
    said = []
    if left:
        layers = ", ".join(dict.fromkeys(key.rpartition(".")[0] for key in left))
        said.append(
            f"{what}: {layers} is of other classes in {origin}, or not there, and begins as drawn."
        )
    if unused := [key for key in plain if key not in ours]:
        said.append(f"{what}: {len(unused)} of {origin} are not used, such as {unused[0]}.")
    return said


def _named_alike(model: nn.Module, state: State) -> nn.Module:
    """Return the network whose names these are: what we hold a foreign one in adds its own."""
    net = getattr(model, "net", None)
    if isinstance(net, nn.Module) and not set(state) & set(model.state_dict()):
        return net
    return model


def _differ(given: Tensor | None, ours: Tensor) -> bool:
    return given is None or given.shape != ours.shape


def check_offered(name: str, is_torchvisions: bool) -> None:
    """Refuse pretrained weights of a network that its library has none for."""
    if is_torchvisions:
        import torchvision

        offered = len(torchvision.models.get_model_weights(name.partition(":")[2])) > 0
    else:
        import timm

        config = timm.get_pretrained_cfg(name)
        offered = bool(config and config.has_weights)
    if not offered:
        raise DataeffError(
            f"model {name}: there are no pretrained weights; leave pretrained out, or write "
            "weights=FILE."
        )


def not_downloaded(what: str, error: Exception) -> DataeffError:
    """Return what is said where pretrained weights cannot be had."""
    told = one_line(str(error)).partition(". ")[0].rstrip(".") or "nothing more is said"
    return DataeffError(
        f"model {what}: its pretrained weights cannot be had here ({type(error).__name__}: {told})"
        "; go on where there is a network, or write weights=FILE."
    )


@contextmanager
def offline_where_it_must_be() -> Iterator[None]:
    """Have Hugging Face's hub take what it has here, where it cannot be reached.

    It would ask again and again for most of a minute, each time that a network is built.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    if not getproxies():
        try:
            socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443)
        except OSError:
            constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def torchvision_weights(name: str) -> State:
    """Return torchvision's own weights of a network, downloaded where they are not there yet."""
    import torchvision

    weights = torchvision.models.get_model_weights(name).DEFAULT
    state: State = weights.get_state_dict(progress=False, check_hash=True)
    return state
