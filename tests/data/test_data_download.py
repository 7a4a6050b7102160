"""Downloads from a server on 127.0.0.1 that cuts connections, lies and dies; tiny archives in the real layouts."""

import errno
import hashlib
import io
import os
import shutil
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dmlrc import data, paths
from dmlrc.data import cache, download, registry
from dmlrc.errors import DmlrcError, MissingDataError, UsageError


def png(colour):
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(colour).integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


CUB200 = {
    "CUB_200_2011/images.txt": b"1 001.Albatross/a.jpg\n2 002.Wren/b.jpg\n",
    "CUB_200_2011/image_class_labels.txt": b"1 1\n2 2\n",
    "CUB_200_2011/classes.txt": b"1 001.Albatross\n2 002.Wren\n",
    "CUB_200_2011/images/001.Albatross/a.jpg": png(1),
    "CUB_200_2011/images/002.Wren/b.jpg": png(2),
}
OMNIGLOT = [
    {f"{part}/Greek/character0{i}/{i}_01.png": png(i) for i in (1, 2)}
    for part in ("images_background", "images_evaluation")
]


def tgz(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def zipped(members, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


class Server:
    """Serves `files`, and stops half-way where it `cuts`; `asked` are the paths that were asked for."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.cuts = False
        self.length: int | None = None  # what it says instead of the true length
        self.asked: list[str] = []
        self.address = ""


@contextmanager
def running(server):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.close_connection = True
            server.asked.append(self.path)
            content = server.files.get(self.path.lstrip("/"))
            if content is None:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(server.length or len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if server.cuts else content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_port}"
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        http.shutdown()


@pytest.fixture
def server():
    with running(Server()) as started:
        yield started


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    monkeypatch.setenv("DMLRC_DATA", str(folder))
    return folder


def register(monkeypatch, server, name, *archives, images, classes, checked=True):
    """Points the archives of a set to the server; archives: (filename, content)."""
    server.files.update(archives)
    known = [
        replace(old, filename=filename, url=f"{server.address}/{filename}", md5=hashlib.md5(content).hexdigest())
        for (filename, content), old in zip(archives, registry.SOURCES[name].archives, strict=True)
    ]
    if not checked:
        known = [replace(archive, md5=None) for archive in known]
    source = replace(registry.SOURCES[name], archives=tuple(known), images=images, classes=classes)
    monkeypatch.setitem(registry.SOURCES, name, source)


@pytest.fixture
def cub200(monkeypatch, server, root):
    register(monkeypatch, server, "cub200", ("CUB_200_2011.tgz", tgz(CUB200)), images=2, classes=2)


def left(root):
    """Every file and folder below the data root, without what is inside complete sets."""
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if root / "cub200" not in p.parents)


def test_a_download_gives_a_set_that_loads_and_leaves_nothing_else(server, root, cub200):
    assert data.state("cub200") == "missing"
    folder = data.fetch("cub200")
    assert folder == root / "cub200" / "CUB_200_2011"
    assert data.load("cub200", size=16).labels.tolist() == [0, 1]
    assert data.state("cub200") == "here"
    assert left(root) == ["cub200", "downloads", "downloads/cub200"]


def test_an_archive_that_was_there_before_is_not_removed(server, root, cub200):
    brought = root / "downloads" / "cub200" / "CUB_200_2011.tgz"
    brought.parent.mkdir(parents=True)
    brought.write_bytes(tgz(CUB200))
    assert data.fetch("cub200").is_dir()
    assert brought.exists()


def test_a_set_that_is_there_is_only_checked(server, root, cub200):
    data.fetch("cub200")
    server.asked.clear()
    assert data.fetch("cub200") == root / "cub200" / "CUB_200_2011"
    assert server.asked == []
    (root / "cub200/CUB_200_2011/images/002.Wren/b.jpg").unlink()
    with pytest.raises(MissingDataError, match=r"b\.jpg of data set 'cub200' is not there"):
        data.fetch("cub200")


def test_several_zip_archives_make_one_set(monkeypatch, server, root):
    parts = [(f"{part}.zip", zipped(m)) for part, m in zip(("background", "evaluation"), OMNIGLOT, strict=True)]
    register(monkeypatch, server, "omniglot", *parts, images=4, classes=4)
    assert data.fetch("omniglot") == root / "omniglot"
    assert len(data.load("omniglot").labels) == 4


def test_a_cut_connection_is_one_sentence_and_leaves_nothing(server, root, cub200):
    server.cuts = True
    with pytest.raises(MissingDataError, match=r"the connection failed\): run `dmlrc data fetch") as error:
        data.fetch("cub200")
    assert "\n" not in str(error.value)
    assert left(root) == []
    server.cuts = False
    data.fetch("cub200")
    assert data.state("cub200") == "here"


def test_a_download_that_is_shorter_than_the_file(server, root, cub200):
    server.length = 50
    with pytest.raises(DmlrcError, match="MD5 sum"):
        data.fetch("cub200")
    assert left(root) == []


def test_a_wrong_checksum_removes_the_file_and_says_so(server, root, cub200):
    server.files["CUB_200_2011.tgz"] = tgz({"something/else.txt": b"0"})
    with pytest.raises(DmlrcError, match=r"MD5 sum is not the official .*, it was removed: run"):
        data.fetch("cub200")
    assert left(root) == []


def test_a_dead_link_names_the_manual_way(server, root, cub200):
    archive = server.files.pop("CUB_200_2011.tgz")
    with pytest.raises(MissingDataError) as caught:
        data.fetch("cub200")
    place = root / "downloads" / "cub200"
    assert "the server answers 404" in str(caught.value)
    assert f"put CUB_200_2011.tgz into {place}" in str(caught.value)
    assert len(server.asked) == 1  # a dead link is not tried again
    place.mkdir(parents=True)
    (place / "CUB_200_2011.tgz").write_bytes(archive)  # the way works
    data.fetch("cub200")
    assert data.state("cub200") == "here"


def test_a_server_that_is_gone(monkeypatch, root):
    with running(Server()) as gone:
        register(monkeypatch, gone, "cub200", ("CUB_200_2011.tgz", tgz(CUB200)), images=2, classes=2)
    with pytest.raises(MissingDataError, match="the connection failed"):
        data.fetch("cub200")


def test_a_set_without_links_is_built_from_files_brought_by_hand(monkeypatch, root):
    paths = ["img/A/id_1/1.jpg", "img/A/id_2/1.jpg", "img/A/id_2/2.jpg"]
    with pytest.raises(MissingDataError, match=r"put img.zip and list_eval_partition.txt into (.*) \(mmlab") as caught:
        data.fetch("inshop")
    place = root / "downloads" / "inshop"
    assert str(place) in str(caught.value)
    place.mkdir(parents=True)
    (place / "img.zip").write_bytes(zipped({path: png(1) for path in paths}))
    rows = [f"{p} {p.split('/')[2]} {part}" for p, part in zip(paths, ("train", "query", "gallery"), strict=True)]
    (place / "list_eval_partition.txt").write_text("\n".join(["3", "image_name item_id evaluation_status", *rows]))
    monkeypatch.setitem(registry.SOURCES, "inshop", replace(registry.SOURCES["inshop"], images=3, classes=2))
    assert data.fetch("inshop") == root / "inshop"
    assert data.load("inshop", size=16).partition.tolist() == ["train", "query", "gallery"]
    assert (place / "img.zip").exists()  # what a person brought is theirs


def test_a_file_brought_by_hand_that_is_not_the_official_one(root):
    place = root / "downloads" / "cars196"
    place.mkdir(parents=True)
    for name in ("car_ims.tgz", "cars_annos.mat"):
        (place / name).write_bytes(b"something else")
    with pytest.raises(DmlrcError, match=r"car_ims\.tgz is not the official file"):
        data.fetch("cars196")


def link(name, target, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    "archive",
    [
        tgz({"../escaped.txt": b"x"}),
        tgz({"CUB_200_2011/../../escaped.txt": b"x"}),
        tgz({"/../escaped.txt": b"x"}),
        tgz({link("CUB_200_2011/images", "../..", tarfile.SYMTYPE): b""}),
        tgz({link("CUB_200_2011/hard", "../escaped.txt", tarfile.LNKTYPE): b""}),
        tgz({link("CUB_200_2011/pipe", "", tarfile.FIFOTYPE): b""}),
    ],
)
def test_unsafe_tar_files_are_refused(monkeypatch, server, root, tmp_path, archive):
    register(monkeypatch, server, "cub200", ("CUB_200_2011.tgz", archive), images=2, classes=2)
    with pytest.raises(DmlrcError, match=r"CUB_200_2011\.tgz cannot be unpacked \(.*\): remove it and get it again"):
        data.fetch("cub200")
    assert left(root) == ["downloads", "downloads/cub200", "downloads/cub200/CUB_200_2011.tgz"]
    assert not list(tmp_path.rglob("*escaped*"))


@pytest.mark.parametrize(
    "members",
    [
        *({name: b"x"} for name in ("../escaped.txt", "a\\..\\..\\escaped.txt", "/escaped.txt", "C:\\escaped.txt")),
        {zip_link("link"): b"..", "link/escaped.txt": b"x"},
    ],
)
def test_no_member_of_a_zip_file_leaves_the_folder(monkeypatch, server, root, tmp_path, members):
    register(monkeypatch, server, "cub200", ("CUB_200_2011.tgz", zipped(members)), images=2, classes=2)
    with pytest.raises(DmlrcError, match=r"do not hold data set|cannot be unpacked|cannot be written"):
        data.fetch("cub200")
    assert left(root) == ["downloads", "downloads/cub200", "downloads/cub200/CUB_200_2011.tgz"]
    assert not list(tmp_path.rglob("*escaped*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tgz({k: v for k, v in CUB200.items() if "b.jpg" not in k}), r"b\.jpg of data set 'cub200' is not there"),
        (tgz(CUB200 | {"CUB_200_2011/classes.txt": b"1 001.Albatross\n"}), "classes run from 0 to 1, but 1 have names"),
        (tgz({"readme.txt": b"hello"}), "do not hold data set 'cub200'"),
        (tgz(CUB200)[:-400], "cannot be unpacked|cannot be written"),
        (b"<html>please log in</html>", "do not hold data set 'cub200'"),
    ],
    ids=["missing-image", "missing-class", "other-archive", "cut-archive", "web-page"],
)
def test_without_a_checksum_the_content_is_counted(monkeypatch, server, root, content, message):
    register(monkeypatch, server, "cub200", ("CUB_200_2011.tgz", content), images=2, classes=2, checked=False)
    with pytest.raises(DmlrcError, match=message):
        data.fetch("cub200")
    assert data.state("cub200") == "missing"
    assert not (root / "cub200").exists()
    assert not list(root.glob(".cub200*"))


def test_a_folder_that_is_in_the_way(server, root, cub200):
    (root / "cub200").mkdir(parents=True)
    (root / "cub200" / "notes.txt").write_text("mine")
    with pytest.raises(DmlrcError, match="is there but does not hold data set 'cub200': remove it"):
        data.fetch("cub200")
    assert server.asked == []


def test_a_root_that_cannot_be_written(server, cub200, tmp_path):
    (tmp_path / "occupied").write_text("")
    with pytest.raises(DmlrcError, match=r"cannot be written to .*occupied"):
        data.fetch("cub200", root=tmp_path / "occupied")


@pytest.mark.parametrize(("name", "message"), [("glyphs", "nothing to download"), ("cub20", "did you mean 'cub200'")])
def test_names_that_cannot_be_fetched(root, name, message):
    for function in (data.fetch, data.check):
        with pytest.raises(UsageError, match=message):
            function(name)


def test_every_set_has_checksums_or_is_counted():
    unchecked = {name for name, source in registry.SOURCES.items() if any(a.md5 is None for a in source.archives)}
    assert unchecked == {"cars196crops", "cub200_2010", "grocery", "inshop"}
    assert all(source.images and source.classes for source in registry.SOURCES.values())


# Sets that lie in the data folder as their archives


@pytest.fixture
def read_only(root, monkeypatch):
    """Two sets as archives. Permissions do not bind root, so a test compares what the data folder holds afterwards."""
    archives = {
        "omniglot/images_background.zip": zipped(OMNIGLOT[0]),
        "omniglot/images_evaluation.zip": zipped(OMNIGLOT[1]),
        "cars196-cropped112/car_ims_classes001-098.zip": zipped({"car_ims/1.png": png(1)}),
        "cars196-cropped112/car_ims_classes099-196.zip": zipped({"car_ims/2.png": png(2)}),
        "cars196-cropped112/cars_annos.mat": annotations("car_ims/1.png", "car_ims/2.png"),
    }
    for path, content in archives.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    complete(monkeypatch, "omniglot", images=4, classes=4)
    complete(monkeypatch, "cars196crops", images=2, classes=2)
    return root


def annotations(*paths):
    rows = np.array([(p, i) for i, p in enumerate(paths, 1)], dtype=[("relative_im_path", object), ("class", object)])
    stream = io.BytesIO()
    savemat(stream, {"annotations": rows, "class_names": np.array([f"car {p}" for p in paths], dtype=object)})
    return stream.getvalue()


def complete(monkeypatch, name, **counts):
    monkeypatch.setitem(registry.SOURCES, name, replace(registry.SOURCES[name], **counts))


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def unpacked_in(cache_folder, name):
    return sorted(p for p in cache_folder.glob(f"{name}-*") if p.is_dir())


def test_archives_are_unpacked_into_the_cache_once(read_only, home, monkeypatch):
    before = files_below(read_only)
    assert [data.state(name) for name in ("omniglot", "cars196crops", "cars196")] == ["packed", "packed", "missing"]
    assert not (home / "cache").exists()  # to tell the state, nothing is unpacked
    packed = {name: data.load(name) for name in ("omniglot", "cars196crops")}
    assert files_below(read_only) == before
    assert data.state("omniglot") == "packed"

    by_hand = home / "by hand"
    for part in ("images_background", "images_evaluation"):
        shutil.unpack_archive(read_only / "omniglot" / f"{part}.zip", by_hand / "omniglot")
    cars = by_hand / "cars196crops"
    for part in ("001-098", "099-196"):
        shutil.unpack_archive(read_only / "cars196-cropped112" / f"car_ims_classes{part}.zip", cars)
    shutil.copy(read_only / "cars196-cropped112" / "cars_annos.mat", cars)
    for name, images in packed.items():
        expected = data.load(name, root=by_hand)
        assert np.array_equal(images.images, expected.images)
        assert np.array_equal(images.labels, expected.labels)
        assert images.class_names == expected.class_names

    monkeypatch.setattr(download, "_unpack", None)  # would fail if anything were unpacked again
    assert np.array_equal(data.load("omniglot").images, packed["omniglot"].images)
    assert len(data.check("cars196crops").files) == 2
    assert data.fetch("cars196crops") == unpacked_in(home / "cache", "cars196crops")[0]


def test_without_a_cache_of_its_own_a_set_is_unpacked_into_the_users_cache(read_only, home, monkeypatch):
    monkeypatch.delenv("DMLRC_CACHE")
    monkeypatch.setattr(paths.platformdirs, "user_cache_path", lambda name, appauthor: home / "user" / name)
    assert data.fetch("omniglot").parent == home / "user" / "dmlrc"


def test_an_unpacked_set_goes_before_its_archives(read_only, home):
    for part in ("images_background", "images_evaluation"):
        shutil.unpack_archive(read_only / "omniglot" / f"{part}.zip", read_only / "omniglot")
    assert data.state("omniglot") == "here"
    assert data.fetch("omniglot") == read_only / "omniglot"
    assert not (home / "cache").exists()


def test_an_archive_that_changed_is_unpacked_again(read_only, home):
    old = data.load("omniglot").images[0].copy()
    file = read_only / "omniglot" / "images_background.zip"
    file.write_bytes(zipped({path: png(7 + i) for i, path in enumerate(OMNIGLOT[0])}))
    os.utime(file, ns=(1, 1))
    assert not np.array_equal(data.load("omniglot").images[0], old)
    assert len(unpacked_in(home / "cache", "omniglot")) == 2


def test_what_an_interrupted_unpacking_left_is_not_taken(read_only, home, monkeypatch):
    def interrupted(file, into):
        (into / "car_ims").mkdir(exist_ok=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(download, "_unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            data.load("cars196crops")
    assert files_below(home / "cache") == []
    leftover = home / "cache" / ".cars196crops-killed" / "cars196crops-0" / "car_ims"  # as after a loss of power
    leftover.mkdir(parents=True)
    assert len(data.load("cars196crops").labels) == 2


def test_a_folder_of_the_cache_that_lost_its_lists_is_named(read_only):
    (data.fetch("cars196crops") / "cars_annos.mat").unlink()
    with pytest.raises(DmlrcError, match=r"cache/cars196crops-\w+ in the cache has become incomplete: remove it"):
        data.load("cars196crops")


def test_two_processes_that_unpack_at_once_share_the_first_ones_folder(read_only, home, monkeypatch):
    replace_folder = os.replace

    def slower(filled, target):
        shutil.copytree(filled, target)  # by the other process
        replace_folder(filled, target)

    monkeypatch.setattr(cache.os, "replace", slower)
    assert data.fetch("omniglot") == unpacked_in(home / "cache", "omniglot")[0]


def test_a_cache_without_room_is_named(read_only, home, monkeypatch):
    def full(file, into):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "_unpack", full)
    with pytest.raises(DmlrcError, match=r"cache .*omniglot-\w+ cannot be written \(.*No space.*set DMLRC_CACHE"):
        data.load("omniglot")
    assert files_below(home / "cache") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped({"../escaped.png": b"x"}), "do not hold data set"),
        (zipped(OMNIGLOT[1])[:-60], r"images_background\.zip and .*images_evaluation\.zip do not hold data set"),
        (
            zipped(dict(list(OMNIGLOT[1].items())[:1])),
            r"in .*images_background\.zip and .* has 3 images of 3 classes instead of 4 of 4: remove .*evaluation\.zip",
        ),
    ],
    ids=["unsafe", "cut", "incomplete"],
)
def test_bad_archives_are_named_and_leave_nothing(read_only, home, content, message):
    (read_only / "omniglot" / "images_evaluation.zip").write_bytes(content)
    with pytest.raises(DmlrcError, match=message):
        data.load("omniglot")
    assert files_below(home / "cache") == []
    assert not list(home.rglob("*escaped*"))


def test_annotations_without_images_and_without_all_archives_are_no_set(read_only):
    (read_only / "cars196-cropped112" / "car_ims_classes099-196.zip").unlink()
    assert data.state("cars196crops") == "missing"
    with pytest.raises(MissingDataError, match=r"'cars196crops' is not in .*: put car_ims_classes001-098\.zip and "):
        data.load("cars196crops")
