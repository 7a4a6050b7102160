"""What the chapters of other papers share: an experiment's numbers over its seeds, and how they stand beside a paper's.

`ByStudy` is what a chapter has of one experiment: main study -> its records, or None where nothing of it was run.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from dmlrc import studies
from dmlrc.records import StudyRecords
from dmlrc.report import claims, labels, publish, statistics, tables
from dmlrc.report.claims.figures import forest as draw_forest
from dmlrc.report.statistics import Estimate, of_groups
from dmlrc.studies.adapted import WHOLE_IMAGES

ByStudy = Mapping[str, StudyRecords | None]

RECALL = re.compile(r"recall_at_(\d+)")
DAGGER, DOUBLE_DAGGER = "†", "‡"


def present(by_study: ByStudy) -> dict[str, StudyRecords]:
    """Those main studies around which the experiment was run."""
    return {name: records for name, records in by_study.items() if records is not None}


# Numbers over the seeds


def seeds(records: StudyRecords) -> pd.DataFrame:
    """Every test score: method, row, value, rerun, setting, metric, score (fraction).

    row, value: of a sweep's method, see `dmlrc.methods.Method`; value is "" elsewhere. Scores that are not finite are
    left out.
    """
    scores = records.scores.assign(level=levels(records)).rename(columns={"value": "score", "level": "value"})
    return scores.dropna(subset=["score"]).fillna({"value": ""})


def levels(records: StudyRecords) -> pd.Series:
    """The level of each row of `records.scores`, that of whole images by the pixels that they have in this study."""
    return records.scores["level"].replace({WHOLE_IMAGES: f"{records.meta['protocol']['crop_size']}px"})


def over_seeds(records: StudyRecords) -> pd.DataFrame:
    """Test scores over the reruns: method, row, value, setting, metric, mean, ci95, n.

    ci95: half width of the 95 % interval of Student's t, NaN for a single rerun.
    """
    groups = seeds(records).groupby(["method", "row", "value", "setting", "metric"], sort=False)["score"]
    return of_groups(groups).reset_index()


def state(records: StudyRecords | None, method: str) -> str:
    """Why a method has no scores, as printed: "not run", "diverged", "failed", "unfinished"; "" where it has some."""
    if records is None:
        return "not run"
    if (records.scores["method"] == method).any():
        return ""
    frames = (records.runs, records.trials, records.reruns)
    states = pd.concat([frame["state"][frame["method"] == method] for frame in frames])
    if states.empty:
        return "not run"
    return next((state for state in tables.NO_RESULT if (states == state).any()), "unfinished")


def without_result(records: StudyRecords) -> list[str]:
    """The methods of which at least one rerun has no result, as printed, with the count: "Margin, dim16 (1 of 3)"."""
    study = studies.known().get(records.name)
    known = {method.name: method.label for method in study.methods} if study else {}
    reruns = records.reruns
    failed = reruns["state"].isin(tables.NO_RESULT).groupby(reruns["method"], sort=False).agg(["sum", "size"])
    return [
        f"{known.get(each.Index, each.Index)} ({each.sum} of {each.size})" for each in failed.itertuples() if each.sum
    ]


def settings(records: StudyRecords, method: str) -> dict:
    """The protocol as a method of these records ran under it."""
    return {**records.meta["protocol"], **records.meta.get("changes", {}).get(method, {})}


def difference(scores: pd.DataFrame, first: str, second: str) -> Estimate:
    """Difference of the means of two methods, with Welch's interval over their reruns: they are no pairs.

    scores: `seeds` of one setting and metric.
    """
    one, other = (scores["score"][scores["method"] == name] for name in (first, second))
    return statistics.welch(one, other, "reruns")


def doublings(scores: pd.DataFrame) -> pd.DataFrame:
    """How much a score rises when a sweep's number doubles, indexed by row: mean, ci95, n.

    scores: `seeds` of one setting and metric. The least-squares slope over log2 of the number in `value`, for each
    rerun; then mean and 95 % interval over the reruns. Reruns with fewer than two numbers are left out, and so are
    rows of no sweep, as the pretrained trunk.
    """
    scores = scores[scores["value"] != ""]
    x = np.log2(scores["level_number"])
    rows = {}
    for (row, _), part in scores.groupby(["row", "rerun"]):
        if part["value"].nunique() > 1:
            rows.setdefault(row, []).append(statistics.slope(x[part.index], part["score"]).value)
    means = {row: statistics.mean(slopes, "reruns") for row, slopes in rows.items()}
    cells = {row: (each.value, each.half, each.n) for row, each in means.items()}
    return pd.DataFrame.from_dict(cells, orient="index", columns=["mean", "ci95", "n"])


# Words


def percents(frame: pd.DataFrame) -> pd.Series:
    """The columns mean and ci95 in percent with a digit, as printed."""
    pairs = frame[["mean", "ci95"]].to_numpy()
    return pd.Series([labels.percent(*pair, digits=1) for pair in pairs], frame.index, dtype=object)


def metric_label(metric: str) -> str:
    """A metric as these papers print it: precision_at_1 is R@1.

    >>> metric_label("precision_at_1"), metric_label("recall_at_16"), metric_label("nmi")
    ('R@1', 'R@16', 'NMI')
    """
    if metric == "precision_at_1":
        return "R@1"
    recall = RECALL.fullmatch(metric)
    return f"R@{recall[1]}" if recall else labels.METRIC_LABELS.get(metric, metric)


def points(mean: float, ci95: float = np.nan, scale: float = 100, digits: int = 1) -> str:
    """A difference in percentage points (or times another scale), with its interval.

    >>> points(0.0123, 0.004), points(-0.002), points(float("nan"))
    ('+1.2 ± 0.4', '-0.2', '–')
    """
    if np.isnan(mean):
        return "–"
    return f"{scale * mean:+.{digits}f}" + ("" if np.isnan(ci95) else f" ± {scale * ci95:.{digits}f}")


def judged(found: Estimate | float, rises: bool = True, scale: float = 100, digits: int = 1) -> str:
    """A difference and whether it has the sign that a paper claims: "yes" or "no", or the interval if 0 lies in it.

    found: an estimate of ours, or a number of a paper, which has no interval. rises: the sign that is claimed.

    >>> judged(Estimate.around(0.02, 0.01, 5)), judged(Estimate.around(0.005, 0.01, 5)), judged(0.02, rises=False)
    ('yes: +2.0 ± 1.0', 'between -0.5 and +1.5', 'no: +2.0')
    >>> judged(Estimate.around(0.02, float("nan"), 1)), judged(-0.5, scale=1, digits=3), judged(float("nan"))
    ('one seed: +2.0', 'no: -0.500', '–')
    """
    if not isinstance(found, Estimate):
        found = Estimate(found, np.nan, np.nan, 0)
    if np.isnan(found.value):
        return "–"
    if found.n == 1:
        return f"one seed: {points(found.value, scale=scale, digits=digits)}"
    if abs(found.value) <= found.half:
        ends = (points(found.value + half, scale=scale, digits=digits) for half in (-found.half, found.half))
        return f"between {' and '.join(ends)}"
    right = found.value != 0 and (found.value > 0) == rises
    return f"{'yes' if right else 'no'}: {points(found.value, found.half, scale, digits)}"


def place(values: pd.Series, name: str) -> str:
    """Where a name stands among these values, counted from the highest; equals share a place.

    >>> values = pd.Series({"a": 0.5, "b": 0.5, "c": 0.3})
    >>> place(values, "b"), place(values, "c"), place(values, "d")
    ('1 of 3', '3 of 3', 'not among them')
    """
    values = values.dropna()
    if name not in values.index:
        return NOT_AMONG
    return f"{(values > values[name]).sum() + 1} of {len(values)}"


NOT_AMONG = "not among them"


class Ranks(NamedTuple):
    """Which ranks a row of ours may have, counted from the best, by the luck of seeds."""

    low: float
    high: float
    of: int

    def text(self, between: str = " to ") -> str:
        """As printed: "2 to 4 of 7". between: what stands between the two ranks."""
        return f"{labels.places(self.low, self.high, between=between)} of {self.of}"


def ranks(rows: pd.DataFrame, name: str) -> Ranks | None:
    """The ranks of a name among these rows; None where it has no result. rows: mean, ci95 and n, as `column`."""
    told = statistics.by_luck_of_seeds(rows)
    if name not in told.index or math.isnan(told["rank_low"][name]):
        return None
    return Ranks(*told.loc[name, ["rank_low", "rank_high"]], rows["mean"].notna().sum())


def ranks_text(found: Ranks | None, between: str = " to ") -> str:
    """`Ranks.text`, or that a row is not among the others."""
    return found.text(between) if found else NOT_AMONG


def column(
    rows: pd.DataFrame, untrained: float = math.nan, beside: Collection = (), ranks: bool = True
) -> tuple[pd.Series, pd.Series]:
    """The cells of a column of ours, and their marks: mean and interval, the ranks that a row may have in brackets.

    rows: mean, ci95 and n, as `over_seeds`. untrained: what is lower has a sign. beside: rows that do not compete.
    ranks: False leaves the brackets out, as in all columns of a table but its first.
    """
    competing = rows.drop(index=list(beside), errors="ignore")
    told = statistics.by_luck_of_seeds(competing)
    texts = percents(rows)
    if ranks and len(competing) > 1:
        texts = texts.add(brackets(told).reindex(rows.index, fill_value=""))
    return labels.against_untrained(texts, rows["mean"], untrained), marks(competing["mean"], told["among_best"])


def brackets(told: pd.DataFrame) -> pd.Series:
    """The ranks of `statistics.by_luck_of_seeds` as they stand behind a mean."""
    return pd.Series(map(labels.brackets, told["rank_low"], told["rank_high"]), told.index, dtype=object)


def highest(values: pd.Series) -> pd.Series:
    """For each value "best" for the highest, or "": the marks of a column of a paper, whose luck is not known."""
    return marks(values, pd.Series(False, values.index))


def marks(values: pd.Series, ties: pd.Series) -> pd.Series:
    """For each value "best" for the highest, "tie" where `ties` says so, or ""."""
    result = pd.Series("", index=values.index)
    result[ties.reindex(values.index).astype(bool)] = "tie"
    if values.notna().any():
        result[values.idxmax()] = "best"
    return result


ABSENT = ("not run", "not run here", "not run yet", "–")


def recorded(cells: pd.DataFrame, marks: pd.DataFrame | None = None) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """A table and its marks without columns that hold no number: the caption says what was not run. Never without any.

    >>> cells = pd.DataFrame({("ours", "R@1"): ["50.0", "not run"], ("other", "R@1"): ["not run", "–"]})
    >>> list(recorded(cells)[0])
    [('ours', 'R@1')]
    """
    kept = list(cells.columns[~cells.isin(ABSENT).all()]) or list(cells.columns)
    return cells[kept], None if marks is None else marks[kept]


def of_metrics(cells: pd.DataFrame, marks: pd.DataFrame, *metrics: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`recorded`, of the columns of these metrics alone, and of those that are of no metric; the CSV has the others.

    >>> heads = pd.MultiIndex.from_product([["a"], ["dim", "R@1", "R@2"]])
    >>> cells = pd.DataFrame([["512", "50.0", "70.0"]], columns=heads)
    >>> list(of_metrics(cells, cells, "R@1")[0])
    [('a', 'dim'), ('a', 'R@1')]
    """
    known = {"NMI", *(name for name in cells.columns.get_level_values(-1) if name.startswith("R@"))}
    kept = [column for column in cells.columns if column[-1] in metrics or column[-1] not in known]
    return recorded(cells[kept], marks[kept])


