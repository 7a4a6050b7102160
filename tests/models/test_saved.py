"""Models that training leaves: written, read back, and the same as those that were scored."""

import copy
import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image
from typer.testing import CliRunner

from dmlrc import cli, data, metrics, models, records, run, studies, unit
from dmlrc.data.splits import halves
from dmlrc.errors import DivergedError, DmlrcError, MissingDataError, UsageError
from dmlrc.inputs import load_images
from dmlrc.models import saved

FROZEN = """
[mine]
like = "grocery-quick"
{data}
folds = 2
trials = 1
reruns = 1
iterations_per_epoch = 3
max_epochs = 1
"""


@pytest.fixture
def photos(home):
    """Eight classes of four pictures of a colour each, wider than high, and a study of them on frozen features."""
    rng = np.random.default_rng(0)
    for label in range(8):
        folder = home / "pictures" / f"class {label}"
        folder.mkdir(parents=True)
        for place in range(4):
            pixels = rng.integers(0, 60, (48, 64, 3)) + np.array([label * 20, 150 - label * 15, label % 3 * 60])
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{place}.png")
    small = f'dataset = "folder:{home / "pictures"}"\nimage_size = 32\ncrop_size = 32'
    (home / "studies.toml").write_text(FROZEN.format(data=small))
    return home / "pictures"


def test_a_loaded_model_gives_the_recorded_scores_from_photographs(photos, tmp_path):
    chosen, runs = studies.get("mine"), photos.parent / "runs"
    run.run(chosen, [chosen.method("contrastive")])
    dates = records.load("mine").reruns["finished"].tolist()
    run.run(chosen, [chosen.method("contrastive")], save_models=True)
    found = records.load("mine")
    assert found.reruns["finished"].tolist() == dates  # the rerun was made again for its model; its record stays
    assert not list(runs.rglob("replaced-*"))
    [path] = runs.rglob("*.safetensors")
    written = path.stat().st_mtime_ns
    run.run(chosen, [chosen.method("contrastive")], save_models=True)  # nothing is left to do
    assert path.stat().st_mtime_ns == written
    assert records.problems("mine") == []
    model = models.load(path)
    test = halves(load_images(chosen.dataset, chosen.protocol).labels, folds=2).test
    files = sorted(photos.rglob("*.png"))
    labels = np.repeat(np.arange(8), 4)
    recorded = found.scores[found.scores["method"] == "contrastive"].set_index(["setting", "metric"])["value"]
    for images in ([files[place] for place in test], [Image.open(files[place]) for place in test]):
        embeddings = torch.from_numpy(model.embed(images))
        assert embeddings.shape == (16, 2 * 128)
        for name, value in metrics.evaluate(embeddings, labels[test], names=("map_at_r", "precision_at_1")).items():
            assert value == pytest.approx(recorded["concatenated", name], abs=1e-4)
    result = CliRunner().invoke(cli.app, ["embed", str(path), str(photos), "--output", str(tmp_path / "e.npz")])
    assert result.exit_code == 0, result.output
    written = np.load(tmp_path / "e.npz")
    assert written["paths"].tolist() == [str(file) for file in files]
    assert np.allclose(written["embeddings"][test], embeddings, atol=1e-6)
    pairs = [(Image.open(file), 0) for file in files[:2]]  # as a Dataset has them
    assert np.allclose(model.embed(pairs), written["embeddings"][:2], atol=1e-6)
    pixels = torch.rand(2, 3, 32, 32)
    assert torch.equal(model(pixels.double()), model(pixels))
    assert np.allclose(model.embed(pixels.bfloat16()), model(pixels.bfloat16()).detach(), atol=1e-6)
    with pytest.raises(UsageError, match=r"float images are in \[0, 1\], not up to 255"):
        model(255 * (pixels / pixels.max()))
    for images in (pairs, [image for image, _ in pairs], files[:2]):  # called, it takes what `embed` takes
        assert np.allclose(model(images), written["embeddings"][:2], atol=1e-6)
    for one in (pairs[0][0], files[0], str(files[0])):
        assert np.allclose(model(one), written["embeddings"][:1], atol=1e-6)
        assert np.allclose(model.embed(one), written["embeddings"][:1], atol=1e-6)
    for refused in (7, iter(files), pixels[0], torch.rand(2, 5, 8, 8), torch.rand(2), [pixels[0], pixels[1, :, 9:]]):
        for call in (model, model.embed):
            with pytest.raises(UsageError, match=r"^[^.]*$"):
                call(refused)
    with pytest.raises(UsageError, match="no images to embed"):
        model.embed([])
    with pytest.raises(UsageError, match="an image is a PIL image, a path or a tensor"):
        model.embed([7])
    with pytest.raises(MissingDataError, match="no images in"):
        saved.embed_folder(path, photos / "none", tmp_path / "out.npz")
    with pytest.raises(UsageError, match=r"e\.npz is there and not empty, and nothing is overwritten"):
        saved.embed_folder(path, photos, tmp_path / "e.npz")
    (tmp_path / "few").mkdir()
    shutil.copy(files[0], tmp_path / "few")
    for name in ("a.png", "z.png"):
        (tmp_path / "few" / name).write_text("no image")
    with pytest.raises(DmlrcError, match=r"^2 images cannot be read"):
        saved.embed_folder(path, tmp_path / "few", tmp_path / "bad.npz")
    assert not (tmp_path / "bad.npz").exists()
    for name in ("a.png", "z.png"):
        (tmp_path / "few" / name).unlink()
    saved.embed_folder(path, tmp_path / "few", tmp_path / "without-an-ending")
    assert len(np.load(tmp_path / "without-an-ending")["paths"]) == 1


