"""The families of secrets that are known, as data: what each looks like, and what is none.

FORMS lists vendors' prefixes as the vendors document them. `contexts` lists the text around a
secret, and the value must look like a secret too. `key_blocks` matches private keys. Columns of a
table and random words are matched here, because many secrets have no prefix. Expressions are RE2's
(see expressions.py); a first group, if there is one, is the secret.

In a random word capitals, small letters and digits alternate, because a generator made the word:
for example a key that `az … -o tsv` prints alone on a line, or a password as an argument of a call.
An identifier alternates less, because it contains runs of letters. A word near a label such as
`password` may be shorter, or one that a person chose, for example `Maple-Stairs_19`. A random word
is not always a secret. A name before the word can show that, for example `integrity` or `node_id`.
The lines of a longer base64 block are left to key_blocks.py.
"""

import base64
import binascii
import functools
import re
import string
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, pairwise, permutations

from msgspec import Struct

from upthread.core.redaction.contexts import CONTEXTS, WORDS
from upthread.core.redaction.expressions import Expression
from upthread.core.redaction.key_blocks import KEY_BLOCK, KEY_BODY, Spans, key_blocks, key_middles
from upthread.core.redaction.values import (
    BY_LOOKS,
    Check,
    anything,
    hides_a_secret,
    is_chosen,
    is_given,
    is_no_example,
    read_forms,
)
from upthread.errors import ConfigError

BYTES_MIN = 20
BYTES_MAX = 200
"""Longer words are images, signatures or encrypted reasoning."""

SIGNED_BYTES_MIN = 10
"""For a word with a sign, for example `!` or `#`, because passwords contain signs."""

LABELLED_BYTES_MIN = 8

SWITCHES_MIN = 0.4
"""How often the kind of character changes, per byte. In a random word the rate is about 0.6."""

PUNCTUATION_MAX = 0.4
LETTER_RUNS_MAX = 0.5
"""The largest part of a random word that may be punctuation, or letters as in written words."""

NAME_BYTES_MAX = 40
LABEL_REACH_BYTES = 160
LABELLED_BYTES_MAX = 64
BLOCK_LINE_BYTES_MIN = 40
GUTTER_BYTES_MAX = 12

_CHARACTER = r"[A-Za-z0-9+/_~.%!#^*?@&$-]"
MIXED_WORD = (
    "|".join(
        f"{one}{_CHARACTER}*{two}{_CHARACTER}*{three}"
        for one, two, three in permutations(("[A-Z]", "[a-z]", "[0-9]"))
    )
    + r"|[\xc3-\xdf][\x80-\xbf]\S*[0-9]"
)
"""An expression of RE2 that every text with a random word matches, so other texts are skipped."""

LABEL = (
    r"passw|passphrase|(?:\b|_)pass\b|pwd|(?:\b|_)pw\b|secret|token|credential|creds\b|\bpsk\b"
    r"|\beap\b|identify|auth\b|authtok|mot de passe|contrase|kennwort|passwort|senha|wachtwoord"
    r"|(?:\b|_)pat\b|(?:api|access|private|license)[ _-]?key|\bpin\b|\bclave\b|zugangsdaten"
    r"|\blog(?:ged)?[ -]?(?:in|on)\b|\bsign in\b|anmeld|connexion|密钥|密鑰|ключ|логин|ログイン"
    r"|登录|\b(?:ssh|wi-?fi|wlan|vpn|admin|root|ftp|user(?:name)?|account|benutzer|usuario|puk"
    r"|acc\S{1,2}s\b|acceso|accesso|zugang|toegang|utilisateur|pre-?shared|key (?:is|ist|for))\b|"
    + WORDS["SPOKEN"]
)
"""A label of a secret. Other words may stand between both, for example `the password is …`."""

_KINDS = bytes.maketrans(
    f"{string.ascii_uppercase}{string.ascii_lowercase}{string.digits}{string.punctuation}".encode(),
    b"U" * 26 + b"l" * 26 + b"d" * 10 + b"p" * len(string.punctuation),
)
_SIGNS = b"!#%^*?@&$"
_LETTER_RUN = rb"[A-Z][a-z]{2,}|[a-z]{4,}|[A-Z]{6,}"
_CHOSEN_PASSWORD = (
    rb"(?=.*[A-Za-z\x80-\xff]{3})(?:(?=.*[0-9].*[0-9])(?=.*[!#%^*@&?+$])"
    rb"|(?=.*[A-Z\x80-\xff])(?=.*[a-z\x80-\xff]{3})(?=.*[0-9])(?=.+[!#%^*@&?+$~=]"
    rb"|.+[_./:-].*[0-9]{2,}[a-z]?\Z|.+-.*_|.+\..*_|.+/.*/.*[0-9]\Z))"
    rb"[\w!#%^*@&?+$~=./:\x80-\xff-]+"
)
"""A password that a person chose, for example `LanternWalnut576@un` or `Maple-Stairs_19`."""

