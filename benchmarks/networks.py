"""Forward and backward of a batch of 32 through the networks that train, against their bare matrix products.

A direct convolution is a matrix product over the patches of all pixels (`torch.nn.Unfold`), so the ratio says how near
a step comes to what the processor can multiply. The rest is pooling, normalisation, ReLU and the layout of memory. Part
of `make bench`; alone, `python -m benchmarks.networks`. On a CPU the seconds are CPU time.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.timing import DEVICE, clock, on_one_thread, report
from dmlrc import models
from dmlrc.models import EmbeddingModel

BATCH, DIM = 32, 128

Calls = tuple[Callable[[], object], Callable[[], object]]


def conv4(device: torch.device) -> tuple[nn.Module, Tensor]:
    """The network of the glyphs and of Omniglot, with its images."""
    return EmbeddingModel(models.create_trunk("conv4"), DIM).to(device), torch.rand(BATCH, 1, 28, 28, device=device)


def last_block(device: torch.device) -> tuple[nn.Module, Tensor]:
    """The last module of SqueezeNet with the embedder, and its maps of images of 112 pixels."""
    stem, head = models.split_trunk(models.create_trunk("squeezenet1_0"), "features.12")
    with torch.no_grad():
        maps = stem(torch.rand(BATCH, 3, 112, 112))
    return EmbeddingModel(head, DIM).to(device), maps.to(device)


def products_of(network: nn.Module, inputs: Tensor) -> list[tuple[int, int, int]]:
    """(N, K, C) of each convolution of a forward pass: N output pixels, K numbers under the kernel, C channels."""
    found = []

    def note(layer: nn.Conv2d, _, maps: Tensor) -> None:
        channels = maps.shape[1]
        found.append((maps.numel() // channels, layer.weight[0].numel(), channels))

    hooks = [each.register_forward_hook(note) for each in network.modules() if isinstance(each, nn.Conv2d)]
    with torch.no_grad():
        network(inputs)
    for hook in hooks:
        hook.remove()
    return found


def against_products(make: Callable[[torch.device], tuple[nn.Module, Tensor]], device: torch.device) -> Calls:
    network, inputs = make(device)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    matrices = [
        (torch.rand(n, k, device=device), torch.rand(k, c, device=device), torch.rand(n, c, device=device))
        for n, k, c in products_of(network, inputs)
    ]

    def step() -> None:
        torch.autograd.grad(network(inputs).square().sum(), weights)

    def products() -> None:
        for place, (patches, kernel, gradient) in enumerate(matrices):
            patches @ kernel
            patches.T @ gradient
            if place:  # nobody asks for the gradient of the input
                gradient @ kernel.T

    return step, products


def rows(timed: Callable, device: torch.device, repeats: int = 31) -> Iterator:
    """title -> (seconds of ours, of the peer) a batch; timed(ours, peer, repeats, clock) measures."""
    for what, make in (("conv4, 32 x 28 px", conv4), ("last block of SqueezeNet, 32 x 112 px", last_block)):
        yield (
            f"forward and backward, {what} | its matrix products alone",
            partial(_measure, timed, make, device, repeats),
        )


def _measure(timed: Callable, make: Callable, device: torch.device, repeats: int) -> tuple[float, float]:
    return timed(*against_products(make, device), repeats, clock(device))


if __name__ == "__main__":
    list(report(dict(rows(on_one_thread, DEVICE))))
