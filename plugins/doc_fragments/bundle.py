# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # What makes a bundle.
    DOCUMENTATION = r"""
options:
  bundle_dir:
    description: Folder that is put together. It is replaced as a whole.
    type: path
    required: true
  cache_dir:
    description: Folder where parts, logs and times are kept.
    type: path
    required: true
  verify:
    description: Read every file again and compare its sha256, instead of trusting its size and time.
    type: bool
    default: false
  rebuild:
    description: Parts to make again, and all that is made of them, whatever the cache holds.
    type: list
    elements: str
    default: []
"""

    # What looks at upstream.
    UPSTREAM = r"""
options:
  arch:
    description: Architecture of the host that is installed; that of the controller by default.
    type: str
    choices: [amd64, arm64]
  pins:
    description: Another file of pins, of the form of C(roles/bundle/vars/pins.yml).
    type: path
  mirrors:
    description: Other places for upstream's names, by name.
    type: dict
    default: {}
  allow_unpinned:
    description: Whether artifacts without a pinned checksum may be downloaded. The manifest names them.
    type: bool
    default: false
"""
