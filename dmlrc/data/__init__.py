"""Images and their classes, class-disjoint splits, batches, augmentation. Nothing is imported before it is asked for.

>>> images = load("glyphs")
>>> images.images.shape[1:], images.images.dtype.name
((1, 28, 28), 'uint8')
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["augment", "batches", "splits"],
    submod_attrs={
        "available": ["extent", "folder_name", "names", "state"],
        "download": ["check", "fetch"],
        "features": ["FeatureSet"],
        "identity": ["contents", "set_digests"],
        "listing": ["ImageSet"],
        "loading": ["load"],
    },
)
