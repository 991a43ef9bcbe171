# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""A proxy before upstream: everything goes through it, nothing that NO_PROXY names, and what it refuses is told."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import socket
import zipfile

import pytest
from cryptography import x509

from ansible_collections.gsb.fake_gpu_lab.standins.build import probe, proxy, resolve
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.tests.unit.bundle.upstream_server import Lab, Upstream
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import apiserver

#: Upstream's names -> names that nobody but the proxy can find.
MIRRORS = {
    "github.com": "files.lab.test",
    "get.helm.sh": "helm.lab.test",
    "ghcr.io": "chart.lab.test",
    "registry.k8s.io": "images.lab.test",
    "docker.io": "docker.lab.test",
}
EVERYTHING = {f"{name}:443" for name in MIRRORS.values()}
SECRET = "s3cret%2F"
BASIC = "Basic " + base64.b64encode(b"me:s3cret/").decode()

needs_tools = pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("skopeo")),
    reason="needs curl and skopeo, which the bundle role installs",
)


@pytest.fixture
def clean(monkeypatch):
    for name in (*proxy.NAMES, *proxy.EXCEPTIONS, "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def lab(tmp_path, clean):
    authority = apiserver.Authority(tmp_path)
    names = x509.SubjectAlternativeName([x509.DNSName("*.lab.test")])
    context = apiserver.ssl.SSLContext(apiserver.ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", names))
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        clean.setenv(name, authority.file)
    with Upstream(context) as server:
        yield Lab(server, tmp_path)


def before(lab, **options):
    return apiserver.Proxy(to=lab.server.server.server_address, **options)


def targets(way):
    return {target for target, _credentials in way.asked}


@needs_tools
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_all_of_it_comes_through_the_proxy(lab, clean, variable):
    """skopeo knows no ALL_PROXY of its own, and curl and skopeo do not agree which of the others comes first."""
    with before(lab) as way:
        clean.setenv(variable, way.url)
        if variable == "HTTPS_PROXY":
            lab.run(mirrors=MIRRORS)
            assert targets(way) == EVERYTHING
        else:
            lab.run(["upstream-helm", "upstream-chart"], mirrors=MIRRORS)
            assert targets(way) == {"helm.lab.test:443", "chart.lab.test:443"}


@needs_tools
def test_name_and_password_are_given(lab, clean):
    with before(lab, credentials=BASIC) as way:
        clean.setenv("HTTPS_PROXY", way.url.replace("://", f"://me:{SECRET}@"))
        lab.run(["upstream-helm", "upstream-chart"], mirrors=MIRRORS)
        assert probe.reach("helm.lab.test", 5) == ""
    assert {credentials for _target, credentials in way.asked} >= {BASIC}


@needs_tools
@pytest.mark.parametrize("exception", ["NO_PROXY", "no_proxy"])
def test_what_needs_no_proxy_does_not_get_one(lab, clean, exception):
    """Without the proxy these names are nowhere, so what asks for them directly fails."""
    with before(lab) as way:
        clean.setenv("HTTPS_PROXY", way.url)
        clean.setenv(exception, "other.test, helm.lab.test,.chart.lab.test,chart.lab.test")
        assert "Could not resolve host: helm.lab.test" in lab.fails(["upstream-helm"], mirrors=MIRRORS)
        assert "could not be downloaded" in lab.fails(["upstream-chart"], mirrors=MIRRORS)
        assert probe.reach("helm.lab.test", 5) == "its name is not known"
        with pytest.raises(BuildError, match="could not be asked for"):
            resolve.by_skopeo("chart.lab.test/x:1")
        assert way.asked == []
        lab.run(["upstream-k3s"], mirrors=MIRRORS)
        assert targets(way) == {"files.lab.test:443"}


@needs_tools
def test_probes_and_the_resolution_of_pins_come_through_it(lab, clean):
    repository, reference = "run-ai/fake-gpu-operator/fake-gpu-operator", "chart.lab.test"
    with before(lab) as way:
        clean.setenv("HTTPS_PROXY", way.url)
        assert probe.reach("helm.lab.test", 5) == ""
        raw = resolve.by_skopeo(f"{reference}/{repository}:0.2.1")
        assert targets(way) == {"helm.lab.test:443", "chart.lab.test:443"}
    (file,) = lab.pins["fake-gpu-operator"]["upstream"]
    assert resolve.digest(raw) == file["digest"]


@needs_tools
def test_wheels_come_through_it(lab, clean):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    name, content = "tiny-1.0-py3-none-any.whl", packed.getvalue()
    sha256 = hashlib.sha256(content).hexdigest()
    lab.server.files |= {"/simple/tiny/": f'<a href="/{name}#sha256={sha256}">{name}</a>'.encode(), f"/{name}": content}
    lab.server.kinds["/simple/tiny/"] = "text/html"
    lab.pins["kube-client"]["wheels"] = [
        {
            "name": "tiny",
            "version": "1.0",
            "files": [{"name": name, "arch": "any", "python": "3.12", "sha256": sha256}],
        }
    ]
    clean.setenv("PIP_INDEX_URL", "https://index.lab.test/simple/")
    clean.setenv("PIP_CONFIG_FILE", "/dev/null")
    clean.setenv("PIP_NO_CACHE_DIR", "1")
    with before(lab) as way:
        clean.setenv("HTTPS_PROXY", way.url)
        lab.run(["wheels"])
        assert targets(way) == {"index.lab.test:443"}
    clean.setenv("PIP_RETRIES", "0")
    with before(lab, status=407) as way:
        clean.setenv("HTTPS_PROXY", way.url.replace("://", f"://me:{SECRET}@"))
        said = lab.fails(["wheels"], rebuild=frozenset(["wheels"]))
    told(said, way, "does not take the user and password that are given (407)")


def told(said, way, words):
    """One sentence, with the proxy and without its password, and what to do."""
    assert f"the proxy {way.url} (from HTTPS_PROXY) {words}" in said.splitlines()[0]
    assert "s3cret" not in said
    assert said.splitlines()[-1].startswith("Next: ")


PARTS = ["upstream-helm", "upstream-chart"]


@needs_tools
@pytest.mark.parametrize("part", PARTS)
def test_a_proxy_that_asks_for_a_password(lab, clean, part):
    with before(lab, credentials=BASIC) as way:
        clean.setenv("HTTPS_PROXY", way.url)
        told(lab.fails([part], mirrors=MIRRORS), way, "asks for a user and a password (407)")
        assert "(407)" in probe.reach("helm.lab.test", 5)
        clean.setenv("HTTPS_PROXY", way.url.replace("://", "://me:wrong-s3cret@"))
        told(lab.fails([part], mirrors=MIRRORS), way, "does not take the user and password that are given (407)")


@needs_tools
@pytest.mark.parametrize("part", PARTS)
def test_a_proxy_that_does_not_let_a_name_through(lab, clean, part):
    with before(lab, status=403) as way:
        clean.setenv("HTTPS_PROXY", way.url.replace("://", f"://me:{SECRET}@"))
        said = lab.fails([part], mirrors=MIRRORS)
        name = {"upstream-helm": "helm", "upstream-chart": "chart"}[part]
        told(said, way, f"does not let {name}.lab.test through (403)")


@needs_tools
@pytest.mark.parametrize("part", PARTS)
def test_a_proxy_that_is_not_there(lab, clean, part):
    with before(lab) as way:
        pass
    clean.setenv("HTTPS_PROXY", way.url.replace("://", f"://me:{SECRET}@"))
    told(lab.fails([part], mirrors=MIRRORS), way, "cannot be reached: Connection refused")
    assert "the proxy" in probe.reach("helm.lab.test", 5)
    with pytest.raises(BuildError, match="Connection refused"):
        resolve.by_skopeo("chart.lab.test/x:1")


@needs_tools
def test_a_proxy_that_is_busy_is_asked_again(lab, clean):
    with before(lab, status=503) as way:
        clean.setenv("HTTPS_PROXY", way.url)
        clean.setattr("ansible_collections.gsb.fake_gpu_lab.standins.build.command.Runner.pause", lambda *_args: None)
        said = lab.fails(["upstream-helm"], mirrors=MIRRORS)
        told(said, way, "cannot reach helm.lab.test (503)")
        # Once more at the end, to tell who it was.
        assert len(way.asked) == 6


def test_an_address_that_is_none_is_refused_without_being_shown(clean):
    clean.setenv("HTTPS_PROXY", "http://me:s3cret@proxy:port")
    with pytest.raises(BuildError) as raised:
        proxy.environment()
    assert "HTTPS_PROXY is no address of a proxy" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_what_hangs_up_is_no_proxy(clean):
    with socket.create_server(("127.0.0.1", 0)) as server:
        clean.setenv("HTTPS_PROXY", f"127.0.0.1:{server.getsockname()[1]}")
        assert "does not answer as a proxy does" in str(proxy.trouble("files.lab.test", timeout=0.2))


@pytest.mark.parametrize(
    ("exceptions", "host", "expected"),
    [
        ("", "example.test", False),
        ("*", "example.test", True),
        ("example.test", "example.test", True),
        ("example.test", "a.example.test", True),
        ("example.test", "notexample.test", False),
        (".example.test", "a.example.test", True),
        ("*.example.test", "a.example.test", True),
        ("one.test two.test", "two.test", True),
        ("EXAMPLE.test", "example.TEST", True),
        ("example.test:443", "example.test", True),
        ("example.test:8443", "example.test", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("fd00::/8", "fd00::1", True),
        ("", "127.0.0.1", True),
        ("", "localhost", True),
        (",", "example.test", False),
    ],
)
def test_exceptions(exceptions, host, expected):
    environment = {"https_proxy": "http://proxy:3128", "no_proxy": exceptions}
    assert (proxy.for_host(host, 443, environment) is None) == expected


def test_all_tools_are_told_the_same():
    found = proxy.environment({"ALL_PROXY": "proxy:3128", "no_proxy": "a.test", "PATH": "/bin"})
    assert found["https_proxy"] == found["HTTPS_PROXY"] == "http://proxy:3128"
    assert found["no_proxy"] == found["NO_PROXY"] == "a.test,localhost,127.0.0.1,::1"
    assert "ALL_PROXY" not in found
    assert proxy.environment({"PATH": "/bin", "NO_PROXY": "a"}) == {"PATH": "/bin"}
