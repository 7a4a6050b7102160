"""The optimisers of a run: weights in groups, each with a rate and a weight decay of its own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dmlrc.errors import unknown

Tensors = Sequence[Tensor]


class RMSprop:
    """RMSprop with momentum (Tieleman & Hinton 2012), equal to `torch.optim.RMSprop` to the bit.

    g <- g + weight_decay w;  v <- 0.99 v + 0.01 g^2;  b <- momentum b + g / (sqrt(v) + 1e-8);  w <- w - lr b

    A step of a small model takes half the time of torch's own, whose hooks and checks cost more than the arithmetic,
    and whose construction imports torch._dynamo, for more than a second in every process.

    param_groups: as in `torch.optim`: dicts with "params", "lr" and "weight_decay". A weight without a gradient stays
    as it is. A step overwrites the gradients.
    """

    def __init__(self, param_groups: Sequence[dict[str, Any]], momentum: float):
        self.param_groups, self.momentum = param_groups, momentum
        self._states = [  # a group's (w, v, b)
            [(weight, torch.zeros_like(weight), torch.zeros_like(weight)) for weight in group["params"]]
            for group in param_groups
        ]

    @torch.no_grad()
    def step(self) -> None:
        for group, states in zip(self.param_groups, self._states, strict=True):
            moving = [state for state in states if state[0].grad is not None]
            if moving:
                self._step(*zip(*moving, strict=True), lr=group["lr"], weight_decay=group["weight_decay"])

    def _step(self, weights: Tensors, squares: Tensors, buffers: Tensors, *, lr: float, weight_decay: float) -> None:
        gradients = [weight.grad for weight in weights]
        if weight_decay:
            torch._foreach_add_(gradients, weights, alpha=weight_decay)
        torch._foreach_mul_(squares, 0.99)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - 0.99)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, 1e-8)
        if self.momentum:
            torch._foreach_mul_(buffers, self.momentum)
            torch._foreach_addcdiv_(buffers, gradients, roots)
            torch._foreach_add_(weights, buffers, alpha=-lr)
        else:
            torch._foreach_addcdiv_(weights, gradients, roots, value=-lr)


Optimizer = RMSprop | torch.optim.Optimizer


_OPTIMIZERS = {"rmsprop": RMSprop, "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
NAMES = tuple(_OPTIMIZERS)


def create_optimizer(name: str, param_groups: Sequence[dict[str, Any]], momentum: float) -> Optimizer:
    """The optimiser of this name, one of NAMES; Adam and AdamW have no use for momentum. UsageError for another one."""
    if name not in NAMES:
        raise unknown("optimizer", name, NAMES)
    own = {"momentum": momentum} if name in ("rmsprop", "sgd") else {}
    return _OPTIMIZERS[name](param_groups, **own)
