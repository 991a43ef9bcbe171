# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Name what differs between this Python environment and what it should hold; print nothing when it is right."""

import importlib.metadata
import json
import sys


def differences(complete, sha256, packages):
    try:
        with open(complete, encoding="ascii") as stream:
            if stream.read().strip() != sha256:
                yield "made from other requirements"
    except OSError:
        yield "never completed"
    for name, version in packages:
        try:
            seen = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            seen = None
        if seen != version:
            yield f"{name} is {seen}, wanted {version}"


if __name__ == "__main__":
    for difference in differences(**json.loads(sys.argv[1])):
        print(difference)