_ORDINARY = (
    rb"(?:[a-z]{2,}[_-])+0?[0-9A-Za-z]+|(?:[A-Z][A-Za-z]+[0-9]?-)+-?[a-z0-9]+"  # `toolu_01…`
    rb"|.*[.][a-z]{2,4}|[A-Z]{1,4}(?:_[A-Za-z0-9]{1,14})+|[\w/-]+[.]\w+:[0-9]+"  # files, macros
    rb"|[A-Za-z]+:[0-9]+|(?:[a-z_.-]+|[A-Z_]+)=.{0,8}|[A-Za-z_.-]+=[0-9.]+|ChaCha20-.*|.*EXAMPLE.*"
    rb"|[A-Z_]+=/[\w.-]+/.*"  # a directory in an environment
    rb"|[A-Za-z]+[+][A-Z]+[0-9]?|AAAA[BCE]3Nza.*|[A-Z]{2}[0-9a-f]{32}"  # of GitHub, SSH, Twilio
    rb"|.*%(?:2[0-9ACDE]|3[0-9A-CEF]|[014-9A-F][0-9A-F]).*"  # percent-encoding, except of base64
    rb"|(?!.*[.][A-Z][a-z]{2,}[_-][0-9]+\Z)"
    rb"[A-Za-z_](?:[a-z0-9_]*|\w*[a-z]{3}\w*)(?:\.[\w$-]+)+(?:#.*)?"  # dotted names
    rb"|(?:[^/]*/){7}.*|(?!.*/[0-9]{1,2}\Z).*/[A-Z][a-z]{4}.*|.*/[a-z]{4,}"
    rb"|[A-Za-z]+:(?://|[A-Za-z]).*"  # paths, URLs
    rb"|.*(?:a-z|A-Z|A-F|0-9).*|[$][A-Z].*|%.*%|.*IPv[46].*"  # expressions, variables
    rb"|.*(?:&&|[?][.]|!0|[?].*:).*"  # minified code
    rb"|[+.~/#?@*&-].*|.*=[?].*|.*[?]=+"  # mail headers
    rb"|.*/[\w.-]+#[0-9]+|[a-z_-]+#[0-9]+|.*[0-9]{12}:.*"  # issues, ARNs
    rb"|(?i:issue|ticket|task|story|epic|sprint|iteration|milestone|phase|round|release|version"
    rb"|build|change|attempt|question|requirement|chapter|appendix)s?#[0-9]{1,4}"
    rb"|[\w./-]*@[0-9]+[.][0-9].*|.*@[\w-]+(?:\.[a-z]+)+(?:[:/].*)?|.*-(?:v[0-9.]+|[0-9]+[.][0-9.]+)"
)
_PUBLIC_NAME = (
    rb"(?i)(?:id|cursor|hash|sum|digest|integrity|etag|sha-?[0-9]*|md5|fingerprint|pub"
    rb"|public[\w-]*|signature|thumbprint|h1|url|path|file|href|src|base64|bytes|version)"
    rb"[\"']?[ \t]*[:=,][ \t]*b?[\"']?\Z"
)
_BASE64_LINE = rb"[A-Za-z0-9+/=]{40,}"

_ESCAPE = rb"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|\x1b?\[[0-9;]{1,12}m|"
"""An escape is a match of its own, because otherwise its letters would belong to the next word."""

_BEFORE = b" \t\r\n\"'`=>({[|,:"
_AFTER = b" \t\r\n\"'`<)}]|,;\\&"
_BARE_WORD = _ESCAPE + rb"(" + _CHARACTER.encode() + rb"{10,}={0,2})"
_QUOTED_WORD = rb"[\"']([^\s\"'`()\[\],:\\<>]{12,64})\\?[\"']"
_LABELLED_CHARACTER = rb"(?:[^\x00-\x20\"'`(){},;<>|\\\[\]\x7f-\xff]|[\xc3-\xdf][\x80-\xbf])"
_LABELLED_WORD = (
    _ESCAPE + rb"(?:(?<=\\[nrt])|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=[0-9;[]m)"
    rb"|(?<![\w!#%^*@&?+$~./:-]))(?:[\w.-]{0,40}[=:]+)?(?=\S*[0-9])("
    + _LABELLED_CHARACTER
    + rb"{8,})"
)
_REACH = re.compile(rb"[^\n]*(?:\n[^\w\n]*){0,2}[^\n]*")
"""The rest of a label's line, and the next line that is not blank."""

