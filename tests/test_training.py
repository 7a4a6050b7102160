"""The trainer: stacked members against single ones, checkpoints, plateau, divergence, every kind of loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as pml_losses

from dmlrc import metrics, models, training
from dmlrc.data import splits
from dmlrc.errors import DivergedError, UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR, Method, build_loss
from dmlrc.papers import musgrave2020
from dmlrc.sources import FeatureSource

PROTOCOL = replace(
    musgrave2020.FROZEN, embedding_dim=4, lr=1e-2, momentum=0.0, iterations_per_epoch=10, eval_every=1, max_epochs=6
)
TRIPLET = Method("triplet", "triplet", classes_per_batch=4, images_per_class=4)
PARAMS = {"margin": 0.2}


def members(labels, folds=4):
    made = splits.halves(labels, folds=folds).folds
    return [training.Member(number, 10 + number, fold.train, fold.val) for number, fold in enumerate(made)]


def train(blobs, method=TRIPLET, params=PARAMS, protocol=PROTOCOL, only=None):
    features, labels = blobs
    source = FeatureSource(features, torch.device("cpu"))

    def make_model():
        return models.EmbeddingModel(models.FeatureTrunk(features.shape[1]), protocol.embedding_dim)

    chosen = members(labels) if only is None else [members(labels)[only]]
    return training.train(chosen, source, labels, make_model, method, params, protocol), source, make_model


def test_a_member_trains_the_same_alone_as_in_a_stack(blobs):
    stacked, _, _ = train(blobs)
    for fold in range(4):
        (alone,), _, _ = train(blobs, only=fold)
        for name in alone.weights:
            torch.testing.assert_close(alone.weights[name], stacked[fold].weights[name], rtol=1e-4, atol=1e-5)


def test_members_that_stop_leave_the_others_as_they_were(blobs):
    # with no patience the members stop at different epochs, so the stack is cut while it trains
    impatient = replace(PROTOCOL, patience=0, max_epochs=12)
    stacked, _, _ = train(blobs, protocol=impatient)
    assert len({run.steps for run in stacked}) > 1
    for fold in range(4):
        (alone,), _, _ = train(blobs, protocol=impatient, only=fold)
        assert (alone.steps, alone.best_step, alone.stopped) == (
            stacked[fold].steps,
            stacked[fold].best_step,
            stacked[fold].stopped,
        )
        assert alone.val["map_at_r"] == pytest.approx(stacked[fold].val["map_at_r"], abs=1e-3)


def test_the_checkpoint_is_the_best_point_of_the_curve(blobs):
    (run, *_), source, make_model = train(blobs)
    best = max(run.curve, key=lambda row: row["map_at_r"])
    assert (run.best_step, run.val["map_at_r"]) == (best["step"], best["map_at_r"])
    member = members(blobs[1])[0]
    embeddings = training.embed(make_model(), run.weights, source, member.val)
    again = metrics.evaluate(embeddings, torch.from_numpy(blobs[1][member.val]), names=("map_at_r",))
    assert again["map_at_r"] == pytest.approx(run.val["map_at_r"], abs=1e-6)


def test_training_learns(blobs):
    features, labels = blobs
    runs, source, make_model = train(blobs, protocol=replace(PROTOCOL, max_epochs=15, patience=15))
    test = splits.halves(labels).test
    torch.manual_seed(10)
    untrained = training.embed(make_model(), make_model().state_dict(), source, test)
    trained = training.embed(make_model(), runs[0].weights, source, test)
    test_labels = torch.from_numpy(labels[test])
    before, after = (metrics.evaluate(e, test_labels, names=("map_at_r",))["map_at_r"] for e in (untrained, trained))
    assert after > before + 0.1


def test_same_seed_same_numbers(blobs):
    first, _, _ = train(blobs)
    second, _, _ = train(blobs)
    assert [run.curve for run in first] == [run.curve for run in second]


def test_a_plateau_stops_the_run(blobs):
    frozen = replace(PROTOCOL, lr=0.0, patience=2, max_epochs=50)
    runs, _, _ = train(blobs, protocol=frozen)
    assert {run.stopped for run in runs} == {"plateau"}
    assert {run.steps for run in runs} == {40}  # best after epoch 1, given up once more than 2 epochs have passed


def exploding(embeddings, labels, scale=1.0):
    return (embeddings * torch.nan).sum() if scale > 0.5 else embeddings.sum() * 0


def test_a_diverged_run_says_so_and_has_no_checkpoint(blobs):
    runs, _, _ = train(blobs, Method("exploding", exploding, classes_per_batch=4), {"scale": 1.0})
    assert {run.state for run in runs} == {"diverged"}
    assert all(run.weights is None and "nan" in run.reason for run in runs)


def test_one_diverged_member_leaves_the_others(blobs):
    target = members(blobs[1])[0].seed

    class Fragile(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fails = torch.initial_seed() == target  # the seed that the trainer builds this member under

        def forward(self, embeddings, labels):
            if self.fails:
                raise DivergedError("made to fail")
            return TRIPLET_LOSS(embeddings, labels)

    runs, _, _ = train(blobs, Method("fragile", Fragile, classes_per_batch=4), {})
    whole, _, _ = train(blobs)
    assert [run.state for run in runs] == ["diverged", "complete", "complete", "complete"]
    assert runs[0].reason == "made to fail"
    assert runs[1].val["map_at_r"] == pytest.approx(whole[1].val["map_at_r"], abs=1e-3)


TRIPLET_LOSS = build_loss(TRIPLET, PARAMS, num_classes=6, embedding_dim=4)


def my_triplet(embeddings, labels, margin=0.1):
    return build_loss(TRIPLET, {"margin": margin}, 6, 4)(embeddings, labels)


@pytest.mark.parametrize(
    "method",
    [
        Method("function", my_triplet, classes_per_batch=4),
        Method("class", pml_losses.TripletMarginLoss, classes_per_batch=4),
    ],
    ids=lambda method: method.name,
)
def test_functions_and_package_losses_are_methods_too(blobs, method):
    ours, _, _ = train(blobs)
    theirs, _, _ = train(blobs, method)
    for run, other in zip(ours, theirs, strict=True):
        assert run.val["map_at_r"] == pytest.approx(other.val["map_at_r"], abs=1e-3)


def test_a_ready_module_is_copied_for_each_run(blobs):
    shared = pml_losses.ProxyNCALoss(num_classes=6, embedding_size=4)
    before = shared.proxies.detach().clone()
    method = Method("ready", shared, settings={}, classes_per_batch=6, images_per_class=2)
    train(blobs, method, {LOSS_WEIGHTS_LR: 0.1})
    assert torch.equal(shared.proxies, before)


def test_the_weights_of_a_loss_learn_at_their_own_rate(blobs, monkeypatch):
    made = []

    def remember(*arguments):
        made.append(build_loss(*arguments))
        return made[-1]

    monkeypatch.setattr(training, "build_loss", remember)
    method = Method("proxies", "proxy_nca", classes_per_batch=6, images_per_class=1)
    moved = []
    for rate in (0.0, 0.1):
        train(blobs, method, {"softmax_scale": 1.0, LOSS_WEIGHTS_LR: rate}, replace(PROTOCOL, weight_decay=0.0), only=0)
        torch.manual_seed(10)
        train_again = made[-1].proxies.detach()
        moved.append(train_again)
    assert not torch.allclose(moved[0], moved[1], atol=1e-2)


@pytest.mark.parametrize("value", [1.0, torch.ones(3, requires_grad=True), torch.ones(())], ids=str)
def test_a_loss_that_is_no_scalar_of_the_embeddings_is_named(blobs, value):
    with pytest.raises(UsageError, match="'odd' must return a scalar tensor"):
        train(blobs, Method("odd", lambda embeddings, labels: value, classes_per_batch=4), {})


def test_unknown_hyperparameters_are_named():
    with pytest.raises(UsageError, match="'triplet' has no parameter 'marginn'"):
        build_loss(TRIPLET, {"marginn": 1.0}, 6, 4)
    with pytest.raises(UsageError, match="'mine' cannot be called"):
        build_loss(Method("mine", my_triplet), {"power": 2}, 6, 4)
    with pytest.raises(UsageError, match="ready module"):
        build_loss(Method("ready", pml_losses.TripletMarginLoss()), {"margin": 2}, 6, 4)


def test_embedding_nan_weights_is_an_error(blobs):
    runs, source, make_model = train(blobs)
    broken = {name: tensor * np.nan for name, tensor in runs[0].weights.items()}
    with pytest.raises(DivergedError, match="NaN"):
        training.embed(make_model(), broken, source, np.arange(5))
