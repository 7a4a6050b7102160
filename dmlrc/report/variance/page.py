"""The chapter on what moves a score and a ranking, as printed: cells of tables, and the numbers of its text."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, prose, statistics, tables
from dmlrc.report import rates as rate_grids
from dmlrc.report.results_table import results_table, with_foot
from dmlrc.report.significance.measures import SEEDS, visible
from dmlrc.report.significance.page import scored
from dmlrc.report.variance import measures, searches
from dmlrc.report.variance.levers import LEVERS, levers  # noqa: F401
from dmlrc.report.variance.measures import CHOSEN, SEARCHED, TOO_HIGH, AtRates, Part

RULES: Mapping[str, Mapping[str | int, str]] = {
    "sizes": {"one": "one embedding size a recipe", "any": "any size, and ensembles"},
    "below": {"out": "no rows below their untrained start", "in": "rows below their untrained start too"},
    "fewest": {2: "losses of two recipes", 3: "losses of three recipes"},
    "without": {"none": "all papers"},
}
"""The rules of `measures.recipe_rules`, as printed."""
PART_CELLS = {
    "against": ("relative to one another", lambda against: labels.one_digit(against) or "one method only"),
    ("low", "high"): ("interval", lambda *ends: " to ".join(filter(None, map(labels.one_digit, ends))) or "–"),
    "own": "its losses lie apart",
    "together": "together",
    "levels": ("levels", "{:,}".format),
    "methods": "methods",
    "classes": "classes",
    "mean": ("mean MAP@R", ".2%"),
}
"""`part_numbers` as printed (`labels.cells`); percent of the mean MAP@R, which is itself a column."""
LUCK_CELLS = {"hyperparameters": ("hyperparameters", ".0f"), "luck": "SD of a search, %", "late": "trials 26 to 50 add"}
"""`searches.search_luck` as printed: luck in percent of its mean, what late trials add in points."""
STUCK_CELLS = {"repetition": ("search", lambda number: str(number + 1)), "value": "it reached", "best": "another one"}
"""`searches.stuck` as printed."""


def drawable(parts: Sequence[Part]) -> list[Part]:
    """The parts of which it is known how they move methods against one another: those of more than one method."""
    return [part for part in parts if not np.isnan(part.against.value)]


def part_numbers(parts: Sequence[Part]) -> pd.DataFrame:
    """A row a part, fractions, for the download."""
    rows = [{**vars(part), **vars(part.against), "own": part.own.value} for part in parts]
    heads = {"value": "against", "low": "low", "high": "high", "how": "interval", "own": "own", "together": "together"}
    heads |= {"levels": "levels", "methods": "methods", "on": "classes", "mean": "mean"}
    return pd.DataFrame(rows).set_index("name")[list(heads)].rename(columns=heads).rename_axis("part")


def recipe_cells(by_study: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The effect of the training recipe on a ranking by each rule on who is compared, as cells: one row per rule.

    by_study: study -> `measures.recipe_rules`. A cell: median, lowest and highest over the choices of the other rules,
    percent of the mean MAP@R. Last, how many of all choices clearly exceed the yardstick.
    """
    columns = {name: {head: _span(part) for head, part in _by_rule(rules)} for name, rules in by_study.items()}
    for name, rules in by_study.items():
        columns[name]["clearly further than its losses lie apart"] = f"{rules['clearly'].sum()} of {len(rules)} choices"
    return pd.DataFrame(columns).rename_axis("Training recipe")


