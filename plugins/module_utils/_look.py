# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""One look at the lab: the cluster, the learner's files, the running containers. It reads and changes nothing."""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import stat
import typing as t
import zlib

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._kube import KubeError

try:
    import yaml
except ImportError:
    yaml = None

FILE_LIMIT = 1024 * 1024
RELEASE_LIMIT = 32 * 1024 * 1024

TEXT_FILES = ("advertised.txt", "inside.txt", "rules.txt", "pending.txt", "report.json")
YAML_FILES = ("gpu-1.yaml", "values.yaml", "kwok-node.yaml")

DEVICES_VARIABLE = "MOCK_NVIDIA_VISIBLE_DEVICES"


def read_text(path: str, limit: int = FILE_LIMIT) -> dict[str, t.Any]:
    """A file's text and time, or in ``state`` why there is none."""
    try:
        # A pipe in the file's place must not make us wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
        if error.errno in (errno.ENXIO, errno.ENODEV):
            return {"state": "not a file"}
        return {"state": "missing" if gone else "unreadable", "detail": error.strerror}
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return {"state": "not a file"}
        about = {"size": status.st_size, "mtime": status.st_mtime}
        content = b""
        while len(content) <= limit:
            piece = os.read(handle, limit + 1 - len(content))
            if not piece:
                break
            content += piece
    except OSError as error:
        return {"state": "unreadable", "detail": error.strerror}
    finally:
        os.close(handle)
    if len(content) > limit:
        return {"state": "too large", **about}
    try:
        return {"state": "ok", "text": content.decode("utf-8-sig"), **about}
    except UnicodeDecodeError as error:
        return {"state": "not UTF-8", "detail": f"byte {error.start}", **about}


def with_documents(file: dict[str, t.Any]) -> dict[str, t.Any]:
    """The same with the YAML documents in it, or with what the YAML parser said."""
    if file["state"] != "ok":
        return file
    if yaml is None:
        return {**file, "yaml_error": "PyYAML is not installed for this Python"}
    try:
        return {**file, "documents": [one for one in yaml.safe_load_all(file["text"]) if one is not None]}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return {**file, "yaml_error": " ".join(str(error).split())}


def files_in(folder: str) -> dict[str, dict[str, t.Any]]:
    files = {name: read_text(os.path.join(folder, name)) for name in TEXT_FILES}
    files.update((name, with_documents(read_text(os.path.join(folder, name)))) for name in YAML_FILES)
    return files


def origin_in(path: str) -> t.Any:
    """What the installation says about itself; None when it says nothing."""
    file = read_text(path)
    try:
        return json.loads(file["text"]) if file["state"] == "ok" else None
    except (ValueError, RecursionError):
        return None


