# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is private to the collection: it may change at any time.

"""What the actions that make a bundle share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.display import Display

from ansible_collections.gsb.fake_gpu_lab.standins.build import builder, command
from ansible_collections.gsb.fake_gpu_lab.standins.build.errors import BuildError

COLLECTION = Path(__file__).resolve().parents[2]
#: Options of all of them.
OPTIONS = {
    "bundle_dir": {"type": "path", "required": True},
    "cache_dir": {"type": "path", "required": True},
    "verify": {"type": "bool", "default": False},
    "rebuild": {"type": "list", "elements": "str", "default": []},
}

display = Display()


def make(arguments: dict[str, Any], check: bool, **more: Any) -> dict[str, Any]:
    """Brings the bundle up to date and says what it does; the result of the task."""
    # This runs in a worker; what is made stays, so the worker may go with the playbook at any moment.
    command.end_with_parent()
    try:
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
    except BuildError as problem:
        return {"failed": True, "msg": str(problem), **({"log": str(problem.log)} if problem.log else {})}
    return {
        "changed": outcome.changed,
        "built": outcome.built,
        "reused": outcome.reused,
        "seconds": round(outcome.seconds, 1),
    }
