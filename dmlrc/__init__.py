"""dmlrc: a reproducibility study of deep metric learning.

The public interface: `dmlrc.losses`, `dmlrc.metrics`, `dmlrc.models`, `dmlrc.data`; studies are run by
`dmlrc.study` and read by `dmlrc.records`.
"""

from importlib.metadata import version

__version__ = version("dmlrc")
