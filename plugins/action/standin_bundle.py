# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the bundle of stand-ins; see the module of the same name for its documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, command
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

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
                "bundle_dir": {"type": "path", "required": True},
                "cache_dir": {"type": "path", "required": True},
                "verify": {"type": "bool", "default": False},
                "rebuild": {"type": "list", "elements": "str", "default": []},
            }
        )
        # This runs in a worker; what is built stays, so the worker may go with the playbook at any moment.
        command.end_with_parent()
        try:
            outcome = builder.Builder(
                builder.Settings(
                    checkout=COLLECTION,
                    cache=Path(arguments["cache_dir"]).absolute(),
                    bundle=Path(arguments["bundle_dir"]).absolute(),
                    arch=builder.native_arch(),
                    verify=arguments["verify"],
                    rebuild=frozenset(arguments["rebuild"]),
                    check=self._task.check_mode,
                ),
                lambda line: display.display(f"bundle: {line}"),
            ).run()
        except BuildError as problem:
            return {
                **result,
                "failed": True,
                "msg": str(problem),
                **({"log": str(problem.log)} if problem.log else {}),
            }
        return {
            **result,
            "changed": outcome.changed,
            "built": outcome.built,
            "reused": outcome.reused,
            "seconds": round(outcome.seconds, 1),
        }
