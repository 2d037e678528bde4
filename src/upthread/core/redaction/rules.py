"""The families of secrets that are known, as data: what each looks like, and what is none.

An anchored rule knows a vendor's own prefix; the forms are the vendors' documented ones. A rule
with a context word needs more: the value must look random, or stand where nothing but a secret is
written. Expressions are RE2's (see linear.py); the first group, where there is one, is the secret.
Nothing spans lines but a PEM block.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from upthread.errors import ConfigError

Check: TypeAlias = Callable[[bytes], bool]

RANDOM_BITS_MIN: Final = 3.0
"""Shannon entropy, in bits a character, that a value beside a context word must have."""

JUDGED_BYTES_MAX: Final = 512
"""How much of a value is looked at to see whether it is random."""

_FAMILY: Final = re.compile(r"[a-z0-9-]{1,40}")

_DUMMIES: Final = frozenset(
    b"password passwd pass passphrase pwd pw secret token key apikey api_key example changeme "
    b"none null nil true false undefined redacted hidden masked string text default required "
    b"optional username".split()
)
_TEMPLATE_STARTS: Final = (
    b"$",
    b"{",
    b"<",
    b"%",
    b"*",
    b"(",
    b"...",
    b"xxx",
    b"XXX",
    b"your",
)


def anything(_value: bytes) -> bool:
    """Accept every value: whoever wrote the rule knows."""
    return True


def is_real(value: bytes) -> bool:
    """Return whether a value stands for itself: no template, no name of what belongs there."""
    bare = value.strip(b"\"'`,;")
    return not (
        not bare
        or bare.lower() in _DUMMIES
        or bare.startswith(_TEMPLATE_STARTS)
        or bare.count(bare[:1]) == len(bare)
    )


def is_no_example(value: bytes) -> bool:
    """Return whether a value is not one that a vendor prints in its documentation."""
    return not value.endswith(b"EXAMPLE")


def looks_random(value: bytes) -> bool:
    """Return whether a value looks made by chance: letters and digits mixed, few of them alike."""
    value = value[:JUDGED_BYTES_MAX]
    has_digit = value.translate(None, b"0123456789") != value
    has_letter = value.upper() != value.lower()
    return has_digit and has_letter and is_real(value) and entropy_bits(value) >= RANDOM_BITS_MIN


def is_chosen(value: bytes) -> bool:
    """Return whether a value may be a password somebody chose: not a plain word or identifier."""
    has_other = any(byte < 0x41 and byte not in b".- " for byte in value[:JUDGED_BYTES_MAX])
    has_letter = value.upper() != value.lower()
    return has_other and has_letter and is_real(value)


def entropy_bits(value: bytes) -> float:
    """Return the Shannon entropy of a value, in bits a character; 0 for an empty one."""
    return -sum(
        count / len(value) * math.log2(count / len(value)) for count in Counter(value).values()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One form of one family. `family` is what the placeholder says: `[a-z0-9-]+`."""

    family: str
    pattern: str
    check: Check


_NEXT_LINE: Final = r"(?:(?:\\[nr]|[\s+\-|>])+|\\n[\"'][ \t]*[\\+]?[ \t]*\r?\n[ \t+\-]*[\"'])"
"""From one line of a key block to the next: in a file, a diff, a JSON text, or source code."""

