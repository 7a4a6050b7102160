"""Campaigns of bad input: thousands of seeded cases, each of which gives the true result or one sentence.

A case that fails is named by its campaign and number, and comes again: `rng_of("batches", 17)` makes its input.
"""

import io
import json
import os
import tarfile
import warnings
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import requests
import torch
from PIL import Image

from dmlrc import data, executors, inputs, losses, paths, preflight, studies
from dmlrc.data import available, cache, download, registry
from dmlrc.data.decoding import Form, decode
from dmlrc.errors import DmlrcError
from dmlrc.methods import Choice, Float, Int, Method
from dmlrc.models import weight_files
from dmlrc.protocol import Study
from dmlrc.studies import own

CASES = {
    "batches": 2500,
    "hyperparameters": 2000,
    "images": 1000,
    "damaged images": 1000,
    "names": 2000,
    "folders": 200,
    "lists": 400,
    "archives": 600,
    "weights": 600,
    "devices and workers": 1500,
    "settings": 700,
    "spaces": 500,
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(cache.os, "fsync", lambda handle: None)


def test_there_are_more_than_ten_thousand_cases_as_the_readme_says():
    count = sum(CASES.values())
    assert count >= 10_000
    assert f"with {count:,} seeded cases of bad input" in (Path(__file__).parents[1] / "README.md").read_text()


def rng_of(campaign, number):
    return np.random.default_rng([zlib.crc32(campaign.encode()), number])


def cases(campaign):
    """The number and the random numbers of each case; pytest shows the number where one fails."""
    for number in range(CASES[campaign]):
        yield number, rng_of(campaign, number)


def result(call, *arguments, **named):
    """What a call gives, or its error, which must be ours and one sentence."""
    try:
        return call(*arguments, **named)
    except DmlrcError as error:
        if not str(error) or "\n" in str(error):
            raise AssertionError("the error is not one sentence") from error
        return error


def chosen(rng, options):
    return options[rng.integers(len(options))]


TEXT = [
    *"abc/._-~:* \\\"'\t\n\0é☃",
    "folder:",
    "glyphs",
    "omniglot",
    "..",
    "x" * 300,
    "\udcff",
    "cub200",
    "1",
    "-1",
    "cuda",
    "cpu",
]


def text(rng):
    return "".join(chosen(rng, TEXT) for _ in range(rng.integers(6)))


def damaged(rng, content):
    """The bytes with some of them flipped, zeroed, cut off, doubled, left out or put in."""
    changed = bytearray(content)
    place = int(rng.integers(len(changed)))
    length = int(rng.integers(1, 40))
    match rng.integers(6):
        case 0:
            changed[place] ^= 1 << rng.integers(8)
        case 1:
            changed[place : place + length] = bytes(len(changed[place : place + length]))
        case 2:
            del changed[place:]
        case 3:
            changed[place:place] = changed[place : place + length]
        case 4:
            del changed[place : place + length]
        case 5:
            changed[place:place] = rng.bytes(length)
    return bytes(changed)


# Losses


def points_of(rng):
    """A batch that is right, or wrong in one way: embeddings float32 and labels int64, or others of a wrong kind."""
    size, dim = int(rng.integers(0, 9)), int(rng.integers(1, 5))
    points = torch.from_numpy(rng.normal(size=(size, dim))).half().float()
    points = torch.nn.functional.normalize(points).half().float()  # half precision holds it too
    labels = torch.from_numpy(rng.integers(0, 3, size))
    if rng.random() < 0.3:
        match rng.integers(6):
            case 0 if points.numel():
                points[rng.integers(size), rng.integers(dim)] = chosen(rng, [np.nan, np.inf, -np.inf])
            case 1:
                labels = labels[1:]
            case 2 if size:
                labels[rng.integers(size)] = chosen(rng, [-1, 3, 99])
            case 3:
                points = points[:, 0]
            case 4:
                labels = labels[:, None]
            case 5:
                points = points[:, :, None]
    return points, labels


POINTS = [
    lambda x: x,
    lambda x: x.half(),
    lambda x: x.numpy(),
    lambda x: x.tolist(),
    lambda x: x.double().numpy(),
    lambda x: x.numpy()[::-1].copy()[::-1],
    lambda x: x.T.contiguous().T if x.ndim == 2 else x,
]
LABELS = [
    lambda y: y,
    lambda y: y.int(),
    lambda y: y.short(),
    lambda y: y.char(),
    lambda y: y.numpy(),
    lambda y: y.tolist(),
]
WRONG = [
    None,
    "text",
    3,
    [["a"]],
    [[1.0], [1.0, 2.0]],
    {},
    object(),
    b"bytes",
    np.array([None]),
]


def test_batches():
    """A loss gives what it gives for float32 and int64, or refuses both."""
    converted = refused = 0
    for number, rng in cases("batches"):
        name = chosen(rng, losses.names())
        points, labels = points_of(rng)
        given = [chosen(rng, POINTS)(points.clone()), chosen(rng, LABELS)(labels)]
        if labels.ndim == 1 and len(labels) and labels.min() >= 0 and labels.max() < 3 and rng.random() < 0.3:
            if rng.random() < 0.5:
                given[1] = labels.byte()
            else:
                labels = (labels > 0).long()
                given[1] = labels > 0
        if wrong := rng.random() < 0.05:
            given[rng.integers(2)] = chosen(rng, WRONG)
        torch.manual_seed(number)
        loss = losses.create(name, num_classes=3, embedding_dim=points.shape[1] if points.ndim > 1 else 1)
        torch.manual_seed(number)
        got = result(loss, *given)
        if wrong:
            assert isinstance(got, DmlrcError), (number, name)
            continue
        torch.manual_seed(number)
        fresh = losses.create(name, num_classes=3, embedding_dim=points.shape[1] if points.ndim > 1 else 1)
        torch.manual_seed(number)
        expected = result(fresh, points, labels)
        assert isinstance(got, DmlrcError) == isinstance(expected, DmlrcError), (number, name, got, expected)
        if isinstance(got, DmlrcError):
            refused += 1
        else:
            converted += 1
            assert got.ndim == 0, (number, name)
            assert torch.isfinite(got), (number, name)
            # a sum over the same numbers in another place may be rounded otherwise
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6, msg=f"{number} {name}")
    assert converted > CASES["batches"] / 3
    assert refused > CASES["batches"] / 10