def doubling_axis(axis: Axes, ticks: Iterable[float], **text) -> None:
    """A horizontal axis on which a doubling is a step, with a tick at each of these numbers."""
    ticks = sorted(set(ticks))
    axis.set_xscale("log", base=2)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], **text)


# What stands under and in place of an exhibit


def captions(by_study: ByStudy) -> str:
    """What stands under the numbers of every study: `labels.captions`, and where it was not run."""
    absent = labels.listed(f"`{name}`" for name in by_study if by_study[name] is None)
    told = (labels.captions(present(by_study).values()), f"Not run on {absent}." if absent else "")
    return " ".join(filter(None, told))


def failures(by_study: ByStudy) -> str:
    """Which reruns diverged or failed, in one sentence; "" where none did."""
    lost = {name: ", ".join(rows) for name, records in present(by_study).items() if (rows := without_result(records))}
    return " ".join(f"On `{name}` reruns have no result and are left out: {rows}." for name, rows in lost.items())


def not_run(by_study: ByStudy, experiment: str, statement: str) -> pd.DataFrame:
    """What stands in an exhibit's place without any records: what the paper says, and the commands that make them."""
    rows = {"the paper": statement}
    rows |= {name: f"not run: dmlrc study run {name}-{experiment}" for name in by_study}
    return pd.DataFrame({"what it shows": rows}).rename_axis("Source")


