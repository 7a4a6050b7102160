"""Records in, pages out: tables, figures, statistics and verdicts. The library never imports it."""

import lazy_loader
import pandas as pd

pd.set_option("mode.string_storage", "python")  # of many small frames Arrow's texts take a fifth longer
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["build", "console", "editions", "labels", "photos", "planning", "ranking"]
)
