"""Two devices, `strict:0` and `strict:1`, played by the processor, and stricter than a GPU.

They are torch's own spare backend, with one kernel for all operations: it looks at the tensors,
and then has the processor do the work on the same memory. Tensors are plain ones, so training,
autocast, compiling, saving and loading go the way they go on a GPU. Refused are tensors of several
places in one operation, a generator of the CPU, and, while `hot` is on, what waits for a device.

A process that has called `install` has an accelerator until it ends: call it in one of your own.
"""

import ctypes
import time
from contextlib import contextmanager
from functools import partial

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

NAME, COUNT = "strict", 2
aten = torch.ops.aten
_CPU, _META, _AUTOCAST = (
    torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    for key in ("CPU", "Meta", "AutocastPrivateUse1")
)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
# What DLPack calls a device that it does not know.
_FOREIGN = 12
_READS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "equal", "repeat_interleave"),
    *("_unique2", "unique_dim", "unique_consecutive"),
}
_HALVED = ("conv2d", "linear", "matmul", "addmm", "mm", "bmm")


class Refusal(RuntimeError):
    """What a device would refuse, or wait for."""


class State:
    """Which device is current, whether waiting is refused, and what was drawn so far."""

    index, hot = 0, False
    generators = tuple(torch.Generator().manual_seed(index) for index in range(COUNT))


@contextmanager
def hot():
    """Refuse all that waits for a device."""
    State.hot = True
    try:
        yield
    finally:
        State.hot = False


# Memory -----------------------------------------------------------------------------------------


def put(tensor, index):
    """Return a tensor of a device that lies in the memory of one of the CPU."""
    capsule = torch._C._to_dlpack(tensor.detach())
    place = (ctypes.c_int32 * 2).from_address(_pointer(capsule, b"dltensor") + 8)
    place[:] = _FOREIGN, index
    there, layout = torch._C._from_dlpack(capsule), (tensor.shape, tensor.stride())
    if there.stride() != tensor.stride():
        there = aten.as_strided.default.redispatch(_CPU, there, *layout, there.storage_offset())
    return there


def raw(storage):
    """Return the memory of a device's storage as one of the CPU."""
    where = storage.data_ptr(), torch.device("cpu"), storage.nbytes()
    return torch._C._construct_storage_from_data_pointer(*where)


def seen(tensor):
    """Return a tensor of a device as one of the CPU."""
    layout = tensor.storage_offset(), tensor.shape, tensor.stride()
    return torch.empty(0, dtype=tensor.dtype).set_(raw(tensor.untyped_storage()), *layout)


def is_here(value):
    """Say whether it is a tensor of one of the devices."""
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def index_of(device=None):
    """Return the index of a device; without one it is the current device's."""
    index = device if isinstance(device, int | None) else torch.device(device).index
    return State.index if index is None else index


# Operations -------------------------------------------------------------------------------------


def kernel(op, *args, **kwargs):
    """Do an operation: refuse it, or have the CPU do it."""
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if any(is_here(t) and t.numel() and not t.untyped_storage().data_ptr() for t in tensors):
        # Of a compiler that tries shapes out.
        return op.redispatch(_META, *args, **kwargs)
    if op is aten._copy_from.default:
        return copy(*args, **kwargs)
    _check(op, args, leaves, tensors)
    if op._schema.name == "aten::set_" or _is_view(op):
        return op.redispatch(_CPU, *args, **kwargs)
    index = index_of(next((t.device for t in tensors if is_here(t)), kwargs.get("device")))
    return _computed(op, args, kwargs, index)


def _check(op, args, leaves, tensors):
    places = {str(t.device) for t in tensors if t.ndim or is_here(t)}
    if len(places) > 1:
        raise Refusal(f"{op}: tensors on {' and '.join(sorted(places))}")
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        raise Refusal(f"{op}: a generator of the CPU draws on the CPU alone")
    name = op._schema.name.removeprefix("aten::")
    by_mask = name == "index" and any(
        index.dtype is torch.bool for index in args[1] if index is not None
    )
    if State.hot and (name in _READS or by_mask):
        raise Refusal(f"{op}: it reads back")


def _is_view(op):
    return any(out.alias_info and not out.alias_info.is_write for out in op._schema.returns)


def _computed(op, args, kwargs, index):
    leaves, form = tree_flatten((args, kwargs))
    pairs = {id(leaf): (leaf, seen(leaf)) for leaf in leaves if is_here(leaf)}
    written = {arg.name for arg in op._schema.arguments if arg.alias_info}
    for name in written & kwargs.keys():
        if is_here(out := kwargs[name]) and not out.numel():
            # The operation says how large it becomes.
            pairs[id(out)] = out, torch.empty(0, dtype=out.dtype)
    lowered = [pairs[id(leaf)][1] if id(leaf) in pairs else leaf for leaf in leaves]
    args, kwargs = tree_unflatten(lowered, form)
    if "device" in kwargs:
        kwargs["device"] = torch.device("cpu")
    if any(arg.name == "generator" for arg in op._schema.arguments):
        kwargs["generator"] = State.generators[index]
    result = op(*args, **kwargs)
    for own, low in pairs.values():
        if own.shape != low.shape:
            layout = put(low, index).untyped_storage(), 0, low.shape, low.stride()
            aten.set_.source_Storage_storage_offset.redispatch(_CPU, own, *layout)
    known = {id(low): own for own, low in pairs.values()}
    return tree_map_only(
        torch.Tensor, lambda low: known[id(low)] if id(low) in known else put(low, index), result
    )


