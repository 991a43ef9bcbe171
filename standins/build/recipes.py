# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""How each part is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from gzip import GzipFile
from io import BytesIO
from pathlib import Path
from typing import Any

from . import debian, images, wheels
from .errors import BuildError
from .parts import Job, Part
from .pins import Image, Pins
from .store import sha256_of

OPERATOR = "standins/fake_gpu_operator"
OPERATOR_PREFIX = "fake-gpu-operator"
KEY = "<content key>"
PROGRAMS = {
    "kube": ("kube",),
    "containerd": ("containerd", "containerd-shim-runc-v2", "ctr"),
    "crictl": ("crictl",),
    "cni": ("bridge", "host-local", "loopback", "portmap"),
    "runc": ("runc",),
}


def go_part(
    name: str,
    title: str,
    folder: str,
    packages: Mapping[str, str],
    *,
    variables: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    tags: str = "",
    alone: bool = False,
    first_time: float = 60.0,
    recipe: int = 1,
) -> Part:
    """Programs out of one Go module: `packages` says which package becomes which file.

    `versions` are pinned modules; go.mod has to require each at exactly that version. `variables` are set by the
    linker; the value KEY stands for the content key.
    """
    stamped = dict(variables or {})

    def build(job: Job) -> None:
        source = job.checkout / folder
        check_versions(source / "go.mod", versions or {})
        stamps = " ".join(f"-X {name}={job.key if value == KEY else value}" for name, value in stamped.items())
        for program, package in packages.items():
            job.runner.run(
                [
                    *(job.go.path, "build", "-C", source, "-trimpath", "-buildvcs=false"),
                    *(["-tags", tags] if tags else []),
                    *("-ldflags", f"-s -w -buildid= {stamps}".strip(), "-o", job.out / program, package),
                ],
                env=job.go_environment(),
                hint=f"less {job.runner.log}   # when modules could not be fetched: check the network, then run this again",
            )
        if versions:
            job.facts["modules"] = dict(versions)

    return Part(
        name=name,
        title=title,
        build=build,
        recipe=recipe,
        sources=(folder,),
        settings={"packages": dict(packages), "tags": tags, "versions": dict(versions or {}), "variables": stamped},
        uses_go=True,
        alone=alone,
        first_time=first_time,
    )


def check_versions(go_mod: Path, versions: Mapping[str, str]) -> None:
    """go.mod and the pins must tell the same."""
    text = go_mod.read_text(encoding="utf-8")
    for module, version in versions.items():
        found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v\S+)", text, re.MULTILINE)
        if found is None or found.group(1) != version:
            raise BuildError(
                f"{go_mod} requires {module} {found.group(1) if found else 'nowhere'}, the pins say {version}.",
                hint=f"go get -C {go_mod.parent} {module}@{version}   # or correct roles/bundle/vars/pins.yml",
            )


def runc_part() -> Part:
    def build(job: Job) -> None:
        root, versions = debian.extract(job.runner, ["runc"], job.work, libraries=False)
        shutil.copy2(root / "usr/sbin/runc", job.out / "runc")
        job.facts["packages"] = versions

    return Part(
        "runc", "runc from the distribution", build, settings={"distribution": debian.distribution()}, first_time=3
    )


def k3s_part(pins: Pins) -> Part:
    def build(job: Job) -> None:
        payload = job.work / "payload"
        (payload / "bin").mkdir(parents=True)
        for part, programs in PROGRAMS.items():
            for program in programs:
                place(job.built(part, program), payload / "bin" / program)
        job.runner.run(
            [
                *(job.built("k3s-launcher", "pack"), "-o", job.out / "k3s"),
                *("-launcher", job.built("k3s-launcher", "k3s-launcher"), payload),
            ]
        )

    version = pins.standin_version("k3s")
    return Part("k3s", f"k3s {version}", build, needs=("k3s-launcher", *PROGRAMS), first_time=25)


