"""The claims of the five papers, tested on our records: each claim gets a number, an interval and a verdict.

The claims are data, one TOML file a paper (`claim`); the statistics that they name are functions (`named`). The rule
(`rule`), the same for all, was written down before any verdict, but for what `rules.toml` dates. A verdict holds for
the data set, trunk and protocol of its study, and the interval covers only what its units vary.
"""

# ruff: noqa: F401, what chapters use
from dmlrc.report.claims.claim import CLAIMS
from dmlrc.report.claims.page import CAPTION, MARKED, SECTIONS, by_paper, claims_overview, details, rules
from dmlrc.report.claims.rule import REPRODUCED, RETRACTED, VERDICTS
from dmlrc.report.claims.verdicts import WITHOUT_RECORDS, Judged, judge_all, judged_claims, numbers, of_section, tally
