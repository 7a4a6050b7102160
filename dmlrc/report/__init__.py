"""Records in, pages out: tables, figures, statistics and verdicts. The library never imports it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["build", "console", "editions", "labels", "photos", "planning", "ranking"]
)