def place(source: Path, target: Path) -> None:
    """A hard link where the folders share a file system, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def kwok_manifests_part(pins: Pins) -> Part:
    version = pins.standin_version("kwok")

    def build(job: Job) -> None:
        source = job.checkout / "standins/tools/kwok"
        listing = job.work / "module.json"
        # The manifests are in the module's archive, not in a package that a build would fetch.
        job.runner.run(
            [job.go.path, "-C", source, "mod", "download", "-json", "sigs.k8s.io/kwok"],
            env=job.go_environment(),
            output=listing,
        )
        module = json.loads(listing.read_text(encoding="utf-8"))
        tree = job.work / "kustomize"
        shutil.copytree(Path(module["Dir"]) / "kustomize", tree, copy_function=shutil.copyfile)
        for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        for name, base in {"kwok": "kwok", "stage-fast": "stage/fast"}.items():
            overlay = job.work / name
            overlay.mkdir()
            content = {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": [f"../kustomize/{base}"],
                "images": [{"name": "registry.k8s.io/kwok/kwok", "newTag": version}],
                # CustomResourceDefinitions first.
                "sortOptions": {"order": "legacy"},
            }
            (overlay / "kustomization.yaml").write_text(json.dumps(content), encoding="utf-8")
            job.runner.run(
                [job.built("kube", "kube"), "kubectl", "kustomize", overlay],
                env={**os.environ, "KUBECONFIG": os.devnull},
                output=job.out / f"{name}.yaml",
            )

    return Part(
        "kwok-manifests",
        f"KWOK manifests {version}",
        build,
        needs=("kube",),
        sources=("standins/tools/kwok",),
        settings={"version": version},
        uses_go=True,
        first_time=5,
    )


def chart_part(pins: Pins) -> Part:
    version = pins.standin_version("fake-gpu-operator")

    def build(job: Job) -> None:
        packed = job.work / "packed"
        job.runner.run(
            [job.built("helm", "helm"), "package", job.checkout / OPERATOR / "chart", "--destination", packed],
            env={**os.environ, **{f"HELM_{name}_HOME": str(job.work / name) for name in ("CACHE", "CONFIG", "DATA")}},
        )
        name = f"fake-gpu-operator-{version}.tgz"
        if [path.name for path in packed.iterdir()] != [name]:
            made = ", ".join(path.name for path in packed.iterdir())
            raise BuildError(
                f"The chart packs as {made}, the pins say {name}: its Chart.yaml must say version {version}."
            )
        (job.out / name).write_bytes(normalised(packed / name))

    return Part(
        "chart",
        f"fake-gpu-operator chart {version}",
        build,
        needs=("helm",),
        sources=(f"{OPERATOR}/chart",),
        settings={"version": version},
        first_time=2,
    )


def normalised(archive: Path) -> bytes:
    """The same .tgz with sorted entries, fixed times and no owner."""
    packed = BytesIO()
    with (
        tarfile.open(archive) as source,
        GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as target,
    ):
        for entry in sorted(source.getmembers(), key=lambda item: item.name):
            clean = tarfile.TarInfo(entry.name)
            clean.size, clean.type, clean.mtime = entry.size, entry.type, images.EPOCH
            clean.mode = 0o755 if entry.isdir() else 0o644
            target.addfile(clean, source.extractfile(entry) if entry.isfile() else None)
    return packed.getvalue()


def wheels_part(pins: Pins, arch: str) -> Part:
    pinned = pins.wheels(arch)

    def build(job: Job) -> None:
        job.amount = lambda: (sum(path.stat().st_size for path in job.out.iterdir()), None)
        wheels.download(job.runner, pinned, arch, job.out, job.work)
        for wheel in pinned:
            path = job.out / wheel.file
            if not path.is_file() or sha256_of(path) != wheel.sha256:
                raise BuildError(f"{wheel.file} was not fetched as the pins describe it.", log=job.runner.log)

    return Part(
        "wheels",
        f"Python client {pins.kube_client} and what it needs",
        build,
        settings={"files": {wheel.file: wheel.sha256 for wheel in pinned}},
        first_time=15,
    )


Fill = Callable[[Job, Path], images.Config]


def image_part(
    image: Image,
    fill: Fill,
    *,
    needs: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
    recipe: int = 2,
    first_time: float = 3.0,
) -> Part:
    """An image archive; `fill` puts the content into an empty root folder."""

    def build(job: Job) -> None:
        root = job.work / "root"
        root.mkdir()
        config = fill(job, root)
        labels = {
            "org.opencontainers.image.ref.name": image.ref,
            "org.opencontainers.image.description": f"Stand-in for {image.ref}: {image.made_of}",
        }
        config = images.Config(config.entrypoint, config.command, config.user, {**labels, **config.labels})
        job.facts["digest"] = images.build(
            job.runner, root, image.ref, config, job.arch, job.work, job.out / f"{image.name}.tar"
        )

    return Part(
        name=f"image-{image.name}",
        title=f"image {image.ref}",
        build=build,
        needs=needs,
        settings={"ref": image.ref, "made_of": image.made_of, **(settings or {})},
        recipe=recipe,
        first_time=first_time,
    )


def programs_only(files: Mapping[str, tuple[str, str]], entrypoint: Sequence[str], user: str = "") -> Fill:
    """An image of static programs: path in the image -> (part, file of the part)."""

    def fill(job: Job, root: Path) -> images.Config:
        images.merge_usr(root)
        images.skeleton(root)
        for target, (part, name) in files.items():
            path = root / target.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(job.built(part, name), path)
            path.chmod(0o755)
        return images.Config(entrypoint=entrypoint, user=user)

    return fill


# What glibc programs load at run time; the rest of libc6 (character set tables, profilers) stays out.
_LIBRARY = re.compile(r"usr/lib(64)?/([a-z0-9_]+-linux-gnu[a-z0-9]*/)?[^/]*\.so[^/]*")
_NOT_NEEDED = re.compile(
    r"/lib(mvec|c_malloc_debug|memusage|pcprofile|nsl|thread_db|BrokenLocale|nss_compat|nss_hesiod)[.-]"
)


def is_library(name: str) -> bool:
    return bool(_LIBRARY.fullmatch(name)) and not _NOT_NEEDED.search(name)


def is_notice(name: str) -> bool:
    """The copyright and licence of a package, or the link to the folder that has them."""
    return bool(re.fullmatch(r"usr/share/doc/[^/]+(/copyright)?", name))


def fill_busybox(job: Job, root: Path) -> images.Config:
    unpacked, versions = debian.extract(job.runner, ["busybox"], job.work)
    images.merge_usr(root)
    debian.copy_selected(unpacked, root, lambda name: name == "usr/bin/busybox" or is_library(name) or is_notice(name))
    listing = job.work / "applets"
    job.runner.run([unpacked / "usr/bin/busybox", "--list"], output=listing)
    for applet in listing.read_text(encoding="utf-8").split():
        link = root / "usr/bin" / applet
        if not link.exists():
            link.symlink_to("busybox")
    images.skeleton(root)
    job.facts["packages"] = versions
    return images.Config(command=["sh"])


def fill_ubuntu(job: Job, root: Path) -> images.Config:
    unpacked, versions = debian.extract(job.runner, ["bash", "coreutils", "grep", "sed"], job.work)
    images.merge_usr(root)
    debian.copy_selected(
        unpacked,
        root,
        lambda name: name.startswith(("usr/bin/", "usr/sbin/")) or is_library(name) or is_notice(name),
    )
    (root / "usr/bin/sh").symlink_to("bash")
    images.skeleton(root)
    job.facts["packages"] = versions
    return images.Config(command=["/bin/bash"])


def operator_images(checkout: Path) -> dict[str, Any]:
    path = checkout / OPERATOR / "images.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BuildError(f"{path} cannot be read: {problem}") from problem


def operator_part(checkout: Path) -> Part:
    programs = sorted(path.name for path in (checkout / OPERATOR / "cmd").iterdir() if path.is_dir())
    return go_part(
        "operator-programs",
        "fake-gpu-operator programs",
        OPERATOR,
        {program: f"./cmd/{program}" for program in programs},
        first_time=120,
    )


def image_parts(pins: Pins, checkout: Path) -> list[Part]:
    distribution = {"distribution": debian.distribution(), "notices": True}
    known: dict[str, tuple[Fill, tuple[str, ...], Mapping[str, Any]]] = {
        "pause": (programs_only({"/pause": ("pause", "pause")}, ["/pause"], "65535:65535"), ("pause",), {}),
        "coredns": (programs_only({"/coredns": ("coredns", "coredns")}, ["/coredns"]), ("coredns",), {}),
        "kwok": (programs_only({"/usr/local/bin/kwok": ("kwok", "kwok")}, ["/usr/local/bin/kwok"]), ("kwok",), {}),
        "busybox": (fill_busybox, (), distribution),
        "ubuntu": (fill_ubuntu, (), distribution),
    }
    made = operator_images(checkout)
    parts = []
    for image in pins.images():
        if image.program is None:
            fill, needs, settings = known[image.name]
        else:
            spec = made.get(image.program)
            if not isinstance(spec, dict) or not {"files", "entrypoint"} <= set(spec):
                raise BuildError(f"{checkout / OPERATOR / 'images.json'} does not describe {image.program}.")
            files = {target: ("operator-programs", name) for target, name in spec["files"].items()}
            fill, needs, settings = programs_only(files, spec["entrypoint"]), ("operator-programs",), {"spec": spec}
        parts.append(image_part(image, fill, needs=needs, settings=settings))
    return parts


def all_parts(pins: Pins, checkout: Path, arch: str) -> dict[str, Part]:
    """Every part of the stand-in bundle."""
    k3s = pins.standin_version("k3s")
    kubernetes = pins.module_version("k8s.io/kubernetes")
    containerd = pins.module_version("github.com/containerd/containerd/v2")
    cni = pins.module_version("github.com/containernetworking/plugins")
    crictl = pins.module_version("sigs.k8s.io/cri-tools")
    helm = pins.module_version("helm.sh/helm/v3")
    kwok = pins.module_version("sigs.k8s.io/kwok")
    coredns = pins.module_version("github.com/coredns/coredns")
    parts = [
        go_part(
            "kube",
            f"Kubernetes {kubernetes}",
            "standins/k3s/kube",
            {"kube": "."},
            versions={"k8s.io/kubernetes": kubernetes},
            variables=kube_variables(k3s),
            alone=True,
            first_time=600,
        ),
        go_part(
            "containerd",
            f"containerd {containerd}",
            "standins/tools/containerd",
            {
                name: f"github.com/containerd/containerd/v2/cmd/{name}"
                for name in ("containerd", "containerd-shim-runc-v2", "ctr")
            },
            versions={"github.com/containerd/containerd/v2": containerd},
            tags="no_btrfs,no_devmapper,no_zfs",
            variables={"github.com/containerd/containerd/v2/version.Version": containerd},
            first_time=130,
        ),
        go_part(
            "crictl",
            f"crictl {crictl}",
            "standins/tools/crictl",
            {"crictl": "sigs.k8s.io/cri-tools/cmd/crictl"},
            versions={"sigs.k8s.io/cri-tools": crictl},
            variables={"sigs.k8s.io/cri-tools/pkg/version.Version": crictl},
            first_time=90,
        ),
        go_part(
            "cni",
            f"CNI plugins {cni}",
            "standins/tools/cni",
            {
                name: f"github.com/containernetworking/plugins/plugins/{kind}/{name}"
                for name, kind in {
                    "bridge": "main",
                    "loopback": "main",
                    "host-local": "ipam",
                    "portmap": "meta",
                }.items()
            },
            versions={"github.com/containernetworking/plugins": cni},
            variables={"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion": cni},
            first_time=30,
        ),
        runc_part(),
        go_part(
            "k3s-launcher",
            f"k3s launcher {k3s}",
            "standins/k3s",
            {"k3s-launcher": "./cmd/k3s", "pack": "./cmd/pack"},
            variables={"main.version": k3s},
            first_time=60,
        ),
        k3s_part(pins),
        go_part(
            "helm",
            f"Helm {helm}",
            "standins/tools/helm",
            {"helm": "helm.sh/helm/v3/cmd/helm"},
            versions={"helm.sh/helm/v3": helm},
            variables=helm_variables(helm, checkout / "standins/tools/helm/go.mod"),
            first_time=130,
        ),
        go_part(
            "kwok",
            f"KWOK {kwok}",
            "standins/tools/kwok",
            {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
            versions={"sigs.k8s.io/kwok": kwok},
            variables={"sigs.k8s.io/kwok/pkg/consts.Version": kwok},
            first_time=160,
        ),
        kwok_manifests_part(pins),
        go_part(
            "coredns",
            f"CoreDNS {coredns}",
            "standins/coredns",
            {"coredns": "."},
            versions={"github.com/coredns/coredns": coredns},
            first_time=120,
        ),
        go_part("pause", "pause", "standins/pause", {"pause": "."}, first_time=3),
        operator_part(checkout),
        chart_part(pins),
        wheels_part(pins, arch),
        *image_parts(pins, checkout),
    ]
    return {part.name: part for part in parts}


def kube_variables(version: str) -> dict[str, str]:
    """What the components say of themselves. The commit is the content key: the same sources, the same bytes."""
    major, minor = re.match(r"v(\d+)\.(\d+)", version).groups()
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": KEY,
        "gitTreeState": "clean",
        "buildDate": images.CREATED,
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{name}": value for package in packages for name, value in values.items()}


def helm_variables(version: str, go_mod: Path) -> dict[str, str]:
    """Helm takes the newest Kubernetes it knows from the linker: that of the client it is built with."""
    client = re.search(r"k8s\.io/client-go v0\.(\d+)\.", go_mod.read_text(encoding="utf-8"))
    values = {
        "helm.sh/helm/v3/internal/version.version": version,
        "helm.sh/helm/v3/internal/version.gitTreeState": "clean",
    }
    if client:
        for package in ("helm.sh/helm/v3/pkg/lint/rules", "helm.sh/helm/v3/pkg/chartutil"):
            values |= {f"{package}.k8sVersionMajor": "1", f"{package}.k8sVersionMinor": client.group(1)}
    return values
