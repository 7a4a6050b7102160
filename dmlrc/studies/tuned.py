"""The settings with which grids of learning rates compare methods: the best trials of the first searches, at 1e-4.

They were chosen at a high rate, so what a grid finds for a lower one is found against them. Three digits; the trials
stand in results/first-runs/cars196crops-frozen and results/first-runs/grocery-frozen.
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
OF_DEPTHS = {
    "cars196crops": {
        "contrastive": {"pos_margin": 0.195, "neg_margin": 0.586},
        "triplet": {"margin": 0.125},
        "ntxent": {"temperature": 0.0493},
        "margin": {"margin": 0.0740, "beta": 0.544, LOSS_WEIGHTS_LR: 3.86e-3},
        "normalized_softmax": {"temperature": 0.0612, LOSS_WEIGHTS_LR: 0.0469},
        "cosface": {"margin": 0.331, "scale": 25.3, LOSS_WEIGHTS_LR: 0.0768},
        "arcface": {"margin": 0.615, "scale": 30.0, LOSS_WEIGHTS_LR: 0.0159},
        "multi_similarity": {"alpha": 0.108, "beta": 70.3, "base": 0.501},
        "soft_triple": {"la": 6.24, "gamma": 99.8, "reg_weight": 0.118, "margin": 0.168, LOSS_WEIGHTS_LR: 3.31e-4},
        "proxy_anchor": {"margin": 0.343, "alpha": 8.83, LOSS_WEIGHTS_LR: 1.25e-4},
    },
    "cub200_2010": {
        "contrastive": {"pos_margin": -0.0543, "neg_margin": 0.806},
        "triplet": {"margin": 0.0835},
        "ntxent": {"temperature": 0.0898},
        "margin": {"margin": 0.133, "beta": 0.614, LOSS_WEIGHTS_LR: 7.40e-3},
        "normalized_softmax": {"temperature": 0.281, LOSS_WEIGHTS_LR: 1.03e-4},
        "cosface": {"margin": 0.760, "scale": 7.35, LOSS_WEIGHTS_LR: 0.265},
        "arcface": {"margin": 19.7, "scale": 88.1, LOSS_WEIGHTS_LR: 2.11e-3},
        "multi_similarity": {"alpha": 1.94, "beta": 37.9, "base": 0.570},
        "soft_triple": {"la": 4.85, "gamma": 77.1, "reg_weight": 0.306, "margin": 0.0562, LOSS_WEIGHTS_LR: 3.75e-6},
        "proxy_anchor": {"margin": 0.463, "alpha": 5.05, LOSS_WEIGHTS_LR: 0.0119},
    },
}
"""The settings of the depths of MobileNetV2: of eight methods the best of the search with SqueezeNet's last block
trained, of CosFace and Proxy-Anchor, which that does not have, of the first search on its frozen features."""
SEARCHED_ON = {"first-runs/cars196crops-frozen": CARS, "first-runs/grocery-frozen": GROCERY}
"""The study whose searches found them."""


def searched_on(dataset: str, method: str) -> str:
    """The study whose first search found a method's setting of `OF_DEPTHS`."""
    table = dataset.replace("_", "-")
    frozen = {"cosface": f"{table}-frozen", "proxy_anchor": f"{table}-frozen/after2019"}
    return frozen.get(method, f"{table}-depths/squeezenet-last-block")


def grid_settings(dataset: str) -> dict[str, dict[str, float]]:
    """The settings for a data set, by method: its own if it was searched, else those of the cars."""
    return GROCERY if dataset == "grocery" else CARS
