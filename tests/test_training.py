"""The trainer: checkpoints, plateau, divergence, every kind of loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as pml_losses

from dmlrc import metrics, models, training
from dmlrc.data import splits
from dmlrc.errors import DivergedError, UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR, Method, build_loss, normalized
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


def train(blobs, method=TRIPLET, params=PARAMS, protocol=PROTOCOL, fold=0):
    features, labels = blobs
    source = FeatureSource(features, torch.device("cpu"))

    def make_model():
        return models.EmbeddingModel(models.FeatureTrunk(features.shape[1]), protocol.embedding_dim)

    run = training.train(members(labels)[fold], source, labels, make_model, method, params, protocol)
    return run, source, make_model


def restored(make_model, run):
    model = make_model()
    model.load_state_dict(run.weights)
    return model


def test_the_checkpoint_is_the_best_point_of_the_curve(blobs):
    run, source, make_model = train(blobs)
    best = max(run.curve, key=lambda row: row["map_at_r"])
    assert (run.best_step, run.val["map_at_r"]) == (best["step"], best["map_at_r"])
    member = members(blobs[1])[0]
    embeddings = training.embed(restored(make_model, run), source, member.val)
    again = metrics.evaluate(embeddings, blobs[1][member.val], names=("map_at_r",))
    assert again["map_at_r"] == pytest.approx(run.val["map_at_r"], abs=1e-6)


def test_training_learns(blobs):
    run, source, make_model = train(blobs, protocol=replace(PROTOCOL, max_epochs=15, patience=15))
    test = splits.halves(blobs[1]).test
    torch.manual_seed(10)
    scores = []
    for model in (make_model(), restored(make_model, run)):
        embeddings = training.embed(model, source, test)
        scores.append(metrics.evaluate(embeddings, blobs[1][test], names=("map_at_r",))["map_at_r"])
    assert scores[1] > scores[0] + 0.1


def test_the_same_seed_gives_the_same_numbers_and_another_fold_others(blobs):
    assert train(blobs)[0].curve == train(blobs)[0].curve
    assert train(blobs)[0].curve != train(blobs, fold=1)[0].curve


def test_training_leaves_the_global_random_numbers_alone(blobs):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    train(blobs)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_plateau_stops_the_run(blobs):
    run, _, _ = train(blobs, protocol=replace(PROTOCOL, lr=0.0, patience=2, max_epochs=50))
    assert run.stopped == "plateau"
    assert run.steps == 40  # best after epoch 1, given up once more than 2 epochs have passed


def test_the_limit_is_said_too(blobs):
    assert train(blobs, protocol=replace(PROTOCOL, max_epochs=2))[0].stopped == "limit"


def test_a_batch_keeps_its_size_where_classes_are_few():
    method = Method("m", "triplet", classes_per_batch=32, images_per_class=1)
    assert training.batch_layout(method, 74) == (32, 1)
    assert training.batch_layout(method, 32) == (32, 1)
    assert training.batch_layout(method, 30) == (16, 2)
    assert training.batch_layout(method, 5) == (4, 8)


def exploding(embeddings, labels, scale=1.0):
    return (embeddings * torch.nan).sum() if scale > 0.5 else embeddings.sum() * 0


def test_a_diverged_run_says_so_and_has_no_checkpoint(blobs):
    run, _, _ = train(blobs, Method("exploding", exploding, classes_per_batch=4), {"scale": 1.0})
    assert (run.state, run.stopped, run.weights) == ("diverged", "diverged", None)
    assert "NaN" in run.reason


def test_a_rate_that_overflows_is_a_divergence_not_an_error(blobs):
    run, _, _ = train(blobs, protocol=replace(PROTOCOL, lr=1e38))
    assert run.state == "diverged"


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
    ours, theirs = train(blobs)[0], train(blobs, method)[0]
    assert ours.val["map_at_r"] == pytest.approx(theirs.val["map_at_r"], abs=1e-3)


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
        train(blobs, method, {"softmax_scale": 1.0, LOSS_WEIGHTS_LR: rate}, replace(PROTOCOL, weight_decay=0.0))
        moved.append(made[-1].proxies.detach())
    assert not torch.allclose(moved[0], moved[1], atol=1e-2)


def test_unnormalised_losses_train_and_validate_on_unnormalised_embeddings(blobs):
    lengths = []

    class Lengths(torch.nn.Module):
        normalized = False

        def forward(self, embeddings, labels):
            lengths.append(embeddings.norm(dim=1))
            return embeddings.square().mean()

    method = Method("lengths", Lengths, classes_per_batch=4)
    train(blobs, method, {})
    assert not torch.allclose(lengths[0], torch.ones(16), atol=0.1)
    assert not normalized(method)
    assert not normalized(Method("lifted", "lifted_structure"))
    assert normalized(TRIPLET)


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
    _, source, make_model = train(blobs)
    model = make_model()
    model.embedder.weight.data.fill_(torch.nan)
    with pytest.raises(DivergedError, match="NaN"):
        training.embed(model, source, np.arange(5))
