"""Every study by name: those of this package, the reader's own of `studies.toml`, the experiments around them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["exports", "own", "photos", "readiness", "recorded"],
    submod_attrs={
        "catalogue": ["STUDIES", "enter_changed", "get", "known", "own_studies"],
        "scoring": ["with_metrics"],  # which loads torch
    },
)
