#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_origin
short_description: Choose where the lab's artifacts come from
version_added: 0.1.0
description:
  - Decides between the upstream releases and stand-ins that are built, and says in one line what was chosen and why.
  - With O(source=auto) every name that a download from upstream needs is asked at once, within twice O(timeout).
  - Runs on the controller, as an action plugin; it changes nothing.
options:
  source:
    description:
      - What is wanted.
    type: str
    choices: [auto, upstream, standin]
    default: auto
  timeout:
    description: Seconds that one name may take to answer.
    type: int
    default: 3
extends_documentation_fragment:
  - gsb.fake_gpu_lab.bundle.upstream
attributes:
  check_mode:
    support: full
    description: Can run in check mode and says the same.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to show.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
"""

EXAMPLES = r"""
- name: Choose where the artifacts come from
  gsb.fake_gpu_lab.bundle_origin:
    source: auto
  register: origin
"""

RETURN = r"""
origin:
  description: Where the artifacts come from.
  returned: success
  type: str
  sample: standin
reason:
  description: Why, in one line.
  returned: success
  type: str
  sample: "upstream cannot be reached (get.helm.sh: its name is not known, and 4 more of 5 names): stand-ins are built"
reachable:
  description: Whether upstream could be reached; null when it was not asked.
  returned: success
  type: bool
  sample: false
"""
