"""What the five papers claim, and what our records say to it: each claim is a number, an interval and a verdict.

The claims are data, one TOML file a paper (`claim`); the statistics that they name are functions (`named`). The rule
(`rule`), the same for every claim, was written down before any verdict was computed, but for what it says of rows below
their untrained start; the chapter on claims names what was settled later:

Each claim names a statistic, and a region in which it lies if the claim is true: above a limit, below one, or nearer to
0 than one. The statistic comes with a 95 % interval: of search and seed where searches were repeated, else Welch's
over the reruns, which knows seeds only; Student's t over rows; Fisher's z for correlations; a seeded bootstrap where
there is no closed form. Every claim says which.

- reproduced: the whole interval lies in the region.
- not reproduced: the whole interval lies outside it.
- inconclusive: the interval crosses the limit; or it rests on fewer than 3 reruns, rows or seeds; or the records are
  not finished or not of the full budget; or more than half of the rows behind it are worse than their untrained start
  (`dmlrc.report.starts`); or no result on this data could have been outside the region.
- not run: there are no records to compute it from.

A claim that our records cannot test is retracted: it stays listed, with the reason, and gets no verdict.

A verdict holds for the data set, the trunk and the protocol of its study, and the interval covers only what its units
vary. With this many claims some intervals miss by chance: one in twenty, were each to stand at the edge.
"""

from dmlrc.report.claims.claim import CLAIMS
from dmlrc.report.claims.page import CAPTION, MARKED, SECTIONS, by_paper, overview, table, unsettled
from dmlrc.report.claims.rule import REPRODUCED, RETRACTED, VERDICTS
from dmlrc.report.claims.verdicts import (
    WITHOUT_RECORDS,
    Judged,
    counts,
    judge,
    judged,
    judged_claims,
    numbers,
    of_section,
)

__all__ = [
    "CAPTION",
    "CLAIMS",
    "MARKED",
    "REPRODUCED",
    "RETRACTED",
    "SECTIONS",
    "VERDICTS",
    "WITHOUT_RECORDS",
    "Judged",
    "by_paper",
    "counts",
    "judge",
    "judged",
    "judged_claims",
    "numbers",
    "of_section",
    "overview",
    "table",
    "unsettled",
]