_PEM: Final = (
    r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_NEXT_LINE}(?:Proc-Type|DEK-Info|Version|Comment|Charset): ?[^\n\\\"']*)*"
    rf"(?:{_NEXT_LINE}[A-Za-z0-9+/=]{{24,}})+(?:{_NEXT_LINE}[A-Za-z0-9+/=]{{1,23}})?"
    rf"(?:{_NEXT_LINE}=[A-Za-z0-9+/]{{4}})?"
    rf"(?:{_NEXT_LINE}-*-----END[ A-Z0-9]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)

_ANCHORED: Final[tuple[tuple[str, str], ...]] = (
    # Clouds and their infrastructure
    ("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("aws-bedrock-key", r"\bABSK[A-Za-z0-9+/]{100,}={0,2}"),
    ("google-api-key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("google-oauth", r"\bya29\.[0-9A-Za-z_-]{20,}"),
    ("google-oauth", r"\bGOCSPX-[A-Za-z0-9_-]{28}"),
    ("azure-key", r"(?i)\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-key", r"[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("azure-key", r"[?&]sig=([A-Za-z0-9%+/]{40,}(?:%3D|=)?)"),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("heroku-key", r"\bHRKU-[A-Za-z0-9_-]{30,}"),
    ("cloudflare-key", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    ("fly-token", r"\b(?:fo1_[A-Za-z0-9_-]{40,}|fm[12][ar]?_[A-Za-z0-9+/=]{80,})"),
    ("alibaba-key", r"\bLTAI[A-Za-z0-9]{17,21}\b"),
    ("vault-token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("terraform-token", r"[A-Za-z0-9](\.atlasv1\.[A-Za-z0-9_=-]{60,})"),
    ("databricks-token", r"\bdapi[a-f0-9]{32}(?:-\d)?"),
    ("pulumi-token", r"\bpul-[a-f0-9]{40}"),
    ("doppler-token", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    ("planetscale-token", r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,}"),
    ("supabase-key", r"\b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    # Forges and registries
    ("github-token", r"\bgh[opsur]_[A-Za-z0-9]{36,}"),
    ("github-token", r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    (
        "gitlab-token",
        r"\bgl(?:pat|ptt|dt|rt|rtr|cbt|soat|agent|ft|imt|oas|ffct)-[0-9A-Za-z_.-]{20,}",
    ),
    ("gitlab-token", r"\bGR1348941[A-Za-z0-9_-]{20,}"),
    ("atlassian-token", r"\bAT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{24,}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("pypi-token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{40,}"),
    ("rubygems-key", r"\brubygems_[a-f0-9]{48}"),
    ("crates-token", r"\bcio[A-Za-z0-9]{32}\b"),
    ("docker-token", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    ("artifactory-token", r"\bAKCp[A-Za-z0-9]{69,}"),
    ("sourcegraph-token", r"\bsgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}"),
    # Models
    ("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("openai-key", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    ("langfuse-key", r"\b[ps]k-lf-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("openrouter-key", r"\bsk-or-(?:v1-)?[A-Za-z0-9]{40,}"),
    ("openai-key", r"\bsk-[A-Za-z0-9]{32,}"),
    ("huggingface-token", r"\b(?:hf|api_org)_[A-Za-z]{34,}\b"),
    ("groq-key", r"\bgsk_[A-Za-z0-9]{48,}"),
    ("replicate-token", r"\br8_[A-Za-z0-9]{37,}"),
    ("perplexity-key", r"\bpplx-[A-Za-z0-9]{40,}"),
    ("xai-key", r"\bxai-[A-Za-z0-9]{70,}"),
    ("langsmith-key", r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    # Payment
    ("stripe-key", r"\b[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}"),
    ("stripe-key", r"\bwhsec_[A-Za-z0-9+/]{32,}={0,2}"),
    ("square-token", r"\b(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60,})"),
    ("paypal-token", r"\baccess_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("plaid-token", r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("razorpay-key", r"\brzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    ("flutterwave-key", r"\bFLW(?:SECK|PUBK)(?:_TEST)?-[a-zA-Z0-9]{32}-X"),
    # Messages and mail
    ("slack-token", r"\bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}"),
    ("slack-token", r"\bxapp-\d-[A-Z0-9]+-\d+-[A-Za-z0-9]{20,}"),
    (
        "slack-webhook",
        r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,})",
    ),
    ("discord-token", r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("discord-webhook", r"discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{60,})"),
    ("telegram-token", r"\d(:AA[A-Za-z0-9_-]{32,33})\b"),
    ("twilio-key", r"\bSK[0-9a-f]{32}\b"),
    ("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}"),
    ("mailgun-key", r"\bkey-[0-9a-f]{32}\b"),
    ("mailchimp-key", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    ("brevo-key", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("facebook-token", r"\bEAA[MC][A-Za-z0-9]{80,}"),
    # Watching and working
    ("newrelic-key", r"\bNR(?:AK|JS|II)-[A-Za-z0-9_-]{19,}"),
    ("sentry-token", r"\bsntry(?:s_eyJ[A-Za-z0-9+/=_-]{40,}|u_[a-f0-9]{64})"),
    ("grafana-token", r"\bgl(?:c_[A-Za-z0-9+/]{32,}={0,2}|sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})"),
    ("dynatrace-token", r"\bdt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("posthog-key", r"\bph[cx]_[A-Za-z0-9]{40,}"),
    ("linear-key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("notion-token", r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}\b)"),
    ("figma-token", r"\bfig[dorh]_[A-Za-z0-9_-]{40,}"),
    ("airtable-token", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    ("postman-key", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    ("readme-key", r"\brdme_[a-z0-9]{70}"),
    ("snyk-token", r"\bsnyk_(?:uat|sat)\.[A-Za-z0-9._-]{30,}"),
    ("sonar-token", r"\bsq[upa]_[a-f0-9]{40}"),
    ("age-key", r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    (
        "1password-token",
        r"\b(?:ops_eyJ[A-Za-z0-9+/=_-]{50,}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){3,4}[A-Z0-9]{5})",
    ),
    ("grafana-token", r"\beyJrIjoi[A-Za-z0-9]{60,}={0,2}"),
    ("clojars-token", r"\bCLOJARS_[a-z0-9]{60}"),
    ("dropbox-token", r"\bsl\.[A-Za-z0-9_=-]{130,}"),
    ("duffel-token", r"\bduffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    ("easypost-key", r"\bEZ[AT]K[A-Za-z0-9]{54}"),
    ("frameio-token", r"\bfio-u-[A-Za-z0-9_=-]{64}"),
    ("harness-token", r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    ("infracost-key", r"\bico-[A-Za-z0-9]{32}\b"),
    ("mapbox-token", r"\bsk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"),
    ("octopus-key", r"\bAPI-[A-Z0-9]{26}\b"),
    ("openshift-token", r"\bsha256~[A-Za-z0-9_-]{43}"),
    ("prefect-key", r"\bpnu_[A-Za-z0-9]{36}\b"),
    ("scalingo-token", r"\btk-us-[A-Za-z0-9_-]{48}"),
    ("settlemint-token", r"\bsm_(?:aat|pat|sat)_[A-Za-z0-9]{16}\b"),
    ("shippo-token", r"\bshippo_(?:live|test)_[a-fA-F0-9]{40}"),
    ("teams-webhook", r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{80,})"),
    # Forms that many share
    ("private-key", _PEM),
    ("jwt", r"\bey[IJK][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "jwt",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+",
    ),
)

_WORD: Final = (
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret|token|credentials?"
    r"|(?:api|access|auth|private|secret|signing|encryption|master|account|service)[_.-]?key)"
)
_STRONG_WORD: Final = r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret)"

_IN_CONTEXT: Final[tuple[Rule, ...]] = (
    Rule(
        family="url-password",
        pattern=r"[a-z0-9]://[^\s/:@\"'<>`]*:([^\s/@\"'<>`]+)@[A-Za-z0-9\[]",
        check=is_real,
    ),
    Rule(
        family="authorization",
        pattern=(
            r"(?i)\bauthorization[\"'\\]*[ \t]*[:=,][ \t]*[\"'\\]*"
            r"(?:basic|bearer|digest|token|apikey)[ \t]+([A-Za-z0-9._~+/=-]{8,})"
        ),
        check=looks_random,
    ),
    Rule(
        family="authorization",
        pattern=r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/-]{16,}=*)",
        check=looks_random,
    ),
    Rule(
        family="authorization",
        pattern=(
            r"(?i)\bx-(?:api-key|auth-token|access-token)[\"'\\]*[ \t]*[:=][ \t]*[\"'\\]*"
            r"([A-Za-z0-9._~+/=-]{8,})"
        ),
        check=looks_random,
    ),
    Rule(
        family="curl-password",
        pattern=r"\bcurl[ \t][^\n|;]*(?:-u|--user)[ =][\"']?[^\s:\"']+:([^\s\"'\\]{3,})",
        check=is_real,
    ),
    Rule(
        family="netrc-password",
        pattern=r"(?i)\blogin[ \t]+\S+[ \t]+password[ \t]+([^\s\"'\\,]+)",
        check=is_real,
    ),
    Rule(
        family="env-secret",
        pattern=(
            r"\b[A-Z0-9_]*"
            r"(?:PASSWORD|PASSWD|PASSPHRASE|PWD|SECRET|TOKEN|CREDENTIALS?|APIKEY|[A-Z]_KEY)[A-Z0-9_]*"
            r"=[\"']?([^\s\"'#;,()\[\]{}$<>\\][^\s\"'#;,()\[\]{}<>\\]{5,})"
        ),
        check=is_real,
    ),
    Rule(
        family="named-secret",
        pattern=(
            rf"(?i){_WORD}[A-Za-z0-9_]{{0,16}}\\?[\"']?[ \t]{{0,4}}(?:=>|:=|[:=])[ \t]{{0,4}}"
            r"\\?[\"'`]([^\s\"'`\\]{8,})\\?[\"'`]"
        ),
        check=looks_random,
    ),
    Rule(
        family="named-secret",
        pattern=(
            rf"(?i){_STRONG_WORD}\\?[\"']?[ \t]{{0,4}}(?:=>|:=|[:=])[ \t]{{0,4}}"
            r"\\?[\"'`]([^\s\"'`\\/(){}]{6,64})\\?[\"'`]"
        ),
        check=is_chosen,
    ),
    Rule(
        family="named-secret",
        pattern=(
            rf"(?i){_WORD}[A-Za-z0-9_]{{0,16}}[ \t]{{0,4}}(?:=>|:=|[:=])[ \t]{{0,4}}"
            r"([A-Za-z0-9+/_~.=-]{16,})(?:[\s,;&\"'`<]|$)"
        ),
        check=looks_random,
    ),
)

RULES: Final[tuple[Rule, ...]] = (
    *(Rule(family=family, pattern=form, check=is_no_example) for family, form in _ANCHORED),
    *_IN_CONTEXT,
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


SECRET_NAME: Final = rf"(?i)(?:^|.*[^a-z]|.*[a-z]){_WORD}$"
"""A member's name in JSON whose value is a secret when it looks random."""

STRONG_NAME: Final = rf"(?i)(?:^|.*[_.-]){_STRONG_WORD}$"
"""A member's name in JSON whose value is a secret unless it is a template or a dummy."""
