# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.gsb.fake_gpu_lab.plugins.plugin_utils import _account_table, _table

Rendered = t.TypeVar("Rendered")


def refusing(render: t.Callable[..., Rendered]) -> t.Callable[..., Rendered]:
    """The filter ``render``, with input of another shape refused in one sentence."""

    @functools.wraps(render)
    def wrapper(value: t.Any, *args: t.Any, **kwargs: t.Any) -> Rendered:
        try:
            return render(value, *args, **kwargs)
        except (KeyError, TypeError, AttributeError) as error:
            raise AnsibleFilterError(f"{render.__name__}: this is not what the module returns: {error!r}") from error
        except ValueError as error:
            raise AnsibleFilterError(f"{render.__name__}: {error}") from error

    return wrapper


@refusing
def verdict_table(result: t.Any, lang: str = "en") -> str:
    return "\n".join(_table.verdict_lines(result, lang))


@refusing
def verdict_summary(result: t.Any, lang: str = "en") -> str:
    return _table.summary(result, lang)


@refusing
def verdict_junit(result: t.Any, host: str = "", lang: str = "en") -> str:
    return _table.junit(result, host, lang)


@refusing
def ledger_table(ledger: t.Any, lang: str = "en") -> str:
    return "\n".join(_table.ledger_lines(ledger, lang))


@refusing
def account_table(result: t.Any, lang: str = "en") -> str:
    return "\n".join(_account_table.account_lines(result, lang))


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "account_table": account_table,
            "ledger_table": ledger_table,
            "verdict_junit": verdict_junit,
            "verdict_summary": verdict_summary,
            "verdict_table": verdict_table,
        }
