# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The ledger against a real API server and a real scheduler.

    pytest tests/ledger --connection=ansible --ansible-inventory=FILE --hosts=ansible://gpu_lab

The host has the lab's stack, and none of its GPUs in use. What the tests make is in namespaces of their own and on KWOK
nodes; it is removed afterwards.
"""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from ledger_lab import NAMESPACE, Cluster


@pytest.fixture(scope="module")
def cluster(host):
    cluster = Cluster(host)

    def clean():
        # All at once, nothing runs in most of them; the API server ends a request after a minute, with the rest undeleted.
        delete = f"k3s kubectl delete --raw '/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0'"
        cluster.until(lambda: host.run(delete).rc == 0, "the pods are gone", 600)
        cluster.kubectl(f"delete namespace {NAMESPACE} --ignore-not-found --timeout=600s")
        cluster.kubectl("delete node -l ledger=test --ignore-not-found --timeout=120s")

    clean()
    cluster.kubectl(f"create namespace {NAMESPACE}")
    yield cluster
    # A machine that is removed anyway need not be cleaned: 5,000 pods take minutes.
    if not os.environ.get("LEDGER_TESTS_KEEP"):
        clean()