def publish_forest(name: str, studies: Sequence[StudyRecords] | claims.Judged, section: str, folded: str = "") -> None:
    """Publish the figure of a section's claims under a name; nothing where none has a number. folded: of `figure`."""
    own = {claim.id for claim in claims.of_section(section)}
    judged = {
        study: found
        for study, all_of_it in claims.judged(studies, section).items()
        if (found := {name: each for name, each in all_of_it.items() if name in own})
    }
    drawings = draw_forest(judged, claims.of_section(section))
    if drawings:
        publish.figure(
            name,
            drawings,
            "How far inside its region (shaded) the number of each claim lies, in half widths of its 95 % interval. "
            "Filled: reproduced beyond the right dotted line, not reproduced beyond the left. Hollow: inconclusive. "
            "Point at a mark for the number and the reason.",
            "A line a claim, a mark a data set: how far inside or outside the region of the claim its number lies.",
            folded,
        )


@dataclass(frozen=True)
class Exhibit:
    """A figure, or a table of ours alone, that needs records of an experiment.

    statement: what the paper shows there, in a sentence; it stands in the exhibit's place where nothing was run.
    counted: whether the caption goes on with the number of runs behind a row, runs without a result and signs.
    """

    name: str
    experiment: str
    caption: str
    statement: str
    counted: bool = True

    def figure(
        self,
        by_study: ByStudy,
        draw: Callable[[dict[str, StudyRecords]], list[Figure]],
        message: str,
        folded: str = "",
    ) -> None:
        """Publish a figure of the studies around which the experiment was run. message, folded: of `publish.figure`."""
        if present(by_study):
            publish.figure(self.name, draw(present(by_study)), self._caption(by_study), message, folded)
        else:
            self._publish_statement(by_study)

    def table(
        self,
        by_study: ByStudy,
        cells: Callable[[dict[str, StudyRecords]], pd.DataFrame],
        wrap: bool = False,
        folded: str = "",
    ) -> None:
        """Publish a table of the studies around which the experiment was run. wrap, folded: of `publish.table`."""
        if present(by_study):
            shown = labels.in_words(cells(present(by_study)))
            caption = f"{self._caption(by_study)} {labels.signs(shown) * self.counted}".rstrip()
            publish.table(self.name, shown, caption, wrap=wrap, folded=folded)
        else:
            self._publish_statement(by_study)

    def _caption(self, by_study: ByStudy) -> str:
        more = [captions(by_study), failures(by_study)] if self.counted else []
        return " ".join(filter(None, [self.caption, *more]))

    def _publish_statement(self, by_study: ByStudy) -> None:
        cells = not_run(by_study, self.experiment, self.statement)
        publish.table(self.name, cells, f"{self.caption} Not run here yet.", wrap=True)


def long(published: pd.DataFrame, ours: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The numbers behind a table, for its CSV: those of the paper and of every study, told apart by `source`."""
    frames = [published.assign(source="the paper").rename(columns={"value": "mean"})]
    frames += [frame.assign(source=name) for name, frame in ours.items()]
    return pd.concat(frames, ignore_index=True).set_index("source")
