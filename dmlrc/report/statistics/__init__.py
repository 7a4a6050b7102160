"""Every interval and test of the pages: simple estimates first (`estimates`, `resampling`), then what repeated searches
allow (`searches`, `differences`, `ranks`).
"""

# what others use, as short as it can be
# ruff: noqa: F401, I001
# fmt: off
from dmlrc.report.statistics.differences import contrast, equivalence, holm, pairs, pairwise, relative, satterthwaite
from dmlrc.report.statistics.estimates import LEVEL, Estimate, correlation, expected_best, half_width, mean, median
from dmlrc.report.statistics.estimates import of_groups, pearson, prediction_difference, rank_test, share, slope
from dmlrc.report.statistics.estimates import to_ranks, welch, welch_half, welch_sum
from dmlrc.report.statistics.ranks import above_one, among_best, by_luck_of_seeds, numbered, range_of, rank_intervals
from dmlrc.report.statistics.ranks import squares_within, summary
from dmlrc.report.statistics.resampling import RESAMPLES, SEED, bootstrap, discordant_pairs, expected_discordant_pairs
from dmlrc.report.statistics.resampling import expected_range_under_null, over_classes, parametric_bootstrap
from dmlrc.report.statistics.resampling import percentiles
from dmlrc.report.statistics.searches import Noise, as_array, by_seed, moderated, noise, of_methods
from dmlrc.report.statistics.searches import reruns_as_repetitions, search_to_seed, with_search_variance_from
