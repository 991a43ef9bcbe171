# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Downloading, against a server that has upstream's paths: what is pinned comes, anything else does not."""

from __future__ import annotations

import contextlib
import errno
import json
import pathlib
import shutil
import tarfile
import threading
import time

import pytest
import yaml

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, bundle, command, pins, upstream
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.mirrors import Mirrors
from ansible_collections.gsb.fake_gpu_lab.tests.unit.bundle.upstream_server import (
    ARCH,
    Lab,
    Upstream,
    cutting,
    digest,
    refusing,
    sha256,
    trickling,
)
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import apiserver

ROOT = pathlib.Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("skopeo")),
    reason="needs curl and skopeo, which the bundle role installs",
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return apiserver.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def lab(authority, tmp_path, monkeypatch):
    monkeypatch.setenv("CURL_CA_BUNDLE", authority.file)
    monkeypatch.setenv("SSL_CERT_FILE", authority.file)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Upstream(authority.server_context()) as server:
        yield Lab(server, tmp_path)


K3S = "/k3s-io/k3s/releases/download/v1.36.4%2Bk3s1/k3s"


@pytest.mark.parametrize(("arch", "other"), [("amd64", "arm64"), ("arm64", "amd64")])
def test_the_whole_bundle(lab, arch, other):
    outcome = lab.run(arch=arch)
    assert outcome.changed
    folder = lab.tmp_path / "bundle"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["origin"], manifest["arch"], manifest["unpinned"]) == ("upstream", arch, [])
    assert {part["origin"] for part in manifest["parts"].values()} == {"upstream"}
    assert manifest["parts"]["k3s"]["version"] == "v1.36.4+k3s1"
    for name in ("k3s", "helm"):
        assert (folder / f"bin/{name}").stat().st_mode & 0o777 == 0o755
    assert (folder / "bin/k3s").read_bytes().startswith(f"k3s for {arch}\n".encode())
    assert (folder / "bin/helm").read_bytes().startswith(f"helm.tar.gz for {arch}\n".encode())
    archive = (folder / "images/k3s-airgap-images.tar.zst").read_bytes()
    assert archive.startswith(f"k3s-airgap-images.tar.zst for {arch}\n".encode())
    assert (folder / "manifests/kwok.yaml").exists()
    assert (folder / "charts/fake-gpu-operator-0.2.1.tgz").read_bytes() == lab.chart
    # Of what has an architecture in its name, nothing of the other one.
    asked = {path for path, _range in lab.server.asked}
    assert {path for path in asked if arch in path} == {path for path in lab.server.files if arch in path}
    assert not [path for path in asked if other in path]
    images = {file["path"]: file for file in manifest["parts"]["images"]["files"]}
    assert set(images["images/k3s-airgap-images.tar.zst"]["refs"]) == {
        "docker.io/rancher/mirrored-pause:3.10.2",
        "docker.io/rancher/mirrored-coredns-coredns:1.14.6",
    }
    single = [image for image in lab.pins["images"] if "carried_by" not in image["upstream"]]
    assert len(images) == len(single) + 1
    for image in single:
        described = images[f"images/{image['standin']['name']}.tar"]
        pinned = image["upstream"]
        assert (described["index"], described["digest"]) == (pinned["digest"], pinned[arch])
        assert pinned[arch] != pinned[other]
        look_into(folder / described["path"], image["ref"], arch, pinned[arch])

    asked = len(lab.server.asked)
    again = lab.run(arch=arch)
    assert (again.changed, again.built, len(lab.server.asked)) == (False, [], asked)


def look_into(archive, ref, arch, manifest_digest):
    """The archive is what was published for that architecture, byte by byte, under the full reference."""
    with tarfile.open(archive) as tar:
        blobs = {
            name.removeprefix("blobs/").replace("/", ":"): tar.extractfile(name).read()
            for name in tar.getnames()
            if name.startswith("blobs/")
        }
        (described,) = json.load(tar.extractfile("index.json"))["manifests"]
    assert all(digest(content) == name for name, content in blobs.items())
    assert described["digest"] == manifest_digest
    assert described["platform"] == {"os": "linux", "architecture": arch}
    assert described["annotations"]["io.containerd.image.name"] == ref
    manifest = json.loads(blobs[manifest_digest])
    assert json.loads(blobs[manifest["config"]["digest"]])["architecture"] == arch
    (layer,) = manifest["layers"]
    assert blobs[layer["digest"]].startswith(f"{ref} for {arch}".encode())


