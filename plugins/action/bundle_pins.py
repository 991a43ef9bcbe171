# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill in the pins that lack a figure; see the module of the same name for its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gsb.fake_gpu_lab.standins.build import pins, resolve
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.mirrors import Mirrors
from ansible_collections.gsb.fake_gpu_lab.standins.build.store import write_atomically

COLLECTION = Path(__file__).resolve().parents[2]


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(
            argument_spec={"path": {"type": "path"}, "mirrors": {"type": "dict", "default": {}}}
        )
        path = COLLECTION / (arguments["path"] or pins.FILE)
        try:
            before = path.read_text(encoding="utf-8")
            found = resolve.missing(pins.Pins.load(path), resolve.by_skopeo, Mirrors(arguments["mirrors"]))
            after = resolve.filled_in(before, found)
            if after != before and not self._task.check_mode:
                write_atomically(path, after)
        except (BuildError, OSError, ValueError) as problem:
            return {**result, "failed": True, "msg": str(problem)}
        return {
            **result,
            "changed": after != before,
            "path": str(path),
            "pinned": sorted(name.partition(": ")[2] for name in found),
            "diff": {"before_header": str(path), "after_header": str(path), "before": before, "after": after},
        }
