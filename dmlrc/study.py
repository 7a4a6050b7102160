"""The old name of `dmlrc.run`."""

from dmlrc.run import export, run  # noqa: F401
