"""Importing this reads the committed records: for the process from which the kernels of a book are forked.

Each chapter then finds them in the cache of `dmlrc.records.load`, instead of reading the same files again, and so it is
with their accuracy, which the page of each loss asks of all, and with the verdicts on the claims. What stands around a
first run that gave way is left to the one chapter that may ask for it.
"""

import gc
from contextlib import ExitStack, suppress

from dmlrc import paths, records
from dmlrc.errors import DmlrcError
from dmlrc.report import claims, editions, tables
from dmlrc.studies import catalogue
from dmlrc.studies.catalogue import TOO_HIGH_A_RATE

_for_good = ExitStack()
_for_good.enter_context(records.shared())
_replaced: set[str] = set()
with suppress(DmlrcError):  # damaged ones are named in the chapter that reads them
    _published = records.published()
    _replaced = {first for main, first in TOO_HIGH_A_RATE.items() if main in _published}
_around = {study.name for study in catalogue.known().values() if study.parent in _replaced}

for name in records.recorded_in(paths.results()):
    if name not in _around:
        with suppress(DmlrcError):
            study = records.load(name)
            tables.accuracy(study)
with suppress(DmlrcError):
    claims.judge_all(editions.load_edition(editions.PUBLISHED))

gc.collect()
gc.freeze()  # a collection in a kernel would touch all that is read here, and so copy it: 0.4 s each