VALUES = [0, 1, -1, 3, 0.5, 1e-9, 1e30, np.float32(0.1), np.int64(4)]
NO_VALUES = [
    float("nan"),
    float("inf"),
    -np.inf,
    None,
    "0.5",
    True,
    [1.0],
    {},
    1j,
    10**400,
    np.nan,
    np.array([1.0, 2.0]),
]


def test_hyperparameters():
    """A loss is made, or refused in one sentence; always refused where a value is no finite number."""
    made = 0
    for number, rng in cases("hyperparameters"):
        name = chosen(rng, losses.names())
        known = [*inputs_of(name), "unknown", "args"]
        params = {chosen(rng, known): chosen(rng, VALUES) for _ in range(rng.integers(3))}
        if bad := rng.random() < 0.5:
            params[chosen(rng, known)] = chosen(rng, NO_VALUES)
        sizes = {
            "num_classes": chosen(rng, [3, 3, 3, 0, -2, 1.5, "3"]),
            "embedding_dim": chosen(rng, [4, 4, 4, 0, None]),
        }
        got = result(losses.create, name, **sizes, **params)
        if bad:
            assert isinstance(got, DmlrcError), (number, name, params)
        made += isinstance(got, torch.nn.Module)
    assert made > CASES["hyperparameters"] / 20


def inputs_of(name):
    import inspect

    return [
        each
        for each in inspect.signature(losses.REGISTRY[name]).parameters
        if each not in ("num_classes", "embedding_dim", "args", "kwargs")
    ]


