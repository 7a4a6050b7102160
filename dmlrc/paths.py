"""Where things lie on disk: records being written, committed results, data, cached features."""

import os
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[1]


def home() -> Path:
    """The folder of the study: $DMLRC_HOME, else the checkout the package runs from, else here."""
    if "DMLRC_HOME" in os.environ:
        return Path(os.environ["DMLRC_HOME"])
    return _CHECKOUT if (_CHECKOUT / "pyproject.toml").exists() else Path.cwd()


def runs() -> Path:
    """Records of studies under way, one small file a trial or rerun: $DMLRC_RUNS or runs/."""
    return Path(os.environ.get("DMLRC_RUNS", home() / "runs"))


def results() -> Path:
    """Committed records of finished studies, Parquet: results/."""
    return home() / "results"
