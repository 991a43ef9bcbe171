#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_pins
short_description: Ask upstream for the checksums that the pins lack
version_added: 0.1.0
description:
  - Looks up the digests of the operator's chart and of the images whose pin is C(null), and writes them into the pins file.
  - What upstream says today is trusted by this. Read the difference before it is used; figures that are there are never changed.
  - Needs C(skopeo). Runs on the controller, as an action plugin.
options:
  path:
    description: The pins file; that of the collection by default.
    type: path
  mirrors:
    description: Other places for upstream's names, by name.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: Can run in check mode; upstream is asked, and nothing is written.
  diff_mode:
    support: full
    description: Returns what has changed, or would change, when run with C(--diff).
author:
  - gsb.fake_gpu_lab contributors (@gsb)
"""

EXAMPLES = r"""
- name: Pin what is not pinned
  gsb.fake_gpu_lab.bundle_pins:
  register: pins
"""

RETURN = r"""
path:
  description: The pins file.
  returned: success
  type: str
  sample: roles/bundle/vars/pins.yml
pinned:
  description: What figures were asked for.
  returned: success
  type: list
  elements: str
  sample: ["ghcr.io/run-ai/fake-gpu-operator/device-plugin:0.2.1"]
"""
