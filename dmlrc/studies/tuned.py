"""The settings with which grids of learning rates compare methods: the best trials of the first searches, at 1e-4.

They were chosen at a high rate, so what a grid finds for a lower one is found against them. Three digits; the trials
stand in results/cars196crops-frozen-rate1e-4 and results/grocery-frozen-rate1e-4.
"""

from dmlrc.methods import LOSS_WEIGHTS_LR

CARS = {
    "contrastive": {"pos_margin": 0.106, "neg_margin": 0.703},
    "triplet": {"margin": 0.0782},
    "ntxent": {"temperature": 0.0518},
    "margin": {"margin": 0.0446, "beta": 0.876, LOSS_WEIGHTS_LR: 1.70e-6},
    "normalized_softmax": {"temperature": 0.0881, LOSS_WEIGHTS_LR: 8.60e-5},
    "arcface": {"margin": 36.7, "scale": 14.8, LOSS_WEIGHTS_LR: 3.63e-4},
    "multi_similarity": {"alpha": 0.382, "beta": 19.2, "base": 0.234},
    "soft_triple": {"la": 44.9, "gamma": 99.4, "reg_weight": 0.293, "margin": 0.913, LOSS_WEIGHTS_LR: 1.56e-6},
}
GROCERY = {
    "contrastive": {"pos_margin": 0.921, "neg_margin": 1.18},
    "triplet": {"margin": 0.288},
    "ntxent": {"temperature": 0.0671},
    "margin": {"margin": 0.208, "beta": 1.33, LOSS_WEIGHTS_LR: 3.10e-5},
    "normalized_softmax": {"temperature": 0.0723, LOSS_WEIGHTS_LR: 0.336},
    "arcface": {"margin": 14.8, "scale": 124.0, LOSS_WEIGHTS_LR: 0.249},
    "multi_similarity": {"alpha": 3.17, "beta": 89.8, "base": 0.548},
    "soft_triple": {"la": 37.0, "gamma": 86.2, "reg_weight": 0.146, "margin": 0.0459, LOSS_WEIGHTS_LR: 0.0317},
}
SEARCHED_ON = {"cars196crops-frozen-rate1e-4": CARS, "grocery-frozen-rate1e-4": GROCERY}
"""The study whose searches found them."""


def of(dataset: str) -> dict[str, dict[str, float]]:
    """The settings for a data set, by method: its own if it was searched, else those of the cars."""
    return GROCERY if dataset == "grocery" else CARS
