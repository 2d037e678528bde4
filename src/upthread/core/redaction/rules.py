"""The families of secrets that are known, as data: what each looks like, and what is none.

FORMS lists vendors' prefixes as the vendors document them. `contexts` and `configuration` list
the text around a secret, and the value must look like a secret too. `key_blocks` matches private
keys, `tables` matches columns, and `by_looks` matches random words, because many secrets have no
prefix. Expressions are RE2's (see expressions.py); a first group, if there is one, is the secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from upthread.core.redaction.by_looks import MIXED_WORD, random_words
from upthread.core.redaction.contexts import CONTEXTS, WORDS
from upthread.core.redaction.key_blocks import KEY_BLOCK, KEY_BODY, key_blocks, key_middles
from upthread.core.redaction.notation import Check, read_forms
from upthread.core.redaction.placeholder import BY_LOOKS
from upthread.core.redaction.tables import SECRET_COLUMN, column_secrets
from upthread.core.redaction.values import anything, is_no_example
from upthread.errors import ConfigError

FORMS: Final = read_forms(r"""
# Clouds and their infrastructure
aws-access-key \b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b
google-api-key \bAIza[0-9A-Za-z_-]{35}
google-oauth \bya29\.[0-9A-Za-z_.-]{20,}
google-oauth \b1//0[A-Za-z0-9_-]{30,}
google-oauth \bGOCSPX-[A-Za-z0-9_-]{28}
azure-key (?i)\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})
azure-key [0-9]Q~[A-Za-z0-9_~.-]{31,34}
azure-key [?&]sig=([A-Za-z0-9%+/]{40,}(?:%3D|=)?)
digitalocean-token \bdo[opr]_v1_[a-f0-9]{64}
cloudflare-key \bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}
vault-token \bhv[sbr]\.[A-Za-z0-9_-]{24,}
terraform-token [A-Za-z0-9](\.atlasv1\.[A-Za-z0-9_=-]{60,})
databricks-token \bdapi[a-f0-9]{32}(?:-\d)?
# Forges and registries
github-token \bgh[opsur]_[A-Za-z0-9_]{36,}(?:\.[A-Za-z0-9_-]+)*
github-token \bgithub_pat_[A-Za-z0-9_]{40,}
gitlab-token \bgl(?:pat|ptt|dt|rt|rtr|cbt|soat|agent|ft|imt|oas|ffct)-[0-9A-Za-z_.-]{20,}
gitlab-token \bGR1348941[A-Za-z0-9_-]{20,}
atlassian-token \bAT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{24,}
npm-token \bnpm_[A-Za-z0-9]{36}
pypi-token \bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{40,}
docker-token \bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}
# Models
anthropic-key \bsk-ant-[A-Za-z0-9_-]{20,}
openai-key \bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}
openai-key \bsk-[A-Za-z0-9]{32,}
huggingface-token \b(?:hf|api_org)_[A-Za-z0-9]{34,}\b
groq-key \bgsk_[A-Za-z0-9]{48,}
replicate-token \br8_[A-Za-z0-9]{37,}
google-api-key \bAQ\.[A-Za-z0-9_-]{30,}
# Payment
stripe-key \b[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}
api-key \b[a-z]{2,6}_(?:prod|live|secret)_[A-Za-z0-9]{24,}
opsgenie-key (?i)\bgenie-?key["' :=]+([0-9a-f]{8}-[0-9a-f-]{27})
ecr-password \b(eyJwYXlsb2FkIjog?[A-Za-z0-9+/]{80,}={0,2})
mailgun-key \b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b
laravel-key \bbase64:[A-Za-z0-9+/]{43}=
stripe-key \bwhsec_[A-Za-z0-9+/]{32,}={0,2}
square-token \b(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60,})
paypal-token \baccess_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}
shopify-token \bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}
# Messages and mail
slack-token \bxox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9%+/=_-]{10,}
slack-token \bxapp-\d-[A-Z0-9]+-\d+-[A-Za-z0-9]{20,}
slack-webhook (?:https?://)?hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/
        [A-Za-z0-9+/]{40,}
discord-token \b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}
discord-webhook (?:https?://[\w.]+)?/api/webhooks/\d+/[A-Za-z0-9_-]{60,}
# Behind an escape such as `\u00c0` the digits may be the escape's.
telegram-token \b([0-9]{8,10}:AA[A-Za-z0-9_-]{32,33})\b|[0-9](:AA[A-Za-z0-9_-]{32,33})\b
twilio-key \bSK[0-9a-f]{32}\b
sendgrid-key \bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}
mailchimp-key \b[0-9a-f]{32}-us\d{1,2}\b
twitter-token \bAAAAAAAAAAAAAAAAAAAA[A-Za-z0-9%]{60,}
# Watching and working
newrelic-key \bNR(?:AK|JS|II)-[A-Za-z0-9_-]{19,}
grafana-token \bgl(?:c_[A-Za-z0-9+/]{32,}={0,2}|sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})
dynatrace-token \bdt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}
linear-key \blin_(?:api|oauth)_[A-Za-z0-9]{32,}
notion-token \b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}\b)
age-key \bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}
1password-token \b(?:ops_eyJ[A-Za-z0-9+/=_-]{50,}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3,4}
        [A-Z0-9]{5})
