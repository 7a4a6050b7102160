"""The parts of an experiment, and how much of a ranking each of them makes.

A part has levels: rates, folds, class orders, recipes. Changing it moves all methods together, which no ranking
notices, and against one another, of which a ranking is made: two standard deviations of MAP@R. The yardstick of the
second is how far the very losses that a part was varied with lie apart, on average over its levels. Each part is
divided by the mean of its own scores, since those of validation and test, of single and joined embeddings differ.
"""

import functools
import itertools
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
import pandas as pd
from scipy import stats

from dmlrc import studies
from dmlrc.methods import LEARNING_RATE
from dmlrc.records import PRETRAINED, StudyRecords, find
from dmlrc.report import common, editions, statistics, tables
from dmlrc.report import rates as rate_grids
from dmlrc.report.claims.rule import lower_than_untrained
from dmlrc.report.significance import measures as significance
from dmlrc.report.statistics import LEVEL, Estimate
from dmlrc.studies import experiments
from dmlrc.studies.catalogue import TOO_HIGH_A_RATE

METRIC = "map_at_r"
CHI = "chi-square interval of a variance"
WORDS = tomllib.loads((files(__package__) / "parts.toml").read_text(encoding="utf-8"))
FAMILIES, RECIPES, SWEEPS = (WORDS[name] for name in ("families", "recipes", "sweeps"))
TOO_HIGH, CHOSEN, SEARCHED = "too high", "chosen", "searched for each"
"""At which learning rate a methods table was made."""


@dataclass(frozen=True)
class Part:
    """Effect of one part of an experiment on the methods: standard deviations of MAP@R as fractions of its mean.

    levels, methods: how many were compared; on: "test" or "validation" classes; mean: of their scores. together: of all
    methods at once, NaN where a part, as luck, has no common level. against: of each method against the others, less
    the noise of search and seed where it is known. own: the yardstick, how far these methods lie apart, less noise too.
    """

    name: str
    levels: int
    methods: int
    on: str
    mean: float
    together: float
    against: Estimate
    own: Estimate

    @property
    def as_much(self) -> bool:
        """True if it moves its methods against one another at least as far as they lie apart."""
        return self.against.value >= self.own.value

    @property
    def clearly(self) -> bool:
        """True if it surely moves them further: its interval lies above that of the yardstick."""
        return self.against.low > self.own.high


@functools.lru_cache(maxsize=16)  # for the figure, the table and the text
def parts(records: StudyRecords) -> list[Part]:
    """All parts of which something is known; what moves the methods most against one another stands first."""
    one_each = (loss, search, seed, folds, class_order, test_classes, recipe)
    candidates = (*learning_rate(records), *sweeps(records), *(part(records) for part in one_each))
    present = [part for part in candidates if part is not None]
    return sorted(present, key=lambda part: -np.nan_to_num(part.against.value, nan=-1.0))


# The arithmetic


def two_way(table: pd.DataFrame, error: float = 0.0, of_rows: float = 0.0) -> tuple[float, Estimate, Estimate]:
    """A table of methods (rows) and levels (columns) as method + level + rest: SD of levels, of the rest, of methods.

    NaN cells are left out: least squares. error: the variance of a cell by noise, taken out of the rest and, divided by
    the cells of a row, of the methods. of_rows: that by noise which all cells of a row share, taken out of the methods.
    Intervals are those of a variance of normal values; NaN without df, and where levels have no methods in common.
    """
    known = table.dropna(how="all").dropna(how="all", axis="columns").to_numpy(float)
    places = np.nonzero(~np.isnan(known))
    cells, (rows, columns) = known[places], (np.eye(size)[at] for size, at in zip(known.shape, places, strict=True))
    design = np.hstack([rows, columns])
    fitted, _, rank, _ = np.linalg.lstsq(design, cells, rcond=None)
    together = float(np.std(fitted[rows.shape[1] :], ddof=1)) if columns.shape[1] > 1 else float("nan")
    df, count = len(cells) - rank, rows.shape[1]
    nothing = Estimate(np.nan, np.nan, np.nan, len(cells), how=CHI)
    if rank < sum(known.shape) - 1:  # of parts that share neither a row nor a column
        return float("nan"), nothing, nothing
    if not df:
        return together, nothing, nothing
    square = float(np.sum((cells - design @ fitted) ** 2))
    own = float(np.var(fitted[:count], ddof=1)), count - 1, of_rows + error * count / len(cells), count
    return together, _deviation(square / df, df, error, len(cells)), _deviation(*own)


