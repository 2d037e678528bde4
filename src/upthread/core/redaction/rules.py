"""The families of secrets that are known, as data: what each looks like, and what is none.

FORMS lists vendors' prefixes as the vendors document them. `contexts` and `printed` list the text
around a secret, and the value must look like a secret too. `key_blocks` matches private keys,
`tables` matches columns, and `by_looks` matches random words, because many secrets have no prefix.
Expressions are RE2's (see expressions.py); the first group, where there is one, is the secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from upthread.core.lazy_regex import regex
from upthread.core.redaction.by_looks import (
    FAMILY,
    MIXED_WORD,
    SPOKEN_LABEL,
    random_words,
    spoken_passwords,
)
from upthread.core.redaction.contexts import CONTEXTS, WORDS
from upthread.core.redaction.key_blocks import KEY_BLOCK, KEY_BODY, key_blocks, key_middles
from upthread.core.redaction.notation import Check
from upthread.core.redaction.tables import SECRET_COLUMN, column_secrets
from upthread.core.redaction.values import anything, is_no_example
from upthread.errors import ConfigError

FORMS: Final[tuple[tuple[str, str], ...]] = (
    # Clouds and their infrastructure
    ("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    ("aws-bedrock-key", r"\bABSK[A-Za-z0-9+/]{100,}={0,2}"),
    ("google-api-key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("google-oauth", r"\bya29\.[0-9A-Za-z_.-]{20,}"),
    ("google-oauth", r"\b1//0[A-Za-z0-9_-]{30,}"),
    ("google-oauth", r"\bGOCSPX-[A-Za-z0-9_-]{28}"),
    ("azure-key", r"(?i)\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})"),
    ("azure-key", r"[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("azure-key", r"[?&]sig=([A-Za-z0-9%+/]{40,}(?:%3D|=)?)"),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("heroku-key", r"\bHRKU-[A-Za-z0-9_-]{30,}"),
    ("cloudflare-key", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    ("fly-token", r"\b(?:FlyV1 )?(?:fo1_[A-Za-z0-9_-]{40,}|fm[12][ar]?_[A-Za-z0-9+/=]{80,})"),
    ("alibaba-key", r"\bLTAI[A-Za-z0-9]{17,21}\b"),
    ("vault-token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("terraform-token", r"[A-Za-z0-9](\.atlasv1\.[A-Za-z0-9_=-]{60,})"),
    ("databricks-token", r"\bdapi[a-f0-9]{32}(?:-\d)?"),
    ("pulumi-token", r"\bpul-[a-f0-9]{40}"),
    ("doppler-token", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    ("planetscale-token", r"\bpscale_(?:tkn|pw|oauth|api|otkn)_[A-Za-z0-9_.-]{32,}"),
    ("supabase-key", r"\b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    ("cloudflare-key", r"\bcf(?:k|ut|at)_[A-Za-z0-9]{40,}"),
    ("vercel-token", r"\b(?:vc[pirak]_[A-Za-z0-9]{24,}|vercel_blob_rw_[A-Za-z0-9_]{20,})"),
    ("netlify-token", r"\bnf[pcoub]_[A-Za-z0-9]{36,}"),
    ("render-key", r"\brnd_[A-Za-z0-9]{28,}"),
    ("neon-key", r"\bnapi_[a-z0-9]{40,}"),
    ("tailscale-key", r"\btskey-[a-z]+-[A-Za-z0-9-]{16,}"),
    ("yandex-key", r"\bAQVN[A-Za-z0-9_-]{34,}"),
    ("tencent-key", r"\bAKID[A-Za-z0-9]{32}\b"),
    ("baidu-key", r"\bbce-v3/ALTAK-[A-Za-z0-9]{20,}/[a-f0-9]{40}"),
    ("mongodb-key", r"\bmdb_sa_sk_[A-Za-z0-9_-]{30,}"),
    ("honeycomb-key", r"\bhc[abx]i?[kc]_[a-z0-9]{50,}"),
    ("launchdarkly-key", r"\b(?:sdk|api|mob)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}"),
    # Forges and registries
    ("github-token", r"\bgh[opsur]_[A-Za-z0-9_]{36,}(?:\.[A-Za-z0-9_-]+)*"),
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
    ("circleci-token", r"\bCCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    ("buildkite-token", r"\bbk(?:ua|pat)_[a-f0-9]{40}"),
    ("nuget-key", r"\boy2[a-z0-9]{43}\b"),
    ("packagist-token", r"\bpackagist_[ou]ut_[a-f0-9]{68}"),
    # Models
    ("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("openai-key", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    ("langfuse-key", r"\b[ps]k-lf-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("openrouter-key", r"\bsk-or-(?:v1-)?[A-Za-z0-9]{40,}"),
    ("openai-key", r"\bsk-[A-Za-z0-9]{32,}"),
    ("huggingface-token", r"\b(?:hf|api_org)_[A-Za-z0-9]{34,}\b"),
    ("groq-key", r"\bgsk_[A-Za-z0-9]{48,}"),
    ("replicate-token", r"\br8_[A-Za-z0-9]{37,}"),
    ("perplexity-key", r"\bpplx-[A-Za-z0-9]{40,}"),
    ("xai-key", r"\bxai-[A-Za-z0-9]{70,}"),
    ("langsmith-key", r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ("google-api-key", r"\bAQ\.[A-Za-z0-9_-]{30,}"),
    ("nvidia-key", r"\bnvapi-[A-Za-z0-9_-]{40,}"),
    ("pinecone-key", r"\bpcsk_[A-Za-z0-9_]{30,}"),
    ("tavily-key", r"\btvly-[A-Za-z0-9-]{20,}"),
    ("firecrawl-key", r"\bfc-[a-f0-9]{32}\b"),
    ("e2b-key", r"\be2b_[a-f0-9]{32,}"),
    ("cerebras-key", r"\bcsk-[a-z0-9]{40,}"),
    ("fireworks-key", r"\bfw_[A-Za-z0-9]{22,}\b"),
    ("together-key", r"\btgp_v1_[A-Za-z0-9_-]{40,}"),
    ("jina-key", r"\bjina_[A-Za-z0-9_-]{40,}"),
    ("voyage-key", r"\bpa-[A-Za-z0-9_-]{43}\b"),
    ("elevenlabs-key", r"\bsk_[a-f0-9]{48}\b"),
    ("wandb-key", r"\bwandb_v1_[A-Za-z0-9]{20,}_[A-Za-z0-9]{40,}"),
    ("apify-token", r"\bapify_api_[A-Za-z0-9]{30,}"),
    ("runpod-key", r"\brpa_[A-Z0-9]{40,}"),
    ("brave-key", r"\bBSA[A-Za-z0-9_-]{27,28}\b"),
    ("daytona-key", r"\bdtn_[a-f0-9]{60,}"),
    ("browserbase-key", r"\bbb_live_[A-Za-z0-9_-]{20,}"),
    ("cursor-key", r"\b(?:crsr|key)_[a-f0-9]{64}"),
    # Payment
    ("stripe-key", r"\b[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}"),
    ("api-key", r"\b[a-z]{2,6}_(?:prod|live|secret)_[A-Za-z0-9]{24,}"),
    ("opsgenie-key", r"(?i)\bgenie-?key[\"' :=]+([0-9a-f]{8}-[0-9a-f-]{27})"),
    ("ecr-password", r"\b(eyJwYXlsb2FkIjog?[A-Za-z0-9+/]{80,}={0,2})"),
    ("mailgun-key", r"\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b"),
    ("revenuecat-key", r"\bsk_[A-Za-z0-9]{20,}"),
    ("laravel-key", r"\bbase64:[A-Za-z0-9+/]{43}="),
    ("stripe-key", r"\bwhsec_[A-Za-z0-9+/]{32,}={0,2}"),
    ("square-token", r"\b(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60,})"),
    ("paypal-token", r"\baccess_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("plaid-token", r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("razorpay-key", r"\brzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    ("flutterwave-key", r"\bFLW(?:SECK|PUBK)(?:_TEST)?-[a-zA-Z0-9]{32}-X"),
    ("clerk-key", r"\b(?:ak|mch)_live_[A-Za-z0-9]{24,}"),
    ("paddle-key", r"\bpdl_(?:live|sdbx)_apikey_[a-z0-9]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}"),
    ("polar-token", r"\bpolar_(?:oat|pat|whs)_[A-Za-z0-9]{30,}"),
    ("mollie-key", r"\b(?:live|test)_[A-Za-z0-9]{30}\b"),
    ("woocommerce-key", r"\bc[ks]_[a-f0-9]{40}\b"),
    # Messages and mail
    ("slack-token", r"\bxox[abcdeoprs](?:\.xox[bp])?-[A-Za-z0-9%+/=_-]{10,}"),
    ("slack-token", r"\bxapp-\d-[A-Z0-9]+-\d+-[A-Za-z0-9]{20,}"),
    (
        "slack-webhook",
        r"(?:https?://)?hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,}",
    ),
    ("discord-token", r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    ("discord-webhook", r"(?:https?://[\w.]+)?/api/webhooks/\d+/[A-Za-z0-9_-]{60,}"),
    ("telegram-token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,33}\b"),
    ("twilio-key", r"\bSK[0-9a-f]{32}\b"),
    ("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}"),
    ("mailgun-key", r"\bkey-[0-9a-f]{32}\b"),
    ("mailchimp-key", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    ("brevo-key", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("facebook-token", r"\bEAA[MC][A-Za-z0-9]{80,}"),
    ("resend-key", r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("hubspot-token", r"\bpat-(?:na|eu|ap)[0-9]-[0-9a-f]{8}-[0-9a-f-]{27}"),
    ("twitter-token", r"\bAAAAAAAAAAAAAAAAAAAA[A-Za-z0-9%]{60,}"),
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
    ("teams-webhook", r"(?:https?://[\w.-]*)?webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{80,}"),
    ("contentful-token", r"\bCFPAT-[A-Za-z0-9_-]{40,}"),
    ("clickup-token", r"\bpk_[0-9]{6,10}_[A-Z0-9]{32}"),
    ("typeform-token", r"\btfp_[A-Za-z0-9_.=-]{40,}"),
    ("azure-key", r"\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b"),
    ("statsig-key", r"\b(?:secret|console)-[A-Za-z0-9]{40,}"),
    # What others are hidden in: the base64 of a key block, of a registry's file, of a token's
    # beginning; the hexadecimal of a key block
    (
        "private-key",
        (
            r"\bLS0tLS1CRUdJTi[BA-Z][A-Za-z0-9+/]{0,32}(?:UFJJVkFUR|QUklWQVRF|BSSVZBVE)"
            r"[A-Za-z0-9+/=]{40,}"
        ),
    ),
    ("private-key", r"\b2d2d2d2d2d424547494e20(?:[0-9a-f]{2}){0,20}5052495641544520[0-9a-f]{60,}"),
    (
        "service-account",
        (
            r"\b(?:eyJ0eXBlIjo|ewogICJ0eXBlIjo|eyAidHlwZSI6)[A-Za-z0-9+/]{0,8}"
            r"(?:c2VydmljZV|zZXJ2aWNlX|NlcnZpY2Vf)[A-Za-z0-9+/]{40,}={0,2}"
        ),
    ),
    ("registry-auth", r"\beyJhdXRocyI6[A-Za-z0-9+/]{20,}={0,2}"),
    (
        "encoded-token",
        (
            r"\b(?:Z2hwX|Z2hzX|Z2l0aHViX3BhdF|Z2xwYXQt|c2stYW50L|c2stcHJvai|c2tfbGl2ZV|eG94[YcHBj]|QUtJQ"
            r"|QUl6Y|aGZf|bnBtX)[A-Za-z0-9+/]{24,}={0,2}"
        ),
    ),
    # Forms that many share
    ("jwt", r"\bey[IJK][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "jwt",
        (
            # Not from the payload on, because a word on the line after a whole one would go, too.
            r"(?:^|[^\w.-])(ey[IJK][A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}"
            r"(?:\\?\r?\n[ \t]*[A-Za-z0-9_.-]{8,}){1,8})"
        ),
    ),
    (
        "jwt",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+",
    ),
)


# --- all rules ------------------------------------------------------------------------------------


Find: TypeAlias = Callable[[bytes], Iterator[tuple[int, int]]]

_FAMILY: Final = regex(r"[a-z0-9-]{1,40}")

_GROUP: Final = regex(r"(?<!\\)(?:\\\\)*\((?!\?)")
"""A group that is counted, looked for: to compile all expressions for it takes too long."""


class Rule(Struct, frozen=True, kw_only=True):
    """One form of one family. `family` is what the placeholder says: `[a-z0-9-]+`.

    With a `find`, `pattern` only says where it is worth looking, and `find` where they stand.
    """

    family: str
    pattern: str
    check: Check
    find: Find | None = None


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
    *(Rule(family=family, pattern=painted(form), check=check) for family, form, check in CONTEXTS),
    Rule(family="named-secret", pattern=SECRET_COLUMN, check=anything, find=column_secrets),
    Rule(family="named-secret", pattern=SPOKEN_LABEL, check=anything, find=spoken_passwords),
    Rule(family=FAMILY, pattern=MIXED_WORD, check=anything, find=random_words),
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
