"""Rho-regularisation: the distance-weighted losses with negatives switched for positives.

With probability `switch_probability` a mined triplet (a, p, n) becomes (a, a, p): the loss then pushes two samples of
one class apart, which keeps directions in the embedding that do not tell the training classes apart.

Source: Roth et al. 2020, section 5.1, and the R- rows of their Table 2: Contrastive, Margin, SNR and Triplet, all (D).
Default: 0.4, theirs for CUB200 (Margin with beta 1.2: 0.35, SNR: 0.3); Cars196 0.35, SOP 0.15.
"""

from torch import Tensor

from dmlrc.losses.mined import ContrastiveDistance, MarginDistance, MinedLoss, SNRDistance, TripletDistance
from dmlrc.losses.mining import Triplets, switch_negatives


class Switched(MinedLoss):
    """The loss that stands after it in a class's bases, on triplets that are switched with `switch_probability`."""

    switch_probability: float

    def mine(self, d: Tensor, labels: Tensor, dim: int) -> Triplets:
        """The triplets of the other base, switched by `mining.switch_negatives`."""
        return switch_negatives(super().mine(d, labels, dim), self.switch_probability)


class RContrastive(Switched, ContrastiveDistance):
    """`ContrastiveDistance` with rho-regularisation: R-Contrastive (D).

    Parameters
    ----------
    pos_margin, neg_margin : as in `ContrastiveDistance`
    switch_probability : in [0, 1]; 0.4 of Roth et al. for CUB200, others see the module

    References
    ----------
    Roth et al. 2020, section 5.1.
    """

    def __init__(self, pos_margin: float = 0.0, neg_margin: float = 1.0, switch_probability: float = 0.4):
        super().__init__(pos_margin, neg_margin)
        self.switch_probability = switch_probability


class RTriplet(Switched, TripletDistance):
    """`TripletDistance` with rho-regularisation: R-Triplet (D).

    Parameters
    ----------
    margin : as in `TripletDistance`
    switch_probability : in [0, 1]; 0.4 of Roth et al. for CUB200, others see the module

    References
    ----------
    Roth et al. 2020, section 5.1.
    """

    def __init__(self, margin: float = 0.2, switch_probability: float = 0.4):
        super().__init__(margin)
        self.switch_probability = switch_probability


class RMargin(Switched, MarginDistance):
    """`MarginDistance` with rho-regularisation: R-Margin (D).

    Parameters
    ----------
    num_classes, margin, beta : as in `MarginDistance`
    switch_probability : in [0, 1]; 0.4 of Roth et al. for CUB200, others see the module

    References
    ----------
    Roth et al. 2020, section 5.1.
    """

    def __init__(self, num_classes: int, margin: float = 0.2, beta: float = 1.2, switch_probability: float = 0.4):
        super().__init__(num_classes, margin, beta)
        self.switch_probability = switch_probability


class RSNR(Switched, SNRDistance):
    """`SNRDistance` with rho-regularisation: R-SNR (D).

    Parameters
    ----------
    margin, regularizer_weight : as in `SNRDistance`
    switch_probability : in [0, 1]; 0.4 of Roth et al. for CUB200, others see the module

    References
    ----------
    Roth et al. 2020, section 5.1.
    """

    def __init__(self, margin: float = 0.2, regularizer_weight: float = 0.005, switch_probability: float = 0.4):
        super().__init__(margin, regularizer_weight)
        self.switch_probability = switch_probability
