"""A method's page: what its records say, as numbers and cells."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.errors import unknown
from dmlrc.methods import LOSS_WEIGHTS_LR, Float, Int, Method
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, editions, everything, labels, published, rates, tables, titles
from dmlrc.report.after2019 import page as after2019
from dmlrc.report.method.notes import NOTES, SHOWN, Note
from dmlrc.report.results_table import LIFT, results_table

MEASURED = "the Reality Check"
"""The column of `claimed_scores` for what was measured; it is there where the method is in that paper's tables."""
_GREEK = {"α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "ε": r"\epsilon", "λ": r"\lambda"}


def method_of_page(name: str) -> Method:
    """The method that a page is about. Raises UsageError, with the nearest name, for one that has no page."""
    if name not in SHOWN:
        raise unknown("method with a page", name, SHOWN)
    return SHOWN[name]


def records_of(edition: Sequence[StudyRecords], method: str) -> dict[str, StudyRecords]:
    """The methods tables in which a method has results, by their titles; one after 2019 stands beside the fourteen."""
    by_title = {}
    for main in edition:
        beside = method in after2019.METHODS and method not in set(main.scores["method"])
        records = after2019.with_later_losses([main])[main.name] if beside else main
        if method in set(records.scores["method"]):
            by_title[titles.title(main.name)] = records
    return by_title


# What it computes


def formulas(method: Method) -> str:
    """The loss as formulas, what their letters mean, and where ours differs, as MyST."""
    more = [f"the {labels.parameter(LOSS_WEIGHTS_LR)}"] if LOSS_WEIGHTS_LR in method.space else []
    return noted(NOTES[method.name], "Searched", *more)


def noted(note: Note, named: str, *more: str) -> str:
    """A note as MyST. named: what its hyperparameters are, "Searched" or "Fixed"; more: those without a letter."""
    letters = [_lettered(labels.parameter(name), letter) for name, letter in note.symbols.items()]
    settings = f" {named}: {labels.listed([*letters, *more])}." if letters else ""
    shown = "\n\n".join(f"$$\n{formula}\n$$" for formula in note.formulas)
    return f"{shown}\n\n{note.where}{settings}\n\n**How ours differs from its source.** {note.ours}"


def _lettered(name: str, letter: str) -> str:
    r"""A hyperparameter with its letter in the formulas, once where it goes by that letter.

    >>> _lettered("margin", "m"), _lettered("λ", r"\lambda"), _lettered("β", "b")
    ('margin $m$', '$\\lambda$', 'β $b$')
    """
    return f"${letter}$" if _GREEK.get(name) == letter else f"{name} ${letter}$"


# Where it stands


def standings(by_title: Mapping[str, StudyRecords]) -> dict[str, pd.DataFrame]:
    """Concatenated MAP@R of every row of every table, with ranks, by method: what the rest of this part reads."""
    standing = {}
    for study, records in by_title.items():
        frame = tables.deciding(tables.accuracy(records))
        standing[study] = frame.assign(tied=everything.ranks(frame)["tied"]).set_index("method")
    return standing


def gains_over_untrained(standing: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """MAP@R of every method of `standings` over that of the untrained trunk: study, method, mean, ci95, seed_ci95."""
    parts = []
    for study, frame in standing.items():
        trained = frame.drop(index=PRETRAINED, errors="ignore").reindex(columns=["mean", "ci95", "seed_ci95"])
        over = trained.assign(mean=trained["mean"] - frame["mean"].get(PRETRAINED, np.nan), study=study)
        parts.append(over.reset_index())
    return pd.concat(parts, ignore_index=True)


def glance(by_title: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """A method in every table as cells: its place by mean MAP@R, the median trial's share of the best, its cost."""
    values = finished_trials(by_title, method).groupby("study")["value"]
    rows, shares = {}, (100 * values.median() / values.max()).map("{:.0f} %".format)
    for study, frame in standings(by_title).items():
        means = frame["mean"].drop(index=PRETRAINED, errors="ignore")
        rows[study] = {
            "place": f"{(means > means[method]).sum() + 1} of {len(means)}",
            "behind": f"{100 * (means.max() - means[method]):.1f}",
            "tied with the best": "yes" if frame["tied"][method] else "no",
            LIFT.lower(): labels.signed(tables.lift(frame["mean"]), 2, ""),
            "median trial": shares.get(study, "–"),
            "a search, minutes": f"{tables.cost(by_title[study])['search_seconds'][method] / 60:.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


def _score(study: str, records: StudyRecords, method: str, metric: str) -> dict:
    """The score of a method with its folds joined, as a row of `results_table`."""
    frame = tables.by_method(tables.accuracy(records), metric)
    own = {"mean": frame["mean"][method], "half": frame["ci95"][method]}
    own["untrained"] = frame["mean"].get(PRETRAINED, np.nan)
    return {"row": study, "column": labels.METRIC_LABELS[metric], **own}


def standing_cells(by_title: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """MAP@R and P@1 of a method in every table as cells, with the ranks that it may have, and the best."""
    rows = []
    for study, frame in standings(by_title).items():
        own, means = frame.loc[method], frame["mean"].drop(index=PRETRAINED, errors="ignore")
        score, precision = (_score(study, by_title[study], method, metric) for metric in ("map_at_r", "precision_at_1"))
        texts = {
            "rank": f"{labels.rank_range(own['rank_low'], own['rank_high'])} of {len(means)}",
            "tied with the best": "yes" if own["tied"] else "no",
            "the best": f"{labels.percent(means.max())} {labels.method_label(means.idxmax(), SHOWN)}",
            "untrained trunk": labels.percent(score["untrained"]),
            LIFT.lower(): labels.signed(tables.lift(frame["mean"]), 2, ""),
        }
        rows += [score | {"cut_off": tables.cut_off(by_title[study]).get(method, 0.0)}, precision]
        rows += [{"row": study, "column": name, "text": text} for name, text in texts.items()]
    cells, _ = results_table(pd.DataFrame(rows))
    order = ["MAP@R", "rank", "tied with the best", "P@1", "the best", "untrained trunk", LIFT.lower()]
    return cells[order].rename_axis("Study")


def elsewhere(edition: Sequence[StudyRecords], method: str) -> pd.DataFrame:
    """Concatenated MAP@R of a method in other tables, as cells: at other rates and depths of training, first runs."""
    rows = []
    for records in editions.tables_beside(edition):
        if method in set(tables.accuracy(records)["method"]):
            score = _score(titles.title(records.name), records, method, "map_at_r")
            reruns = records.scores.loc[records.scores["method"] == method, ["repetition", "rerun"]].drop_duplicates()
            rows += [score | {"cut_off": tables.cut_off(records).get(method, 0.0)}]
            rows += [{"row": score["row"], "column": "reruns", "text": str(len(reruns))}]
            rows += [{"row": score["row"], "column": "untrained trunk", "mean": score["untrained"]}]
    return results_table(pd.DataFrame(rows))[0].rename_axis("Study") if rows else pd.DataFrame()


# What its searches found


def finished_trials(by_title: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """Every finished trial: study, repetition, value (validation MAP@R), best (it won its search), hyperparameters."""
    parts = []
    for study, records in by_title.items():
        own = records.trials[(records.trials["method"] == method) & (records.trials["state"] == "complete")]
        own = own.sort_values(["repetition", "trial"], ignore_index=True)
        best = own.groupby("repetition")["value"].idxmax()
        settings = pd.DataFrame(list(own["params"]), index=own.index)
        frame = own[["repetition", "value"]].assign(study=study, best=own.index.isin(best))
        parts.append(pd.concat([frame, settings], axis=1))
    return pd.concat(parts, ignore_index=True)


def start_here(tried: pd.DataFrame, method: Method) -> pd.DataFrame:
    """The setting with the highest validation score of each study as cells: a row a hyperparameter, and its range."""
    best = tried.loc[tried.groupby("study", sort=False)["value"].idxmax()].set_index("study")
    table = best[list(method.space)].map(labels.number).T.assign(searched=[*map(_range, method.space.values())])
    return table.rename(index=labels.parameter).rename_axis("Hyperparameter").rename_axis(None, axis=1)


def winner_cells(tried: pd.DataFrame, method: Method) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The setting that won each search as cells, below the ranges; marked: within 2 % of an end of its range."""
    won = tried[tried["best"]]
    names = pd.Index([f"{row.study}, search {row.repetition + 1}" for row in won.itertuples()])
    cells, marks = ({} for _ in range(2))
    for name, space in method.space.items():
        values = won[name].set_axis(names)
        cells[labels.parameter(name)] = pd.concat([pd.Series({"searched": _range(space)}), values.map(labels.number)])
        marks[labels.parameter(name)] = values.map(lambda value, space=space: tables.at_edge(value, space))
    scores = won["value"].set_axis(names).map(labels.percent)
    table = pd.DataFrame(cells).assign(**{"validation MAP@R": scores}).fillna("")
    ends = pd.DataFrame(marks).reindex_like(table).replace({True: "best", False: ""}).fillna("")
    return table.rename_axis("Search"), ends


def _range(space: Float | Int) -> str:
    scale = ", logarithmic" if space.log else ""
    return f"{labels.number(space.low)} to {labels.number(space.high)}{scale}"


def rate_cells(edition: Sequence[StudyRecords], method: str) -> pd.DataFrame:
    """Effect of the learning rate on the method by validation classes, as cells: a row per study whose grid has it."""
    rows = {}
    for study, grid in rates.recorded_grids(edition).items():
        if method in (best := rates.best_trials(grid)):
            own, scores = best[method].idxmax(), best[method]
            edge = " (end of the grid)" * (own in (min(best.index), max(best.index)))
            rows[study] = {
                "best for it": labels.rate(own) + edge,
                "best for all": labels.rate(rates.best_rate(best)),
                "worst for it": labels.rate(scores.idxmin()),
                "lost at the worst": labels.one_digit(scores.max() - scores.min()),
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


# What is claimed of it


def claimed_scores(method: Method) -> pd.DataFrame:
    """R@1 that papers claim for the method as theirs, as cells: a row per paper, data set and trunk. See `MEASURED`."""
    rows = after2019.claims_with_trunks()
    own = rows[rows["paper"].isin(NOTES[method.name].claimed_by)].set_index("paper")
    fair = tables.by_method(published.musgrave_results(), "precision_at_1")
    measured = fair[fair.index == method.name].set_index("dataset")["mean"]
    shown = {"dataset": "data set", "r1": "claimed R@1", "backbone": "trunk", "dim": ("dimensions", ".0f")}
    shown |= {"measured": MEASURED} if len(measured) else {}
    return labels.cells(own.assign(measured=own["dataset"].map(measured)), shown, ".1%", ["Paper"])


def claim_verdicts(edition: Sequence[StudyRecords], method: Method) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """The claims of the five papers that are about the method, as cells and marks; None where none is."""
    about = [claim for claim in claims.CLAIMS if claim.id in NOTES[method.name].claims]
    return claims.claims_overview(claims.judged_claims(edition, about), about) if about else None
