# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""The builder as a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .builder import Builder, Settings, native_arch, seconds
from .errors import BuildError

CHECKOUT = Path(__file__).resolve().parents[2]


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gsb-fake-gpu-lab"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m standins.build", description="Build the lab's bundle from stand-ins."
    )
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of built parts (%(default)s)")
    parser.add_argument("--bundle", type=Path, help="folder to put together (CACHE/bundle)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PART", help="build this part, not the bundle; repeatable"
    )
    parser.add_argument(
        "--rebuild", action="append", default=[], metavar="PART", help="build this part again; repeatable"
    )
    parser.add_argument("--verify", action="store_true", help="read every file again and compare its sha256")
    parser.add_argument("--check", action="store_true", help="say what would be built, change nothing")
    parser.add_argument("--list", action="store_true", help="list the parts and their content keys, change nothing")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)

    def say(line: str) -> None:
        print(f"bundle: {line}", flush=True)

    try:
        builder = Builder(
            Settings(
                checkout=CHECKOUT,
                cache=options.cache.absolute(),
                bundle=(options.bundle or options.cache / "bundle").absolute(),
                arch=native_arch(),
                verify=options.verify,
                rebuild=frozenset(options.rebuild),
                only=frozenset(options.only),
                check=options.check or options.list,
            ),
            say,
        )
        if options.list:
            for name, key, state in builder.listing():
                print(f"{name:40} {key}  {state}")
            return 0
        outcome = builder.run()
    except BuildError as problem:
        print(f"bundle: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bundle: stopped; what is built stays, the same command goes on from there", file=sys.stderr)
        return 130
    if options.check:
        say("something would change" if outcome.changed else "everything is up to date")
    else:
        say(
            f"{'done' if outcome.changed else 'up to date'} in {seconds(outcome.seconds)}: "
            f"{len(outcome.built)} parts built, {len(outcome.reused)} reused"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
