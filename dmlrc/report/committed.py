"""Importing this reads the committed records: for the process from which those of a book's chapters are forked.

Each chapter finds them in the cache of `dmlrc.records.load`, and what the page of each loss asks of all: accuracy,
verdicts, grids of rates. What stands around a first run that gave way is left to the one chapter that may ask for it.
"""

import gc
from contextlib import ExitStack, suppress

import matplotlib.pyplot as plt
import pandas as pd

from dmlrc import paths, records
from dmlrc.errors import DmlrcError
from dmlrc.report import about, claims, editions, rates, style, svg, tables
from dmlrc.report.after2019 import page as after2019
from dmlrc.report.hypotheses import whole
from dmlrc.studies import catalogue
from dmlrc.studies.catalogue import TOO_HIGH_A_RATE

pd.set_option("mode.string_storage", "python")  # of many small frames Arrow's texts take a fifth longer
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
            records.load(name)
with suppress(DmlrcError):
    edition = editions.load_edition(editions.PUBLISHED)
    claims.judge_all(edition)
    rates.recorded_grids(edition)
    whole.judged_networks()
    for study in (*edition, *after2019.with_later_losses(edition).values(), *editions.tables_beside(edition)):
        tables.accuracy(study), tables.cut_off(study), tables.cost(study), about.row(study)

with plt.rc_context():  # what is slow once is over: fonts, the parser of formulas, templates; 0.1 s a process
    svg.to_svg(style.canvas(1, subplot_kw={"xscale": "log"})[0], "")
    plt.close()
    pd.DataFrame([0]).to_html(), pd.DataFrame([0]).style.to_latex()
records.provenance.commit()  # asks Git

gc.freeze()  # a collection in a process would touch all that is read here, and so copy it: 0.4 s each
gc.set_threshold(100_000, 50, 100)  # pages make little garbage, and the search for it took 4 % of their time
gc.enable()
