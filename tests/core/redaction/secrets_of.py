"""Secrets of every family, made by chance from a seed; none of them was ever anybody's."""

import base64
import json
import random
import string
from collections.abc import Callable

LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
WORDLY = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits

Make = Callable[[random.Random], str]


def of(alphabet: str, length: int) -> Make:
    return lambda chance: "".join(chance.choice(alphabet) for _ in range(length))


def after(prefix: str, alphabet: str, length: int, *more: str | Make) -> Make:
    def make(chance: random.Random) -> str:
        rest = (piece if isinstance(piece, str) else piece(chance) for piece in more)
        return prefix + of(alphabet, length)(chance) + "".join(rest)

    return make


def jwt(chance: random.Random) -> str:
    def piece(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": of(ALNUM, 10)(chance), "iat": chance.randrange(10**9)}
    return f"{piece({'alg': 'HS256', 'typ': 'JWT'})}.{piece(claims)}.{of(WORDLY, 43)(chance)}"


def private_key(chance: random.Random) -> str:
    lines = "\n".join(of(ALNUM + "+/", 64)(chance) for _ in range(6))
    tail = of(ALNUM, 10)(chance)
    return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n{tail}==\n-----END RSA PRIVATE KEY-----"


FAMILIES: dict[str, Make] = {
    "aws-access-key": after("AKIA", string.ascii_uppercase + "234567", 16),
    "google-api-key": after("AIza", WORDLY[:62], 35),
    "google-oauth": after("GOCSPX-", ALNUM, 28),
    "digitalocean-token": after("dop_v1_", HEX, 64),
    "vault-token": after("hvs.", ALNUM, 40),
    "databricks-token": after("dapi", HEX, 32),
    "github-token": after("ghp_", ALNUM, 36),
    "gitlab-token": after("glpat-", ALNUM, 20),
    "npm-token": after("npm_", ALNUM, 36),
    "pypi-token": after("pypi-AgEIcHlwaS5vcmc", ALNUM, 70),
    "docker-token": after("dckr_pat_", ALNUM, 27),
    "atlassian-token": after("ATATT3", ALNUM, 180),
    "anthropic-key": after("sk-ant-api03-", ALNUM, 90),
    "openai-key": after("sk-proj-", ALNUM, 100),
    "huggingface-token": after("hf_", LETTERS, 34),
    "groq-key": after("gsk_", ALNUM, 52),
    "replicate-token": after("r8_", ALNUM, 37),
    "stripe-key": after("sk_live_", ALNUM, 24),
    "square-token": after("sq0atp-", ALNUM, 22),
    "shopify-token": after("shpat_", HEX, 32),
    "slack-token": after("xoxb-", string.digits, 12, "-", of(ALNUM, 24)),
    "telegram-token": after("", "123456789", 9, ":AA", of(ALNUM, 33)),
    "twilio-key": after("SK", HEX, 32),
    "sendgrid-key": after("SG.", ALNUM, 22, ".", of(ALNUM, 43)),
    "newrelic-key": after("NRAK-", UPPER, 27),
    "grafana-token": after("glsa_", ALNUM, 32, "_", of(HEX, 8)),
    "linear-key": after("lin_api_", ALNUM, 40),
    "notion-token": after("ntn_", ALNUM, 46),
    "slack-webhook": after("https://hooks.slack.com/services/", ALNUM, 44),
    "jwt": jwt,
    "private-key": private_key,
}
"""Families whose form alone gives them away, and how one is made."""

IN_CONTEXT: dict[str, tuple[str, Make]] = {
    "url-password": ("postgres://app:{}@db.internal:5432/app", of(ALNUM, 18)),
    "authorization": ("Authorization: Bearer {}", after("", ALNUM, 31, "7x")),
    "env-secret": ("DATABASE_PASSWORD={}", of(LETTERS, 14)),
    "named-secret": ('{{"api_key": "{}"}}', after("", ALNUM, 30, "9z")),
    "azure-key": ("DefaultEndpointsProtocol=https;AccountKey={};", of(ALNUM + "+/", 86)),
    "curl-password": ("curl -sS -u deploy:{} https://ci.internal/", of(ALNUM, 16)),
    "netrc-password": ("machine ci.internal login deploy password {}", of(ALNUM, 16)),
}
"""Families that are known by what stands beside them: a form with a place for the secret."""


def planted(number: int, *, seed: int = 1) -> list[tuple[str, str, str]]:
    """So many secrets of all families in turn: (family, the secret, a text that holds it)."""
    chance = random.Random(seed)
    anchored = [(family, "{}", make) for family, make in FAMILIES.items()]
    contextual = [(family, form, make) for family, (form, make) in IN_CONTEXT.items()]
    kinds = anchored + contextual
    found: list[tuple[str, str, str]] = []
    for index in range(number):
        family, form, make = kinds[index % len(kinds)]
        secret = make(chance)
        found.append((family, secret, form.format(secret)))
    return found