ODD = [
    *VALUES,
    *(value for value in NO_VALUES if not isinstance(value, np.ndarray)),
    "",
    "none",
    "nan",
    "a\nb",
    (1, 2),
    10**30,
    -0.0,
    "x" * 300,
    ["map_at_r"],
    [[]],
    "imagenet",
]
WRITTEN = [
    "nan",
    "-inf",
    "1e400",
    "9" * 5000,
    "[" * 3000,
    "2026-01-01",
    '"a"',
    "a\nlr = 3",
    "{a = 1}",
    "[1, 2.5]",
    "true",
]


def test_settings(home, monkeypatch):
    """Settings of the command, and an entry of studies.toml, are a study with these values, or refused."""
    tables = {"glyphs-smoke": studies.STUDIES["glyphs-smoke"]}
    monkeypatch.setattr(own.models.from_timm, "image_size", lambda name: 28)
    made = 0
    for number, rng in cases("settings"):
        key, value = chosen(rng, [*own.KEYS, *own.SETTINGS, "lrr", "name"]), chosen(rng, ODD)
        if rng.random() < 0.5:
            given = result(own.settings, [f"{key}={chosen(rng, [*WRITTEN, str(value)])}"])
            value = given if isinstance(given, DmlrcError) else given[key]
        asked = {"like": "glyphs-smoke", key: value}
        got = result(own.as_study, "mine", asked, tables, set())
        if isinstance(got, Study):
            made += 1
            held = vars(got.budget) | vars(got) | vars(got.protocol)
            expected = None if key in own.OPTIONAL and value in ("none", "None") else value
            if key not in ("like", "budget"):
                assert held[key] == (tuple(expected) if isinstance(expected, list) else expected), (number, key, value)
    assert made > CASES["settings"] / 25
    for number, text in enumerate([*WRITTEN, "\udcff", "x = " + "[" * 3000]):
        (home / "studies.toml").write_bytes(f"mine = {text}\n".encode(errors="surrogateescape"))
        assert isinstance(result(studies.get, "mine"), DmlrcError), number


def test_spaces():
    """What a search varies is numbers and words that records can hold, between which others lie, or refused."""
    made = 0
    for number, rng in cases("spaces"):
        kind = chosen(rng, [Float, Int, Choice])
        values = [chosen(rng, [*ODD, -1e308, 1e308, 2**63, torch.tensor(1.0), torch.tensor(0.0), 5e-324]) for _ in "ab"]
        log = {"log": True} if kind is Float and rng.random() < 0.3 else {}
        space = result(kind, *([tuple(values)] if kind is Choice else values), **log)
        if not isinstance(space, DmlrcError):
            made += 1
            json.dumps(space.values if kind is Choice else [space.low, space.high], allow_nan=False)
            method = Method("mine", "triplet", {"margin": space})
            for _, params in preflight._points(method):
                assert method.misfit(params) is None, (number, space, params)
    assert made > CASES["spaces"] / 20


# Images

KINDS = {  # mode of an image: formats that hold it
    "1": (".png", ".tif", ".bmp"),
    "L": (".png", ".tif", ".bmp", ".jpg", ".pgm", ".webp"),
    "RGB": (".png", ".tif", ".bmp", ".jpg", ".ppm", ".webp"),
    "P": (".png", ".gif", ".bmp"),
    "RGBA": (".png", ".tif", ".webp"),
    "LA": (".png", ".tif"),
    "CMYK": (".tif", ".jpg"),
    "I;16": (".png", ".tif"),
}


def image_file(rng, folder, grey):
    """A file of one uniform grey, in a random mode, format and size."""
    mode = chosen(rng, list(KINDS))
    size = (int(2 ** rng.uniform(0, 7)), int(2 ** rng.uniform(0, 7)))
    if mode == "I;16":
        image = Image.fromarray(np.full(size, grey * 257, dtype=np.uint16))
    elif mode == "1":
        grey = 255 * (grey > 127)
        image = Image.new("1", size, grey)
    else:
        image = Image.new("RGB", size, (grey,) * 3).convert(mode, palette=Image.Palette.ADAPTIVE)
    file = folder / f"a{chosen(rng, KINDS[mode])}"
    image.save(file)
    return file, grey