_URL_SEGMENT = rb"[^/]+"


def random_words(content: bytes) -> Spans:
    """Yield start and end of every random word in a text, in no order; two may overlap."""
    for start, word in chain(_unlabelled(content), _labelled(content)):
        if not re.search(_PUBLIC_NAME, content[max(0, start - NAME_BYTES_MAX) : start]):
            yield start, start + len(word)


def _unlabelled(content: bytes) -> Iterator[tuple[int, bytes]]:
    quoted = (found.span(1) for found in re.finditer(_QUOTED_WORD, content))
    for start, end in chain(_bare_words(content), quoted):
        word = content[start:end].rstrip(b".")
        if _is_random(word, BYTES_MIN) and not _is_in_block(content, start, end):
            yield start, word
        elif content.startswith(b"://", start - 1):
            for segment in re.finditer(_URL_SEGMENT, word):
                if _is_random(segment.group(), BYTES_MIN):
                    yield start + segment.start(), segment.group()


def _bare_words(content: bytes) -> Spans:
    escape_end = 0
    for found in re.finditer(_BARE_WORD, content):
        start, end = found.span(1)
        if start < 0:
            escape_end = found.end()
        elif (start == escape_end or content[start - 1] in _BEFORE) and (
            content[end : end + 1] in _AFTER
        ):
            yield start, end


def _labelled(content: bytes) -> Iterator[tuple[int, bytes]]:
    for start, end in _after_labels(content):
        word = content[start:end].rstrip(b".:")
        if len(word) > LABELLED_BYTES_MAX or content.startswith(b"(", end):
            continue
        is_chosen = re.fullmatch(_CHOSEN_PASSWORD, word) and not re.fullmatch(_ORDINARY, word)
        if is_chosen or _is_random(word, LABELLED_BYTES_MIN):
            yield start, word


def _after_labels(content: bytes) -> Spans:
    labelled_word = re.compile(_LABELLED_WORD)
    for start, end in _label_reaches(content):
        # The search continues past the reach's end, because a shortened escape is no escape.
        for found in labelled_word.finditer(content, start, end + LABELLED_BYTES_MAX):
            if found.start() >= end:
                break
            if found.start(1) >= 0:
                yield found.span(1)


def _label_reaches(content: bytes) -> Spans:
    """Yield where labels reach; overlapping reaches are merged, for linear time."""
    start = end = 0
    for label, label_end in _label().spans(content):
        if content.startswith(b"[", label):
            continue
        far = max(0, label - LABEL_REACH_BYTES)
        first = content.rfind(b"\n", far, label) + 1 or far
        if first > end:
            yield start, end
            start = first
        below = _REACH.match(content, label_end, label_end + LABEL_REACH_BYTES)
        end = below.end() if below else label_end
    yield start, end


@functools.cache
def _label() -> Expression:
    # With the rest of the name, so that `ord` of `password` is no part of the secret.
    # A placeholder is no label, although `secret-by-looks` stands in it.
    return Expression(rf"(?i)\[redacted:[\w-]*|(?:{LABEL})[\w+/]*")


def _is_random(word: bytes, bytes_min: int) -> bool:
    size = len(word)
    if word.translate(None, _SIGNS) != word:
        bytes_min = min(bytes_min, SIGNED_BYTES_MIN)
    # First, because most words are too short.
    if not bytes_min <= size <= BYTES_MAX:
        return False
    kinds = word.translate(_KINDS)
    capitals, small, digits = map(kinds.count, (b"U", b"l", b"d"))
    return (
        min(capitals, small, digits) > 0
        and (min(capitals, small) > 1 or bytes_min == LABELLED_BYTES_MIN)
        and sum(kind != next_kind for kind, next_kind in pairwise(kinds)) >= SWITCHES_MIN * size
        and kinds.count(b"p") <= PUNCTUATION_MAX * size
        and sum(map(len, re.findall(_LETTER_RUN, word))) <= LETTER_RUNS_MAX * size
        and not re.fullmatch(_ORDINARY, word)
        and not _is_plain_text(word)
    )


