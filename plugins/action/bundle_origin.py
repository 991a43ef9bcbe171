# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose where the bundle comes from; see the module of the same name for its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, pins, probe
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.mirrors import Mirrors

display = Display()
COLLECTION = Path(__file__).resolve().parents[2]


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(
            argument_spec={
                "source": {"type": "str", "choices": ["auto", "upstream", "standin"], "default": "auto"},
                "timeout": {"type": "int", "default": 3},
                "pins": {"type": "path"},
                "mirrors": {"type": "dict", "default": {}},
                "arch": {"type": "str", "choices": list(pins.ARCHITECTURES)},
                "allow_unpinned": {"type": "bool", "default": False},
            }
        )
        try:
            known = pins.Pins.load(COLLECTION / (arguments["pins"] or pins.FILE))
            arch = arguments["arch"] or builder.native_arch()
        except BuildError as problem:
            return {**result, "failed": True, "msg": str(problem)}
        places = Mirrors({str(name): str(place) for name, place in arguments["mirrors"].items()})
        hosts = sorted({places.host(name) for name in known.upstream_hosts()})
        unpinned = [] if arguments["allow_unpinned"] else known.unpinned(arch)
        choice = probe.choose(arguments["source"], hosts, unpinned, arguments["timeout"])
        display.display(f"bundle: {choice.reason}")
        return {
            **result,
            "changed": False,
            "origin": choice.origin,
            "reason": choice.reason,
            "reachable": choice.reachable,
        }
