"""Trunks and the embedder: images -> features -> embeddings."""

from dmlrc.models.base import Trunk
from dmlrc.models.embedder import EmbeddingModel, FeatureTrunk, embed, freeze_batch_norm, l2_normalize
from dmlrc.models.trunks import create_trunk, find_weights, has_weights, names

__all__ = [
    "EmbeddingModel",
    "FeatureTrunk",
    "Trunk",
    "create_trunk",
    "embed",
    "find_weights",
    "freeze_batch_norm",
    "has_weights",
    "l2_normalize",
    "names",
]
