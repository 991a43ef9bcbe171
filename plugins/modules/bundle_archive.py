#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_archive
short_description: Carry the lab's bundle to another machine as one file
version_added: 0.1.0
description:
  - Packs a bundle as one archive, with its sha256 in a file of the same name and C(.sha256), or unpacks one.
  - Nothing is unpacked before the archive has that sha256, and nothing takes the place of a bundle before each of its files has the sha256
    of the manifest.
  - Runs on the controller, as an action plugin.
options:
  path:
    description: The archive.
    type: path
    required: true
  bundle_dir:
    description: Folder of the bundle. It is replaced as a whole when it is unpacked.
    type: path
    required: true
  state:
    description: Which way.
    type: str
    choices:
      packed: The archive holds what the folder holds.
      unpacked: The folder holds what the archive holds.
    default: packed
attributes:
  check_mode:
    support: full
    description: Can run in check mode and says whether something would change.
  diff_mode:
    support: none
    description: The files are large and binary.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
"""

EXAMPLES = r"""
- name: Pack the bundle
  gsb.fake_gpu_lab.bundle_archive:
    path: /media/usb/lab-bundle.tar
    bundle_dir: "{{ lab_bundle_dir }}"

- name: Unpack it on another machine
  gsb.fake_gpu_lab.bundle_archive:
    path: /media/usb/lab-bundle.tar
    bundle_dir: "{{ lab_bundle_dir }}"
    state: unpacked
"""

RETURN = r"""
path:
  description: The archive.
  returned: success
  type: str
  sample: /media/usb/lab-bundle.tar
bundle_dir:
  description: The folder.
  returned: success
  type: str
  sample: /root/.cache/gsb-fake-gpu-lab/bundle
"""
