# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""Builds the bundle of stand-ins out of published Go modules, PyPI and the distribution's packages.

`python3 -m standins.build` in the checkout, or the role gsb.fake_gpu_lab.bundle.
"""