def test_check_mode_downloads_nothing(lab):
    outcome = lab.run(check=True)
    assert outcome.changed
    assert lab.server.asked == []
    assert not (lab.tmp_path / "cache").exists()


@pytest.mark.parametrize("only", ["upstream-k3s", "upstream-helm"])
def test_a_wrong_checksum_is_named_and_nothing_is_kept(lab, only):
    name = only.removeprefix("upstream-")
    right = lab.pins[name]["upstream"][0]["sha256"]
    lab.pins[name]["upstream"][0]["sha256"] = "0" * 64
    said = lab.fails([only])
    assert f"its sha256 is {right}, not {'0' * 64}" in said
    assert "Next: " in said
    assert list((lab.tmp_path / "cache/downloads").iterdir()) == []


def test_a_download_that_breaks_off_goes_on_where_it_was(lab):
    lab.server.trouble[K3S].extend([cutting(0.5), cutting(0.5)])
    lab.run(["upstream-k3s"])
    ranges = [asked for path, asked in lab.server.asked if path == K3S]
    size = len(lab.server.files[K3S])
    assert ranges == ["", f"bytes={size // 2}-", f"bytes={size // 2 + (size - size // 2) // 2}-"]


def test_what_an_earlier_run_has_is_gone_on_with(lab):
    lab.server.trouble[K3S].extend([cutting(0.5)] * 5)
    assert "could not be downloaded" in lab.fails(["upstream-k3s"])
    (partial,) = (lab.tmp_path / "cache/downloads").iterdir()
    had = partial.stat().st_size
    lab.server.asked.clear()
    lab.run(["upstream-k3s"])
    assert lab.server.asked == [(K3S, f"bytes={had}-")]


def test_what_an_earlier_run_has_of_another_file_is_thrown_away(lab):
    downloads = lab.tmp_path / "cache/downloads"
    downloads.mkdir(parents=True)
    (downloads / lab.pins["k3s"]["upstream"][0]["sha256"]).write_bytes(b"something else")
    lab.run(["upstream-k3s"])
    assert [asked for _path, asked in lab.server.asked] == ["bytes=14-", ""]


def test_all_of_it_from_an_earlier_run_is_not_asked_for_again(lab):
    downloads = lab.tmp_path / "cache/downloads"
    downloads.mkdir(parents=True)
    (downloads / lab.pins["k3s"]["upstream"][0]["sha256"]).write_bytes(lab.server.files[K3S])
    lab.run(["upstream-k3s"])
    assert lab.server.asked == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_trouble_that_passes(lab, status):
    lab.server.trouble[K3S].extend([refusing(status, Retry_After="0")] * 2)
    lab.run(["upstream-k3s"])
    assert len(lab.server.asked) == 3


def test_the_server_says_how_long_to_wait(lab, monkeypatch):
    waited = []
    monkeypatch.setattr(command.Runner, "pause", lambda _runner, seconds: waited.append(seconds))
    lab.server.trouble[K3S].extend(
        [refusing(429, Retry_After="7"), refusing(503), refusing(503, Retry_After="86400"), refusing(503)]
    )
    lab.run(["upstream-k3s"])
    assert waited == [7, 2, upstream.LONGEST_WAIT, 8]


def test_trouble_that_does_not_pass_is_asked_five_times(lab, monkeypatch):
    monkeypatch.setattr(command.Runner, "pause", lambda *_args: None)
    lab.server.trouble[K3S].extend([refusing(503)] * 9)
    assert "503" in lab.fails(["upstream-k3s"])
    assert len(lab.server.asked) == 5


