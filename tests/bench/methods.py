# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to count the GPUs of a cluster with Python, each a process of its own: methods.py NAME URL

The last line printed is the answer as JSON, or `null` where the way only reads.
"""

from __future__ import annotations

import json
import re
import sys
import typing as t

GPU = "nvidia.com/gpu"
LISTS = ("/api/v1/nodes", "/api/v1/pods")
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def counts(pod: dict[str, t.Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") in ("Pending", "Running")


def answer(total: int, requested: int) -> dict[str, int]:
    return {"allocatable_total": total, "requested": requested, "free": total - requested}


def interpreter(_url: str) -> None:
    """Nothing: what it costs to start."""


def pages(
    url: str, accept: str, token: t.Callable[[bytes], str | None], pool: t.Any = None
) -> t.Iterator[tuple[str, bytes]]:
    import urllib3

    pool = pool or urllib3.PoolManager()
    for path in LISTS:
        more: str | None = ""
        while more is not None:
            fields = {"limit": "500", **({"continue": more} if more else {})}
            body = pool.request("GET", url + path, fields=fields, headers={"Accept": accept}).data
            more = token(body)
            yield path, body


def next_json(body: bytes) -> str | None:
    found = re.search(rb'"continue":"([^"]+)"', body[:300])
    return found[1].decode() if found else None


def next_protobuf(body: bytes) -> str | None:
    found = re.search(rb"page-\d+", body[:100])
    return found[0].decode() if found else None


def read_json(url: str) -> None:
    """The floor: the bytes as JSON, unread."""
    for _path, _body in pages(url, JSON, next_json):
        pass


def read_protobuf(url: str) -> None:
    """The floor: the bytes as protobuf, unread."""
    for _path, _body in pages(url, PROTOBUF, next_protobuf):
        pass


def read_as_module(url: str) -> None:
    """The floor of any module: Ansible and the Kubernetes client imported, the bytes read by it as protobuf, unread."""
    from ansible_collections.gsb.fake_gpu_lab.plugins.modules import gpu_ledger  # noqa: F401

    for _path, _body in pages(url, PROTOBUF, next_protobuf, _client(url).rest_client.pool_manager):
        pass


def json_pages(url: str) -> dict[str, int]:
    total = requested = 0
    for path, body in pages(url, JSON, next_json):
        for item in json.loads(body)["items"]:
            if path.endswith("nodes"):
                total += int(item["status"]["allocatable"].get(GPU, "0"))
            elif counts(item):
                limits = [one.get("resources", {}).get("limits", {}) for one in item["spec"]["containers"]]
                requested += sum(int(one.get(GPU, "0")) for one in limits)
    return answer(total, requested)


def _client(url: str) -> t.Any:
    import kubernetes

    configuration = kubernetes.client.Configuration()
    configuration.host = url
    return kubernetes.client.ApiClient(configuration)


def typed_client(url: str) -> dict[str, int]:
    import kubernetes

    api = kubernetes.client.CoreV1Api(_client(url))

    def everything(list_page: t.Callable[..., t.Any]) -> t.Iterator[t.Any]:
        more = None
        while True:
            page = list_page(limit=500, **({"_continue": more} if more else {}))
            yield from page.items
            more = page.metadata._continue
            if not more:
                return

    total = sum(int(node.status.allocatable.get(GPU, "0")) for node in everything(api.list_node))
    requested = 0
    for pod in everything(api.list_pod_for_all_namespaces):
        if pod.spec.node_name and pod.status.phase in ("Pending", "Running"):
            requested += sum(int((one.resources.limits or {}).get(GPU, "0")) for one in pod.spec.containers)
    return answer(total, requested)


def dynamic_client(url: str) -> dict[str, int]:
    import kubernetes
    import kubernetes.dynamic

    client = kubernetes.dynamic.DynamicClient(_client(url))

    def everything(kind: str) -> list[dict[str, t.Any]]:
        return client.resources.get(api_version="v1", kind=kind).get().to_dict()["items"]

    total = sum(int(node["status"]["allocatable"].get(GPU, "0")) for node in everything("Node"))
    requested = 0
    for pod in filter(counts, everything("Pod")):
        limits = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
        requested += sum(int(one.get(GPU, "0")) for one in limits)
    return answer(total, requested)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
