"""dmlrc: a reproducibility study of deep metric learning.

The public interface: `dmlrc.losses`, `dmlrc.metrics`, `dmlrc.models`, `dmlrc.data`; studies are found by name in
`dmlrc.studies`, run by `dmlrc.run` and read by `dmlrc.records`. Nothing is imported before it is asked for.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("dmlrc")
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submodules=[
        *("data", "losses", "metrics", "models"),
        *("bench", "board", "comparison", "executors", "methods", "names", "papers", "paths", "plan", "preflight"),
        *("protocol", "records", "run", "studies", "study"),
    ],
)
