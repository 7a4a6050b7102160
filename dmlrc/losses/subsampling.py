"""Softmax losses that see only a part of the classes in each step (Zhai and Wu 2019, section 4.5)."""

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dmlrc.errors import UsageError


class SubsampledClasses(nn.Module):
    """A classification loss over a random part of its classes, drawn anew in each step.

    The classes of the batch are always in it; others are added at random, up to share * C classes of C. The weights of
    the classes left out have a gradient of 0, so that momentum and weight decay still move them.

    Source: Zhai and Wu 2019, section 4.5 and Fig. 4, shares of 10 %, 1 % and 0.1 %.
    loss: one whose class weights are the columns of a parameter `W`, (D, C): normalised softmax, CosFace, ArcFace.
    share: in (0, 1]. Chance: torch's global generator. Raises UsageError for a loss without `W`.
    """

    def __init__(self, loss: nn.Module, share: float):
        super().__init__()
        if not isinstance(getattr(loss, "W", None), nn.Parameter):
            raise UsageError(f"{type(loss).__name__} has no class weights W, of which a part could be drawn")
        if not 0 < share <= 1:
            raise UsageError(f"the share of the classes is above 0 and at most 1, not {share}")
        self.loss, self.share = loss, share

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """embeddings: (B, D); labels: (B,) in [0, C) -> scalar."""
        classes = self.loss.W.shape[1]
        present, labels = labels.unique(return_inverse=True)
        missing = torch.ones(classes, dtype=torch.bool, device=labels.device)
        missing[present] = False
        absent = missing.nonzero()[:, 0]
        extra = max(math.ceil(self.share * classes) - len(present), 0)
        drawn = absent[torch.randperm(len(absent), device=labels.device)[:extra]]
        W = self.loss.W[:, torch.cat([present, drawn])]  # the batch's classes first, as the new labels count them
        return functional_call(self.loss, {"W": W}, (embeddings, labels))
