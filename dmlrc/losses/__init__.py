"""Metric-learning losses: every one is `loss(embeddings, labels) -> scalar`.

`names()` lists them, `create(name, ...)` makes one. Hyperparameters are keyword arguments, named as in
pytorch-metric-learning. A loss with learnable weights (proxies, class weights, a learnt boundary) is a
module whose `parameters()` are those weights. Where `loss.normalized` is False, the embeddings come as
the embedder gives them; otherwise they are L2-normalised.
"""

import functools
import inspect

from torch import nn

from dmlrc.errors import UsageError, unknown
from dmlrc.losses import inputs
from dmlrc.losses.angular import Angular, AngularFehervari, AngularRoth
from dmlrc.losses.circle import Circle
from dmlrc.losses.contrastive import Contrastive
from dmlrc.losses.fast_ap import FastAP
from dmlrc.losses.histogram import Histogram
from dmlrc.losses.lifted import GeneralizedLifted, LiftedStructure
from dmlrc.losses.margin import Margin, MarginPerClass
from dmlrc.losses.mined import (
    ContrastiveDistance,
    MarginDistance,
    MarginDistancePairs,
    SNRDistance,
    TripletDistance,
    TripletHard,
    TripletRandom,
    TripletSemihard,
    TripletSemihardPairs,
    TripletSoftHard,
)
from dmlrc.losses.multi_similarity import MultiSimilarity, MultiSimilarityMiner
from dmlrc.losses.multi_similarity_roth import MultiSimilarityRoth
from dmlrc.losses.n_pairs import NPairs, NPairsRoth
from dmlrc.losses.ntxent import NTXent
from dmlrc.losses.prototypical import Prototypical
from dmlrc.losses.proxy_anchor import ProxyAnchor
from dmlrc.losses.proxy_nca import ProxyNCA
from dmlrc.losses.proxy_nca_original import ProxyNCAOriginal
from dmlrc.losses.proxy_nca_pp import ProxyNCAPP
from dmlrc.losses.proxy_triplet import ProxyTriplet
from dmlrc.losses.quadruplet import Quadruplet
from dmlrc.losses.ranked_list import RankedList
from dmlrc.losses.recall_at_k import RecallAtK
from dmlrc.losses.regularized import RSNR, RContrastive, RMargin, RTriplet
from dmlrc.losses.smooth_ap import SmoothAP
from dmlrc.losses.snr import SNR
from dmlrc.losses.soft_triple import SoftTriple
from dmlrc.losses.softmax import ArcFace, CosFace, NormalizedSoftmax
from dmlrc.losses.sphereface import SphereFace
from dmlrc.losses.structured_clustering import StructuredClustering
from dmlrc.losses.supcon import SupCon
from dmlrc.losses.triplet import Triplet
from dmlrc.losses.tuplet_margin import TupletMargin

REGISTRY: dict[str, type[nn.Module]] = {
    # Musgrave et al. 2020, A Metric Learning Reality Check
    "contrastive": Contrastive,
    "triplet": Triplet,
    "ntxent": NTXent,
    "proxy_nca": ProxyNCA,
    "margin": Margin,
    "margin_per_class": MarginPerClass,
    "normalized_softmax": NormalizedSoftmax,
    "cosface": CosFace,
    "arcface": ArcFace,
    "fast_ap": FastAP,
    "snr": SNR,
    "multi_similarity": MultiSimilarity,
    "multi_similarity_miner": MultiSimilarityMiner,
    "soft_triple": SoftTriple,
    # Roth et al. 2020, Revisiting Training Strategies and Generalization Performance
    "angular_roth": AngularRoth,
    "contrastive_distance": ContrastiveDistance,
    "generalized_lifted": GeneralizedLifted,
    "histogram": Histogram,
    "margin_distance": MarginDistance,
    "multi_similarity_roth": MultiSimilarityRoth,
    "n_pairs_roth": NPairsRoth,
    "quadruplet": Quadruplet,
    "snr_distance": SNRDistance,
    "triplet_distance": TripletDistance,
    "triplet_softhard": TripletSoftHard,
    "triplet_random": TripletRandom,
    "triplet_semihard": TripletSemihard,
    "r_contrastive": RContrastive,
    "r_margin": RMargin,
    "r_snr": RSNR,
    "r_triplet": RTriplet,
    # Fehervari et al. 2019, Unbiased Evaluation
    "triplet_semihard_pairs": TripletSemihardPairs,
    "lifted_structure": LiftedStructure,
    "n_pairs": NPairs,
    "structured_clustering": StructuredClustering,
    "margin_distance_pairs": MarginDistancePairs,
    "angular_fehervari": AngularFehervari,
    "prototypical": Prototypical,
    "proxy_triplet": ProxyTriplet,
    "proxy_nca_original": ProxyNCAOriginal,
    "ranked_list": RankedList,
    # In none of the five papers' tables in this form
    "angular": Angular,
    "sphereface": SphereFace,
    "triplet_hard": TripletHard,
    "tuplet_margin": TupletMargin,
    # After 2019
    "proxy_anchor": ProxyAnchor,
    "circle": Circle,
    "supcon": SupCon,
    "proxy_nca_pp": ProxyNCAPP,
    "smooth_ap": SmoothAP,
    "recall_at_k": RecallAtK,
}


def names() -> list[str]:
    """The name of every method's loss.

    Returns
    -------
    Names, in the order of the registry
    """
    return list(REGISTRY)


def create(name: str, *, num_classes: int | None = None, embedding_dim: int | None = None, **params) -> nn.Module:
    """Make the loss of a method.

    What it is called with is converted where that is safe, see `dmlrc.losses.inputs.convert`. Its first batch is
    looked at: a loss for L2-normalised embeddings warns of others, once.

    Parameters
    ----------
    name : one of `names()`
    num_classes, embedding_dim : needed by the losses that own class weights
    params : the loss's hyperparameters, finite numbers within `dmlrc.losses.ranges`

    Returns
    -------
    A module: embeddings (B, D) float, labels (B,) int64 -> scalar tensor

    Raises
    ------
    UsageError
        For an unknown name or hyperparameter, with the known ones, and for a value that cannot be.

    >>> create("contrastive", neg_margin=0.5)
    Contrastive(pos_margin=0, neg_margin=0.5)
    """
    if not isinstance(name, str) or name not in REGISTRY:
        raise unknown("loss", name, REGISTRY)
    known = inputs.parameters_of(REGISTRY[name])
    for size, value in (("num_classes", num_classes), ("embedding_dim", embedding_dim)):
        if size in known and value is not None:
            params[size] = value
        elif size in known and known[size].default is inspect.Parameter.empty:
            raise UsageError(f"loss {name!r} needs {size}")
    for parameter, value in params.items():
        if parameter not in known:
            own = [p for p in known if p not in ("num_classes", "embedding_dim")]
            raise UsageError(f"loss {name!r} has no parameter {parameter!r}: it takes {', '.join(own) or 'none'}")
        params[parameter] = inputs.check_parameter(name, parameter, value, known[parameter])
    try:
        loss = inputs.guard(REGISTRY[name](**params), params)
    except (TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:  # a size that none can have
        reason = str(error).partition("\n")[0]
        raise UsageError(f"loss {name!r} cannot be made with {params}: {reason}") from error
    loss.extra_repr = functools.partial(str, inputs.describe(known, params))
    return loss
