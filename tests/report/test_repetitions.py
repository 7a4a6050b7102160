"""Of a study under way the repetitions that all of its methods have finished count, and no other."""

from dataclasses import replace

from factories import fake_records, searched_study
from test_hypotheses import flat

from dmlrc.report import editions, ranking, repetitions
from dmlrc.report.significance import measures

CARS = "cars196crops-frozen"
ABOUT = ("data", "protocol", "budget", "seed", "commit")


def under_way(ahead, reruns=3):
    """The first repetition of all methods, and of the next two only what these methods have so far."""
    whole = searched_study(CARS, flat())
    frames = {
        name: frame[(frame["repetition"] == 0) | frame["method"].isin(ahead)]
        for name in ("scores", "trials", "runs", "reruns")
        for frame in (getattr(whole, name),)
    }
    made = frames["reruns"]
    frames["reruns"] = made[(made["repetition"] == 0) | (made["rerun"] < reruns)]
    return replace(
        whole, **frames, meta=whole.meta | {"repetitions": 3, "budget": whole.meta["budget"] | {"reruns": 3}}
    )


def test_a_method_that_is_ahead_does_not_stand_for_the_luck_of_all():
    found = under_way(["triplet"])
    assert found.searches == 3
    kept = repetitions.whole(found)
    assert kept.searches == kept.meta["repetitions"] == 1
    assert len(kept.scores) == len(found.scores[found.scores["repetition"] == 0])
    lender = searched_study("cub200-2010-frozen", flat())
    assert measures.compare(kept, [lender]).donor == "cub200-2010-frozen"


def test_a_repetition_without_all_reruns_is_not_finished():
    every = list(flat())
    assert repetitions.whole(under_way(every, reruns=2)).searches == 1
    whole = under_way(every)
    assert repetitions.whole(whole) is whole


def test_where_no_repetition_is_finished_all_that_is_there_is_shown():
    found = under_way(["triplet"])
    begun = replace(found, reruns=found.reruns[found.reruns["method"] != "margin"])
    assert repetitions.whole(begun) is begun
    once = fake_records()
    assert repetitions.whole(once) is once


def test_of_a_table_under_way_the_methods_with_all_their_searches_may_be_taken_alone():
    found = under_way(["triplet", "margin"])
    kept = repetitions.of_finished_methods(found)
    assert set(kept.trials["method"]) == set(kept.scores["method"]) == {"triplet", "margin"}
    assert kept.searches == 3
    assert repetitions.of_finished_methods(under_way(["triplet"], reruns=2)).trials.empty
    whole = under_way(list(flat()))
    assert repetitions.of_finished_methods(whole) is whole


def test_editions_and_the_table_in_the_terminal_show_what_is_finished(monkeypatch):
    found = under_way(["triplet"])
    monkeypatch.setattr(editions.records, "load", lambda name: found)
    assert [each.searches for each in editions.load_edition(CARS)] == [1]
    monkeypatch.setattr(ranking.about, "row", lambda records: dict.fromkeys(ABOUT, ""))
    assert ranking.lines(found)[-1] == "Without the repetitions that not every method has finished yet."
    assert "Without" not in ranking.lines(repetitions.whole(found))[-1]


def with_lost(study, method, repetition):
    """All trials of this search diverged, so that it has no rerun."""
    of_it = {
        name: (frame["method"] == method) & (frame["repetition"] == repetition)
        for name in ("trials", "reruns", "runs", "scores")
        for frame in (getattr(study, name),)
    }
    trials = study.trials.assign(
        state=study.trials["state"].mask(of_it["trials"], "diverged"), value=study.trials["value"].mask(of_it["trials"])
    )
    kept = {name: getattr(study, name)[~of_it[name]] for name in ("reruns", "scores")}
    return replace(study, trials=trials, **kept)


def test_a_search_of_which_every_trial_diverged_is_finished_and_takes_no_repetition_from_the_others(monkeypatch):
    whole = under_way(list(flat()))
    trials = whole.trials.groupby(["method", "repetition"]).size().min()
    whole = replace(whole, meta=whole.meta | {"budget": whole.meta["budget"] | {"trials": int(trials)}})
    found = with_lost(whole, "triplet", 1)
    assert repetitions.lost_searches(found).to_dict("records") == [{"method": "triplet", "repetition": 1}]
    assert repetitions.whole(found) is found
    monkeypatch.setattr(ranking.about, "row", lambda records: dict.fromkeys(ABOUT, ""))
    lines = ranking.lines(found)
    assert [line.split()[2] for line in lines if "(1 search lost)" in line] == ["triplet"]
    assert any(line.startswith("lost: ") for line in lines)
    assert not any("not every method" in line for line in lines)


def test_a_search_that_is_not_at_its_end_or_was_killed_is_not_lost():
    whole = under_way(list(flat()))
    trials = int(whole.trials.groupby(["method", "repetition"]).size().min())
    more = whole.meta | {"budget": whole.meta["budget"] | {"trials": trials + 1}}
    assert repetitions.lost_searches(with_lost(replace(whole, meta=more), "triplet", 1)).empty
    enough = whole.meta | {"budget": whole.meta["budget"] | {"trials": trials}}
    killed = with_lost(replace(whole, meta=enough), "triplet", 1)
    died = killed.trials["state"] == "diverged"
    state = killed.trials["state"].mask(died, "failed")
    killed = replace(killed, trials=killed.trials.assign(state=state, seconds=0.0))
    assert repetitions.lost_searches(killed).empty
    assert repetitions.whole(killed).meta["repetitions"] == 2