def _deviation(variance: float, df: float, error: float, n: int) -> Estimate:
    """The square root of a mean square less the variance of noise in it, with the interval of the mean square."""
    quantiles = stats.chi2.ppf([(1 + LEVEL) / 2, (1 - LEVEL) / 2], df)
    ends = [variance, *(df * variance / quantiles)]
    return Estimate(*(float(np.sqrt(max(end - error, 0))) for end in ends), n, how=CHI)


@functools.lru_cache(maxsize=16)  # dozens of rules ask for the same
def _cell_error(records: StudyRecords, setting: str) -> float:
    """The variance by noise of a method's score; of seeds alone where searches were not repeated."""
    compared = significance.compare(records, metric=METRIC, setting=setting)
    return float(np.nan_to_num(np.nanmean(compared.summary["error"] ** 2)))


# The parts


def loss(records: StudyRecords) -> Part | None:
    """The methods themselves, at their best settings."""
    count, own = len(significance.means(records)), _spread(records)
    return None if count < 3 else _of_luck("loss", count, records, own)


def _spread(records: StudyRecords) -> Estimate:
    """The spread of the methods at their best settings: SD of joined MAP@R on test classes."""
    means = significance.means(records)
    if len(means) < 2:
        return Estimate(np.nan, np.nan, np.nan, len(means), how=CHI)
    error = _cell_error(records, significance.SETTING)
    return _deviation(float(means.var(ddof=1)), len(means) - 1, error, len(means))


def _of_luck(name: str, levels: int, records: StudyRecords, against: Estimate) -> Part:
    """A part without levels in common, of the methods at their best settings: of joined MAP@R on test classes."""
    means = significance.means(records)
    both = (estimate.divided_by(means.mean()) for estimate in (against, _spread(records)))
    return Part(name, levels, len(means), "test", means.mean(), np.nan, *both)


def learning_rate(records: StudyRecords) -> list[Part]:
    """The rate that all methods share: a factor of 3 to either side of the best, and the whole grid."""
    grid = rate_grids.grid_of(records)
    if grid is None:
        return []
    best = rate_grids.best_trials(grid).sort_index().T  # methods x rates
    grids, luck = [], np.nan_to_num(rate_grids.seed_luck(records))
    if (chosen := rate_grids.chosen_rate(grid)) is not None:
        place = list(best.columns).index(chosen)
        grids.append(("learning rate, a factor of 3 off", best.iloc[:, place - 1 : place + 2]))
    if best.shape[1] > 1:
        grids.append(("learning rate, the whole grid", best))
    squares = [(luck**2 * float((table.stack() ** 2).mean())) for _, table in grids]  # each cell is a single run
    return [_of_table(*named, "validation", error) for named, error in zip(grids, squares, strict=True)]


def _of_table(name: str, table: pd.DataFrame, on: str = "test", error: float = 0.0, of_rows: float = 0.0) -> Part:
    """The part that a table of methods (rows) and levels (columns) shows. error, of_rows: as in `two_way`."""
    mean, (together, *both) = float(table.stack().mean()), two_way(table, error, of_rows)
    return Part(name, table.shape[1], len(table), on, mean, together / mean, *(part.divided_by(mean) for part in both))


def sweeps(records: StudyRecords) -> list[Part]:
    """The parts that `SWEEPS` vary: each loss at each level, single models, about three reruns, seed noise taken out.

    A level counts if most losses were run at it, and a loss if it was run at all of these levels.
    """
    varied = []
    for name, experiment in SWEEPS.items():
        if (sweep := editions.experiment_of(records.name, experiment)) is None:
            continue
        scores = sweep.scores[(sweep.scores["metric"] == METRIC) & (sweep.scores["setting"] == "separated")]
        groups = scores.groupby(["row", "level"])["value"]
        cells, counts = groups.mean().unstack(), groups.size()
        cells = cells.loc[:, cells.notna().mean() > 0.5].dropna()
        if min(cells.shape) and cells.shape[1] > 1:
            error = float(np.nan_to_num((groups.var(ddof=1) / counts).mean()))
            varied.append(_of_table(name, cells, error=error))
    return varied


