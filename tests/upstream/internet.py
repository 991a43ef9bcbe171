#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Upstream without the internet: a network namespace in which upstream's names answer, with what the stand-ins have.

    internet.py [--folder FOLDER] [--bundle BUNDLE] [--proxy] [-- COMMAND...]

Fills FOLDER from a bundle of stand-ins (files, a registry's storage, certificates, pins.yml with the checksums of all
that), and runs COMMAND inside the namespace, where github.com and the others are on the loopback and nothing else is.
With --proxy it runs COMMAND outside, where all else is as usual, and HTTPS_PROXY leads to these names.
Without a command it serves until it is interrupted, and says what to type elsewhere. Needs root.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / ".venv" / "collections"))

from cryptography import x509

from ansible_collections.gsb.fake_gpu_lab.standins.build import pins as pinned
from ansible_collections.gsb.fake_gpu_lab.tests import gotool
from ansible_collections.gsb.fake_gpu_lab.tests.unit.bundle.upstream_server import Upstream
from ansible_collections.gsb.fake_gpu_lab.tests.unit.plugins import apiserver

#: Each run has a namespace of its own, named by its process.
NAMESPACE = re.compile(r"gsb-upstream-(\d+)")
NETNS, ETC = Path("/run/netns"), Path("/etc/netns")
FILES, REGISTRY = "127.0.0.1", "127.0.0.2"
FILE_HOSTS = ("github.com", "get.helm.sh", "api.github.com")
REGISTRY_HOSTS = ("ghcr.io", "registry.k8s.io", "docker.io", "registry-1.docker.io")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gsb-fake-gpu-lab"
FOLDER, BUNDLE = CACHE / "test" / "internet", CACHE / "bundle"
#: Seconds that a certificate is good for.
CERTIFIED = 24 * 3600
INDEX = "application/vnd.oci.image.index.v1+json"


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def registry_program() -> Path:
    """CNCF distribution."""
    return gotool.program("registry", "github.com/distribution/distribution/v3/cmd/registry")


class Unfit(Exception):
    """What keeps it from serving, and what to do."""


