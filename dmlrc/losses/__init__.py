"""Metric-learning losses: every one is `loss(embeddings, labels) -> scalar`.

`names()` lists them, `create(name, ...)` makes one. Hyperparameters are keyword arguments, named as in
pytorch-metric-learning. A loss with learnable weights (proxies, class weights, a learnt boundary) is a
module whose `parameters()` are those weights. Where `loss.normalized` is False, the embeddings come as
the embedder gives them; otherwise they are L2-normalised.
"""

import inspect

from torch import nn

from dmlrc.errors import UsageError, unknown
from dmlrc.losses.contrastive import Contrastive
from dmlrc.losses.fast_ap import FastAP
from dmlrc.losses.margin import Margin, MarginPerClass
from dmlrc.losses.multi_similarity import MultiSimilarity, MultiSimilarityMiner
from dmlrc.losses.ntxent import NTXent
from dmlrc.losses.proxy_nca import ProxyNCA
from dmlrc.losses.snr import SNR
from dmlrc.losses.soft_triple import SoftTriple
from dmlrc.losses.softmax import ArcFace, CosFace, NormalizedSoftmax
from dmlrc.losses.triplet import Triplet

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
}


def names() -> list[str]:
    """The name of every method's loss, in the order of the registry."""
    return list(REGISTRY)


def create(name: str, *, num_classes: int | None = None, embedding_dim: int | None = None, **params) -> nn.Module:
    """Make the loss of a method.

    name: one of `names()`. num_classes and embedding_dim: needed by the losses that own class weights.
    params: the loss's hyperparameters; an unknown one is an error that lists the known ones.
    """
    if name not in REGISTRY:
        raise unknown("loss", name, REGISTRY)
    cls = REGISTRY[name]
    known = inspect.signature(cls).parameters
    for parameter in params:
        if parameter not in known:
            own = [p for p in known if p not in ("num_classes", "embedding_dim")]
            raise UsageError(f"loss {name!r} has no parameter {parameter!r}: it takes {', '.join(own) or 'none'}")
    for parameter, value in (("num_classes", num_classes), ("embedding_dim", embedding_dim)):
        if parameter in known:
            if value is None and known[parameter].default is inspect.Parameter.empty:
                raise UsageError(f"loss {name!r} needs {parameter}")
            if value is not None:
                params[parameter] = value
    return cls(**params)