def search(records: StudyRecords) -> Part | None:
    """The noise of one search; None where no method was searched twice."""
    compared = significance.compare(records, metric=METRIC)
    if compared.luck != significance.OWN:
        return None
    known = compared.known
    against = _deviation(float(known.repetition), float(known.df), float(known.seed * known.share), int(known.df))
    return _of_luck("search", compared.runs["repetition"].nunique(), records, against)


def seed(records: StudyRecords) -> Part | None:
    """The noise of one training at the same setting."""
    runs = significance.scores(records)
    known = statistics.noise(statistics.as_array(runs)[1]) if len(runs) else None
    if known is None or not known.seed_df:
        return None
    against = _deviation(float(known.seed), float(known.seed_df), 0.0, int(known.seed_df))
    return _of_luck("seed", int(runs["rerun"].nunique()), records, against)


def folds(records: StudyRecords) -> Part | None:
    """The training classes: models of different folds, on the same test classes."""
    scores = records.scores[(records.scores["metric"] == METRIC) & records.scores["setting"].str.match(r"fold\d+$")]
    scores = scores[scores["method"] != PRETRAINED]
    if scores.empty:
        return None
    groups = scores.groupby(["method", "repetition", "setting"])["value"]
    cells = groups.mean().groupby(["method", "setting"]).mean().unstack()
    reruns = scores.groupby(["method", "setting"])["value"].size().mean()
    error = float(np.nan_to_num(groups.var(ddof=1).mean() / reruns))
    alone = significance.compare(records, metric=METRIC, setting="separated").known
    searched = float(np.nan_to_num(alone.search) / records.searches)  # the folds of a rerun share its search
    return _of_table("training classes (fold)", cells, error=error, of_rows=searched)


def class_order(records: StudyRecords) -> Part | None:
    """The split into training and test classes: random orders of them, without the data set's own; equal settings."""
    means = {
        name: significance.scores(study, METRIC, "separated").groupby("method")["value"].mean()
        for name, study in experiments.class_orders(records.name).items()
        if study.meta["class_order"] == "random"
    }
    table = pd.DataFrame(means)
    return None if table.shape[1] < 2 or table.empty else _of_table("one random split or another", table)


def test_classes(records: StudyRecords) -> Part | None:
    """The choice of test classes: resamples of them, the same ones for all methods."""
    scored = significance.scores_by_class(records)
    if scored is None or scored[0].shape[1] < 2:
        return None
    drawn = statistics.over_classes(*scored)  # (draws, methods)
    common = drawn.mean(axis=1)
    own = drawn.sub(common, axis=0)
    methods, count = own.shape[1], len(scored[0])
    variance = float((own.std() ** 2).mean()) * methods / (methods - 1)  # less their mean, they vary less
    mean, against = float(common.mean()), _deviation(variance, count - 1, 0.0, count)
    both = (estimate.divided_by(mean) for estimate in (against, _spread(records)))
    return Part("test classes", count, drawn.shape[1], "test", mean, float(common.std()) / mean, *both)


def recipe(records: StudyRecords) -> Part | None:
    """The training recipe: the same losses in the papers' own recipes, on the same data and trunk; single models.

    A loss counts where at least two recipes train it. Left out: a row of another embedding size than the others of its
    recipe, an ensemble, and a row below its own untrained start. `recipe_rules` has what other rules would give.
    """
    return _of_recipes(records, _recipes(_trained_alike(records)))


RECIPE_RULE = {"sizes": "one", "below": "out", "without": "none", "fewest": 2}
"""The row of `recipe_rules` that is `recipe`."""


@functools.lru_cache(maxsize=16)
def recipe_rules(records: StudyRecords) -> pd.DataFrame:
    """`recipe` by every choice of who is compared: a row a choice of which something is known.

    Columns: sizes ("one", "any": ensembles too), below ("out", "in": rows below their own untrained start), without (a
    paper, or "none"), fewest (recipes that a loss needs), losses, against and own (fractions, of `Part`), clearly.
    """
    frame, rows = _trained_alike(records), []
    papers = ("none", *frame["recipe"].unique())
    for choice in itertools.product(("one", "any"), ("out", "in"), papers, (2, 3)):
        sizes, below, without, fewest = choice
        kept = (frame["usual"] | (sizes == "any")) & (~frame["low"] | (below == "in")) & (frame["recipe"] != without)
        if (part := _of_recipes(records, _recipes(frame, kept), fewest)) is not None:
            rows.append((*choice, part.methods, part.against.value, part.own.value, part.clearly))
    columns = ["sizes", "below", "without", "fewest", "losses", "against", "own", "clearly"]
    return pd.DataFrame(rows, columns=columns).dropna(subset="against")


