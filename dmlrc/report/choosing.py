"""Advice from the tables for someone who wants one loss: who is never clearly behind, what to tune, what to expect."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import charts, common, editions, labels, prose, published, tables, titles
from dmlrc.report.results_table import LIFT, TIE, results_table
from dmlrc.report.significance import measures as significance

FIRST_CHOICES = ("multi_similarity", "cosface")
"""The losses that the page recommends."""
CONTRASTIVE = tables.CLASSICS[0]
TRIALS = (10, 25, 50, 100)
AT_SHARED_RATE, WITH_RATE = "at the shared rate", "the rate too"
"""What its searches looked for."""


def distances_behind(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The distance of each method behind the best of its table in concatenated MAP@R, and whether the two tie.

    Our tables, then the three published ones, without the untrained trunk. Columns: method, table (a study, or a data
    set of the Reality Check), ours, behind (a fraction; NaN without a score), tied, state (why, or ""), `tables.lift`.
    """
    paper, rows = published.musgrave_tables(), []
    for name, frame in ({study.name: tables.accuracy(study) for study in edition} | paper).items():
        deciding = tables.deciding(frame)
        lift = tables.lift(tables.by_method(frame)["mean"])
        deciding = deciding.assign(tied=tables.marks(deciding) != "").query("method != @PRETRAINED")
        behind = deciding["mean"].max() - deciding["mean"]
        facts = {"table": name, "ours": name not in paper, "behind": behind, "state": "", "lift": lift}
        rows.append(deciding[["method", "tied"]].assign(**facts))
    for study in edition:
        fallen = pd.DataFrame(tables.fallen(study).items(), columns=["method", "state"])
        rows.append(fallen.assign(tied=False, table=study.name, ours=True, behind=np.nan))
    return pd.concat(rows, ignore_index=True)[["method", "table", "ours", "behind", "tied", "state", "lift"]]


