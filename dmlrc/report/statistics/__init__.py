"""Every interval and test of the pages: simple estimates first (`estimates`, `resampling`), then what repeated searches
allow (`searches`, `differences`, `ranks`).
"""

# ruff: noqa: F401, what others use
from dmlrc.report.statistics.differences import contrast, equivalence, holm, pairs, pairwise, relative, satterthwaite
from dmlrc.report.statistics.estimates import (
    LEVEL,
    Estimate,
    correlation,
    expected_best,
    half_width,
    mean,
    median,
    of_groups,
    pearson,
    prediction_difference,
    rank_test,
    share,
    slope,
    to_ranks,
    welch,
    welch_half,
    welch_sum,
)
from dmlrc.report.statistics.ranks import (
    above_one,
    among_best,
    by_luck_of_seeds,
    numbered,
    range_of,
    rank_intervals,
    squares_within,
    summary,
)
from dmlrc.report.statistics.resampling import (
    RESAMPLES,
    SEED,
    bootstrap,
    discordant_pairs,
    expected_discordant_pairs,
    expected_range_under_null,
    over_classes,
    parametric_bootstrap,
    percentiles,
)
from dmlrc.report.statistics.searches import (
    Noise,
    as_array,
    by_seed,
    moderated,
    noise,
    of_methods,
    reruns_as_repetitions,
    search_to_seed,
    with_search_variance_from,
)