def test_a_model_whose_test_embeddings_are_no_numbers_is_not_kept(home, monkeypatch):
    def diverges(*_):
        raise DivergedError("the embeddings hold NaN or infinite values")

    monkeypatch.setattr(unit, "test_results", diverges)
    (home / "studies.toml").write_text(FROZEN.format(data="embedding_dim = 4").replace("[mine]", "[lite0]"))
    chosen = studies.get("lite0")
    for _ in range(2):
        run.run(chosen, [chosen.method("contrastive")], save_models=True)
    assert set(records.load("lite0").reruns["state"]) == {"diverged"}
    assert not list((home / "runs").rglob("*.safetensors"))


def test_a_model_of_a_feature_set_takes_the_photographs_that_it_was_made_of(home):
    """Its form is that of the photographs, and not of the features, on which the models trained."""
    (home / "studies.toml").write_text(FROZEN.format(data="embedding_dim = 4").replace("[mine]", "[lite0]"))
    chosen = studies.get("lite0")
    run.run(chosen, [chosen.method("contrastive")], save_models=True)
    [path] = (home / "runs").rglob("*.safetensors")
    model = models.load(path)
    assert (model.form.channels, model.form.size, model.form.size) == data.extent("grocery")[2]
    photograph = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8))
    photograph.save(home / "a.png")
    embeddings = model.embed([photograph, home / "a.png"])
    assert embeddings.shape == (2, 2 * 4)
    assert np.array_equal(*embeddings)


def test_what_is_no_model_is_said_in_a_sentence(tmp_path):
    with pytest.raises(MissingDataError, match="--save-models"):
        models.load(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("no model")
    safetensors.torch.save_file({"0.a": torch.zeros(1)}, tmp_path / "other.safetensors")
    safetensors.torch.save_file(
        {"0.a": torch.zeros(1)}, tmp_path / "newer.safetensors", {"dmlrc": json.dumps({"x": 1})}
    )
    for name in ("text", "other", "newer"):
        with pytest.raises(DmlrcError, match="is no model of dmlrc"):
            models.load(tmp_path / f"{name}.safetensors")


def test_a_model_of_which_a_bit_is_another_is_refused(tmp_path):
    weights = models.EmbeddingModel(models.create_trunk("conv4"), 8).state_dict()
    content, file = saved.pack(OLD, [weights]), tmp_path / "a.safetensors"
    file.write_bytes(content)
    models.load(file)
    changed = [content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]]
    changed.append(content.replace(b'\\"normalize\\": true', b'\\"normalize\\": null'))  # of the configuration
    changed.append(content.replace(b"0.embedder.bias", b"0.embedder.bia0"))
    for one in changed:
        assert one != content
        file.write_bytes(one)
        with pytest.raises(DmlrcError, match=r"a\.safetensors is not what was written there, its checksum says:"):
            models.load(file)
    tensors = {f"0.{name}": tensor.contiguous() for name, tensor in weights.items()}
    safetensors.torch.save_file(tensors, file, {"dmlrc": json.dumps(asdict(OLD))})  # as the oldest are
    models.load(file)


OLD = saved.Configuration(  # all that the first files had
    **{"trunk": "conv4", "weights": None, "frozen_trunk": False, "train_from": None, "models": 1},
    **{"freeze_batch_norm": False, "embedding_dim": 8, "layer_norm": False, "normalize": True},
    **{"image_size": 28, "crop_size": 28, "side": 28, "channels": 1, "square": "crop"},
    **{"study": "a", "dataset": "glyphs", "method": "triplet", "params": {}, "commit": "0"},
)