def test_more_than_there_is_from_an_earlier_run_is_thrown_away(lab):
    downloads = lab.tmp_path / "cache/downloads"
    downloads.mkdir(parents=True)
    (downloads / lab.pins["k3s"]["upstream"][0]["sha256"]).write_bytes(lab.server.files[K3S] + b"and more")
    lab.run(["upstream-k3s"])
    assert [asked for _path, asked in lab.server.asked] == [f"bytes={len(lab.server.files[K3S]) + 8}-", ""]


def test_a_server_that_knows_no_ranges_is_asked_for_all_of_it(lab):
    lab.server.trouble[K3S].extend([cutting(0.5), trickling(1)])
    lab.run(["upstream-k3s"])
    assert [asked for _path, asked in lab.server.asked][1:] == [f"bytes={len(lab.server.files[K3S]) // 2}-", ""]


def told(lab):
    return [line for line in lab.said if line.startswith("still downloading: ")]


def until_told(lab, words):
    """Holds the server up until that was said."""

    def wait(sent):
        wanted = words.format(f"{sent / 1e6:.1f}")
        until = time.monotonic() + 20
        while not any(wanted in line for line in told(lab)) and time.monotonic() < until:
            time.sleep(0.01)

    return wait


def test_how_much_of_a_file_is_there_is_told_now_and_then(lab):
    lab.server.files[K3S] = content = b"k" * 4_000_000
    lab.pins["k3s"]["upstream"][0]["sha256"] = sha256(content)
    lab.server.trouble[K3S].append(trickling(4, until_told(lab, "k3s v1.36.4+k3s1 {} of 4.0 MB in ")))
    began = time.monotonic()
    lab.run(["upstream-k3s"], heartbeat=0.1)
    lines = told(lab)
    # Lines that a pipe or a log can bear.
    assert len(lines) <= (time.monotonic() - began) / 0.1
    assert {"1.0", "2.0", "3.0"} <= {line.split()[4] for line in lines}
    assert lab.said[0].startswith("1 of 1 parts have to be downloaded")
    assert "downloading k3s v1.36.4+k3s1 (about 20 s)" in lab.said


def test_the_total_counts_what_an_earlier_run_has(lab):
    lab.server.files[K3S] = content = b"k" * 2_000_000
    lab.pins["k3s"]["upstream"][0]["sha256"] = sha256(content)
    downloads = lab.tmp_path / "cache/downloads"
    downloads.mkdir(parents=True)
    (downloads / sha256(content)).write_bytes(content[:1_000_000])

    def late(handler, _content):
        until_told(lab, "{} MB so far in ")(1_000_000)
        handler.send_response(206)
        handler.send_header("Content-Range", "bytes 1000000-1999999/2000000")
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        until_told(lab, "{} of 2.0 MB in ")(1_000_000)
        handler.wfile.write(content[1_000_000:])
        return True

    lab.server.trouble[K3S].append(late)
    lab.run(["upstream-k3s"], heartbeat=0.1)
    assert any("1.0 MB so far" in line for line in told(lab))
    assert any("1.0 of 2.0 MB" in line for line in told(lab))


def test_how_much_of_an_image_is_there_is_told(lab):
    content = b"l" * 3_000_000
    lab.image("kwok/kwok")["upstream"] |= lab.server.add_index("kwok/kwok", "v0.8.0", {ARCH: content})
    name = "image registry.k8s.io/kwok/kwok:v0.8.0"
    lab.server.trouble[f"/v2/kwok/kwok/blobs/{digest(content)}"].append(
        trickling(3, until_told(lab, f"{name} {{}} of 3.0 MB in "))
    )
    lab.run(["upstream-image-kwok"], heartbeat=0.1)
    assert {"1.0", "2.0"} <= {line.split()[4] for line in told(lab)}


def test_what_is_not_there(lab):
    del lab.server.files[K3S]
    said = lab.fails(["upstream-k3s"])
    assert f"https://{lab.server.place}{K3S}" in said
    assert "404" in said
    assert "bundle_mirrors" in said


