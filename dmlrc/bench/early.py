"""Settings that searches had found after 10 and 25 of their trials; the study TABLE/early-winners trains them again."""

import json

import pandas as pd

from dmlrc import records, search
from dmlrc.methods import row_name
from dmlrc.studies.adapted import GRIDS_OF
from dmlrc.studies.early import FILE, level

TRIALS = (10, 25)


def winners(table: str) -> pd.DataFrame:
    """The best trial of every search of a table among its first 10, its first 25 and all.

    Columns: method, repetition (of the search), trials (10, 25, or of the whole search), value (validation MAP@R, a
    fraction), settings (JSON), row (the row of TABLE/early-winners whose reruns are of these settings; None where the
    whole search keeps them, so that the table's own reruns are).
    """
    of_searches = []
    for (method, repetition), trials in records.load(table).trials.groupby(["method", "repetition"], observed=True):
        in_order = trials.sort_values("trial").to_dict("records")
        best = {count: search.best(in_order[:count]) for count in (*TRIALS, len(in_order))}
        best = {count: trial for count, trial in best.items() if trial}  # the first ones may all have failed
        settings = {count: json.dumps(trial["params"]) for count, trial in best.items()}
        for count, trial in best.items():
            first = next(earlier for earlier in best if settings[earlier] == settings[count])
            kept = settings[count] == settings[len(in_order)]
            row = None if kept else row_name(method, level(repetition, first))
            of_search = {"method": method, "repetition": repetition, "trials": count}
            of_searches.append(of_search | {"value": trial["value"], "settings": settings[count], "row": row})
    return pd.DataFrame(of_searches)


def to_be_trained() -> pd.DataFrame:
    """The settings of all tables that another trial beat later, each once: what `dmlrc.studies.early` reads."""
    parts = []
    for table in GRIDS_OF:
        of_table = winners(table)
        early = of_table[of_table["row"].notna()].drop_duplicates("row")
        parts.append(early.assign(study=table).sort_values(["repetition", "trials"], kind="stable"))
    return pd.concat(parts)[["study", "method", "repetition", "trials", "settings"]]


if __name__ == "__main__":
    to_be_trained().to_csv(FILE, index=False)