def _recipes(frame: pd.DataFrame, kept: pd.Series | None = None) -> pd.DataFrame:
    """The mean score of FAMILIES (rows) by paper (columns). frame: `_trained_alike`; kept: rows, default `recipe`'s."""
    chosen = frame[frame["usual"] & ~frame["low"] if kept is None else kept]
    return chosen.groupby(["family", "recipe"])["value"].mean().unstack()


def _of_recipes(records: StudyRecords, table: pd.DataFrame, fewest: int = 2) -> Part | None:
    table = table[table.notna().sum(axis=1) >= fewest].dropna(axis="columns", how="all")
    if table.shape[1] < 2 or len(table) < 2:
        return None
    return _of_table("training recipe", table, error=_cell_error(records, "separated"))


def _trained_alike(records: StudyRecords) -> pd.DataFrame:
    """The rows of all recipes that train one of FAMILIES: recipe, family, value (single models), low, usual.

    low: it ends below an untrained layer of its size. usual: a single model of the recipe's most common embedding size.
    """
    frames = {"Musgrave et al.": _families(records)}
    for title, of in RECIPES.items():
        if (around := editions.experiment_of(records.name, of["experiment"])) is not None:
            frames[title] = _families(around, of.get("level"))
    return pd.concat(frames, names=["recipe", "method"]).reset_index()


def _families(records: StudyRecords, level: str | None = None) -> pd.DataFrame:
    """The methods that a study trains with one of FAMILIES, at this level of a sweep: see `_trained_alike`."""
    means = significance.scores(records, METRIC, "separated").groupby("method")["value"].mean()
    lower, losses = lower_than_untrained(records).reset_index(), _losses(records, level)
    known = {loss: family for family, of_family in FAMILIES.items() for loss in of_family}
    families = {method: known[losses[method]] for method in means.index if losses.get(method) in known}
    names = list(families)
    columns = {
        "family": list(families.values()),
        "value": means.reindex(names).to_numpy(),
        "low": np.isin(names, lower["method"][lower["start"] & (lower["setting"] == "separated")]),
        "usual": np.isin(names, _of_one_size(records, names)),
    }
    return pd.DataFrame(columns, index=names)


def _of_one_size(records: StudyRecords, methods: Collection[str]) -> list[str]:
    """The methods among these that are single models of the most common embedding size."""
    settings = {method: common.protocol_of(records, method) for method in methods}
    sizes = {name: setting["embedding_dim"] for name, setting in settings.items() if setting.get("members", 1) == 1}
    usual = max(sizes.values(), key=list(sizes.values()).count, default=None)
    return [name for name, size in sizes.items() if size == usual]


def _losses(records: StudyRecords, level: str | None) -> Mapping[str, str]:
    """The loss of every method of a recorded study, at this level of a sweep, as the catalogue has it."""
    known = studies.known().get(records.name)
    return {method.name: method.loss for method in known.methods if method.level == level} if known else {}


# Rates on the test classes


