# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose where the bundle comes from; see the module of the same name for its documentation."""

from __future__ import annotations

from typing import Any

from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _bundle
from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, pins, probe
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError
from ansible_collections.gsb.fake_gpu_lab.standins.build.mirrors import Mirrors


class ActionModule(_bundle.Action):
    ARGUMENTS = {
        "source": {"type": "str", "choices": ["auto", "upstream", "standin"], "default": "auto"},
        "timeout": {"type": "int", "default": 3},
        **_bundle.UPSTREAM_OPTIONS,
    }

    def act(self, arguments: dict[str, Any]) -> dict[str, Any]:
        known = pins.Pins.load(_bundle.COLLECTION / (arguments["pins"] or pins.FILE))
        arch = arguments["arch"] or builder.native_arch()
        if arguments["timeout"] < 1:
            raise BuildError(f"bundle_probe_timeout is {arguments['timeout']}: give 1 second or more.")
        places = Mirrors(arguments["mirrors"])
        places.require(known.upstream_hosts())
        hosts = sorted({places.host(name) for name in known.upstream_hosts()})
        unpinned = [] if arguments["allow_unpinned"] else known.unpinned(arch)
        choice = probe.choose(arguments["source"], hosts, unpinned, arguments["timeout"])
        if choice.origin == "standin" and arch != builder.native_arch():
            raise BuildError(
                f"{choice.reason[0].upper()}{choice.reason[1:]}, and stand-ins are for this machine's own "
                f"{builder.native_arch()}, not for {arch}.",
                hint="leave bundle_arch out, or download: -e bundle_source=upstream",
            )
        _bundle.display.display(f"bundle: {choice.reason}")
        return {"changed": False, "origin": choice.origin, "reason": choice.reason, "reachable": choice.reachable}
