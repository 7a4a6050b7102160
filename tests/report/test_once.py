"""What pages derive from records: once from the same ones, again from others."""

from dataclasses import replace

import pytest
from factories import fake_records

from dmlrc.report import claims, once
from dmlrc.report.claims import rule, verdicts
from dmlrc.report.hypotheses import measures


def test_claims_are_judged_again_by_other_records_alone(monkeypatch):
    judged = []

    def judge(claim, evidence, *more):
        judged.append(claim.id)
        return rule.Judgement(rule.NOT_RUN, "")

    monkeypatch.setattr(rule, "judge_claim", judge)
    main, asked = fake_records(), [claim for claim in claims.CLAIMS if claim.needs == ("main",)][:2]
    with once.deriving_once():
        first = verdicts.judgements(main, asked)
        assert verdicts.judgements(main, asked[:1]) == {asked[0].id: first[asked[0].id]}
        assert judged == [claim.id for claim in asked]
        verdicts.judgements(replace(main, meta=dict(main.meta)), asked)
        assert judged == 2 * [claim.id for claim in asked]
    assert rule.judge_claim is judge


def test_what_goes_by_names_is_of_one_clone(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(measures, "lenders", lambda study: asked.append(study) or [study])
    with once.deriving_once():
        for home, study in [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")]:
            monkeypatch.setenv("DMLRC_HOME", str(tmp_path / home))
            assert measures.lenders(study) == [study]
        assert asked == ["x", "y", "x"]
    with pytest.raises(ZeroDivisionError), once.deriving_once():
        raise ZeroDivisionError
    assert measures.lenders("x") == ["x"]
    assert asked == ["x", "y", "x", "x"]
