# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download the bundle from upstream; see the module of the same name for its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, pins


class ActionModule(_bundle.Action):
    ARGUMENTS = {**_bundle.OPTIONS, **_bundle.UPSTREAM_OPTIONS}

    def act(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return _bundle.make(
            arguments,
            self._task.check_mode,
            origin="upstream",
            heartbeat=builder.HEARTBEAT_DOWNLOAD,
            pins_file=Path(arguments["pins"] or pins.FILE),
            mirrors=arguments["mirrors"],
            allow_unpinned=arguments["allow_unpinned"],
        )
