"""The differentiable ranking that the losses on ranks share."""

import torch
from torch import Tensor


def smooth_lead(similarities: Tensor, temperature: float) -> Tensor:
    """Lead of sample j over sample i in the ranking of query q: sigmoid((s_qj - s_qi) / temperature).

    (B, B) -> (B, B, B), by q, i, j, in (0, 1); no sample is ahead of itself (0). The sum over the j of a gallery is the
    smooth number of its samples in front of i: its rank less 1.
    """
    lead = torch.sigmoid((similarities[:, None, :] - similarities[:, :, None]) / temperature)
    itself = torch.eye(len(similarities), dtype=torch.bool, device=similarities.device)
    return lead.masked_fill(itself, 0.0)
