# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack or unpack a bundle; see the module of the same name for its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build import archive, bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError


class ActionModule(_bundle.Action):
    ARGUMENTS = {
        "path": {"type": "path", "required": True},
        "bundle_dir": {"type": "path", "required": True},
        "state": {"type": "str", "choices": ["packed", "unpacked"], "default": "packed"},
    }
    FAILURES = (BuildError, OSError)

    def act(self, arguments: dict[str, Any]) -> dict[str, Any]:
        path, folder = Path(arguments["path"]).absolute(), Path(arguments["bundle_dir"]).absolute()
        if arguments["state"] == "unpacked":
            changed = archive.unpack(path, folder, check=self._task.check_mode)
        elif self._task.check_mode:
            manifest = folder / bundle.MANIFEST
            changed = not manifest.exists() or bool(archive.difference(path, manifest.read_bytes()))
        else:
            changed = archive.pack(folder, path)
        return {"changed": changed, "path": str(path), "bundle_dir": str(folder)}
