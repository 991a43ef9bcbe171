#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: standin_bundle
short_description: Build the lab's bundle out of stand-ins
version_added: 0.1.0
description:
  - Builds programs, chart, manifests, image archives and wheels out of published Go modules, PyPI and the
    distribution's packages, and puts them together as one folder with a C(manifest.json).
  - Every part is kept under a key of its content, so that a second run builds nothing; a broken file is found and
    built again.
  - Runs on the controller, as an action plugin, so that it can say what it does while it does it.
  - The same builder is a command, C(python3 -m standins.build) in the checkout.
extends_documentation_fragment:
  - gsb.fake_gpu_lab.bundle
attributes:
  check_mode:
    support: full
    description: Can run in check mode and says what would be built, without building it.
  diff_mode:
    support: none
    description: The files are large and binary.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
"""

EXAMPLES = r"""
- name: Build the stand-ins
  gsb.fake_gpu_lab.standin_bundle:
    bundle_dir: "{{ lab_bundle_dir }}"
    cache_dir: "{{ lab_cache_dir }}"

- name: Fetch the distribution's newest busybox into its image
  gsb.fake_gpu_lab.standin_bundle:
    bundle_dir: "{{ lab_bundle_dir }}"
    cache_dir: "{{ lab_cache_dir }}"
    rebuild: [image-busybox]
"""

RETURN = r"""
built:
  description: The parts that were built, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [helm, chart]
reused:
  description: The parts that were there.
  returned: success
  type: list
  elements: str
  sample: [kube, containerd]
seconds:
  description: How long it took.
  returned: success
  type: float
  sample: 0.9
log:
  description: The log of the part that could not be built.
  returned: failure of a part
  type: str
  sample: /root/.cache/gsb-fake-gpu-lab/logs/helm.log
"""
