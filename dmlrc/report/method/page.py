"""A method's page: what its records say, as numbers and cells."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.errors import unknown
from dmlrc.methods import LOSS_WEIGHTS_LR, Float, Int, Method
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, editions, everything, labels, published, tables, titles
from dmlrc.report.after2019 import page as after2019
from dmlrc.report.method.notes import NOTES, SHOWN, Note
from dmlrc.report.rates import page as rates


def get(name: str) -> Method:
    """The method that a page is about. Raises UsageError, with the nearest name, for one that has no page."""
    if name not in SHOWN:
        raise unknown("method with a page", name, SHOWN)
    return SHOWN[name]


def records_of(edition: Sequence[StudyRecords], method: str) -> dict[str, StudyRecords]:
    """The methods tables in which a method has results, by their titles; one after 2019 stands beside the fourteen."""
    found = {}
    for main in edition:
        beside = method in after2019.METHODS and method not in set(main.scores["method"])
        records = after2019.joined(main, editions.experiment_of(main.name, "after2019")) if beside else main
        if method in set(records.scores["method"]):
            found[titles.title(main.name)] = records
    return found


# What it computes


def formulas(method: Method) -> str:
    """The loss as formulas, what their letters mean, and where ours differs, as MyST."""
    more = [f"the {labels.parameter(LOSS_WEIGHTS_LR)}"] if LOSS_WEIGHTS_LR in method.space else []
    return noted(NOTES[method.name], "Searched", *more)


def noted(note: Note, named: str, *more: str) -> str:
    """What a note says, as MyST.

    named: what its hyperparameters are, "Searched" or "Fixed". more: those that have no letter in the formulas.
    """
    letters = [_lettered(labels.parameter(name), letter) for name, letter in note.symbols.items()]
    settings = f" {named}: {labels.listed([*letters, *more])}." if letters else ""
    shown = "\n\n".join(f"$$\n{formula}\n$$" for formula in note.formulas)
    return f"{shown}\n\n{note.where}{settings}\n\n**How ours differs from its source.** {note.ours}"


_GREEK = {"α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "ε": r"\epsilon", "λ": r"\lambda"}


def _lettered(name: str, letter: str) -> str:
    r"""A hyperparameter with its letter in the formulas, once where it goes by that letter.

    >>> _lettered("margin", "m"), _lettered("λ", r"\lambda"), _lettered("β", "b")
    ('margin $m$', '$\\lambda$', 'β $b$')
    """
    return f"${letter}$" if _GREEK.get(name) == letter else f"{name} ${letter}$"


# Where it stands


def standings(found: Mapping[str, StudyRecords]) -> dict[str, pd.DataFrame]:
    """Concatenated MAP@R of every row of every table, with ranks, by method: what the rest of this part reads."""
    standing = {}
    for study, records in found.items():
        frame = tables.deciding(tables.accuracy(records))
        standing[study] = frame.assign(tied=everything.ranks(frame)["tied"]).set_index("method")
    return standing


def place(frame: pd.DataFrame, method: str) -> pd.Series:
    """A method among those of one of `standings`.

    mean, ci95, seed_ci95 (NaN where each method was searched once), rank_low, rank_high, tied (with the best), n (how
    many methods), best (mean), best_method, untrained (mean).
    """
    means = frame["mean"].drop(index=PRETRAINED, errors="ignore")
    row = frame.loc[method].reindex(["mean", "ci95", "seed_ci95", "rank_low", "rank_high", "tied"])
    told = {
        "n": len(means),
        "best": means.max(),
        "best_method": means.idxmax(),
        "untrained": frame["mean"].get(PRETRAINED, np.nan),
    }
    return pd.concat([row, pd.Series(told)])


def gains(standing: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """MAP@R of every method over that of the untrained trunk: study, method, mean, ci95, seed_ci95; fractions.

    standing: `standings`.
    """
    parts = []
    for study, frame in standing.items():
        trained = frame.drop(index=PRETRAINED, errors="ignore").reindex(columns=["mean", "ci95", "seed_ci95"])
        over = trained.assign(mean=trained["mean"] - frame["mean"].get(PRETRAINED, 0.0), study=study)
        parts.append(over.reset_index())
    return pd.concat(parts, ignore_index=True)


def glance(found: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """A method in every table as cells: its place by mean MAP@R, the median trial's share of the best one's, its cost.

    behind: points below the best mean of the table.
    """
    rows, shares = {}, median_shares(trials(found, method))
    for study, frame in standings(found).items():
        row = place(frame, method)
        above = int((frame["mean"].drop(index=PRETRAINED, errors="ignore") > row["mean"]).sum())
        rows[study] = {
            "place": f"{above + 1} of {row['n']}",
            "behind": f"{100 * (row['best'] - row['mean']):.1f}",
            "tied with the best": "yes" if row["tied"] else "no",
            "median trial": f"{100 * shares[study]:.0f} %" if study in shares else "–",
            "a search, minutes": f"{tables.cost(found[study])['search_seconds'][method] / 60:.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


def places(found: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """`place` in every table as cells, with P@1."""
    rows = {}
    for study, frame in standings(found).items():
        row, cut_off = place(frame, method), tables.cut_off(found[study]).get(method, 0.0)
        accuracy = tables.accuracy(found[study])
        precision = accuracy[(accuracy["setting"] == "concatenated") & (accuracy["metric"] == "precision_at_1")]
        precision = precision.set_index("method")[["mean", "ci95"]]
        untrained = precision["mean"].get(PRETRAINED, np.nan)
        rows[study] = {
            "MAP@R": labels.percent(row["mean"], row["ci95"])
            + labels.below(row["mean"], row["untrained"])
            + labels.limited(cut_off),
            "rank": f"{labels.places(row['rank_low'], row['rank_high'])} of {row['n']}",
            "tied with the best": "yes" if row["tied"] else "no",
            "P@1": labels.percent(*precision.loc[method]) + labels.below(precision["mean"][method], untrained),
            "the best": f"{labels.percent(row['best'])} {labels.method_label(row['best_method'], SHOWN)}",
            "untrained trunk": labels.percent(row["untrained"]),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


def elsewhere(edition: Sequence[StudyRecords], method: str) -> pd.DataFrame:
    """Concatenated MAP@R of a method in other tables, as cells: at other rates and depths of training, first runs.

    Intervals of seeds alone: each was searched once.
    """
    at_rates = [editions.experiment_of(main.name, name) for main in edition for name in titles.RATES]
    rows = {}
    for records in [*filter(None, at_rates), *editions.beside(edition)]:
        frame = tables.deciding(tables.accuracy(records)).set_index("method")
        if method in frame.index:
            value, untrained = frame.loc[method], frame["mean"].get(PRETRAINED, np.nan)
            rows[titles.title(records.name)] = {
                "MAP@R": labels.percent(value["mean"], value["ci95"])
                + labels.below(value["mean"], untrained)
                + labels.limited(tables.cut_off(records).get(method, 0.0)),
                "reruns": f"{value['n']:.0f}",
                "untrained trunk": labels.percent(untrained) or "–",
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


def cost(found: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """What a search and a rerun of the method cost, as cells, beside the median of the table's methods."""
    rows = {}
    for study, records in found.items():
        table = tables.cost(records)
        own, median = table.loc[method], table.median()
        rows[study] = {
            "search, minutes": f"{own['search_seconds'] / 60:.1f}",
            "a rerun, seconds": f"{own['seconds']:.1f}",
            "a rerun, steps": f"{own['steps']:,.0f}",
            "steps, median of all": f"{median['steps']:,.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


# What its searches found


def trials(found: Mapping[str, StudyRecords], method: str) -> pd.DataFrame:
    """Every finished trial: study, repetition, value (validation MAP@R), best (it won its search), and its setting.

    A column a hyperparameter.
    """
    parts = []
    for study, records in found.items():
        own = records.trials[(records.trials["method"] == method) & (records.trials["state"] == "complete")]
        own = own.sort_values(["repetition", "trial"], ignore_index=True)
        best = own.groupby("repetition")["value"].idxmax()
        settings = pd.DataFrame(list(own["params"]), index=own.index)
        frame = own[["repetition", "value"]].assign(study=study, best=own.index.isin(best))
        parts.append(pd.concat([frame, settings], axis=1))
    return pd.concat(parts, ignore_index=True)


def median_shares(tried: pd.DataFrame) -> dict[str, float]:
    """Which share of the best trial's value the median trial of each study reaches."""
    values = tried.groupby("study", sort=False)["value"]
    return (values.median() / values.max()).to_dict()


def start_here(tried: pd.DataFrame, method: Method) -> pd.DataFrame:
    """The setting with the highest validation score of each study as cells: a row a hyperparameter, and its range."""
    best = tried.loc[tried.groupby("study", sort=False)["value"].idxmax()].set_index("study")
    rows = {
        labels.parameter(name): {study: labels.number(value) for study, value in best[name].items()}
        | {"searched": _range(space)}
        for name, space in method.space.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Hyperparameter")


def winners(tried: pd.DataFrame, method: Method) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The setting that won each search as cells, below the ranges; marked: within 2 % of an end of its range."""
    names = {name: labels.parameter(name) for name in method.space}
    ranges = {words: _range(method.space[name]) for name, words in names.items()}
    rows, ends = {"searched": ranges | {"validation MAP@R": ""}}, []
    for trial in tried[tried["best"]].to_dict("records"):
        won = f"{trial['study']}, search {trial['repetition'] + 1}"
        rows[won] = {words: labels.number(trial[name]) for name, words in names.items()}
        rows[won] |= {"validation MAP@R": labels.percent(trial["value"])}
        ends += [(won, names[name]) for name, space in method.space.items() if tables.at_edge(trial[name], space)]
    cells = pd.DataFrame.from_dict(rows, orient="index").rename_axis("Search")
    marks = pd.DataFrame("", index=cells.index, columns=cells.columns)
    for end in ends:
        marks.loc[end] = "best"
    return cells, marks


def _range(space: Float | Int) -> str:
    return f"{labels.number(space.low)} to {labels.number(space.high)}" + (
        ", logarithmic" if getattr(space, "log", False) else ""
    )


def rate_cells(edition: Sequence[StudyRecords], method: str) -> pd.DataFrame:
    """What the learning rate does to the method on validation classes, as cells, a row a study whose grid has it."""
    rows = {}
    for study, grid in rates.recorded(edition).items():
        best = rates.best_trials(grid)
        if method in best:
            own = best[method].idxmax()
            edge = " (end of the grid)" * (own in (min(best.index), max(best.index)))
            rows[study] = {
                "best for it": labels.rate(own) + edge,
                "best for all": labels.rate(rates.best_rate(best)),
                "worst for it": labels.rate(best[method].idxmin()),
                "lost at the worst": f"{100 * (best[method].max() - best[method].min()):.1f}",
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


# What is claimed of it


def claimed(method: Method) -> pd.DataFrame:
    """What papers claim for the method as theirs, R@1, as cells; a row a paper, data set and trunk. See `MEASURED`."""
    rows = after2019.claims()
    own = rows[rows["paper"].isin(NOTES[method.name].claimed_by)]
    fair = published.results()
    fair = fair[(fair["setting"] == "concatenated") & (fair["metric"] == "precision_at_1")]
    measured = fair[fair["method"] == method.name].set_index("dataset")["mean"]
    cells = pd.DataFrame(
        {
            "data set": own["dataset"],
            "claimed R@1": own["r1"].map(labels.one_digit),
            "trunk": own["backbone"],
            "dimensions": own["dim"].map("{:.0f}".format),
            MEASURED: own["dataset"].map(measured).map(labels.one_digit).replace("", "–"),
        }
    ).set_index(own["paper"].rename("Paper"))
    return cells if len(measured) else cells.drop(columns=MEASURED)


MEASURED = "the Reality Check"
"""The column of `claimed` for what was measured; it is there where the method is in that paper's tables."""


def verdicts(edition: Sequence[StudyRecords], method: Method) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """The claims of the five papers that are about the method, as cells and marks; None where none is."""
    about = [claim for claim in claims.CLAIMS if claim.id in NOTES[method.name].claims]
    return claims.overview(claims.judged_claims(edition, about), about) if about else None