def test_images(tmp_path):
    """Every mode, format, shape and depth is decoded to its grey."""
    for number, rng in cases("images"):
        file, grey = image_file(rng, tmp_path, int(rng.integers(1, 256)))
        form = Form(int(rng.integers(1, 40)), chosen(rng, [1, 3]), chosen(rng, ["crop", "squash"]), rng.random() < 0.5)
        got = decode(file, form)
        assert got.shape == (form.channels, form.size, form.size), number
        assert got.dtype == np.uint8
        assert abs(got.astype(int) - (255 - grey if form.ink else grey)).max() <= 6, (number, file.suffix)  # JPEG, WebP


def test_damaged_images(tmp_path):
    """A damaged file is decoded to an image of the right shape, or named."""
    named = 0
    warnings.simplefilter("ignore")  # PIL's, of damaged metadata
    for number, rng in cases("damaged images"):
        file, _ = image_file(rng, tmp_path, 100)
        file.write_bytes(damaged(rng, file.read_bytes()))
        got = result(decode, file, Form(8))
        if isinstance(got, DmlrcError):
            named += 1
            assert file.name in str(got), number
        else:
            assert got.shape == (3, 8, 8), number
    assert named > CASES["damaged images"] / 4


# Names, folders, lists, archives


def test_names(tmp_path, monkeypatch):
    """Any text as a data set's name is one of those that are known, or refused in one sentence."""

    def no_network(*about, **how):
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", no_network)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path / "data"))
    for number, rng in cases("names"):
        name = text(rng)
        if name in available.EMBEDDED or name.startswith(("folder:/", "folder:~", "folder:..", "folder:./..")):
            continue  # there may be folders, and large ones
        assert isinstance(result(data.state, name), DmlrcError) or name in data.names() or name.startswith("folder:")
        for call in (data.load, data.fetch, data.check):
            assert isinstance(result(call, name), DmlrcError), (number, name)


def test_folders(tmp_path):
    """A folder: data set has every image that lies below the folder, or names one that it has not."""
    loaded = 0
    for number, rng in cases("folders"):
        home = tmp_path / str(number)
        home.mkdir()
        images = set()
        for _ in range(rng.integers(1, 6)):
            depth = int(rng.choice([0, 1, 1, 1, 1, 1, 2, 3]))
            place = home.joinpath(*(chosen(rng, ["a", "b", "c d", "é.png", "_"]) for _ in range(depth)))
            file = place / chosen(rng, ["1.png", "2.PNG", "3.jpg", "notes.txt"])
            place.mkdir(parents=True, exist_ok=True)
            if file.is_dir():
                continue
            if file.suffix == ".txt":
                file.write_text("no image")
            else:
                Image.new("L", (2, 2)).save(file)
                images.add(file)
        got = result(data.load, f"folder:{home}", size=2)
        if not isinstance(got, DmlrcError):
            assert len(got.labels) == len(images), number
            assert len(got.class_names) == len({file.parent for file in images}), number
            loaded += 1
    assert loaded > CASES["folders"] / 20


def test_lists(tmp_path, monkeypatch):
    """Damaged lists of a data set give a listing or one sentence."""
    three_of_two = replace(registry.SOURCES["grocery"], images=3, classes=2)
    monkeypatch.setitem(registry.SOURCES, "grocery", three_of_two)
    dataset = tmp_path / "data" / "grocery" / "dataset"
    dataset.mkdir(parents=True)
    monkeypatch.setenv("DMLRC_DATA", str(tmp_path / "data"))
    whole = {f"{part}.txt": f"{part}/1.jpg, {i % 2}, 0\n".encode() for i, part in enumerate(("train", "val", "test"))}
    whole["classes.csv"] = b"name,id,coarse,id,path\nApple,0,Fruit,0,/a\nPear,1,Fruit,0,/b\n"
    for part in ("train", "val", "test"):
        (dataset / part).mkdir()
        Image.new("L", (4, 4)).save(dataset / part / "1.jpg")
    loaded = 0
    for number, rng in cases("lists"):
        for name, content in whole.items():
            (dataset / name).write_bytes(content)
        name = chosen(rng, list(whole))
        (dataset / name).write_bytes(damaged(rng, whole[name]))
        got = result(data.load, "grocery", size=4)
        if not isinstance(got, DmlrcError):
            assert len(got.labels) == len(got.images), number
            assert 0 <= got.labels.min() <= got.labels.max() < len(got.class_names), number
            loaded += 1
    assert loaded > CASES["lists"] / 20


