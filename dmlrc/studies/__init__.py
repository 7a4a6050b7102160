"""Every study by name: those of this package, the reader's own of `studies.toml`, the experiments around them."""

from dmlrc.studies.catalogue import STUDIES, get, known, own_studies

__all__ = ["STUDIES", "get", "known", "own_studies"]
