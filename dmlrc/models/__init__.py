"""Trunks and the embedder: images -> features -> embeddings. Nothing is imported before it is asked for."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["from_timm", "saved"],
    submod_attrs={
        "base": ["Trunk"],
        "embedder": ["EmbeddingModel", "FeatureTrunk", "embed", "freeze_batch_norm", "l2_normalize"],
        "files": ["find_weights", "has_weights", "names", "to_bring", "weights_digest"],
        "partial": ["split_trunk"],
        "saved": ["RetrievalModel", "load"],
        "trunks": ["create_trunk", "fixed_trunk"],
    },
)
