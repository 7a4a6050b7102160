"""What a CUDA device gives, beside a CPU and beside itself; test_second_device.py stands in for it where there is none.

Random numbers of the two devices differ, so only a run that draws none there has the CPU's numbers.
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from cases import loop
from small_units import ARCFACE, CONTRASTIVE, FROZEN, IMAGES, PARTIAL, assert_alike, run

from dmlrc import inputs, losses, metrics, models, records, studies
from dmlrc.executors import pool
from dmlrc.methods import Method
from dmlrc.metrics import histograms, neighbours
from dmlrc.models import settings
from dmlrc.protocol import Budget
from dmlrc.run import run as run_study

pytestmark = pytest.mark.gpu

MARGIN = Method("margin", "margin", settings={"beta": 1.2})
WAYS = {
    "features": (FROZEN, CONTRASTIVE),
    "features, class weights": (FROZEN, ARCFACE),
    "features, random triplets": (FROZEN, MARGIN),
    "maps": (PARTIAL, CONTRASTIVE),
    "images": (replace(IMAGES, augmentation="none"), CONTRASTIVE),
    "images, class weights": (replace(IMAGES, augmentation="none"), ARCFACE),
    "crop, sgd": (replace(IMAGES, optimizer="sgd"), CONTRASTIVE),
    "affine, adam": (replace(IMAGES, augmentation="affine", optimizer="adam"), ARCFACE),
    "place": (replace(IMAGES, augmentation="place", image_size=16, crop_size=12), CONTRASTIVE),
}


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setenv("DMLRC_DEVICE", "cuda")


def elsewhere(monkeypatch, tmp_path):
    """From here on, units run on the CPU with a cache of their own."""
    monkeypatch.setenv("DMLRC_DEVICE", "cpu")
    monkeypatch.setenv("DMLRC_CACHE", str(tmp_path / "cpu"))


@pytest.mark.parametrize("way", ["features", "features, class weights", "images"])
def test_a_run_without_random_numbers_is_that_of_the_cpu(photographs, monkeypatch, tmp_path, way):
    found = run(*WAYS[way])
    elsewhere(monkeypatch, tmp_path)
    expected = run(*WAYS[way])
    assert found["state"] == "complete"
    for name in ("arrays", "per_class"):  # these jump where a distance crosses the edge of a bin, or another distance
        found.pop(name, None), expected.pop(name, None)
    assert_alike(found["runs"], expected["runs"], rel=1e-3, abs=1e-4)
    assert_alike(found["scores"], expected["scores"], rel=1e-2, abs=1e-3)


def test_a_network_of_its_real_size_learns_as_on_the_cpu(photographs, monkeypatch, tmp_path):
    """Kernels that ran at once for several models gave it wrong embeddings, and smaller networks right ones."""
    protocol = replace(IMAGES, trunk="timm:mobilenetv2_100", weights=None, freeze_batch_norm=True, augmentation="none")
    found = run(replace(protocol, iterations_per_epoch=20), ARCFACE)
    elsewhere(monkeypatch, tmp_path)
    expected = run(replace(protocol, iterations_per_epoch=20), ARCFACE)
    losses = ([row["loss"] for each in of["runs"] for row in each["curve"]] for of in (found, expected))
    assert next(losses) == pytest.approx(next(losses), rel=1e-2)


def test_frozen_features_and_maps_are_those_of_the_cpu(photographs):
    images = inputs.load_images("photographs", FROZEN.trunk_input)
    places = [torch.device(name) for name in ("cpu", "cuda")]
    with settings._repeatable():
        here, there = (inputs.frozen_features(images, FROZEN.trunk_input, place) for place in places)
        assert there == pytest.approx(here, rel=1e-4, abs=1e-5)
        here, there = (inputs.frozen_maps(images, PARTIAL.trunk_input, place) for place in places)
    assert there == pytest.approx(here, rel=2e-3, abs=1e-3)  # float16 has ten bits


@pytest.mark.parametrize("way", WAYS)
def test_the_same_seed_gives_the_same_numbers(photographs, way):
    assert run(*WAYS[way]) == run(*WAYS[way])


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_another_precision_trains_and_repeats_itself(photographs, precision):
    protocol = replace(WAYS["images"][0], precision=precision)
    assert run(protocol, CONTRASTIVE) == run(protocol, CONTRASTIVE)
    assert run(protocol, CONTRASTIVE)["state"] == "complete"


@loop("name", losses.names())
def test_the_same_batch_gives_the_same_gradients(name):
    labels = torch.arange(8).repeat_interleave(4).cuda()

    def step():
        torch.manual_seed(0)
        loss = losses.create(name, num_classes=32, embedding_dim=16).cuda()
        embeddings = F.normalize(torch.randn(32, 16)).cuda().requires_grad_()
        value = loss(embeddings, labels)
        value.backward()
        return [value.detach(), embeddings.grad, *(weight.grad for weight in loss.parameters())]

    with settings._repeatable():
        first = step()
        for _ in range(3):
            assert all(torch.equal(one, other) for one, other in zip(step(), first, strict=True))


@pytest.mark.parametrize("trunk", ["conv4", "squeezenet1_0", "bn_inception", "resnet50"])
def test_the_same_images_give_a_trunk_the_same_gradients(trunk):
    torch.manual_seed(0)
    network = models.EmbeddingModel(models.create_trunk(trunk), 32).cuda()
    images = torch.rand(8, 1 if trunk == "conv4" else 3, 64, 64, device="cuda")
    for layer in network.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0

    def gradients():
        return torch.autograd.grad(network(images).square().mul(torch.arange(32, device="cuda")).sum(), weights)

    weights = [weight for weight in network.parameters() if weight.requires_grad]
    with settings._repeatable():
        assert all(torch.equal(one, other) for one, other in zip(gradients(), gradients(), strict=True))


def test_the_neighbours_of_many_are_those_of_the_cpu():
    generator = torch.Generator().manual_seed(0)
    points = F.normalize(torch.randn(20_000, 64, generator=generator))
    labels = torch.arange(20_000) % 4000
    names = ("precision_at_1", "r_precision", "map_at_r", "recall_at_10")
    found = metrics.evaluate(points.cuda(), labels.cuda(), names)
    assert found == pytest.approx(metrics.evaluate(points, labels, names), rel=1e-12)  # sums of the same scores


def test_the_pairs_are_those_of_the_cpu():
    """Several tiles; bins that bytes can number, and more. Rounding may move a few pairs to the next bin."""
    points = F.normalize(torch.randn(5000, 64, generator=torch.Generator().manual_seed(0)))
    labels = torch.arange(5000) % 40
    for bins in (histograms.BINS, 1000):
        _, *found = histograms.pair_histograms(points.cuda(), labels.cuda(), bins)
        _, *expected = histograms.pair_histograms(points, labels, bins)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.sum() == theirs.sum()
            assert abs((ours - theirs).cumsum()).max() < 1e-5 * bins * theirs.sum()


def test_faiss_finds_the_neighbours_of_the_product():
    faiss = pytest.importorskip("faiss")
    if not hasattr(faiss, "knn_gpu"):
        pytest.skip("this faiss is one of the CPU")
    points = F.normalize(torch.randn(9000, 64, generator=torch.Generator().manual_seed(0))).cuda()
    own = torch.arange(9000, device="cuda")
    knn = neighbours._faiss_knn(points.device)
    found = neighbours._nearest_by_faiss(knn, points, points, 10, own, batch=3000)
    distances = torch.cat([near for _, near, _ in found])
    expected = torch.cat([near for _, near, _ in neighbours._nearest_by_product(points, points, 10, own)])
    torch.testing.assert_close(distances, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_study_is_run_and_says_where(workers):
    quick = studies.get("grocery-quick")
    budget = Budget("test", trials=2, reruns=1, max_epochs=1, iterations_per_epoch=4)
    short = replace(quick, name=f"test{workers}", budget=budget, methods=quick.methods[:2])
    with pool(workers) as executor:
        run_study(short, executor=executor, workers=workers)
    reruns = records.load(short.name).reruns
    assert set(reruns["device"]) == {torch.cuda.get_device_name(0)}
    assert (reruns["state"] == "complete").all()
