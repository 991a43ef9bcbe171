# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is private to the collection: it may change at any time.

"""What the actions that make a bundle share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, command, pins
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

COLLECTION = Path(__file__).resolve().parents[2]
#: Options of those that look at upstream.
UPSTREAM_OPTIONS = {
    "arch": {"type": "str", "choices": list(pins.ARCHITECTURES)},
    "pins": {"type": "path"},
    "mirrors": {"type": "dict", "default": {}},
    "allow_unpinned": {"type": "bool", "default": False},
}
#: Options of those that make a bundle.
OPTIONS = {
    "bundle_dir": {"type": "path", "required": True},
    "cache_dir": {"type": "path", "required": True},
    "verify": {"type": "bool", "default": False},
    "rebuild": {"type": "list", "elements": "str", "default": []},
}

display = Display()


class Action(ActionBase):
    """Runs on the controller alone; what act() raises of FAILURES is the failure of the task."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    ARGUMENTS: dict[str, Any] = {}
    FAILURES: tuple[type[Exception], ...] = (BuildError,)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(argument_spec=self.ARGUMENTS)
        try:
            return {**result, **self.act(arguments)}
        except self.FAILURES as problem:
            log = getattr(problem, "log", None)
            return {**result, "failed": True, "msg": str(problem), **({"log": str(log)} if log else {})}

    def act(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the task returns."""
        raise NotImplementedError


def make(arguments: dict[str, Any], check: bool, **more: Any) -> dict[str, Any]:
    """Brings the bundle up to date and says what it does; the result of the task."""
    # This runs in a worker; what is made stays, so the worker may go with the playbook at any moment.
    command.end_with_parent()
    outcome = builder.Builder(
        builder.Settings(
            checkout=COLLECTION,
            cache=Path(arguments["cache_dir"]).absolute(),
            bundle=Path(arguments["bundle_dir"]).absolute(),
            arch=arguments.get("arch") or builder.native_arch(),
            verify=arguments["verify"],
            rebuild=frozenset(arguments["rebuild"]),
            check=check,
            **more,
        ),
        lambda line: display.display(f"bundle: {line}"),
    ).run()
    return {
        "changed": outcome.changed,
        "built": outcome.built,
        "reused": outcome.reused,
        "seconds": round(outcome.seconds, 1),
    }
