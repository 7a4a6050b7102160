"""Every study by name: those of this package, the reader's own of `studies.toml`, the experiments around them."""

from dmlrc.studies.catalogue import STUDIES, changed, get, known, own_studies

__all__ = ["STUDIES", "changed", "get", "known", "own_studies"]
