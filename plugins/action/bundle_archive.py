# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack or unpack a bundle; see the module of the same name for its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gsb.fake_gpu_lab.standins.build import archive, bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(
            argument_spec={
                "path": {"type": "path", "required": True},
                "bundle_dir": {"type": "path", "required": True},
                "state": {"type": "str", "choices": ["packed", "unpacked"], "default": "packed"},
            }
        )
        path, folder = Path(arguments["path"]).absolute(), Path(arguments["bundle_dir"]).absolute()
        try:
            if arguments["state"] == "unpacked":
                changed = archive.unpack(path, folder, check=self._task.check_mode)
            elif self._task.check_mode:
                manifest = folder / bundle.MANIFEST
                changed = not manifest.exists() or bool(archive.difference(path, manifest.read_bytes()))
            else:
                changed = archive.pack(folder, path)
        except (BuildError, OSError) as problem:
            return {**result, "failed": True, "msg": str(problem)}
        return {**result, "changed": changed, "path": str(path), "bundle_dir": str(folder)}
