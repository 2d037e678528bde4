"""Secrets in the output of tools and devices: tables, sessions of a client, device configurations.

For example `| SecretAccessKey | … |`, or `AUTH default …` in a session of redis-cli. The rows have
the form of those in contexts.py: family, expression, and the check of the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from upthread.core.redaction.contexts import BARE, END, GIVEN, IS, QUOTE, TEXT, WORD
from upthread.core.redaction.values import (
    anything,
    is_assigned,
    is_chosen,
    is_given,
    is_real,
    is_set,
    looks_random,
)

PRINTED: Final[tuple[tuple[str, str, Callable[[bytes], bool]], ...]] = (
    (
        "named-secret",
        rf"(?i)(?:{WORD}|pass)[A-Za-z0-9_]{{0,16}}[ \t]*\|+[ \t]*`?({BARE})`?[ \t]*(?:\||$)",
        looks_random,
    ),
    (
        "named-secret",
        rf"(?i)(?:^|[\n ])[\w.-]*(?:{WORD}|pass)[\w.-]*[ \t]{{2,}}({BARE})[ \t]*(?:[\r\n]|$)",
        looks_random,
    ),
    (
        "named-secret",
        (
            r"(?i)\b(?:unseal|recovery|root|master|backup)[ \t]+"
            r"(?:key|token|code)s?[ \t]*[0-9]*[ \t]*:"
            r"[ \t]*([^\s\"'\\]{16,})"
        ),
        looks_random,
    ),
    (
        "named-secret",
        (
            r"(?i)\b(?:mnemonic|seed[ _-]?(?:phrase|words)?|phrase)"
            rf"{QUOTE}?(?:{IS}|[ \t]+is[ \t]+)\s*{QUOTE}?"
            r"((?:[a-z]{3,8}[ \t]+){11,23}[a-z]{3,8})"
        ),
        anything,
    ),
    ("flag-secret", rf"\bpass[ \t]+show[ \t][^\n]*\r?\n({GIVEN})", is_chosen),
    ("flag-secret", rf"[>\n][ \t]*AUTH[ \t]+(?:[\w.-]+[ \t]+)?({BARE}){END}", is_given),
    ("flag-secret", rf"(?i)\bnet[ \t]+use\b[^\n]*/user:\S+[ \t]+({GIVEN})", is_assigned),
    ("flag-secret", rf"(?i)\bnet[ \t]+use\b[^\n]*[ \t]\\\\\S+[ \t]+({GIVEN})", is_assigned),
    ("named-secret", r"(?i)\bpwd=\{([^{}\n]{6,})\}", is_real),
    (
        "named-secret",
        rf"ConvertTo-SecureString\b[^\n]{{0,40}}?{TEXT}([^\"'\n]{{6,}}){TEXT}",
        is_set,
    ),
    (
        "named-secret",
        r"#define[ \t]+\w*PASS(?:WORD)?[ \t]+\"([^\"\s]{0,63}[0-9][^\"\s]{0,63})\"",
        is_set,
    ),
    (
        "named-secret",
        rf"(?i)<key>[^<]*(?:{WORD}|key)</key>[^<]*(?:<array>[^<]*<integer>[^<]*</integer>[^<]*)?<string>([^<\s]{{12,}})",
        looks_random,
    ),
    (
        "private-key",
        r"(?i)(?:key|secret)\w*\[\w*\][ \t]*=[ \t]*\{\s*((?:0x[0-9a-f]{2},\s*){7,}0x[0-9a-f]{2})",
        anything,
    ),
    ("sql-password", r"(?i)\bidentified[ \t]+by[ \t]+([^\s\"'`;]{6,})", is_assigned),
    ("windows-hash", r"\b([0-9a-f]{32}:[0-9a-f]{32}):::", anything),
    ("url-password", rf"\b(?:[A-Z][A-Z0-9-]+|[\w-]+(?:\.[\w-]+)+)\\[\w.-]+:({GIVEN})", is_assigned),
    (
        "authorization",
        r"334 UGFzc3dvcmQ6[^\n]*\n[^\n]*?([A-Za-z0-9+/]{8,}={0,2})(?:\\r\\n.?)?\s*(?:\n|$)",
        anything,
    ),
    ("generated-password", r"\b((?:[A-Za-z0-9]{6}-){2}[A-Za-z0-9]{6})\b", looks_random),
    ("chosen-password", r"\b((?:[A-Z][a-z]{2,}){2,}[0-9]{2,4}[!?#$%&*])", looks_random),
    (
        "named-secret",
        rf"(?i)(?:{WORD}|(?:\b|_)(?:pass|pw)\b)(?:\[\])?[ \t]+=?[ \t]*\"([^\"\s]{{6,64}})\"",
        is_assigned,
    ),
    # Not 40 digits, except after a colon: `git log` prints a commit's id below its subject.
    (
        "named-secret",
        rf"(?i){WORD}[^\n]{{0,80}}\s*\n\s*([0-9a-f]{{32,39}}|[0-9a-f]{{41,}})[ \t\r]*(?:\n|$)",
        looks_random,
    ),
    (
        "named-secret",
        rf"(?i){WORD}[^\n]{{0,80}}:[ \t]*[|>]?[+-]?[ \t\r]*\n\s*([0-9a-f]{{40}})[ \t\r]*(?:\n|$)",
        looks_random,
    ),
    (
        "named-secret",
        (
            rf"(?i)(?:pass|key)[ _-]?phrase{QUOTE}?{IS}{QUOTE}?"
            r"((?:[a-z]{3,12}[ -]){3,}[a-z]{3,12})"
        ),
        anything,
    ),
    (
        "private-key",
        r"(?i)\b(?:accounts|private[_ ]?keys?)\\*[\"']?[ \t]*[:=][^\n\w]*0x([0-9a-f]{64})\b",
        anything,
    ),
    ("flag-secret", rf"(?i)\bsqlplus\b[^\n]*[ \t\"'][\w.$]+/{QUOTE}?({GIVEN}){QUOTE}?@", is_real),
    ("flag-secret", r"\boathtool\b[^\n|;]*[ \t]([A-Z2-7]{16,})", anything),
    (
        "flag-secret",
        rf"(?i)assword[^\n]*\r?\n[^\n]*\bsend[ \t]+(?:--[ \t]+)?{TEXT}([^\n\"]{{4,}}?)\\+[rn]",
        is_set,
    ),
    ("device-secret", rf"(?i)\b(?:password|secret)[ \t]+[0-9][ \t]+({GIVEN})", is_given),
    ("device-secret", r"\bsnmp-server[ \t]+community[ \t]+(\S{6,})", is_given),
    (
        "device-secret",
        r"\b(?:tacacs|radius)-server[ \t][^\n]*?key[ \t]+(?:[0-9][ \t]+)?(\S{6,})",
        is_given,
    ),
    ("named-secret", r"\buser[ \t]+\S+[ \t]+on\b[^\n]*?[ \t]>(\S{6,})", is_chosen),
    ("named-secret", rf"(?i){WORD}{QUOTE}?[ \t]*[|\t][ \t]*([^\s|]{{16,}})", looks_random),
    (
        "named-secret",
        rf"(?i){WORD}(?:{QUOTE}?\]?{IS}{TEXT}|=)((?-i:[a-z]{{4}}(?:\x20[a-z]{{4}}){{3}}))(?:{TEXT}|[\r\n])",
        is_real,
    ),
    (
        "named-secret",
        rf"(?i){WORD}[\w\]\"')]{{0,16}}\s*(?:\|\||\?\?|\bor\b|:-)\s*{TEXT}([^\s\"'\\/(){{}}]{{8,64}}){TEXT}",
        is_assigned,
    ),
    ("named-secret", rf"(?i)password[^\n]*\n[^\n:]{{0,40}}value:[ \t]*({BARE}){END}", is_assigned),
    ("named-secret", rf"(?i){WORD}[ \t]*[*_`\"']{{1,3}}([0-9a-f]{{32,64}})\b", looks_random),
    ("named-secret", rf"(?i)credentials\w*\([^)\n]*?{TEXT}([0-9a-f]{{40,64}}){TEXT}", looks_random),
    ("named-secret", rf"(?i)_salt{QUOTE}?{IS}{TEXT}([^\s\"'\\]{{8,}}){TEXT}", looks_random),
    (
        "named-secret",
        rf"(?i)\b(?:pw|passwor[dt])(?:[ \t:]*[*`\"']+|[^\n:]{{0,30}}? is (?:now )?)({BARE})",
        is_assigned,
    ),
    ("env-secret", rf"_KEY{QUOTE}\][ \t]*=[ \t]*{TEXT}([^\s\"'\\]{{16,}}){TEXT}", looks_random),
    (
        "named-secret",
        rf"(?i){WORD}{QUOTE}?(?:{IS}|[ \t]+){QUOTE}?((?-i:[a-z]{{4}}(?:-[a-z]{{4}}){{3}})){END}",
        is_real,
    ),
    ("flag-secret", rf"\s-u[ \t]+\\*[\"']?[^\s:\"'/]+:\\*[\"']?({GIVEN})", is_given),
    (
        "named-secret",
        rf"(?s)random_password.{{0,600}}?\"result{TEXT}:[ \t]*{TEXT}([^\"\n\\]{{8,}}){TEXT}",
        is_chosen,
    ),
    (
        "named-secret",
        rf"\bchpasswd:[^\n]*\n(?:[^\n]*\n){{0,2}}?[ \t]*[\w-]+:({GIVEN})",
        is_assigned,
    ),
    ("twilio-token", rf"\bAC[0-9a-f]{{32}}{TEXT},\s*{TEXT}([0-9a-f]{{32}}){TEXT}", anything),
    ("named-secret", rf"(?i)\bpre-?shared-?key(?:{IS}|[ \t]+)({BARE}){END}", looks_random),
    ("flag-secret", rf"\bsshpass[ \t]+-p[ \t]*{QUOTE}?({GIVEN})", is_real),
    ("flag-secret", rf"\blftp\b[^\n]*[ \t]-u[ \t]+[^\s,]+,({GIVEN})", is_real),
    (
        "recovery-code",
        (
            r"(?i)\b(?:recovery|backup)_?codes?\\*\"[ \t]*:\s*\["
            r"((?:\s*\\*\"[\w-]{8,16}\\*\",?)+)\s*\]"
        ),
        looks_random,
    ),
    ("url-password", r"\b[\w.-]+:([^\s@:\"'`/]{6,})@(?:tcp|unix)\(", is_real),
    ("url-password", r"(?:^|[\s])[^\s@:]+@[\w.-]+:([A-Za-z0-9+/_-]{16,})(?:[\s]|$)", looks_random),
    (
        "url-password",
        (
            rf"(?i)(?:connect|connection|PDO|mysqli|__construct)\([^;]{{0,300}}?,\s*{TEXT}[^\n\"']*{TEXT}"
            rf",\s*{TEXT}([^\n\"'\\]{{4,}}){TEXT}"
        ),
        is_assigned,
    ),
    (
        "cookie",
        r"\t(?:TRUE|FALSE)\t/[^\t\n]*\t(?:TRUE|FALSE)\t[0-9]+\t[^\t\n]+\t(\S{16,})",
        looks_random,
    ),
    ("authorization", r"(?i)\bdigest[ \t][^\n]*\bresponse=\\*\"([0-9a-f]{32})", anything),
    ("authorization", r"\bSAML(?:Response|Request)=([A-Za-z0-9+/%=]{40,})", anything),
    ("google-oauth", r"\b(4/0A[A-Za-z0-9_-]{40,})", anything),
    ("jenkins-secret", r"\{(AQAAABAAAA[A-Za-z0-9+/=]{20,})\}", anything),
    ("private-key", r"OpenVPN Static key V1-----((?:[^0-9a-f]{1,12}[0-9a-f]{32}){2,})", anything),
    ("solana-key", r"\[((?:[0-9]{1,3}, ?){63}[0-9]{1,3})\]", anything),
    (
        "named-secret",
        (
            rf"(?i)(?:key|auth|(?:\b|_)pat|license|hmac|signing|ntlm)(?:[_-]\w{{1,12}})?"
            rf"{QUOTE}?(?:{IS}|[ \t]+){QUOTE}?([0-9a-z]{{32,}}){END}"
        ),
        looks_random,
    ),
    (
        "recovery-code",
        (
            r"(?i)\b(?:recovery|backup|scratch|emergency)[ _-]codes?\b"
            r"(?:[^\n]{0,120}\n){1,3}?"
            r"((?:[^\n]{0,80}\b(?:[0-9a-z]{4,6}-[0-9a-z]{4,6}|[0-9a-f]{16,64})\b[^\n]{0,80}(?:\n|$)){2,})"
        ),
        looks_random,
    ),
    ("bitcoin-key", r"\b([5KL][1-9A-HJ-NP-Za-km-z]{50,51})\b", looks_random),
)