def started(root: str = "/proc") -> int | None:
    """How many seconds ago this machine (or container) started; None where that cannot be told."""
    try:
        with open(os.path.join(root, "uptime"), encoding="ascii") as handle:
            uptime = float(handle.read().split()[0])
        with open(os.path.join(root, "1", "stat"), encoding="utf-8", errors="replace") as handle:
            # proc_pid_stat(5): the name may hold anything, starttime is the 20th field after it.
            ticks = int(handle.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    return max(0, int(uptime - ticks / os.sysconf("SC_CLK_TCK")))


def _inflate(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    plain = unpacker.decompress(packed, RELEASE_LIMIT)
    if unpacker.unconsumed_tail:
        raise ValueError(f"more than {RELEASE_LIMIT} bytes")
    return plain


def newest_release(secrets: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any] | None:
    """The newest revision that Helm keeps of a release: revision, status, chart, version, values, defaults."""
    revisions = []
    for secret in secrets:
        name = secret["metadata"]["name"]
        number = name.rpartition(".v")[2]
        if name.startswith("sh.helm.release.v1.") and number.isdecimal():
            revisions.append((int(number), secret))
    if not revisions:
        return None
    number, secret = max(revisions, key=lambda pair: pair[0])
    try:
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"], validate=True), validate=True)
        release = json.loads(_inflate(packed))
        chart = release["chart"]
        return {
            "revision": number,
            "status": release["info"]["status"],
            "chart": chart["metadata"]["name"],
            "version": chart["metadata"]["version"],
            "values": release.get("config") or {},
            "defaults": chart.get("values") or {},
        }
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error, RecursionError) as error:
        return {"revision": number, "error": f"Secret {secret['metadata']['name']} is not as Helm writes it: {error}"}


def _processes(root: str) -> t.Iterator[tuple[str, str]]:
    """Numbers and cgroups of the processes on this machine."""
    try:
        numbers = [name for name in os.listdir(root) if name.isdecimal()]
    except OSError:
        return
    for number in numbers:
        try:
            with open(os.path.join(root, number, "cgroup"), encoding="utf-8", errors="replace") as handle:
                yield number, handle.read()
        except OSError:
            continue


def devices_of(uids: t.Iterable[str], root: str = "/proc") -> dict[str, str]:
    """Which devices the containers of these pods were given, told by their processes, if they run on this machine."""
    wanted = {f"pod{spelling}": uid for uid in uids for spelling in (uid, uid.replace("-", "_"))}
    found: dict[str, str] = {}
    if not wanted:
        return found
    for number, cgroup in _processes(root):
        uid = next((uid for mark, uid in wanted.items() if mark in cgroup), None)
        if uid is None or uid in found:
            continue
        try:
            with open(os.path.join(root, number, "environ"), "rb") as handle:
                variables = handle.read(FILE_LIMIT).split(b"\0")
        except OSError:
            continue
        for variable in variables:
            name, _equals, value = variable.partition(b"=")
            if name == DEVICES_VARIABLE.encode():
                found[uid] = value.decode("utf-8", "replace")
    return found


def _optional(errors: dict[str, str], what: str, read: t.Callable[[], t.Any]) -> t.Any:
    """Something only a few checks need: that the caller may not read it is no reason to say nothing at all."""
    try:
        return read()
    except KubeError as error:
        if error.kind != "refused":
            raise
        errors[what] = str(error)
        return None


def cluster(reader: t.Any, names: t.Any) -> dict[str, t.Any]:
    """Everything the eight steps need from the API, in six requests."""
    errors: dict[str, str] = {}
    namespace = names.operator_namespace
    secrets = _optional(errors, "release", lambda: reader.release_secrets(namespace, names.release))
    return {
        "nodes": reader.nodes(),
        "pods": reader.pods(),
        "namespace": reader.namespace(names.namespace) is not None,
        "topology": topology(_optional(errors, "topology", lambda: reader.config_maps(namespace)) or []),
        "release": newest_release(secrets or []),
        "stages": _optional(errors, "stages", lambda: stages(reader)),
        "errors": errors,
    }


def stages(reader: t.Any) -> int | None:
    found = reader.custom("kwok.x-k8s.io", "v1alpha1", "stages")
    return None if found is None else len(found)


def topology(config_maps: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """The operator's own books: the size of each pool, and how many GPUs each node was given."""
    pools: dict[str, t.Any] = {}
    nodes: dict[str, int] = {}
    for config_map in config_maps:
        name = config_map["metadata"]["name"]
        if name != "topology" and not name.startswith("topology-"):
            continue
        content = with_documents({"state": "ok", "text": (config_map.get("data") or {}).get("topology.yml", "")})
        document = next(iter(content.get("documents", [])), None)
        if not isinstance(document, dict):
            continue
        if name == "topology":
            node_pools = document.get("nodePools")
            for pool, about in node_pools.items() if isinstance(node_pools, dict) else ():
                pools[pool] = about.get("gpuCount") if isinstance(about, dict) else None
        elif isinstance(document.get("gpus"), list):
            nodes[name[len("topology-") :]] = len(document["gpus"])
    return {"pools": pools, "nodes": nodes}