def test_tls_that_is_not_trusted(lab, monkeypatch):
    monkeypatch.delenv("CURL_CA_BUNDLE")
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "certificate" in lab.fails(["upstream-k3s"]).replace("\n", " ")
    assert "certificate" in lab.fails(["upstream-chart"])


def test_a_name_that_does_not_exist(lab):
    lab.server.files.clear()
    with pytest.raises(BuildError, match="(?s)Could not resolve host.*bundle_mirrors"):
        path = lab.tmp_path / "pins.yml"
        path.write_text(yaml.safe_dump({pins.VARIABLE: lab.pins}))
        builder.Builder(
            builder.Settings(
                checkout=ROOT,
                cache=lab.tmp_path / "cache",
                bundle=lab.tmp_path / "bundle",
                origin="upstream",
                pins_file=path,
                mirrors={"github.com": "nowhere.invalid"},
                only=frozenset(["upstream-k3s"]),
                arch=ARCH,
            ),
            lambda _line: None,
        ).run()


def test_a_registry_that_moved_the_tag_changes_nothing(lab):
    """What counts is the digest."""
    lab.server.add_index("kwok/kwok", "v0.8.0", {ARCH: b"another"})
    lab.run(["upstream-image-kwok"])


def test_an_image_that_is_not_the_pinned_one(lab):
    pinned = lab.image("kwok/kwok")["upstream"]
    kind, _content = lab.server.manifests["kwok/kwok", pinned["digest"]]
    lab.server.manifests["kwok/kwok", pinned["digest"]] = (kind, b'{"schemaVersion":2,"manifests":[]}')
    assert "digest" in lab.fails(["upstream-image-kwok"])


def test_an_image_whose_platform_is_not_the_pinned_one(lab):
    right = lab.image("kwok/kwok")["upstream"][ARCH]
    lab.image("kwok/kwok")["upstream"][ARCH] = f"sha256:{'0' * 64}"
    said = lab.fails(["upstream-image-kwok"])
    assert f"its digest is {right}, not sha256:{'0' * 64}" in said


def test_an_index_without_the_architecture_is_told(lab):
    lab.image("kwok/kwok")["upstream"] |= lab.server.add_index("kwok/kwok", "v0.8.0", {"amd64": b"one"})
    said = lab.fails(["upstream-image-kwok"], arch="arm64")
    assert "image registry.k8s.io/kwok/kwok:v0.8.0 could not be downloaded" in said
    assert "arm64" in said


def test_the_digest_of_the_other_architecture_is_not_the_pinned_one(lab):
    pinned = lab.image("kwok/kwok")["upstream"]
    pinned["amd64"], pinned["arm64"] = pinned["arm64"], pinned["amd64"]
    said = lab.fails(["upstream-image-kwok"], arch="arm64")
    assert "registry.k8s.io/kwok/kwok:v0.8.0 for arm64 is not what was pinned" in said
    # The file that was given, not that of the collection.
    assert said.endswith(f"correct {lab.tmp_path}/pins.yml")


def test_a_chart_that_is_not_the_pinned_one(lab):
    (file,) = lab.pins["fake-gpu-operator"]["upstream"]
    file["sha256"] = "0" * 64
    assert "is not what was pinned" in lab.fails(["upstream-chart"])


def test_without_pins_nothing_is_downloaded_unless_it_is_allowed(lab):
    (file,) = lab.pins["fake-gpu-operator"]["upstream"]
    file |= {"sha256": None, "digest": None}
    lab.image("device-plugin")["upstream"] |= {"digest": None, ARCH: None}
    said = lab.fails([])
    assert "the chart ghcr.io/run-ai/fake-gpu-operator/fake-gpu-operator:0.2.1" in said
    assert lab.image("device-plugin")["ref"] in said
    assert lab.server.asked == []
    lab.run(allow_unpinned=True)
    manifest = json.loads((lab.tmp_path / "bundle/manifest.json").read_text())
    assert len(manifest["unpinned"]) == 2
    assert manifest["parts"]["fake-gpu-operator"]["digest"].startswith("sha256:")