@dataclass(frozen=True)
class AtRates:
    """A methods table made again at other learning rates, each time with searches of its own.

    by_rate: CHOSEN and TOO_HIGH or SEARCHED or both -> records. compared: the same -> the methods that have finished
    there and at another rate, by concatenated test MAP@R. untrained: the score of the trunk, or NaN.
    """

    by_rate: Mapping[str, StudyRecords]
    compared: Mapping[str, significance.Comparison]
    untrained: float

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Fractions: a row a method, NaN where it was not run at a rate; below each rate columns of a `summary`."""
        columns = ["mean", "error", "df", "low", "high", "rank_low", "rank_high", "among_best"]
        parts = {which: compared.summary[columns] for which, compared in self.compared.items()}
        methods = dict.fromkeys(name for part in parts.values() for name in part.index)
        return pd.concat(parts, axis=1).reindex(tables.ordered(methods))

    @property
    def means(self) -> pd.DataFrame:
        return self.scores.xs("mean", axis=1, level=1).astype(float)

    def beside(self, which: str) -> pd.DataFrame:
        """The means at a rate and at the chosen one, of the methods that were run at both."""
        return self.means[[which, CHOSEN]].dropna()

    @property
    def everywhere(self) -> list[str]:
        """The methods that were run at every rate."""
        return list(self.means.dropna().index)

    def rate(self, which: str) -> float:
        """The rate that all methods share."""
        return self.by_rate[which].meta["protocol"]["lr"]

    def moved(self, which: str) -> tuple[int, int]:
        """Pairs of methods whose difference is another one than at the chosen rate, and of how many pairs.

        By t tests, corrected by Holm, with no more degrees of freedom than the fewer of the two rates'.
        """
        both = self.scores.loc[self.beside(which).index]
        there, here = both[which], both[CHOSEN]
        parts, own = (np.stack([there[column], here[column]], axis=-1).astype(float) for column in ("error", "df"))
        most = min(self.compared[rate].known.df for rate in (which, CHOSEN))
        gained, df = (here["mean"] - there["mean"]).to_numpy(float), statistics.satterthwaite(parts**2, own, most)
        *_, p = statistics.pairwise(gained, (parts**2).sum(-1), df, most)
        return int((statistics.holm(p) < significance.ALPHA).sum()), len(p)

    def rates_found(self) -> pd.Series:
        """The rate of the best trial of each search, by method and repetition, where rates were searched."""
        trials = self.by_rate[SEARCHED].trials
        trials = trials[trials["method"].isin(self.compared[SEARCHED].methods) & trials["value"].notna()]
        searches = ["method", "repetition"]
        best = trials.loc[trials.groupby(searches)["value"].idxmax()].set_index(searches)
        return best["params"].map(lambda params: params[LEARNING_RATE])


def at_rates(records: StudyRecords) -> AtRates | None:
    """The test scores of a study at other rates; None where no other rate was run with at least two of its methods.

    A study under way counts with the methods that have finished. A study searched once borrows the noise of search from
    the others; one that searched rates neither borrows nor lends, since searches of another space scatter otherwise.
    """
    candidates = {
        TOO_HIGH: find(TOO_HIGH_A_RATE[records.name]) if records.name in TOO_HIGH_A_RATE else None,
        CHOSEN: records,
        SEARCHED: editions.with_searched_rates(records.name),
    }
    methods = {which: set(significance.means(study).index) for which, study in candidates.items() if study is not None}
    common = {which: names & methods[CHOSEN] for which, names in methods.items() if which != CHOSEN}
    common = {which: names for which, names in common.items() if len(names) > 1}
    if not common:
        return None
    common[CHOSEN] = set.union(*common.values())
    by_rate = {which: candidates[which] for which in candidates if which in common}
    lenders = [study for which, study in by_rate.items() if which != SEARCHED]
    compared = {
        which: significance.compare(study, [] if which == SEARCHED else lenders).only(common[which])
        for which, study in by_rate.items()
    }
    return AtRates(by_rate, compared, tables.mean_of(tables.accuracy(records), PRETRAINED, METRIC))


def conclusions_by_rate(at: AtRates) -> pd.DataFrame:
    """The conclusions on the methods at each rate (rows), from those that were run at every one; empty without three.

    Columns: spread (worst to best, a fraction), one per loss of 2006 (the mean lead of the newer ones over it, an
    `Estimate`), differ (pairs, by Holm's correction) and pairs.
    """
    methods = at.everywhere
    newer = [name for name in methods if name not in tables.CLASSICS]
    classics = [name for name in tables.CLASSICS if name in methods]
    if not newer or not classics or len(methods) < 3:
        return pd.DataFrame()
    rows = {}
    for which, compared in at.compared.items():
        part = compared.only(methods)
        mean = dict.fromkeys(newer, 1 / len(newer))
        gains = {base: statistics.contrast(part.runs, mean | {base: -1}, part.known) for base in classics}
        differ = int((part.pairs["holm"] < significance.ALPHA).sum())
        rows[which] = {"spread": np.ptp(part.summary["mean"]), **gains, "differ": differ, "pairs": len(part.pairs)}
    return pd.DataFrame.from_dict(rows, orient="index")