MEMBERS = [
    "a.txt",
    "b/c.txt",
    "b/../d.txt",
    "../e.txt",
    "/f.txt",
    "b",
    "b/",
    ".",
    "x" * 300,
    "C:\\g.txt",
    "..\\h",
    "é",
]


def archive_of(rng):
    stream = io.BytesIO()
    members = [(chosen(rng, MEMBERS), rng.bytes(rng.integers(100))) for _ in range(rng.integers(4))]
    if rng.random() < 0.5:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=stream, mode=chosen(rng, ["w", "w:gz"])) as archive:
            for name, content in members:
                info = tarfile.TarInfo(name)
                info.type = chosen(rng, [tarfile.REGTYPE] * 5 + [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
                info.linkname = chosen(rng, ["../..", "/", "a.txt"])
                info.size = len(content) if info.isreg() else 0
                archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives(tmp_path):
    """Archives, half of them damaged, unpack below their folder and nowhere else, or are refused in one sentence."""
    unpacked = 0
    for number, rng in cases("archives"):
        home = tmp_path / str(number)
        (home / "into").mkdir(parents=True)
        content = archive_of(rng)
        (home / "archive").write_bytes(content if rng.random() < 0.5 else damaged(rng, content))
        got = result(unpack, home)
        assert {path.name for path in home.iterdir()} == {"into", "archive"}, number
        assert all(path.resolve().is_relative_to(home / "into") for path in (home / "into").rglob("*")), number
        unpacked += got is None
    assert unpacked > CASES["archives"] / 20


def unpack(home):
    """As the loaders do, whose errors of the file system are explained there."""
    with paths.explained(f"data set in {home}", "choose another folder"):
        download._unpack(home / "archive", home / "into")


# Weights, devices, workers


def test_weights(tmp_path):
    """A damaged file of weights is refused, or gives the weights that it had."""
    weights = {"layer.weight": torch.randn(6, 5), "layer.bias": torch.randn(6)}
    file = tmp_path / "weights.pth"
    torch.save(weights, file)
    whole = file.read_bytes()
    read = 0
    for number, rng in cases("weights"):
        file.write_bytes(damaged(rng, whole))
        got = result(weight_files.read_weights, file)
        if not isinstance(got, DmlrcError):
            assert got.keys() == weights.keys(), number
            assert all(torch.equal(got[name], weights[name]) for name in weights), number
            read += 1
    assert read > CASES["weights"] / 20


def test_devices_and_workers(monkeypatch):
    """What is asked for is there, or refused in one sentence."""
    accepted = 0
    for number, rng in cases("devices and workers"):
        name = text(rng).replace("\0", "")
        monkeypatch.setenv("DMLRC_DEVICE", name)
        got = result(inputs.device)
        assert isinstance(got, DmlrcError) or not name or str(got) == name, (number, name)
        workers = chosen(
            rng, [text(rng), int(rng.integers(-5, 5)), float(rng.normal()), 10 ** int(rng.integers(30)), None]
        )
        got = result(executors.check_workers, workers)
        if type(workers) is int and 1 <= workers <= max(16, 4 * os.cpu_count()):
            assert got == workers, number
            accepted += 1
        else:
            assert isinstance(got, DmlrcError), (number, workers)
    assert accepted > CASES["devices and workers"] / 20
