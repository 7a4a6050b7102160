"""Trunks and the embedder: images -> features -> embeddings."""

from dmlrc.models.base import Trunk
from dmlrc.models.embedder import EmbeddingModel, FeatureTrunk, embed, freeze_batch_norm, l2_normalize
from dmlrc.models.partial import split
from dmlrc.models.trunks import create_trunk, has_weights, names
from dmlrc.models.weight_files import find as find_weights

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
    "split",
]
