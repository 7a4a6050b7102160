"""Ranges of the hyperparameters of losses: elsewhere a loss is NaN, infinite, or not what its formula is for.

A hyperparameter that is not in the table may be any finite number.
"""

import math
from typing import NamedTuple


class Range(NamedTuple):
    """The numbers from `low` to `high`, both included, or none of the two if the range is open."""

    low: float
    high: float = math.inf
    is_open: bool = False

    def holds(self, value: float) -> bool:
        """Tell whether the value lies in the range."""
        return self.low < value < self.high if self.is_open else self.low <= value <= self.high

    def __str__(self) -> str:
        if self.is_open:
            return f"above {self.low:g}" if self.high == math.inf else f"above {self.low:g} and below {self.high:g}"
        return f"at least {self.low:g}" if self.high == math.inf else f"from {self.low:g} to {self.high:g}"


_ABOVE_0 = Range(0, is_open=True)
_SHARE = Range(0, 1)
RANGES: dict[str, Range] = {
    # of every loss that has it
    **dict.fromkeys(("temperature", "rank_temperature", "softmax_scale", "scale", "la"), _ABOVE_0),
    **dict.fromkeys(("weight_length", "proxy_std"), _ABOVE_0),
    **dict.fromkeys(("switch_probability", "imbalance"), _SHARE),
    # of one loss, where others mean something else by the name
    "arcface.margin": Range(0, 180),  # degrees
    **dict.fromkeys(("angular.alpha", "angular_fehervari.alpha", "angular_roth.alpha"), Range(0, 90, is_open=True)),
    **dict.fromkeys(("circle.gamma", "soft_triple.gamma", "proxy_anchor.alpha"), _ABOVE_0),
    **dict.fromkeys(("multi_similarity.alpha", "multi_similarity.beta"), _ABOVE_0),
    **dict.fromkeys(("multi_similarity_miner.alpha", "multi_similarity_miner.beta"), _ABOVE_0),
    **dict.fromkeys(("multi_similarity_roth.alpha", "multi_similarity_roth.beta"), _ABOVE_0),
    "proxy_nca_original.num_classes": Range(2),  # it compares with the other classes
}
"""The name of a hyperparameter, or loss.hyperparameter -> its range."""


def allowed_range(loss: str, name: str) -> Range:
    """Find the range of a hyperparameter of a loss; of most that of all numbers."""
    return RANGES.get(f"{loss}.{name}") or RANGES.get(name) or Range(-math.inf)