def test_a_cache_that_cannot_be_is_told_with_what_to_do(lab):
    (lab.tmp_path / "cache").write_text("a file")
    said = lab.fails([])
    assert f"The bundle cannot be made: [Errno 17] File exists: '{lab.tmp_path}/cache'" in said
    assert "Next: choose a folder that you may write with -e lab_cache_dir=/path" in said


@pytest.mark.parametrize("where", ["place", "write"])
def test_a_disk_that_is_full_is_told_with_what_to_do(lab, monkeypatch, where):
    def full(*_args, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((bundle, "place", full) if where == "place" else (upstream.images, "write_archive", full)))
    said = lab.fails([])
    assert "No space left on device" in said
    assert "Next: make room there, or choose another folder" in said
    assert [path.name for path in lab.tmp_path.glob(".*")] == []


def test_a_registry_that_falls_silent_is_left_and_asked_once_more(lab, monkeypatch):
    monkeypatch.setattr(upstream, "SILENCE", 1.0)
    content = b"l" * 300_000
    lab.image("kwok/kwok")["upstream"] |= lab.server.add_index("kwok/kwok", "v0.8.0", {ARCH: content})
    blob = f"/v2/kwok/kwok/blobs/{digest(content)}"
    over = threading.Event()

    def silent(handler, content):
        # Who was asking has gone by the end of it.
        with contextlib.suppress(OSError):
            trickling(3, lambda _sent: over.wait(20))(handler, content)
        handler.close_connection = True
        return True

    lab.server.trouble[blob].append(silent)
    lab.run(["upstream-image-kwok"])
    lab.server.trouble[blob].extend([silent] * 2)
    shutil.rmtree(lab.tmp_path / "cache")
    said = lab.fails(["upstream-image-kwok"])
    assert f"{lab.server.place}/kwok/kwok sent nothing for 1 s" in said
    assert "bundle_mirrors" in said
    over.set()


def test_an_image_for_one_other_architecture_is_refused(lab):
    found = lab.server.add_image("kwok/kwok", "v0.8.0", "amd64", b"only one")
    lab.image("kwok/kwok")["upstream"] |= {"digest": found, "amd64": None, "arm64": None}
    lab.run(["upstream-image-kwok"], arch="amd64")
    said = lab.fails(["upstream-image-kwok"], arch="arm64")
    assert "registry.k8s.io/kwok/kwok:v0.8.0 is for amd64 alone, and the bundle is for arm64" in said


def test_a_whole_file_under_a_wrong_length_is_taken(lab):
    def longer(handler, content):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) + 7))
        handler.end_headers()
        handler.wfile.write(content)
        handler.close_connection = True
        return True

    lab.server.trouble[K3S].append(longer)
    lab.run(["upstream-k3s"])
    assert [asked for _path, asked in lab.server.asked] == ["", f"bytes={len(lab.server.files[K3S])}-"]


def test_pieces_of_a_file_without_a_checksum_are_never_put_together(lab):
    lab.pins["k3s"]["upstream"][0]["sha256"] = None
    lab.server.trouble[K3S].extend([cutting(0.5)] * 5)
    lab.fails(["upstream-k3s"], allow_unpinned=True)
    lab.server.files[K3S] = b"another" * 50_000
    lab.run(["upstream-k3s"], allow_unpinned=True)
    (kept,) = (lab.tmp_path / "cache/parts").glob("upstream-k3s-*/k3s")
    assert kept.read_bytes() == lab.server.files[K3S]


def test_what_is_no_archive_is_told(lab):
    (path,) = [path for path in lab.server.files if path.endswith(f"linux-{ARCH}.tar.gz")]
    lab.server.files[path] = b"<html>sign in</html>"
    next(file for file in lab.pins["helm"]["upstream"] if file["arch"] == ARCH)["sha256"] = None
    said = lab.fails(["upstream-helm"], allow_unpinned=True)
    assert "helm.tar.gz is no archive" in said


