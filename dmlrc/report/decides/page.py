"""What moves a score and a ranking, as the chapter prints it: cells of tables, and the numbers of its text."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, prose, tables
from dmlrc.report import rates as rate_grids
from dmlrc.report.decides import measures
from dmlrc.report.decides.levers import LEVERS, levers  # noqa: F401
from dmlrc.report.decides.measures import CHOSEN, SEARCHED, TOO_HIGH, AtRates, Part
from dmlrc.report.results_table import number, results_table, with_lift
from dmlrc.report.significance.measures import SEEDS
from dmlrc.report.significance.page import scored


def drawable(found: Sequence[Part]) -> list[Part]:
    """The parts of which it is known how they move methods against one another: those of more than one method."""
    return [part for part in found if not np.isnan(part.against.value)]


def part_numbers(found: Sequence[Part]) -> pd.DataFrame:
    """A row a part, fractions, for the download."""
    rows = [{**vars(part), **vars(part.against)} for part in found]
    heads = {"value": "against", "low": "low", "high": "high", "how": "interval", "together": "together"}
    heads |= {"levels": "levels", "methods": "methods", "on": "classes", "mean": "mean"}
    return pd.DataFrame(rows).set_index("name")[list(heads)].rename(columns=heads).rename_axis("part")


def part_cells(found: Sequence[Part]) -> pd.DataFrame:
    """`part_numbers` as cells; percent of the mean MAP@R, which is itself a column."""
    table = part_numbers(found)
    shares = table[["against", "low", "high", "together"]].map(lambda share: number(share, form=".1%"))
    against, low, high, together = (shares[name] for name in shares)
    cells = {
        "relative to one another": against.replace("", "one method only"),
        "interval": (low + " to " + high).where(against != "", "–"),
        "together": together.replace("", "–"),
        "levels": table["levels"].map("{:,}".format),
        "methods": table["methods"].map(str),
        "classes": table["classes"],
        "mean MAP@R": table["mean"].map(number),
    }
    return pd.DataFrame(cells).rename_axis("Part")


def rate_head(found: AtRates, which: str) -> str:
    """The heading of one of the rates: the rate, and how it came to be."""
    return which if which == SEARCHED else f"{labels.rate(found.rate(which))} ({which})"


def rates_cells(found: AtRates) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test scores at each rate as cells and marks, a row a method; last, where rates were searched, those found."""
    parts = []
    for which, records in found.made.items():
        scores = scored(found.scores[which], head := rate_head(found, which), found.untrained)
        trunk = pd.DataFrame({"row": [PRETRAINED], "column": head, "mean": found.untrained})
        parts += [scores.assign(cut_off=tables.cut_off(records)), trunk.dropna()]
    cells, marks = results_table(with_lift(pd.concat(parts, ignore_index=True)))
    if SEARCHED in found.made:
        rates = found.rates_found().map(labels.rate)
        cells["rate found"], marks["rate found"] = rates.reindex(cells.index).fillna("–"), ""
    return tuple(frame.rename(index=labels.method_label).rename_axis("Method") for frame in (cells, marks))


def levels_cells(found: AtRates) -> pd.DataFrame:
    """`measures.levels` as cells, in points; without a row where that is empty."""
    frame = measures.levels(found)
    if frame.empty:
        return frame
    parts = [pd.DataFrame({"row": frame.index, "column": "worst to best", "mean": frame["spread"]})]
    known = np.array([found.compared[which].luck != SEEDS for which in frame.index])
    for base in (name for name in tables.CLASSICS if name in frame):
        gains = {"mean": [each.value for each in frame[base]], "half": [each.half for each in frame[base]]}
        part = pd.DataFrame(gains | {"row": frame.index, "column": f"newer over {labels.method_label(base)}"})
        parts.append(part.assign(half=part["half"].where(known), form="+.2%"))
    differ = (frame["differ"].astype(str) + " of " + frame["pairs"].astype(str)).where(known, "not known")
    parts.append(pd.DataFrame({"row": frame.index, "column": "pairs that differ", "text": differ}))
    cells, _ = results_table(pd.concat(parts, ignore_index=True))
    return cells.rename(index=lambda which: rate_head(found, which)).rename_axis("Learning rate")


