"""What a longer search gains: differences by plain loops, the early settings' test scores made up."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from dmlrc import records, studies
from dmlrc.report import labels, longer
from dmlrc.report.tables import METHODS
from dmlrc.studies.adapted import GRIDS_OF

ROOT = Path(__file__).parents[2]
TABLES = list(GRIDS_OF)[:2]


@pytest.fixture(autouse=True)
def scores(monkeypatch):
    """Study -> test scores of its early settings, four numbers a row: three reruns of single models, one of joined.

    Those of the last table are not complete.
    """
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    rng, frames = np.random.default_rng(0), {}
    for table in TABLES:
        rows = [
            {"method": method.name, "setting": setting, "metric": "map_at_r", "value": rng.uniform()}
            for method in studies.get(f"{table}/early-winners").methods
            for setting in ("separated", "separated", "separated", "concatenated")
        ]
        frames[f"{table}/early-winners"] = pd.DataFrame(rows)

    def complete(name):
        return SimpleNamespace(records=SimpleNamespace(scores=frames[name])) if name in frames else None

    monkeypatch.setattr(longer.whole, "complete", complete)
    return frames


def test_gains_are_what_the_whole_search_has_more(scores):
    found = longer.gains_of_searches(longer.scores_so_far()).set_index(["table", "method", "repetition", "trials"])
    assert len(found) == 2 * 14 * 3 * 2
    for table, made_up in scores.items():
        study = records.load(table.removesuffix("/early-winners"))
        searches = dict(iter(study.trials.groupby(["method", "repetition"])))
        means = study.scores.query("setting == 'separated' and metric == 'map_at_r'")
        means = means.groupby(["method", "repetition"])["value"].mean()
        for (_, method, repetition, count), gain in found.loc[[study.name]].iterrows():
            trials = searches[method, repetition]
            values = dict(zip(trials["trial"], trials["value"].fillna(-1), strict=True))
            params = dict(zip(trials["trial"], trials["params"], strict=True))  # a search may try a setting twice
            first = max((trial for trial in values if trial < count), key=values.get)
            last = max(values, key=values.get)
            assert gain["validation"] == pytest.approx(values[last] - values[first])
            if params[first] == params[last]:
                assert gain["test"] == 0
                continue
            # where the winner after 10 trials is still that after 25, it was trained once, as that after 10
            at_10 = max((trial for trial in values if trial < 10), key=values.get)
            name = f"{method}@search{repetition + 1}-trials{10 if params[first] == params[at_10] else 25}"
            again = made_up.loc[(made_up["method"] == name) & (made_up["setting"] == "separated"), "value"]
            assert len(again) == 3
            assert gain["test"] == pytest.approx(means[method, repetition] - again.mean())


def test_a_cell_is_the_mean_over_losses_of_the_mean_over_searches():
    found = longer.gains_of_searches(longer.scores_so_far())
    table = TABLES[1]
    part = found[(found["table"] == table) & (found["trials"] == 25)]
    means = [100 * part.loc[part["method"] == method, "test"].mean() for method in sorted(set(part["method"]))]
    half = 2.160369 * np.std(means, ddof=1) / np.sqrt(14)
    cell = longer.longer_table(found).loc[labels.dataset(records.load(table)), ("test classes", "after 25")]
    assert cell == f"{np.mean(means):+.2f} ± {half:.2f}"
    named = longer.numbers()
    assert named["tables"] == 2
    assert named[f"{studies.get(table).dataset}.test.25"] == pytest.approx(np.mean(means))
    assert named["kept.25"] == pytest.approx(100 * (found.loc[found["trials"] == 25, "validation"] == 0).mean())


def test_the_loss_is_that_with_the_best_mean_on_validation_classes():
    found = longer.scores_so_far()
    cells, named = longer.chosen_table(found), longer.numbers()
    rhos = {10: [], 25: []}
    for table in TABLES:
        of_table, orders = found[found["table"] == table], {}
        for count in (10, 25, 50):
            part = of_table[of_table["trials"] == count]
            means = {}
            for method in sorted(set(part["method"])):
                rows = part[part["method"] == method]
                assert len(rows) == 3
                means[method] = rows["validation"].mean(), rows["test"].mean()
            best = max(means, key=lambda method: means[method][0])
            cell = cells.loc[labels.dataset(records.load(table)), f"after {count}"]
            assert cell == f"{METHODS[best].label} {100 * means[best][1]:.1f}"
            orders[count] = [test for _, test in means.values()]
        for count, of_tables in rhos.items():
            of_tables.append(spearmanr(orders[count], orders[50]).statistic)
    for count, of_tables in rhos.items():
        ends = named[f"rho.{count}.low"], named[f"rho.{count}.high"]
        assert ends == pytest.approx((min(of_tables), max(of_tables)))


def test_where_no_table_is_complete_that_is_said(scores):
    scores.clear()
    assert longer.longer_table(longer.gains_of_searches(longer.scores_so_far())).iloc[0, 0] == "Not run here yet"
    assert longer.chosen_table(longer.scores_so_far()).iloc[0, 0] == "Not run here yet"
    assert longer.numbers() == {"tables": 0}
