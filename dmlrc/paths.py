"""Where things lie on disk: records being written, committed results, data, cached features."""

import os
from pathlib import Path

import platformdirs

_CHECKOUT = Path(__file__).resolve().parents[1]


def home() -> Path:
    """The folder of the study: $DMLRC_HOME, else the checkout the package runs from, else here."""
    if named := os.environ.get("DMLRC_HOME"):
        return Path(named).expanduser()
    return _CHECKOUT if (_CHECKOUT / "pyproject.toml").exists() else Path.cwd()


def runs() -> Path:
    """Records of studies under way, one small file a trial or rerun: $DMLRC_RUNS or runs/."""
    named = os.environ.get("DMLRC_RUNS")
    return Path(named).expanduser() if named else home() / "runs"


def results() -> Path:
    """Committed records of finished studies, Parquet: results/."""
    return home() / "results"


def cache() -> Path:
    """Decoded images, unpacked archives and features: $DMLRC_CACHE, else the user's cache folder of the platform."""
    named = os.environ.get("DMLRC_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("dmlrc", appauthor=False)