grafana-token \beyJrIjoi[A-Za-z0-9]{60,}={0,2}
mapbox-token \bsk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}
teams-webhook (?:https?://[\w.-]*)?webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{80,}
azure-key \b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b
solana-key \[((?:[0-9]{1,3},\x20?){63}[0-9]{1,3})\]
jenkins-secret \{(AQAAABAAAA[A-Za-z0-9+/=]{20,})\}
windows-hash \b([0-9a-f]{32}:[0-9a-f]{32}):::
password-hash \{(?:S?SHA[0-9]*|SMD5|CRYPT|PBKDF2\w*)\}[./A-Za-z0-9+=$]{20,}
password-hash \$(?:apr1|[156y]|2[abxy]|argon2[id]{1,2})\$[./A-Za-z0-9$=,-]{24,}
twilio-token \bAC[0-9a-f]{32}\\*["'],\s*\\*["']([0-9a-f]{32})\\*["']
google-oauth \b(4/0A[A-Za-z0-9_-]{40,})
# What others are hidden in: the base64 of a key block, of a registry's file, of a token's
# beginning; the hexadecimal of a key block
private-key \bLS0tLS1CRUdJTi[BA-Z][A-Za-z0-9+/]{0,32}(?:UFJJVkFUR|QUklWQVRF|BSSVZBVE)
        [A-Za-z0-9+/=]{40,}
private-key \b2d2d2d2d2d424547494e20(?:[0-9a-f]{2}){0,20}5052495641544520[0-9a-f]{60,}
service-account \b(?:eyJ0eXBlIjo|ewogICJ0eXBlIjo|eyAidHlwZSI6)[A-Za-z0-9+/]{0,8}(?:c2VydmljZV
        |zZXJ2aWNlX|NlcnZpY2Vf)[A-Za-z0-9+/]{40,}={0,2}
registry-auth \beyJhdXRocyI6[A-Za-z0-9+/]{20,}={0,2}
encoded-token \b(?:Z2hwX|Z2hzX|Z2l0aHViX3BhdF|Z2xwYXQt|c2stYW50L|c2stcHJvai|c2tfbGl2ZV|eG94[YcHBj]
        |QUtJQ|QUl6Y|aGZf|bnBtX)[A-Za-z0-9+/]{24,}={0,2}
# Forms that many share
jwt \bey[IJK][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
# Not from the payload on, because a word on the line after a whole one would go, too.
jwt (?:^|[^\w.-])(ey[IJK][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}(?:\\?\r?\n[ \t]*
        [A-Za-z0-9_.-]{8,}){1,8})
jwt \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+
""")


# --- all rules ------------------------------------------------------------------------------------


Find: TypeAlias = Callable[[bytes], Iterator[tuple[int, int]]]

_FAMILY: Final = re.compile(r"[a-z0-9-]{1,40}")

_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\((?!\?)")
"""A group that is counted, looked for: to compile all expressions for it takes too long."""


class Rule(Struct, frozen=True, kw_only=True):
    """One form of one family. `family` is what the placeholder says: `[a-z0-9-]+`.

    With a `find`, `pattern` only says where it is worth looking, and `find` where they stand.
    `needs` is an expression that every text matches that `pattern` matches.
    """

    family: str
    pattern: str
    check: Check
    find: Find | None = None
    needs: str = ""


def painted(pattern: str) -> str:
    """Return an expression that begins at a word's beginning, also behind a colour or an escape.

    Programs paint what they found by `ESC [ 32 m`, and JSON ends a line by a backslash and an `n`:
    to an expression that letter is part of the word.
    """
    flags, begins, rest = pattern.partition(r"\b")
    if not begins or flags not in {"", "(?i)"}:
        return pattern
    # What is put in front is context: without a group it would be redacted with the secret.
    secret = rest if _GROUP.search(rest) else f"({rest})"
    return rf"{flags}(?:\b|\\[nrt]|\[[0-9;]{{1,12}}m){secret}"


RULES: Final[tuple[Rule, ...]] = (
    *(Rule(family=family, pattern=painted(form), check=is_no_example) for family, form in FORMS),
    Rule(family="private-key", pattern=KEY_BLOCK, check=anything, find=key_blocks),
    Rule(family="private-key", pattern=KEY_BODY, check=anything, find=key_middles),
    *(
        Rule(family=family, pattern=painted(form), check=check, needs=needs)
        for family, form, check, needs in CONTEXTS
    ),
    Rule(family="named-secret", pattern=SECRET_COLUMN, check=anything, find=column_secrets),
    Rule(family=BY_LOOKS, pattern=MIXED_WORD, check=anything, find=random_words),
)
"""All rules that ship. Where two match at one place, the one that begins first names the family."""


def rules_of(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return rules of the user's own, from the family each finds to its expression.

    ConfigError for a family that no placeholder could name.
    """
    for family in patterns:
        if not _FAMILY.fullmatch(family):
            raise ConfigError(
                f"{family!r} cannot name a family of secrets",
                hint="use 1 to 40 of a-z, 0-9 and - in [redaction.rules]",
            )
    return tuple(
        Rule(family=family, pattern=pattern, check=anything) for family, pattern in patterns.items()
    )


SECRET_NAME: Final = rf"(?i)(?:^|.*[^a-z]|.*[a-z]){WORDS['WORD']}$"
"""A member's name in JSON whose value is a secret when it looks random."""

STRONG_NAME: Final = rf"(?i)(?:^|.*[_.-]){WORDS['STRONG_WORD']}$"
"""A member's name in JSON whose value is a secret unless it is a template or a dummy."""