def _by_rule(rules: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """The spread by every choice in which a rule has one value, under what the rule says."""
    is_ours = (rules[list(measures.RECIPE_RULE)] == pd.Series(measures.RECIPE_RULE)).all(axis=1)
    yield "the rule of this page", rules.loc[is_ours, "against"]
    for column, texts in RULES.items():
        for value, part in rules.groupby(column)["against"]:
            yield texts.get(value, f"without {value}"), part
    yield "all choices", rules["against"]


def _span(values: pd.Series) -> str:
    if values.empty:
        return "–"
    low, middle, high = (labels.one_digit(value) for value in (values.min(), values.median(), values.max()))
    return middle if len(values) == 1 else f"{middle} [{low} to {high}]"


def rate_head(at: AtRates, which: str) -> str:
    """The heading of one of the rates: the rate, and how it came to be."""
    return which if which == SEARCHED else f"{labels.rate(at.rate(which))} ({which})"


def rates_cells(at: AtRates) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test scores at each rate as cells and marks, a row a method; last, where rates were searched, what each found."""
    parts = []
    for which, records in at.by_rate.items():
        head, gap = rate_head(at, which), visible(at.compared[which])
        scores = scored(at.scores[which], head, at.untrained, gap)
        trunk = pd.DataFrame({"row": [PRETRAINED], "column": head, "mean": at.untrained})
        parts += [scores.assign(cut_off=tables.cut_off(records)), trunk.dropna()]
    cells, marks = results_table(with_foot(pd.concat(parts, ignore_index=True)))
    if SEARCHED in at.by_rate:
        rates = at.rates_found().map(labels.rate).groupby("method").agg(", ".join)
        cells["rate found"], marks["rate found"] = rates.reindex(cells.index).fillna("–"), ""
    return tuple(frame.rename(index=labels.method_label).rename_axis("Method") for frame in (cells, marks))


def levels_cells(at: AtRates) -> pd.DataFrame:
    """`measures.conclusions_by_rate` as cells, in points; without a row where that is empty."""
    frame = measures.conclusions_by_rate(at)
    if frame.empty:
        return frame
    parts = [pd.DataFrame({"row": frame.index, "column": "worst to best", "mean": frame["spread"]})]
    known = np.array([at.compared[which].luck != SEEDS for which in frame.index])
    for base in (name for name in tables.CLASSICS if name in frame):
        gains = {"mean": [gain.value for gain in frame[base]], "half": [gain.half for gain in frame[base]]}
        part = pd.DataFrame(gains | {"row": frame.index, "column": f"newer over {labels.method_label(base)}"})
        parts.append(part.assign(half=part["half"].where(known), form="+.2%"))
    differ = (frame["differ"].astype(str) + " of " + frame["pairs"].astype(str)).where(known, "not known")
    parts.append(pd.DataFrame({"row": frame.index, "column": "pairs that differ", "text": differ}))
    cells, _ = results_table(pd.concat(parts, ignore_index=True))
    return cells.rename(index=lambda which: rate_head(at, which)).rename_axis("Learning rate")


def levelled_cells(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`levelled` as cells: a row a study, a column a number of trials; points."""
    table = pd.DataFrame.from_dict({records.name: searches.levelled(records) for records in edition}, orient="index")
    heads = {count: f"{count} random" for count in table if count != "search"} | {"search": "whole search"}
    return table.map(labels.percent).replace("", "–").rename(columns=heads).rename_axis("Study")


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """The numbers behind the page's text: points of MAP@R and percent, a study by its data set."""
    named = prose.of_each(edition, _of_study)
    table, lost = searches.search_luck(edition), searches.stuck(edition)
    for name in ("luck", "late"):
        test = statistics.rank_test(table["hyperparameters"], table[name])
        named |= {f"{name}.rho": test["rho"], f"{name}.p": test["p"], f"{name}.n": test["n"]}
    at_shared, rates = (lost[lost["rate_searched"] == searched] for searched in (False, True))
    names = at_shared["study"] + " " + at_shared["method"] + " " + at_shared["repetition"].astype(str)
    named |= {"stuck.tables": ", ".join(sorted(names)), "stuck.rates": ", ".join(sorted(rates["method"]))}
    named |= {"stuck.most": 100 * lost["short"].max(), "stuck.bound": 100 * searches.FAR}
    for key in ("loss", "joined", "newer.too_high", "newer.chosen", "spread_untuned"):
        named |= prose.span(key, [named[f"{study.meta['dataset']}.{key}"] for study in edition])
    return named


def _of_study(study: StudyRecords) -> dict[str, float | str]:
    at = measures.at_rates(study)
    moves = 100 * levers(study, at)
    named = {**moves["value"], "loss.high": moves.loc["loss", "high"], **_of_parts(study), **_of_grid(study)}
    return named | _of_rates(at) | _of_searched_rates(at) | _of_searches(study)


def _of_parts(records: StudyRecords) -> dict[str, float | str]:
    """The parts that reorder their losses: those that do so clearly more than these lie apart, and as much.

    above: whose interval lies above that. sweeps: those of as_much in `measures.SWEEPS`. recipe: by other rules.
    """
    parts = {part.name: part for part in drawable(measures.parts(records)) if part.name != "loss"}
    rules = measures.recipe_rules(records)
    named = {
        "clearly": ", ".join(name for name, part in parts.items() if part.clearly),
        "as_much": ", ".join(sorted(name for name, part in parts.items() if part.as_much)),
        "above": ", ".join(name for name, part in parts.items() if part.against.low > part.own.value),
        "sweeps": ", ".join(name for name in measures.SWEEPS if name in parts and parts[name].as_much),
        "recipe.clearly": int(rules["clearly"].sum()),
        "recipe.choices": len(rules),
    }
    return named | prose.span("recipe", 100 * rules["against"])


def _of_grid(records: StudyRecords) -> dict[str, float]:
    """Counts of pairs that swap from the best rate of the grid to the highest one, and at most by another seed."""
    best = rate_grids.best_trials(rate_grids.grid_of(records))
    swapped, _, lucky = rate_grids.turned_at(best, best.index.max(), rate_grids.seed_luck(records))
    return {"swapped": swapped, "swapped_by_seed": lucky.high}


def _of_rates(at: AtRates) -> dict[str, float | str]:
    """Effects of too high a rate, in points: gaps that change by more than noise; the newer losses over contrastive."""
    table, (gaps, gaps_of) = measures.conclusions_by_rate(at), at.moved(TOO_HIGH)
    stopped = at.by_rate[TOO_HIGH].runs.query("kind == 'rerun'")["stopped"]
    named = {"times": at.rate(TOO_HIGH) / at.rate(CHOSEN), "gaps": gaps, "gaps_of": gaps_of}
    named["cut_off"] = 100 * float((stopped == "limit").mean())
    names = {TOO_HIGH: "too_high", CHOSEN: "chosen", SEARCHED: "searched"}
    for which, lead in table[tables.CLASSICS[0]].items():
        key = f"newer.{names[which]}"
        named |= {key: 100 * lead.value, f"{key}.least": 100 * lead.low, f"{key}.most": 100 * lead.high}
    return named


def _of_searched_rates(at: AtRates) -> dict[str, str]:
    """The loss with the highest mean where the rate was searched for each, if it was."""
    return {"searched.best": at.beside(SEARCHED)[SEARCHED].idxmax()} if SEARCHED in at.by_rate else {}


def _of_searches(records: StudyRecords) -> dict[str, float]:
    """The part of the losses' spread that tuning removes, and the cost of choosing a loss by validation classes."""
    spread, chosen = searches.levelled(records), searches.choosing(records)
    return {
        "tuned_away": 100 * (1 - spread["search"] / spread["1"]),
        "spread_untuned": 100 * spread["1"],
        "spread_tuned": 100 * spread["search"],
        "after_ten": 100 * (1 - spread["10"] / spread["1"]),
        "agreement": chosen["rho"],
        "change": -100 * chosen["regret"],
        "change_by_chance": -100 * chosen["by_chance"],
        "change_by_noise": 100 * chosen["uncertain"],
    }
