# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill in the pins that lack a figure; see the module of the same name for its documentation."""

from __future__ import annotations

from typing import Any

from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build import pins, resolve
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.mirrors import Mirrors
from ansible_collections.gsb.fake_gpu_lab.standins.build.store import write_atomically


class ActionModule(_bundle.Action):
    ARGUMENTS = {key: _bundle.UPSTREAM_OPTIONS[option] for key, option in (("path", "pins"), ("mirrors", "mirrors"))}
    FAILURES = (BuildError, OSError, ValueError)

    def act(self, arguments: dict[str, Any]) -> dict[str, Any]:
        path = _bundle.COLLECTION / (arguments["path"] or pins.FILE)
        before = path.read_text(encoding="utf-8")
        known, mirrors = pins.Pins.load(path), Mirrors(arguments["mirrors"])
        mirrors.require(known.upstream_hosts())
        found = resolve.missing(known, resolve.by_skopeo, mirrors)
        after = resolve.filled_in(before, found)
        if after != before and not self._task.check_mode:
            write_atomically(path, after)
        return {
            "changed": after != before,
            "path": str(path),
            "pinned": sorted(name.partition(": ")[2] for name in found),
            "diff": {"before_header": str(path), "after_header": str(path), "before": before, "after": after},
        }