def test_what_trained_of_a_network_is_put_on_what_did_not(tmp_path):
    torch.manual_seed(0)
    trunk = models.create_trunk("conv4", None)
    stem, head = models.split_trunk(trunk, "layers.4")
    trained = [models.EmbeddingModel(copy.deepcopy(head), 8).eval() for _ in range(2)]
    for weight in (weight for model in trained for weight in model.parameters()):
        torch.nn.init.normal_(weight, std=0.1)
    given = replace(OLD, train_from="layers.4", models=2)
    (tmp_path / "a.safetensors").write_bytes(saved.pack(given, [model.state_dict() for model in trained]))
    torch.manual_seed(1)
    images = torch.rand(3, 1, 28, 28)
    with torch.no_grad():
        maps = stem.eval()(images).half().float()
        joined = torch.nn.functional.normalize(torch.cat([model(maps) for model in trained], dim=1))
        assert torch.allclose(models.load(tmp_path / "a.safetensors")(images), joined, atol=1e-6)


def test_a_network_that_trained_whole_needs_nothing_of_the_weights_with_which_it_began(tmp_path):
    trained = models.EmbeddingModel(models.create_trunk("conv4", None), 8).eval()
    given = replace(OLD, weights="of-another-machine.pth")
    (tmp_path / "a.safetensors").write_bytes(saved.pack(given, [trained.state_dict()]))
    images = torch.rand(3, 1, 28, 28)
    with torch.no_grad():
        assert torch.allclose(models.load(tmp_path / "a.safetensors")(images), trained(images), atol=1e-6)


@pytest.mark.parametrize(("dataset", "ink"), [("omniglot", True), ("glyphs", False), ("folder:mine", False)])
def test_an_image_is_embedded_as_those_of_its_data_set_were_stored(dataset, ink):
    model = saved.RetrievalModel(replace(OLD, dataset=dataset), [])
    assert model.form.ink is ink


def test_a_trunk_of_another_version_is_said_in_a_sentence(tmp_path):
    weights = models.EmbeddingModel(models.create_trunk("conv4"), 9).state_dict()
    (tmp_path / "a.safetensors").write_bytes(saved.pack(OLD, [weights]))
    with pytest.raises(
        DmlrcError, match=r"a\.safetensors does not fit conv4 as it is made here: .* or remove it: `dmlrc study run a "
    ):
        models.load(tmp_path / "a.safetensors")


def test_weights_that_were_replaced_since_are_refused(photos):
    file = photos.parent / "w.pth"
    torch.save(models.create_trunk("conv4").state_dict(), file)
    trunk = f'\ntrunk = "conv4"\nweights = "{file}"\ncrop_size = 28\nembedding_dim = 4\n'
    (photos.parent / "studies.toml").write_text(FROZEN.format(data=f'dataset = "folder:{photos}"{trunk}'))
    chosen = studies.get("mine")
    run.run(chosen, [chosen.method("contrastive")], save_models=True)
    [path] = photos.parent.rglob("*.safetensors")
    assert models.load(path).configuration.digests == models.weights_digest("conv4", str(file))
    torch.save(models.create_trunk("conv4").state_dict(), file)
    with pytest.raises(
        DmlrcError, match=r"the weights .*w\.pth' of conv4 are others than .* study 'mine' .*put them back"
    ):
        models.load(path)


def test_from_photographs_to_a_search_among_them(photos, tmp_path, monkeypatch):
    """A first hour's commands: bad files are listed, one setting differs, a model is kept and finds neighbours."""
    call, home = CliRunner().invoke, photos.parent
    bad = [photos / f"class {label}" / "bad.jpg" for label in range(3)]
    for file, content in zip(
        bad, (b"", b"%!PS-Adobe\nshowpage\n", (photos / "class 0" / "0.png").read_bytes()[:90]), strict=True
    ):
        file.write_bytes(content)
    run_small = ["study", "run", "mine", "--set", "embedding_dim=16", "--as", "small", "--method", "contrastive"]
    error = call(cli.app, run_small).exception
    assert isinstance(error, DmlrcError)
    assert all(f"image {file} is damaged" in " ".join(error.__notes__) for file in bad)
    for file in bad:
        file.unlink()
    result = call(cli.app, [*run_small, "--save-models"])
    assert result.exit_code == 0, result.output
    assert records.load("small").meta["dataset"] == f"folder:{photos}"  # of the reader's own study, not of its table
    [path] = (home / "runs" / "small").rglob("*.safetensors")
    assert call(cli.app, ["embed", str(path), str(photos), "--output", str(tmp_path / "e.npz")]).exit_code == 0
    embeddings = np.load(tmp_path / "e.npz")["embeddings"]
    assert embeddings.shape == (32, 2 * 16)
    similar = embeddings @ embeddings.T
    assert (similar.argmax(1) == np.arange(32)).all()