def copy(source, target, non_blocking=False):
    """Copy from one place to another."""
    if State.hot and not is_here(target):
        raise Refusal("a copy to the CPU: it reads back")
    if State.hot and not (is_here(source) or non_blocking):
        raise Refusal("a copy from the CPU that waits: say non_blocking=True")
    here, there = (seen(side) if is_here(side) else side for side in (source, target))
    there.copy_(here)
    return target


def convolution_backward(grad, x, weight, *how):
    """Do what torch asks of backends by another name, which knows of no bias."""
    shape = [weight.shape[0]]
    return kernel(aten.convolution_backward.default, grad, x, weight, shape, *how)


def halved(op):
    """Return the operation in the type of autocast."""

    def call(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            dtype = torch.get_autocast_dtype(NAME)
            low = [a.to(dtype) if is_here(a) and a.dtype is torch.float32 else a for a in args]
            return op(*low, **kwargs)

    return call


# Devices ----------------------------------------------------------------------------------------


class Module:
    """What torch asks of a backend's module."""

    is_available = is_initialized = staticmethod(lambda: True)
    _is_in_bad_fork = staticmethod(lambda: False)
    device_count = staticmethod(lambda: COUNT)
    current_device = staticmethod(lambda: State.index)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])

    @staticmethod
    def manual_seed_all(seed):
        """Seed the generators of all devices."""
        for generator in State.generators:
            generator.manual_seed(seed)

    @staticmethod
    def get_rng_state(device=None):
        """Return where a device's generator stands."""
        return State.generators[index_of(device)].get_state()

    @staticmethod
    def set_rng_state(state, device=None):
        """Put a device's generator back."""
        State.generators[index_of(device)].set_state(state)


class Event:
    """An event: it belongs to a device, and is recorded on a stream of it."""

    made = 0

    def __init__(self, device=None, enable_timing=False):
        self.index, self.time = index_of(device), None
        Event.made += 1

    def record(self, stream=None):
        """Note the time; without a stream, on the current device's."""
        stream = stream or torch.accelerator.current_stream()
        if stream.device.index != self.index:
            raise Refusal(f"an event of {NAME}:{self.index} on a stream of {stream.device}")
        self.time = time.perf_counter()

    def elapsed_time(self, other):
        """Return the milliseconds from this one to another."""
        return 1000 * (other.time - self.time)


# A compiler asks for it, and must not compile it.
@torch.compiler.disable
def current_stream(device=None):
    """Return the one stream of a device."""
    return torch.Stream(stream_id=0, device_index=index_of(device), device_type=20)


def tag(storage):
    """Return the name of a storage's device, as a file has it."""
    return str(storage.device) if storage.device.type == NAME else None


def restored(storage, place):
    """Return a storage of a file on the device that it names."""
    if not place.startswith(NAME):
        return None
    return put(torch.empty(0, dtype=torch.uint8).set_(storage), index_of(place)).untyped_storage()


def cloned(clone, storage):
    """Return a copy of a storage, on its device."""
    if storage.device.type != NAME:
        return clone(storage)
    return restored(clone(raw(storage)), str(storage.device))


_LIBRARIES = []


def install():
    """Give this process two devices."""
    torch.utils.backend_registration._setup_privateuseone_for_python_backend(
        NAME, backend_module=Module
    )
    whole, own = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    whole.fallback(kernel, "PrivateUse1")
    whole.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in _HALVED:
        op = getattr(aten, name).default
        own.impl(op, halved(op), "AutocastPrivateUse1")
    convolution = partial(kernel, aten.convolution.default)
    own.impl("convolution_overrideable", convolution, "PrivateUse1")
    own.impl("convolution_backward_overrideable", convolution_backward, "PrivateUse1")
    # What they have registered goes with them.
    _LIBRARIES.extend((whole, own))
    torch.serialization.register_package(1, tag, restored)
    clone = torch.UntypedStorage.clone
    torch.UntypedStorage.clone = lambda storage: cloned(clone, storage)
    # Its threads would be one per device, and torch believes that there is one device.
    torch.autograd.set_multithreading_enabled(False)
    torch.Event = Event
    torch.accelerator.set_device_index = lambda index: setattr(State, "index", index_of(index))
    torch.accelerator.current_device_index = lambda: State.index
    torch.accelerator.synchronize = lambda device=None: None
    torch.accelerator.current_stream = current_stream