def place_cells(distances: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`distances_behind` as cells, points, and marks: most ties first, then the least behind; last the lifts."""
    by_method = distances.groupby("method")
    order = pd.DataFrame({"ties": -by_method["tied"].sum().astype(int), "behind": by_method["behind"].mean()})
    order = order.sort_values(["ties", "behind"]).index
    heads = {name: _head(name) for name in distances["table"].unique()}
    marks = distances["tied"].map({True: TIE, False: ""})
    scores = distances.assign(mean=distances["behind"], form=".1%", text=distances["state"], mark=marks)
    lifts = distances.dropna(subset="lift").drop_duplicates("table")
    lifts = lifts.assign(method=LIFT, mean=lifts["lift"], form="+.2%", mark="")
    rows = pd.concat([scores, lifts], ignore_index=True)
    row = common.in_order(rows["method"], [*order, *[LIFT] * bool(len(lifts))], labels.method_label)
    return results_table(rows.assign(row=row, column=rows["table"].map(heads)))


def _head(table: str) -> str:
    return f"{table}, published" if table in published.DATASETS else titles.title(table)


def never_behind(distances: pd.DataFrame, ours: bool = False) -> list[str]:
    """The methods that tie with the best in every table, or in every one of ours."""
    counted = distances[distances["ours"]] if ours else distances
    ties = counted[counted["tied"]].groupby("method")["table"].nunique()
    return sorted(ties.index[ties == counted["table"].nunique()])


def places_figure(distances: pd.DataFrame) -> Figure:
    """A row a method, a column a table: the distance behind the best as a dot, filled where the two tie."""
    cells, marks = (frame.drop(index=LIFT, errors="ignore") for frame in place_cells(distances))
    behind = distances.pivot(index="method", columns="table", values="behind")
    behind = behind.rename(index=labels.method_label, columns=_head)
    figure, axis = charts.panel(0.3 * len(cells) + 1)
    for column, head in enumerate(cells.columns):
        for row, method in enumerate(cells.index):
            if np.isnan(behind.loc[method, head]):  # not in that table, or it diverged there
                continue
            tie = marks.loc[method, head] == TIE
            axis.plot(column, row, "o", color="C0", markerfacecolor="C0" if tie else "none", markersize=9)
            axis.annotate(cells.loc[method, head], (column, row), (9, 0), textcoords="offset points", va="center")
    axis.set_yticks(range(len(cells)), cells.index)
    heads = [head.replace(", published", " (paper)").replace(" ", "\n") for head in cells.columns]
    axis.set_xticks(range(len(heads)), heads)
    axis.set_xlim(-0.5, len(cells.columns) - 0.3)
    axis.invert_yaxis()
    axis.xaxis.tick_top()
    dot = {"marker": "o", "color": "C0", "linestyle": ""}
    texts = {"ties with the best": dot, "behind": {**dot, "markerfacecolor": "none"}}
    handles = [Line2D([], [], label=text, **look) for text, look in texts.items()]
    axis.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    return figure


# How many trials pay


def trials_paid(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The shortfall of the best of so many trials from the best of all searches of its loss, and the noise of a search.

    Of the tables, and of those around them with longer searches, of the learning rate too. One row per study and
    method. Columns: study, method, hyperparameters (how many are searched), those of `TRIALS` that its searches have
    (shares of the best, validation MAP@R), test: the SD of test MAP@R between its searches, a share of the mean, NaN
    for one, and searched (AT_SHARED_RATE or WITH_RATE).
    """
    longer = filter(None, (editions.with_searched_rates(study.name) for study in edition))
    kinds = ((AT_SHARED_RATE, edition, TRIALS[0]), (WITH_RATE, longer, TRIALS[-1]))
    parts = [
        _trials_paid(study).assign(searched=kind)
        for kind, several, fewest in kinds
        for study in several
        if study.trials["trial"].max() + 1 >= fewest
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["study", "method"])


def _trials_paid(records: StudyRecords) -> pd.DataFrame:
    best = tables.best_after(records)
    top = best.max(axis=1).groupby("method").max()
    short = 1 - best[[count for count in TRIALS if count in best]].dropna().div(top, level="method", axis=0)
    searches = significance.of_searches(significance.scores(records)).unstack()
    table = short.groupby("method").mean().assign(test=searches.std(axis=1) / searches.mean(axis=1))
    searched = records.trials.groupby("method")["params"].first().map(len)
    return table.assign(hyperparameters=searched, study=records.name).reset_index()


def trials_paid_cells(paid: pd.DataFrame) -> pd.DataFrame:
    """The means of `trials_paid` as cells, in percent: a row a number of hyperparameters, of each kind of study."""
    grouped = _by_number(paid)
    counts = {count: labels.plural(count, "trial") for count in TRIALS if count in paid}
    shown = {"losses": "losses × data sets", **counts, "test": "between searches, test"}
    return labels.cells(grouped, shown, ".1%", ["Searched", "hyperparameters"])


def _by_number(paid: pd.DataFrame) -> pd.DataFrame:
    """The means of `trials_paid` over losses and data sets: a row a kind of study and number of hyperparameters."""
    groups = paid.groupby(["searched", "hyperparameters"])
    return groups[[count for count in (*TRIALS, "test") if count in paid]].mean().assign(losses=groups.size())


def trials_figure(paid: pd.DataFrame) -> list[Figure]:
    """A line a number of hyperparameters: the distance from the best of all searches against the number of trials.

    Hollow, at the right end: how far the test scores of searches scatter. A panel a kind of study.
    """
    grouped = _by_number(paid)
    return [_trials_figure(title, part.droplevel(0)) for title, part in grouped.groupby(level=0, sort=False)]


def _trials_figure(title: str, means: pd.DataFrame) -> Figure:
    figure, axis = charts.panel(3.4, title)
    counts = [count for count in TRIALS if count in means and means[count].notna().any()]
    looks = {}
    for number, row in means.iterrows():  # one look in all panels
        text, colour = labels.plural(number, "hyperparameter"), colormaps["viridis"]((number - 1) / 5)
        look = {"color": colour, "marker": "os^vPX"[(number - 1) % 6], "markersize": 5, "linewidth": 1.5}
        charts.mark(axis, range(len(counts)), 100 * row[counts], text, **look)
        hollow = look | {"linestyle": "", "markerfacecolor": "none"}
        charts.mark(axis, len(counts), 100 * row["test"], f"{text}: SD of test scores between searches", **hollow)
        looks[text] = look
    axis.set_xticks(range(len(counts) + 1), [*map(str, counts), "test,\nbetween searches"])
    axis.set(xlabel="trials", ylabel="% of MAP@R", ylim=(0, None))
    charts.legend(figure, looks)
    return figure


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text; scores in points of concatenated MAP@R, a study by its data set."""
    distances = distances_behind(edition)
    named: dict[str, float | str] = {
        **prose.span("base", [base for study in edition for base in _found(study, "multi_similarity", "base")]),
        "never_behind_ours": ", ".join(never_behind(distances, ours=True)),
        "never_behind": ", ".join(never_behind(distances)),
    }
    return named | _of_trials(trials_paid(edition)) | prose.of_each(edition, _of_study)


def _of_study(study: StudyRecords) -> dict[str, float]:
    """Numbers on `FIRST_CHOICES` in one study: their leads over the contrastive loss, and what to tune of them."""
    means, best = tables.by_method(tables.accuracy(study))["mean"], "multi_similarity"
    alone = tables.by_method(tables.accuracy(study), setting="separated")["mean"]
    trials = study.trials[study.trials["method"].isin(FIRST_CHOICES)]
    shares = tables.importance(study.having(trials=trials)).set_index(["method", "parameter"])["importance"]
    return {
        **{method: 100 * (means[method] - means[CONTRASTIVE]) for method in FIRST_CHOICES},
        "joined": 100 * (means[best] - alone[best]),
        "alone_over_untrained": 100 * (alone[best] - alone[PRETRAINED]),
        "random_share": 100 * tables.sensitivity(study).loc[[*FIRST_CHOICES], "random_share"].min(),
        "base_share": 100 * shares.get((best, "base"), 0.0),
        "first_of_cosface": shares["cosface"].idxmax() if "cosface" in shares else "",
    }


def _of_trials(paid: pd.DataFrame) -> dict[str, float]:
    """Percent, over the numbers of hyperparameters at the shared rate; next and longest with the rate searched too.

    ten, twentyfive: the distance from the best after so many trials. later: what trials 26 to 50 add; next, longest:
    the most that they, and trials 51 to 100, add where searches were so long. later_less_test: the most by which
    later exceeds what the test scores of two searches scatter by.
    """
    every = 100 * _by_number(paid)
    added = -every[[count for count in TRIALS[1:] if count in every]].diff(axis=1).iloc[:, 1:]
    means, later = every.loc[AT_SHARED_RATE], added.loc[AT_SHARED_RATE][50]
    named = {"ten.one": means.loc[1, 10], "later_less_test": (later - means["test"]).max()}
    if TRIALS[-1] in added:
        named |= prose.span("longest", added[TRIALS[-1]].dropna()) | {"next": added.loc[WITH_RATE][50].max()}
    several = means[means.index > 1]
    return named | prose.span("ten", several[10]) | prose.span("twentyfive", means[25]) | prose.span("later", later)


def _found(records: StudyRecords, method: str, parameter: str) -> list[float]:
    """The value of a hyperparameter with the highest validation score of each search."""
    best = tables.best_of_searches(records).set_index(["method", "hyperparameter"])["value"]
    return best.loc[[(method, parameter)]].astype(float).tolist()


def winning_settings(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The setting of FIRST_CHOICES with the highest validation score in each study: a row a hyperparameter."""
    best = {titles.title(study.name): tables.best_hyperparameters(study) for study in edition}
    keys = ["method", "hyperparameter"]
    table = pd.DataFrame({title: frame.set_index(keys)["value"] for title, frame in best.items()})
    table = table.loc[[method for method in FIRST_CHOICES if method in table.index.get_level_values(0)]]
    table.index = [f"{labels.method_label(method)}: {labels.parameter(name)}" for method, name in table.index]
    return table.map(lambda value: "–" if pd.isna(value) else f"{value:.3g}")
