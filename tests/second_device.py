"""A second device without a GPU: tensors that say they live on it, with real numbers inside.

`SecondDevice` is a dispatch mode. Inside it, what is put on the device "meta" is a `Placed` tensor, which holds one of
the CPU. An operation on placed tensors is computed with those, and its result is placed. It fails where devices are
mixed, as it would on a GPU, and notes each read-back: each operation for which the program would wait for a GPU, since
its result, or the size of it, is known there alone. (Autograd asks the driver about a tensor that says "cuda", and
`FakeTensorMode`, which has no numbers, stops at shapes that depend on them.)
"""

import contextlib
from collections import Counter

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
_READ_BACKS = {
    "_local_scalar_dense",  # item(), float(), int(), bool(), a branch on a tensor
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "bincount",
    "equal",
    "repeat_interleave",
}
_BETWEEN_DEVICES = {"_to_copy", "copy_", "_copy_from"}


class MixedDevicesError(AssertionError):
    """An operation whose tensors live on two devices."""


class Placed(torch.Tensor):
    """A tensor that says it lives on the second device."""

    is_meta = False  # unlike what the device's name says, it has values

    @staticmethod
    def __new__(cls, inside: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            layout=inside.layout,
            requires_grad=inside.requires_grad,
            device=DEVICE,
        )

    def __init__(self, inside: torch.Tensor):
        self.inside = inside

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} on a tensor of the second device, outside of SecondDevice()")

    def __repr__(self, **_):
        return f"Placed({self.inside!r})"


class SecondDevice(TorchDispatchMode):
    """See the module. read_backs: how often each operation read back so far."""

    def __init__(self):
        super().__init__()
        self.read_backs: Counter[str] = Counter()
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self._stack.enter_context(_Lists())
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._stack.close()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = func.overloadpacket.__name__
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
        placed = any(isinstance(each, Placed) for each in tensors)
        if placed and name not in _BETWEEN_DEVICES:
            for each in tensors:
                if not isinstance(each, Placed) and each.ndim:
                    raise MixedDevicesError(
                        f"{func} mixes a tensor of the CPU, {tuple(each.shape)}, with another device"
                    )
        there = placed
        if kwargs.get("device") is not None:
            there = torch.device(kwargs["device"]) == DEVICE
            kwargs["device"] = torch.device("cpu")
        if name in ("copy_", "_copy_from"):
            there = isinstance(args[0], Placed)
        if placed and (self._reads_back(name, args) or not there):
            self.read_backs[name] += 1
        owners = {id(each.inside): each for each in tensors if isinstance(each, Placed)}
        computed = func(*tree_map(_inside, args), **tree_map(_inside, kwargs))

        def place(result):
            if isinstance(result, torch.Tensor):
                return owners.get(id(result)) if id(result) in owners else Placed(result)  # in place, or new
            return result

        return tree_map(place, computed) if there else computed

    @staticmethod
    def _reads_back(name: str, args: tuple) -> bool:
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):  # a mask is looked up by `nonzero`
            return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
        return name in _READ_BACKS


def _inside(value):
    return value.inside if isinstance(value, Placed) else value


class _Lists(TorchFunctionMode):
    """`torch.tensor(list, device=...)` and `tolist` copy unseen by a dispatch mode: here by the CPU, then moved."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is torch.Tensor.tolist and isinstance(args[0], Placed):
            return args[0].cpu().tolist()
        return func(*args, **kwargs)