def _is_plain_text(word: bytes) -> bool:
    """Whether a word is base64 of readable text, and that text contains no secret."""
    try:
        text = base64.b64decode(word + b"=" * (-len(word) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    is_readable = "".join(text.split()).isprintable()
    return is_readable and not hides_a_secret(word) and not any(random_words(text.encode()))


def _is_in_block(content: bytes, start: int, end: int) -> bool:
    """Whether the line before or after a long word is a base64 line too."""
    reach = end - start + GUTTER_BYTES_MAX
    beside = content[max(0, start - reach) : start], content[end : end + reach]
    return end - start >= BLOCK_LINE_BYTES_MIN and any(
        b"\n" in text and re.search(_BASE64_LINE, text) for text in beside
    )


# --- columns of a table: CSV, Markdown, and output of `psql` or `mysql` ---------------------------

# For example `NqzWOQtZM_9b` under `name,password`. A column counts when its name ends in a word
# such as `password`. The table ends at the first line that has another number of cells.


LINE_BYTES_MAX = 4096

_NAME = rf"(?i)[\w. -]*(?:{WORDS['WORD']}|(?:\b|_)(?:pass|pin|pw|psk))"
SECRET_COLUMN = rf"{_NAME}[\"' ]*(?:[,;|\t]|  )|(?:[,;|\t]|  )[\"' ]*{_NAME}[\"' \r|]*(?:\n|$)"
"""An expression of RE2 that every text with such a column matches, so other texts are skipped."""

_SECRET_NAME = _NAME.encode()
_HEAD = rb"[ \t|\"']*\w[\w .\"'-]*(?:[,;|\t][\w .\"'-]*)+\r?"
_SEPARATOR = rb"[,;|]"
_GAP = rb"  ( *)"
"""Blanks between two columns, as PowerShell and `kubectl get` align them; read as a tab."""

_QUOTED = rb"\"[^\"]*\""
_RULE = rb"[\s|+:=-]*"
_AROUND = b" \t\r\"'`"


def column_secrets(content: bytes) -> Spans:
    """Yield start and end of every secret in such a column, left to right."""
    below = 0
    for named, _ in _secret_column().spans(content):
        begin = content.rfind(b"\n", 0, named) + 1
        head = _line(content, begin)
        if begin < below or not re.fullmatch(_HEAD, head):
            continue
        separator = next(iter(re.findall(_SEPARATOR, head)), b"\t")
        names = [name.strip(_AROUND) for name in head.split(separator)]
        secret = [column for column, name in enumerate(names) if re.fullmatch(_SECRET_NAME, name)]
        below = begin + len(head) + 1
        # Code such as `password,` at a line's end is no table, because only one cell has a name.
        is_table = sum(map(bool, names)) > 1 and (names[-1] or separator != b",")
        while secret and is_table and below < len(content):
            line = _line(content, below)
            cells = _cells(line, separator)
            if len(cells) == len(names):
                for start, end in (cells[column] for column in secret):
                    value = line[start:end]
                    if b" " not in value and (is_chosen(value) or is_given(value)):
                        yield below + start, below + end
            elif not re.fullmatch(_RULE, line):
                break
            below += len(line) + 1


@functools.cache
def _secret_column() -> Expression:
    return Expression(SECRET_COLUMN)


def _line(content: bytes, start: int) -> bytes:
    line, _, _ = content[start : start + LINE_BYTES_MAX].partition(b"\n")
    return re.sub(_GAP, rb"\t \1", line)


def _cells(line: bytes, separator: bytes) -> list[tuple[int, int]]:
    """Return start and end of every cell in a line, without blanks and quotes around it."""
    # A separator within quotes does not count.
    masked = re.sub(_QUOTED, lambda quoted: b"." * len(quoted.group()), line)
    cells: list[tuple[int, int]] = []
    start = 0
    for cell in masked.split(separator):
        value = line[start : start + len(cell)]
        begin = start + len(value) - len(value.lstrip(_AROUND))
        cells.append((begin, begin + len(value.strip(_AROUND))))
        start += len(cell) + 1
    return cells


# --- the families ---------------------------------------------------------------------------------


FORMS = read_forms(r"""
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


_FAMILY = re.compile(r"[a-z0-9-]{1,40}")

_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\((?!\?)")
"""A group that is counted, looked for: to compile all expressions for it takes too long."""


class Rule(Struct, frozen=True, kw_only=True):
    """One form of one family. `family` is what the placeholder says: `[a-z0-9-]+`.

    With a `find`, `pattern` only says where it is worth looking, and `find` where they stand.
    `needs` is an expression that every text matches that `pattern` matches.
    """

    family: str
    pattern: str
    check: Check
    find: Callable[[bytes], Spans] | None = None
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


RULES = (
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


SECRET_NAME = rf"(?i)(?:^|.*[^a-z]|.*[a-z]){WORDS['WORD']}$"
"""A member's name in JSON whose value is a secret when it looks random."""

STRONG_NAME = rf"(?i)(?:^|.*[_.-]){WORDS['STRONG_WORD']}$"
"""A member's name in JSON whose value is a secret unless it is a template or a dummy."""
