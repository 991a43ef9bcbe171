#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: upstream_bundle
short_description: Download the lab's bundle from upstream
version_added: 0.1.0
description:
  - Downloads the pinned releases of k3s, Helm and KWOK, the operator's chart, the images and the wheels, and puts them together
    as one folder with a C(manifest.json).
  - Nothing is used before its sha256 or digest is the one that is pinned. What broke off is gone on with by the next run.
  - At most two parts are downloaded at a time, by C(curl), C(skopeo) and C(pip). C(HTTPS_PROXY), C(ALL_PROXY) and C(NO_PROXY) are heeded.
  - Runs on the controller, as an action plugin, so that it can say what it does while it does it.
extends_documentation_fragment:
  - gsb.fake_gpu_lab.bundle
  - gsb.fake_gpu_lab.bundle.upstream
attributes:
  check_mode:
    support: full
    description: Can run in check mode and says what would be downloaded, without doing it.
  diff_mode:
    support: none
    description: The files are large and binary.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
"""

EXAMPLES = r"""
- name: Download the releases
  gsb.fake_gpu_lab.upstream_bundle:
    bundle_dir: "{{ lab_bundle_dir }}"
    cache_dir: "{{ lab_cache_dir }}"

- name: Download for a host of another architecture, from a mirror
  gsb.fake_gpu_lab.upstream_bundle:
    bundle_dir: /srv/bundle-arm64
    cache_dir: "{{ lab_cache_dir }}"
    arch: arm64
    mirrors:
      github.com: https://mirror.example/github
      ghcr.io: registry.example/ghcr
"""

RETURN = r"""
built:
  description: The parts that were downloaded, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [upstream-helm, upstream-chart]
reused:
  description: The parts that were there.
  returned: success
  type: list
  elements: str
  sample: [upstream-k3s, wheels]
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 0.9
log:
  description: The log of the part that could not be downloaded.
  returned: failure of a part
  type: str
  sample: /root/.cache/gsb-fake-gpu-lab/logs/upstream-helm.log
"""