def levelled_cells(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`levelled` as cells: a row a study, a column a number of trials; points."""
    table = pd.DataFrame.from_dict({records.name: measures.levelled(records) for records in edition}, orient="index")
    heads = {count: f"{count} random" for count in table if count != "search"} | {"search": "whole search"}
    return table.map(number).replace("", "–").rename(columns=heads).rename_axis("Study")


# The numbers of the text


def numbers(edition: Sequence[StudyRecords]) -> dict[str, float | str]:
    """What the text of the page rests on: points of MAP@R and percent, a study by its data set."""
    found = prose.of_each(edition, _of_study)
    for key in ("loss", "joined", "newer.too_high", "newer.chosen", "spread_untuned"):
        found |= prose.span(key, [found[f"{each.meta['dataset']}.{key}"] for each in edition])
    return found


def _of_study(study: StudyRecords) -> dict[str, float | str]:
    at = measures.at_rates(study)
    named = {**100 * levers(study, at)["value"], **_of_parts(study), **_of_grid(study)}
    return named | _of_rates(at) | _of_searches(study)


def _of_parts(records: StudyRecords) -> dict[str, float | str]:
    """The parts that reorder the losses, in percent of the mean score.

    clearly: those whose interval lies above that of the loss; as_much: those whose value does; recipe.low and high:
    without each of the papers in turn.
    """
    by_name = {part.name: part.against for part in drawable(measures.parts(records))}
    loss, recipes = by_name.pop("loss"), measures.without_each_recipe(records).values()
    clearly = [name for name, against in by_name.items() if against.low > loss.high]
    as_much = sorted(name for name, against in by_name.items() if against.value >= loss.value)
    found = {"clearly": ", ".join(clearly), "as_much": ", ".join(as_much)}
    return found | prose.span("recipe", [100 * each for each in recipes])


def _of_grid(records: StudyRecords) -> dict[str, float]:
    """How many pairs of losses swap from the best rate of the grid to the highest, and by another seed at most.

    own: how many losses score higher at another rate than the best on average.
    """
    best = rate_grids.best_trials(rate_grids.grid_of(records))
    swapped, _, lucky = rate_grids.turned_at(best, best.index.max(), rate_grids.seed_luck(records))
    own_rate = int((best.max() > best.loc[rate_grids.best_rate(best)]).sum())
    return {"swapped": swapped, "swapped_by_seed": lucky.high, "own_rate": own_rate}


def _of_rates(at: AtRates) -> dict[str, float | str]:
    """What a rate that is too high makes of the test scores, in points.

    gaps: how many gaps between two losses change by more than noise; cut_off: percent of its reruns that were; newer:
    the newer losses over the contrastive one, with the least that the interval allows; fell_short: the loss whose own
    search of the rate ended furthest below the shared rate on validation classes, and below: whether that loss ends
    below the untrained trunk.
    """
    table, (gaps, gaps_of) = measures.levels(at), at.moved(TOO_HIGH)
    stopped = at.made[TOO_HIGH].runs.query("kind == 'rerun'")["stopped"]
    found = {"times": at.rate(TOO_HIGH) / at.rate(CHOSEN), "gaps": gaps, "gaps_of": gaps_of}
    found["cut_off"] = 100 * float((stopped == "limit").mean())
    for which, name in ((TOO_HIGH, "too_high"), (CHOSEN, "chosen")):
        lead = table.loc[which, tables.CLASSICS[0]]
        found |= {f"newer.{name}": 100 * lead.value, f"newer.{name}.least": 100 * lead.low}
    if SEARCHED in at.made:
        both = (measures.validation_and_test(at.made[which])["validation"] for which in (CHOSEN, SEARCHED))
        shared, own = (each.groupby("method").mean() for each in both)
        short = (shared - own).dropna()
        found |= {"fell_short": short.idxmax(), "short": 100 * short.max()}
        found["below"] = ", ".join(at.means.index[at.means[SEARCHED] < at.untrained])
    return found


def _of_searches(records: StudyRecords) -> dict[str, float]:
    """What tuning takes away of the spread between losses, and what choosing a loss by validation classes changes."""
    spread, chosen = measures.levelled(records), measures.choosing(records)
    return {
        "tuned_away": 100 * (1 - spread["search"] / spread["1"]),
        "spread_untuned": 100 * spread["1"],
        "spread_tuned": 100 * spread["search"],
        "after_ten": 100 * (1 - spread["10"] / spread["1"]),
        "agreement": chosen["rho"],
        "change": -100 * chosen["regret"],
        "change_by_noise": 100 * chosen["uncertain"],
    }