class Internet:
    """One folder: files/, registry/, certificates, pins.yml."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self.folder, self.bundle = folder, bundle
        self.namespace = f"gsb-upstream-{os.getpid()}"
        self.servers: list[subprocess.Popen[bytes]] = []
        self.proxy: str | None = None
        try:
            self.manifest = json.loads((bundle / "manifest.json").read_text())
        except FileNotFoundError:
            self.manifest = {"origin": "nothing"}
        if self.manifest["origin"] != "standin":
            raise Unfit(
                f"{bundle} holds {self.manifest['origin']}; what is served here are stand-ins: make bundle BUNDLE_SOURCE=standin"
            )
        self.arch = self.manifest["arch"]
        self.pins = copy.deepcopy(yaml.safe_load((ROOT / pinned.FILE).read_text())[pinned.VARIABLE])

    @property
    def pins_file(self) -> Path:
        return self.folder / "pins.yml"

    @property
    def authority(self) -> Path:
        return self.folder / "lab-ca.crt"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def variables_file(self) -> Path:
        """What is given to the lab's commands, with -e @: what they make here is no other's."""
        return self.folder / "variables.json"

    def fill(self) -> None:
        """Anew, unless all is there from the same bundle: what was downloaded from it then stays whole, too."""
        key = {"of": [sha256(path) for path in (self.bundle / "manifest.json", ROOT / pinned.FILE, Path(__file__))]}
        marker = self.folder / "internet.json"
        if marker.is_file() and json.loads(marker.read_text()) == key:
            self.pins = yaml.safe_load(self.pins_file.read_text())[pinned.VARIABLE]
            if time.time() - self.authority.stat().st_mtime > CERTIFIED / 2:
                self._certificates()
            return
        if not marker.is_file() and self.folder.exists() and any(self.folder.iterdir()):
            raise Unfit(f"{self.folder} has something else in it: name another folder, or remove it")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.work.mkdir(parents=True)
        # Of nothing yet: a run that is killed here is begun anew by the next.
        marker.write_text("{}")
        self._certificates()
        self._files()
        self._registry()
        shutil.rmtree(self.work)
        self.pins_file.write_text(yaml.safe_dump({pinned.VARIABLE: self.pins}, sort_keys=False))
        lab = self.folder / "lab"
        self.variables_file.write_text(
            json.dumps(
                {
                    "bundle_pins_file": str(self.pins_file),
                    "bundle_cache_dir": str(lab / "cache"),
                    "lab_bundle_dir": str(lab / "bundle"),
                }
            )
        )
        marker.write_text(json.dumps(key))

    def _certificates(self) -> None:
        authority = apiserver.Authority(self.folder)
        names = [x509.DNSName(name) for name in (*FILE_HOSTS, *REGISTRY_HOSTS)]
        certificate, key = authority.issue("server", x509.SubjectAlternativeName(names))
        Path(certificate).rename(self.folder / "server.crt")
        Path(key).rename(self.folder / "server.key")
        assert Path(authority.file) == self.authority

    # Files

    def _files(self) -> None:
        contents = {
            "k3s": self.bundle / "bin/k3s",
            "helm.tar.gz": self._helm(),
            "k3s-airgap-images.tar.zst": self._airgap(),
            "kwok.yaml": self.bundle / "manifests/kwok.yaml",
            "stage-fast.yaml": self.bundle / "manifests/stage-fast.yaml",
        }
        for name in ("k3s", "helm", "kwok"):
            self._file(self.pins[name]["releases"].partition("?")[0]).write_text(
                json.dumps([{"tag_name": self.pins[name]["version"]}])
            )
        # The roles compare what they installed with the version that the manifest says.
        self.pins["k3s"]["version"] = self.manifest["parts"]["k3s"]["version"]
        for name in ("k3s", "helm", "kwok"):
            for file in self.pins[name]["upstream"]:
                if file["arch"] not in (self.arch, "any"):
                    continue
                target = self._file(file["url"])
                shutil.copyfile(contents[file["name"]], target)
                file["sha256"] = sha256(target)

    def _file(self, url: str) -> Path:
        _scheme, _empty, host, *path = url.split("/")
        target = self.folder / "files" / host / "/".join(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _helm(self) -> Path:
        archive = self.work / "helm.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(self.bundle / "bin/helm", f"linux-{self.arch}/helm")
        return archive

    def _airgap(self) -> Path:
        """The images that k3s' archive carries, as one OCI layout."""
        layout = self.work / "airgap"
        index: dict[str, object] = {"schemaVersion": 2, "manifests": []}
        for image in self._images():
            if "carried_by" in image["upstream"]:
                with tarfile.open(self.bundle / self._archive(image)) as tar:
                    index["manifests"] += json.load(tar.extractfile("index.json"))["manifests"]
                    tar.extractall(layout, filter="data")
        (layout / "index.json").write_text(json.dumps(index))
        run("tar", "-C", layout, "-cf", self.work / "airgap.tar", ".")
        run("zstd", "-q", "-3", "-f", self.work / "airgap.tar", "-o", self.work / "airgap.tar.zst")
        return self.work / "airgap.tar.zst"

    def _images(self) -> list[dict[str, object]]:
        for image in self.pins["images"]:
            # The stand-in may be of another release than the one that is pinned.
            image["ref"] = image["standin"].get("ref", image["ref"])
        return self.pins["images"]

    @staticmethod
    def _archive(image: dict[str, object]) -> str:
        return f"images/{image['standin']['name']}.tar"

    # The registry

    def _registry(self) -> None:
        config = {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "registry")}},
            "http": {
                "addr": f"{REGISTRY}:443",
                "tls": {"certificate": str(self.folder / "server.crt"), "key": str(self.folder / "server.key")},
            },
        }
        (self.folder / "registry.yml").write_text(yaml.safe_dump(config))
        with self:
            for image in self._images():
                if "carried_by" in image["upstream"]:
                    continue
                layout = self.work / "layout"
                platforms = self._index(self.bundle / self._archive(image), layout)
                self.within("skopeo", "copy", "--quiet", "--all", f"oci:{layout}", f"docker://{image['ref']}")
                image["upstream"] |= {"digest": self._digest(image["ref"]), **platforms}
            (file,) = self.pins["fake-gpu-operator"]["upstream"]
            (chart,) = (self.bundle / "charts").glob("*.tgz")
            repository = file["url"].removeprefix("oci://")
            push = [self.bundle / "bin/helm", "push", chart, f"oci://{repository.rpartition('/')[0]}"]
            with (self.folder / "servers.log").open("ab") as log:
                self.within(*push, stdout=log, stderr=log)
            file |= {
                "sha256": sha256(chart),
                "digest": self._digest(f"{repository}:{self.pins['fake-gpu-operator']['version']}"),
            }

    def _index(self, archive: Path, layout: Path) -> dict[str, str]:
        """The layout of an index over an image and the same for the other architecture: the digest of each."""
        shutil.rmtree(layout, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(layout, filter="data")
        blobs = layout / "blobs/sha256"

        def read(descriptor: dict[str, object]) -> dict[str, object]:
            return json.loads((blobs / str(descriptor["digest"]).removeprefix("sha256:")).read_text())

        def write(kind: str, document: object, **more: object) -> dict[str, object]:
            text = json.dumps(document).encode()
            name = hashlib.sha256(text).hexdigest()
            (blobs / name).write_bytes(text)
            return {"mediaType": kind, "digest": f"sha256:{name}", "size": len(text), **more}

        (native,) = json.loads((layout / "index.json").read_text())["manifests"]
        (other,) = {*pinned.ARCHITECTURES} - {self.arch}
        manifest = read(native)
        config = write(manifest["config"]["mediaType"], {**read(manifest["config"]), "architecture": other})
        foreign = write(native["mediaType"], {**manifest, "config": config})
        found = {self.arch: native, other: foreign}
        index = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [
                {
                    **{key: one[key] for key in ("mediaType", "digest", "size")},
                    "platform": {"os": "linux", "architecture": arch},
                }
                for arch, one in found.items()
            ],
        }
        (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [write(INDEX, index)]}))
        return {arch: one["digest"] for arch, one in found.items()}

    def _digest(self, reference: str) -> str:
        raw = self.within("skopeo", "inspect", "--raw", f"docker://{reference}", capture_output=True).stdout
        return f"sha256:{hashlib.sha256(raw.encode()).hexdigest()}"

    # The namespace

    def additions(self) -> dict[str, str]:
        """What somebody behind these names has: their authority, and PyPI's files from the bundle."""
        return {
            "SSL_CERT_FILE": str(self.authority),
            "CURL_CA_BUNDLE": str(self.authority),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.bundle / "wheels"),
            **({"HTTPS_PROXY": self.proxy} if self.proxy else {}),
        }

    def environment(self) -> dict[str, str]:
        proxies = {
            name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
        }
        return {**{name: value for name, value in os.environ.items() if name not in proxies}, **self.additions()}

    def inside(self, *command: str | Path) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *map(str, command)]

    def within(self, *command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return run(*self.inside(*command), env=self.environment(), **options)

    def __enter__(self) -> Internet:
        self._sweep()
        hosts = ETC / self.namespace
        hosts.mkdir(parents=True, exist_ok=True)
        lines = [f"{FILES} localhost {' '.join(FILE_HOSTS)}", f"{REGISTRY} {' '.join(REGISTRY_HOSTS)}"]
        (hosts / "hosts").write_text("\n".join(lines) + "\n")
        (hosts / "resolv.conf").write_text("nameserver 127.0.0.9\noptions timeout:1 attempts:1\n")
        run("ip", "netns", "add", self.namespace)
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        try:
            self._serve(registry_program(), "serve", self.folder / "registry.yml")
            self._serve(sys.executable, __file__, "--files", self.folder)
            self._wait_for_servers()
        except BaseException:
            # A with statement that was not entered is not left.
            self.__exit__()
            raise
        return self

    def _serve(self, *command: str | Path, **options: object) -> None:
        with (self.folder / "servers.log").open("ab") as log:
            self.servers.append(
                subprocess.Popen(self.inside(*command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)
            )

    def open_proxy(self) -> None:
        """A way in for those outside: it listens there, and connects in the namespace."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._serve(sys.executable, __file__, "--tunnel", str(listener.fileno()), pass_fds=[listener.fileno()])
            self.proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def _wait_for_servers(self) -> None:
        deadline = time.monotonic() + 30
        probes = [f"https://{FILE_HOSTS[0]}/", f"https://{REGISTRY_HOSTS[0]}/v2/"]
        while probes:
            done = subprocess.run(
                self.inside("curl", "-s", "-o", os.devnull, probes[0]), env=self.environment(), check=False
            )
            if done.returncode == 0:
                probes.pop(0)
            elif time.monotonic() > deadline:
                raise TimeoutError((self.folder / "servers.log").read_text()[-2000:])
            else:
                time.sleep(0.1)

    def __exit__(self, *_error: object) -> None:
        for server in self.servers:
            server.terminate()
            server.wait()
        self.servers, self.proxy = [], None
        close(self.namespace)

    @staticmethod
    def _sweep() -> None:
        """What runs that were killed left; of others that run, nothing."""
        for path in [*NETNS.glob("*"), *ETC.glob("*")]:
            made = NAMESPACE.fullmatch(path.name)
            if made and (int(made[1]) == os.getpid() or not Path("/proc", made[1]).exists()):
                close(path.name)


def close(namespace: str) -> None:
    if (NETNS / namespace).exists():
        done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
        for number in done.stdout.split():
            os.kill(int(number), signal.SIGKILL)
        run("ip", "netns", "delete", namespace)
    shutil.rmtree(ETC / namespace, ignore_errors=True)


def serve_files(folder: Path) -> None:
    """All file hosts at once: their paths differ."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with Upstream(context, (FILES, 443)) as server:
        for path in (folder / "files").rglob("*"):
            if path.is_file():
                server.files["/" + "/".join(path.relative_to(folder / "files").parts[1:])] = path.read_bytes()
        signal.pause()


def serve_tunnel(listener: int) -> None:
    with apiserver.Proxy(listener=socket.socket(fileno=listener)):
        signal.pause()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="what is served (%(default)s)")
    parser.add_argument("--bundle", type=Path, default=BUNDLE, help="the stand-ins that it is made of (%(default)s)")
    parser.add_argument("--proxy", action="store_true", help="run the command outside, with a proxy that leads inside")
    parser.add_argument("command", nargs="*", help="run in the namespace")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise Unfit("only root can make a network namespace: run the same command with sudo")
    # Whoever is stopped leaves no namespace.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    internet = Internet(options.folder.absolute(), options.bundle.absolute())
    print(f"internet: {internet.folder} is filled with what {internet.bundle} has", flush=True)
    internet.fill()
    with internet:
        if options.proxy or not options.command:
            internet.open_proxy()
        if options.command:
            command = options.command if options.proxy else internet.inside(*options.command)
            return subprocess.run(command, env=internet.environment(), check=False).returncode
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in internet.additions().items())
        print(
            f"""internet: serving until Ctrl-C, in the network namespace {internet.namespace}. In another terminal:

  export {given}
  make lab BUNDLE_SOURCE=upstream ARGS='-e @{internet.variables_file}'
""",
            flush=True,
        )
        signal.pause()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--files"]:
        serve_files(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["--tunnel"]:
        serve_tunnel(int(sys.argv[2]))
    else:
        try:
            sys.exit(main())
        except KeyboardInterrupt:
            sys.exit("internet: stopped")
        except Unfit as problem:
            sys.exit(f"internet: {problem}")
