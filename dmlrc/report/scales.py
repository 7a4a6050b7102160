"""CosFace and ProxyNCA with their scales searched in logarithms, beside the linear searches of the tables.

The values that won linear searches lie low in their ranges, where a linear search seldom looks.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dmlrc import search
from dmlrc.records import StudyRecords
from dmlrc.report import labels, statistics, tables
from dmlrc.report.hypotheses import whole
from dmlrc.report.significance import measures as significance

SCALES = {"cosface": "scale", "proxy_nca": "softmax_scale"}
LINEAR, LOGARITHMIC = "linear", "logarithmic"
SCALE_CELLS = {
    ("difference", "low", "high"): ("gain", "+.2%"),
    "test": "test",
    "validation": "validation",
    "luck": "SD between searches",
    ("lowest", "highest"): ("scales that won", lambda *ends: " to ".join(map(labels.number, ends))),
}
"""`compare_scales` as printed (`labels.cells`): MAP@R in percent and points."""


def compare_scales(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The two ways to search a scale, of each table beside which the logarithmic one is complete.

    A row a study, method and way. Columns: study, method, way, validation (best MAP@R of each search, their mean), test
    (concatenated MAP@R), difference, low, high (of test MAP@R from the linear way, Welch's over the searches; NaN in
    that way's row), luck (SD of test MAP@R between the searches), lowest and highest (of the scales that won).
    """
    rows = []
    for main in edition:
        if again := whole.complete(f"{main.name}/log-scales"):
            ways = {LINEAR: main, LOGARITHMIC: again.records}
            rows += [
                {"study": main.name, "method": method, "way": way}
                | _validation(study, method)
                | _test(_tests(study, method), _tests(main, method) if way == LOGARITHMIC else None)
                for method in SCALES
                for way, study in ways.items()
            ]
    return pd.DataFrame(rows)


def _tests(records: StudyRecords, method: str) -> pd.Series:
    """Concatenated test MAP@R of each search of a method, the mean of its reruns."""
    return significance.of_searches(significance.scores(records)).loc[method]


def _test(scores: pd.Series, linear: pd.Series | None) -> dict[str, float]:
    row = {"test": scores.mean(), "luck": scores.std()}
    if linear is None:
        return row | dict.fromkeys(("difference", "low", "high"), np.nan)
    gain = statistics.welch(scores, linear, "searches")
    return row | {"difference": gain.value, "low": gain.low, "high": gain.high}


def _validation(records: StudyRecords, method: str) -> dict[str, float]:
    trials = records.trials[records.trials["method"] == method]
    best = [search.best(part.to_dict("records")) for _, part in trials.groupby("repetition")]
    scales = [trial["params"][SCALES[method]] for trial in best]
    value = float(np.mean([trial["value"] for trial in best]))
    return {"validation": value, "lowest": min(scales), "highest": max(scales)}


def winning_places(study: StudyRecords) -> list[float]:
    """Places of each method's lowest and highest winning scale in its linear range: 0 the lower end, 1 the upper."""
    places = []
    for method, scale in SCALES.items():
        limits, ends = tables.METHODS[method].space[scale], _validation(study, method)
        places += [(ends[end] - limits.low) / (limits.high - limits.low) for end in ("lowest", "highest")]
    return places


def gains(ways: pd.DataFrame) -> pd.DataFrame:
    """Gains of the logarithmic way in `compare_scales`, by study and method: validation and test MAP@R, fractions."""
    scores = ways.set_index(["study", "method", "way"])[["validation", "test"]].unstack("way")
    return scores.xs(LOGARITHMIC, axis=1, level="way") - scores.xs(LINEAR, axis=1, level="way")
