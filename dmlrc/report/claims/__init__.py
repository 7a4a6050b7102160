"""The claims of the five papers, tested on our records: each claim gets a number, an interval and a verdict.

The claims are data, one TOML file a paper (`claim`); the statistics that they name are functions (`named`). The rule
(`rule`), the same for every claim, was written down before any verdict was computed, but for what it says of rows below
their untrained start; the chapter on claims names what was settled later. A verdict holds for the data set, the trunk
and the protocol of its study, and the interval covers only what its units vary. With this many claims some intervals
miss by chance: one in twenty, were each to stand at the edge.
"""

# ruff: noqa: F401, what chapters use
from dmlrc.report.claims.claim import CLAIMS
from dmlrc.report.claims.page import CAPTION, MARKED, SECTIONS, by_paper, claims_overview, details, rules
from dmlrc.report.claims.rule import REPRODUCED, RETRACTED, VERDICTS
from dmlrc.report.claims.verdicts import WITHOUT_RECORDS, Judged, judge_all, judged_claims, numbers, of_section, tally