def test_a_full_disk_is_no_matter_of_the_network(lab, tmp_path, monkeypatch):
    """A limit on the size of a file fails as a full disk does."""
    ask = upstream.ask

    def limited(job, url, partial):
        start = job.runner._start
        limit = ["sh", "-c", 'trap "" XFSZ; exec prlimit --fsize=1000 "$@"', "limit"]
        job.runner._start = lambda words, *more: start([*limit, *words], *more)
        return ask(job, url, partial)

    monkeypatch.setattr(upstream, "ask", limited)
    said = lab.fails(["upstream-k3s"])
    assert "could not be written" in said
    assert f"Next: make room below {tmp_path}/cache" in said
    assert "check the network" not in said


def test_a_mirror_that_asks_for_a_password_gets_that_of_netrc(lab, monkeypatch):
    def asking(handler, _content):
        if handler.headers.get("Authorization") == "Basic bWU6cyNjcmV0":
            return False
        handler.say(401, b"who?", WWW_Authenticate='Basic realm="mirror"')
        return True

    lab.server.trouble[K3S].extend([asking] * 2)
    assert "401" in lab.fails(["upstream-k3s"])
    home = lab.tmp_path / "home"
    home.mkdir()
    (home / ".netrc").write_text("machine 127.0.0.1 login me password s#cret\n")
    monkeypatch.setenv("HOME", str(home))
    lab.run(["upstream-k3s"])


@pytest.mark.parametrize(
    ("name", "place", "words"),
    [
        ("gihub.com", "mirror.example", "bundle_mirrors has a place for gihub.com, which nothing is asked of"),
        ("https://github.com", "mirror.example", "has a place for https://github.com, which nothing"),
        ("github.com", "http://mirror.example", "the place for github.com is not by https"),
        ("github.com", "https://me:s3cret@mirror.example/x", "has a name and a password in it"),
        ("ghcr.io", "me:s3cret@mirror.example", "has a name and a password in it"),
        ("github.com", "", "is no address"),
        ("github.com", None, "is no address"),
        ("github.com", "https://", "is no address"),
        ("github.com", "mirror.example:port", "is no address"),
        ("github.com", "https://mirror.example/?x", "is no address"),
    ],
)
def test_a_mirror_that_is_none_is_refused_before_anything_is_asked(lab, name, place, words):
    said = lab.fails([], mirrors={**dict.fromkeys(["ghcr.io"], lab.server.place), name: place})
    assert words in said
    assert "s3cret" not in said
    assert "Next: write it as" in said
    assert lab.server.asked == []


def test_mirrors_that_are_some():
    known = ["github.com", "registry-1.docker.io"]
    for place in ("mirror.example", "https://mirror.example:8443/a/b//", "[::1]:5000/x"):
        Mirrors({"github.com": place, "docker.io": place}).require(known)
    assert (
        Mirrors({"github.com": "https://mirror.example/a//"}).url("https://github.com/b")
        == "https://mirror.example/a/b"
    )


def test_mirrors():
    places = Mirrors({"github.com": "https://mirror.example/gh/", "ghcr.io": "registry.example/ghcr"})
    assert places.url("https://github.com/a/b%2Bc?d=e") == "https://mirror.example/gh/a/b%2Bc?d=e"
    assert places.url("https://get.helm.sh/x") == "https://get.helm.sh/x"
    assert places.repository("ghcr.io/run-ai/x") == "registry.example/ghcr/run-ai/x"
    assert places.repository("docker.io/library/ubuntu") == "docker.io/library/ubuntu"
    assert places.host("ghcr.io") == "registry.example"
    assert Mirrors({"docker.io": "registry.example:5000"}).host("registry-1.docker.io") == "registry.example:5000"


def test_what_is_not_pinned_in_the_pins_of_the_collection_is_the_operator():
    """No one publishes these figures; when they are known, this list is empty."""
    unpinned = pins.Pins.load(ROOT / pins.FILE).unpinned(ARCH)
    assert unpinned
    assert all("fake-gpu-operator" in name for name in unpinned)
