"""Roth, Milbich, Sinha, Gupta, Ommer, Cohen: Revisiting Training Strategies and Generalization Performance in Deep
Metric Learning. ICML 2020, arXiv:2002.08473.

Expected (Table 2, R@1, mean and standard deviation of 5 seeds): Multisimilarity 62.80 +- 0.70 on CUB200, 81.68 +- 0.19
on Cars196, 77.99 +- 0.09 on SOP; R-Margin (beta 0.6) 64.93 +- 0.42, 82.37 +- 0.13, 77.58 +- 0.11.
Command: `dmlrc study run cub200-roth2020` (or cars196-roth2020, sop-roth2020).

The settings are fixed: no search, no validation. Section 4.1 and the authors' public code; their numbers are those of
each metric's best epoch on the test classes, ours of the last epoch.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dmlrc.methods import LOSS_WEIGHTS_LR, Level, Method, batch_levels, fixed_method, levels
from dmlrc.protocol import Protocol

PROTOCOL = Protocol(
    name="roth2020",
    paper="roth2020",
    trunk="resnet50",
    weights="imagenet",
    frozen_trunk=False,
    embedding_dim=128,
    image_size=256,
    crop_size=224,
    augmentation="crop",
    crop_scale=(0.08, 1.0),  # torchvision's default
    crop_ratio=(3 / 4, 4 / 3),
    optimizer="adam",
    lr=1e-5,
    weight_decay=4e-4,
    momentum=0.0,
    folds=0,
    iterations_per_epoch=None,
    eval_every=1,
    patience=150,
    max_epochs=150,
    loss_weight_decay=0.0,  # public code
    test_metrics=(
        *("precision_at_1", "recall_at_2", "recall_at_4", "recall_at_8"),
        *("nmi", "f1", "map_at_c", "map_at_1000", "r_precision", "map_at_r"),
    ),
    train_metrics=("rho", "pi_intra", "pi_inter", "pi_ratio"),
    arrays=("spectrum",),
)
SOP_PROTOCOL = replace(PROTOCOL, split="official", max_epochs=100, patience=100)

_BETA = {LOSS_WEIGHTS_LR: 5e-4}
_MARGIN_06 = {"margin": 0.2, "beta": 0.6, **_BETA}
_MARGIN_12 = {"margin": 0.2, "beta": 1.2, **_BETA}
_SNR = {"margin": 0.2, "regularizer_weight": 0.005}
# Public code: uniform within ± 1/√D, which is of length √(1/3).
_START = {"weight_length": 0.577}
_method = partial(fixed_method, layout=(56, 2))  # SPC-2 in a batch of 112

# Table 2, in its order.
_OBJECTIVES = (
    _method("angular", "Angular", "angular_roth", "wang2017angular", 2017, alpha=45, angular_weight=2, l2_weight=0.005),
    _method(
        "arcface",
        "ArcFace",
        "arcface",
        "deng2019arcface",
        2019,
        margin=28.64788975654116,  # 0.5 rad
        scale=16,
        **_START,
        **{LOSS_WEIGHTS_LR: 5e-4},
    ),
    _method("contrastive", "Contrastive (D)", "contrastive_distance", "hadsell2006", 2006, pos_margin=0, neg_margin=1),
    _method("genlifted", "GenLifted", "generalized_lifted", "hermans2017", 2017, neg_margin=1, l2_weight=0.005),
    _method("histogram", "Hist.", "histogram", "ustinova2016", 2016, n_bins=64),
    _method("margin_06", "Margin (D, β = 0.6)", "margin_distance", "wu2017sampling", 2017, **_MARGIN_06),
    _method("margin_12", "Margin (D, β = 1.2)", "margin_distance", "wu2017sampling", 2017, **_MARGIN_12),
    _method(
        "multi_similarity",
        "Multisimilarity",
        "multi_similarity_roth",
        "wang2019ms",
        2019,
        alpha=2,
        beta=40,
        base=0.5,
        epsilon=0.1,
    ),
    _method("n_pairs", "Npair", "n_pairs_roth", "sohn2016", 2016, l2_weight=0.005),
    _method(
        "proxy_nca",
        "Pnca",
        "proxy_nca_original",
        "movshovitz2017",
        2017,
        softmax_scale=9,
        proxy_std=0.125,  # public code
        **{LOSS_WEIGHTS_LR: 50 * 1e-5},
    ),
    _method("quadruplet", "Quadruplet (D)", "quadruplet", "chen2017quadruplet", 2017, margin=0.2, second_margin=0.2),
    _method("snr", "SNR (D)", "snr_distance", "yuan2019snr", 2019, **_SNR),
    _method(
        "soft_triple",
        "SoftTriple",
        "soft_triple",
        "qian2019softtriple",
        2019,
        centers_per_class=2,
        la=8,
        gamma=0.1,
        margin=0.01,
        reg_weight=0.2,
    ),
    _method(
        "softmax",
        "Softmax",
        "normalized_softmax",
        "zhai2019",
        2019,
        temperature=0.05,
        **_START,  # at the embedder's rate, as in the public code
    ),
)
MINERS = (
    _method("triplet_distance", "Triplet (D)", "triplet_distance", "wu2017sampling", 2017, margin=0.2),
    _method("triplet_softhard", "Triplet (H)", "triplet_softhard", "roth2019mic", 2019, margin=0.2),
    _method("triplet_random", "Triplet (R)", "triplet_random", "schroff2015", 2015, margin=0.2),
    _method("triplet_semihard", "Triplet (S)", "triplet_semihard", "schroff2015", 2015, margin=0.2),
)


def _regularized(switch: float, **own: float) -> tuple[Method, ...]:
    """The R- rows with this switch probability; own: that of single rows, by name."""
    rows = (
        ("r_contrastive", "R-Contrastive (D)", "r_contrastive", "roth2020", {"pos_margin": 0, "neg_margin": 1}),
        ("r_margin_06", "R-Margin (D, β = 0.6)", "r_margin", "roth2020", _MARGIN_06),
        ("r_margin_12", "R-Margin (D, β = 1.2)", "r_margin", "roth2020", _MARGIN_12),
        ("r_snr", "R-SNR (D)", "r_snr", "roth2020", _SNR),
        ("r_triplet", "R-Triplet (D)", "r_triplet", "roth2020", {"margin": 0.2}),
    )
    return tuple(
        _method(name, label, loss, reference, 2020, **settings, switch_probability=own.get(name, switch))
        for name, label, loss, reference, settings in rows
    )


METHODS = (*_OBJECTIVES, *MINERS, *_regularized(0.4, r_margin_12=0.35, r_snr=0.3))
CARS196_METHODS = (*_OBJECTIVES, *MINERS, *_regularized(0.35))
# No SOP result for Pnca and SoftTriple in the paper.
_ON_SOP = {"histogram": {"n_bins": 10}, "softmax": {LOSS_WEIGHTS_LR: 2e-3}}
SOP_METHODS = (
    *(
        replace(method, settings={**method.settings, **_ON_SOP.get(method.name, {})})
        for method in _OBJECTIVES
        if method.name not in ("proxy_nca", "soft_triple")
    ),
    *MINERS,
    *_regularized(0.15),
)

# Fig. 3: name -> sampler and images a class, in batches of 112.
SAMPLERS = {
    "spc2": ("class_balanced", 2),
    "spc4": ("class_balanced", 4),
    "spc8": ("class_balanced", 8),
    "spcr": ("spc_r", 1),
    "gc": ("greedy_coreset", 2),
    "ddm": ("distribution_matching", 2),
    "frd": ("frechet", 2),
}
SAMPLED = ("margin_12", "triplet_random", "proxy_nca", "multi_similarity", "histogram", "softmax")
# Fig. 2. The text names the trunks and the preprocessing; "adv" (in the public code grey with probability 0.2, and
# brightness, contrast, saturation and hue changed by up to 0.2) is not built here. The other values are ours, around
# the paper's own.
TRUNKS = ("googlenet", "bn_inception", "resnet50")
EMBEDDING_DIMS = (16, 32, 64, 128, 256, 512, 1024, 2048)
BATCH_SIZES = (16, 32, 64, 112)
WEIGHT_DECAYS = (0.0, 4e-5, 4e-4, 4e-3)
PREPROCESSING = {"base": {}, "big": {"crop_size": 256}, "red": {"augmentation": "place"}}


def roth_sweeps(
    methods: tuple[Method, ...], dims: Sequence[int] = EMBEDDING_DIMS, sizes: Sequence[int] = BATCH_SIZES
) -> dict[str, Sequence[Level]]:
    """The sweeps of Figs. 2 and 3 for a data set's methods, on those of `SAMPLED` (Fig. 2 does not name its five).

    sizes: images of a batch; the samplers are compared in the largest.
    """
    six = sampled(methods)
    return {
        "samplers": [Level(name, drawn(six, *sampler, batch=max(sizes))) for name, sampler in SAMPLERS.items()],
        "trunks": [Level(trunk, six, {"trunk": trunk}) for trunk in TRUNKS],
        "dims": levels("dim", dims, six, "embedding_dim"),
        "batches": batch_levels(sizes, six),
        "decays": levels("decay", WEIGHT_DECAYS, six, "weight_decay"),
        "preprocessing": [Level(name, six, changes) for name, changes in PREPROCESSING.items()],
    }


def sampled(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """The six objectives of the sweeps."""
    return tuple(method for method in methods if method.name in SAMPLED)


def drawn(methods: tuple[Method, ...], sampler: str, images: int, batch: int) -> tuple[Method, ...]:
    """The methods with another sampler, in batches of so many images."""
    layout = {"sampler": sampler, "images_per_class": images, "classes_per_batch": batch // images}
    return tuple(replace(method, **layout) for method in methods)
