"""Importing this reads all committed records: for the process from which the kernels of a book are forked.

Each chapter then finds them in the cache of `dmlrc.records.load`, instead of reading the same files again.
"""

from contextlib import suppress

from dmlrc import paths, records
from dmlrc.errors import DmlrcError

for meta in sorted(paths.results().glob("*/meta.json")):
    with suppress(DmlrcError):  # damaged ones are named in the chapter that reads them
        records.load(meta.parent.name)
