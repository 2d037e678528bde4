"""Secrets that what stands beside them gives away: the ways in which a value is given a name.

One row a way: in a configuration file, on a command line, in SQL, in XML, in a header. A gutter in
front of a line is no matter: nothing here begins at a line's beginning. Quotes are looked for as
they are, and as JSON, HTML and URLs write them. The first group of an expression is the secret. A
word beside a value proves little, code is full of `password = None`: so each row also asks the
value itself whether somebody could be let in with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from upthread.core.redaction.values import (
    anything,
    is_a_pair,
    is_assigned,
    is_broken,
    is_chosen,
    is_given,
    is_no_example,
    is_real,
    is_set,
    looks_random,
)

WORD: Final = (
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret|token|credentials?|"
    r"authtok|passwort|kennwort|senha"
    r"|(?:api|app|access|admin|auth|private|secret|signing|encryption|master|account|service|client|hmac|shared)"
    r"[ _.-]?key(?:-data)?)"
)
STRONG_WORD: Final = (
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret|authtok|passwort|kennwort|contrase(?:n|\xc3\xb1)a|senha"
    r"|mot de passe|wachtwoord)"
)

_STRONG: Final = rf"(?:{STRONG_WORD}|(?:\b|_)pass)"
_NUMBERED: Final = r"(?:[_.-]?[0-9]{1,2}|[_.-](?:prod|dev|test|staging|live|value|base|data))?"
QUOTE: Final = r"(?:\\*[\"'`]|\\+u002[27]|&quot;|&#3[49];|%2[27])"
TEXT: Final = r"\\*[\"']"
IS: Final = r"[ \t]{0,8}(?:=>|:=|::?|=|%3[aAdD])[ \t]{0,8}"
END: Final = r"(?:[\s;&\"'`\\<|)\]]|%26|%22|\^@|$)"
BARE: Final = r"[^\s\"'`\\(){}\[\]<>,;&|$%*][^\s\"'`\\(){}\[\]<>,;&|]{5,63}"
GIVEN: Final = r"[^\s\"'`\\|&;()<>\[\]{}$,-][^\s\"'`\\|&;()<>\[\]{},]{3,}"
_NEXT: Final = r"(?:[ \t]*,?[ \t]*|,?[ \t]*(?:\r?\n|\\+n)(?:[^\n]*[^\nA-Za-z0-9])?)"
"""To the next member of an object: on the line, or on the next one behind whatever gutter."""

_COOKIES: Final = rf"(?i)\bcookie(?:{QUOTE}[ \t]*,|{QUOTE}?[ \t]*[:=])[ \t]*\[?{QUOTE}?"
_SESSION: Final = r"[\w.-]*(?:sess|sid|auth|token|jwt|login|remember|identity)[\w.-]*"
_COOKIE: Final = r"=([^\s;,\"'\\<>\[\]{}()$|]{16,})"
_LAST_WORD: Final = rf"(?:(?:[^\n\\]|\\{{1,8}}t)*[ \t])({BARE})[ \t]*(?:[\r\n\\\"'<`]|$)"
"""What stands last on a line, whatever gutter is before it."""

_ENVIRONMENT: Final = (
    r"\b(?:[A-Z0-9_]*(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?|CREDS|APIKEY|[A-Z]_KEY"
    r"|_SALT)[A-Z0-9_]*|[A-Z0-9_]*(?:PASS|_PAT)|[A-Z0-9_]*[A-Z0-9]_PWD)"
)
_FLAG: Final = (
    r"-(?:-?[a-z0-9]+)*-?(?:password|passwd|passphrase|pass|pwd|secret|token"
    r"|(?:api|access|secret|auth|private|account|master|encryption)-?key)"
)
_SHORT_FLAGS: Final = (
    r"\b(?:mysql\w*|mariadb[\w-]*|(?:docker|podman|nerdctl|helm registry|az|oc|cf|doctl)[ \t]login"
    r"|mongo\w*|ldap\w+|sqlcmd|bcp|sshpass|redis-cli|zip|unzip|plink|pscp|puttygen|rabbitmqadmin"
    r"|lftp|cqlsh|clickhouse-client|influx|mosquitto_\w+|ssh-keygen|(?:vsce|ovsx)[ \t]publish)"
)

CONTEXTS: Final[tuple[tuple[str, str, Callable[[bytes], bool]], ...]] = (
    # URLs and headers
    ("url-password", r"[a-z0-9]://[^\s/:@\"'<>`]*:([^\s/@\"'<>`]+)@[A-Za-z0-9\[]", is_real),
    ("url-password", r"\bjdbc:oracle:\w+:[^\s/:@\"'<>`]+/([^\s/@\"'<>`]+)@", is_real),
    (
        "url-password",
        (
            rf"(?i)[?&](?:amp;)?"
            rf"(?:[\w.-]{{0,32}}(?:{WORD}|pass|auth|sig|signature|key|code|appid)|[tkcs])"
            rf"=([^\s\"'&<>\\;)#]{{8,}})"
        ),
        looks_random,
    ),
    (
        "authorization",
        (
            r"(?i)\bauthorization[\"'\\]*[ \t]*[:=,][ \t]*[\"'\\]*"
            r"(?:[a-z][a-z0-9-]{0,16}[ \t]+)?([A-Za-z0-9._~+/=-]{8,})"
        ),
        looks_random,
    ),
    ("authorization", r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/-]{16,}=*)", looks_random),
    ("authorization", r"(?i)\bbasic[ \t]+([A-Za-z0-9+/]{8,}={0,2})", is_a_pair),
    (
        "authorization",
        rf"(?i)\b(?:x-[a-z-]*(?:key|token|secret)|[a-z]+-token)[\"'\\]*{IS}([\w.~+/=-]{{8,}})",
        looks_random,
    ),
    ("cookie", rf"{_COOKIES}[\w.-]+{_COOKIE}", looks_random),
    ("cookie", rf"\bcurl[ \t][^\n|;]*(?:-b|--cookie)[ =]{QUOTE}?[\w.-]+{_COOKIE}", looks_random),
    ("flag-secret", rf"\bvault[ \t]+[^\n|;&]*[ \t][\w.-]+={QUOTE}?({GIVEN})", looks_random),
    ("cookie", rf"{_COOKIES}(?:[^\n]*?;[ \t]*)??{_SESSION}{_COOKIE}", looks_random),
    (
        "cookie",
        (
            r"(?i)\b(?:jsessionid|phpsessid|asp\.net_sessionid|connect\.sid|laravel_session"
            r"|_?session_?id|sessionid)=([^\s;,\"'&\\<>]{16,})"
        ),
        looks_random,
    ),
    # Command lines
    (
        "flag-secret",
        (
            r"(?i)\b(?:config|configure|secrets?|env|variable)[ \t]+(?:set|add|put|create)"
            rf"(?:[ \t]+-\S+)*[ \t]+{QUOTE}?\S*(?:{WORD}|authtoken|_auth|pass)[\w-]*{QUOTE}?"
            rf"[ \t=]+{QUOTE}?({GIVEN})"
        ),
        is_given,
    ),
    (
        "named-secret",
        (
            r"(?i)\b(?:enter|type|retype|new|current|give|paste)\b"
            r"[^\n:]{0,60}(?:password|passphrase|pin|token|api[ _-]?key)"
            rf"[^\n:]{{0,60}}:[ \t]*({BARE}){END}"
        ),
        is_assigned,
    ),
    (
        "flag-secret",
        (
            r"\brabbitmqctl\b[^\n|;&]*[ \t](?:add_user|change_password|authenticate_user)[ \t]+"
            rf"[^\s-]\S*[ \t]+{QUOTE}?({GIVEN})"
        ),
        is_set,
    ),
    (
        "flag-secret",
        rf"(?i)\bnet1?(?:\.exe)?[ \t]+user[ \t]+[^\s/]\S*[ \t]+{QUOTE}?({GIVEN})",
        is_assigned,
    ),
    (
        "curl-password",
        (
            r"\bcurl[ \t\"',][^\n|;]*(?:-[uU]|--user|--proxy-user)(?:[ =]|[\"'], ?)?\\*[\"']?"
            r"[^\s:\"'\\]+:\\*[\"']?([^\s\"'\\]{3,})"
        ),
        is_real,
    ),
    ("flag-secret", rf"(?i){_FLAG}={QUOTE}?({GIVEN})", is_set),
    (
        "flag-secret",
        rf"(?i){_FLAG}(?:[ \t]+{QUOTE}?|{QUOTE}{_NEXT}{QUOTE})({GIVEN})",
        is_assigned,
    ),
    (
        "flag-secret",
        rf"{_SHORT_FLAGS}\b[^\n|;&]*[ \t](?:-p|-w|-P|-pw|-a|-N)[ \t]+{QUOTE}?({GIVEN})",
        is_assigned,
    ),
    (
        "flag-secret",
        rf"\b(?:mysql\w*|mariadb[\w-]*|sshpass|7z)\b[^\n|;&]*[ \t\"']-p{QUOTE}?({GIVEN})",
        is_real,
    ),
    ("flag-secret", rf"\bsmbclient\b[^\n|;&]*-U[ \t]*{QUOTE}?[^\s%]+%({GIVEN})", is_real),
    ("flag-secret", rf"-pass(?:in|out)?[ \t]+{QUOTE}?pass:({GIVEN})", is_real),
    (
        "flag-secret",
        rf"\bhtpasswd[ \t]+-[a-zA-Z]*b[a-zA-Z]*[ \t]+\S+[ \t]+(?:\S+[ \t]+)?{QUOTE}?({GIVEN})",
        is_real,
    ),
    ("named-secret", rf"\b(?:requirepass|masterauth|bindpw|rootpw)[ \t]+{QUOTE}?({BARE})", is_real),
    (
        "flag-secret",
        (
            rf"\becho[ \t]+(?:-n[ \t]+)?{QUOTE}?(?:[\w.-]+:)?({GIVEN}){QUOTE}?[ \t]*\|[ \t]*"
            r"(?:sudo[ \t]+-S|[^\n|]*--(?:password-stdin|with-token|stdin)|(?:sudo[ \t]+)?chpasswd)"
        ),
        is_real,
    ),
    ("netrc-password", rf"(?i)\blogin[ \t]+\S+{_NEXT}password[ \t]+([^\s\"'\\,]+)", is_real),
    # Environments
    ("env-secret", rf"{_ENVIRONMENT}=({BARE}){END}", is_real),
    ("env-secret", rf"{_ENVIRONMENT}=[\"']([^\n\"'\\{{}}<>]{{6,}})[\"']", is_set),
    ("env-secret", rf"{_ENVIRONMENT}=\\+[\"']([^\n\"'\\{{}}<>]{{6,}})\\+[\"']", is_set),
    (
        "env-secret",
        rf"\b(?:ENV|setx|setenv|set -g?x)[ \t]+{_ENVIRONMENT}[ \t]+{QUOTE}?({BARE}){END}",
        is_real,
    ),
    # Configuration and source code
    (
        "named-secret",
        rf"(?i){WORD}[A-Za-z0-9_]{{0,16}}{QUOTE}?\]?{IS}{QUOTE}([^\s\"'`\\]{{8,}}?){QUOTE}",
        looks_random,
    ),
    (
        "named-secret",
        rf"(?i){_STRONG}{_NUMBERED}{QUOTE}?\]?{IS}{QUOTE}([^\s\"'`\\/(){{}}]{{6,64}}?){QUOTE}",
        is_chosen,
    ),
    (
        "named-secret",
        rf"(?i){WORD}[A-Za-z0-9_]{{0,16}}{IS}([A-Za-z0-9+/_~.=-]{{16,}})(?:[\s,;&\"'`<\\$\])}}|]|$)",
        looks_random,
    ),
    ("named-secret", rf"(?i){_STRONG}{_NUMBERED}{QUOTE}?\]?{IS}({BARE}){END}", is_assigned),
    (
        "named-secret",
        rf"(?i){_STRONG}{QUOTE}[ \t]*,[ \t]*{QUOTE}([^\s\"'`\\/(){{}}]{{6,64}}?){QUOTE}",
        is_assigned,
    ),
    (
        "named-secret",
        (
            r"\bdefine\([ \t]*['\"][A-Z_]*(?:KEY|SALT|PASSWORD|SECRET)['\"][ \t]*,[ \t]*"
            r"(?:'([^'\n]{6,})'|\"[^\"\n]{6,}\")"
        ),
        is_no_example,
    ),
    (
        "named-secret",
        (
            rf"(?i)\b(?:name|key){QUOTE}?[ \t]*[:=][ \t]*{QUOTE}?[\w.-]*(?:{WORD}|pass|[-_]key)"
            rf"{QUOTE}?{_NEXT}{QUOTE}?value{QUOTE}?[ \t]*[:=][ \t]*{QUOTE}?({BARE}){END}"
        ),
        is_assigned,
    ),
    (
        "named-secret",
        (
            rf"(?i){_STRONG}{_NUMBERED}{QUOTE}?[ \t]*:[ \t]*[|>][+-]?[ \t]*"
            rf"(?:\r?\n|(?:\\{{1,8}}r)?\\{{1,8}}n|<br>){_LAST_WORD}"
        ),
        is_assigned,
    ),
    (
        "named-secret",
        rf"(?i)\b(?:wpa[_-])?psk{QUOTE}?[ \t]*[:=][ \t]*{TEXT}([^\n\"'\\{{}}<>]{{8,63}}){TEXT}",
        is_set,
    ),
    (
        "named-secret",
        rf"(?i)\b(?:(?:wpa[_-])?psk[ \t]*[:=]|wpa-psk[ \t])[ \t]*({BARE}){END}",
        is_assigned,
    ),
    (
        "named-secret",
        (
            rf"(?:\bauth{QUOTE}?[ \t]*[:=][ \t]*|BasicAuth)[(\[][ \t]*{TEXT}[^\n\"'\\]+{TEXT}"
            rf"[ \t]*,[ \t]*{TEXT}([^\s\"'\\{{}}<>]{{6,64}}){TEXT}[ \t]*[)\]]"
        ),
        is_chosen,
    ),
    (
        "named-secret",
        (
            rf"(?i){WORD}[A-Za-z0-9_]{{0,16}}{QUOTE}?{IS}\r?\n[ \t]*{QUOTE}"
            rf"([^\s\"'`\\]{{8,}}?){QUOTE}"
        ),
        looks_random,
    ),
    (
        "named-secret",
        (
            rf"(?i){WORD}[A-Za-z0-9_]{{0,16}}{QUOTE}?{IS}{QUOTE}?("
            rf"[A-Za-z0-9+/_~.=-]{{12,}}\\?\r?\n"
            rf"[ \t]*[A-Za-z0-9+/_~.=-]{{8,}}){END}"
        ),
        is_broken,
    ),
    # Databases
    (
        "sql-password",
        rf"(?i)\bpassword[ \t]*=[ \t]*N{TEXT}([^\n\"'`\\]{{4,}}){TEXT}",
        is_set,
    ),
    (
        "sql-password",
        (
            rf"(?i)\b(?:create|alter|grant|set)\b[^\n;]*[ \t]identified[^\n;]*[ \t](?:by|as)[ \t]+"
            rf"{TEXT}([^\n\"'`\\]{{4,}}){TEXT}"
        ),
        is_real,
    ),
    (
        "sql-password",
        rf"(?i)\bpassword[ \t]*[ \t(][ \t]*{TEXT}([^\s\"'`\\]{{4,}}){TEXT}",
        is_assigned,
    ),
    (
        "pgpass-password",
        (
            r"(?:\*|\b[\w.-]+):(?:[0-9]{4,5}|\*):[A-Za-z*][\w.-]*:[A-Za-z][\w.-]*:"
            r"([^\s:\"'\\,()]{6,})(?:[\s\"'\\<\]]|$)"
        ),
        is_assigned,
    ),
    (
        "password-hash",
        r"\$(?:apr1|[156y]|2[abxy]|argon2[id]{1,2})\$[./A-Za-z0-9$=,-]{24,}",
        anything,
    ),
    # XML and HTML
    (
        "named-secret",
        (
            rf"(?i)(?:{WORD}|pass){QUOTE}?(?:[ \t][^<>\n]*)?(?:>|&gt;)"
            r"[ \t]*([^<>\s&]{6,})[ \t]*(?:</|&lt;/)"
        ),
        is_assigned,
    ),
    (
        "named-secret",
        (
            rf"(?i)(?:name|key|id|type)={QUOTE}[\w.:-]*(?:{WORD}|pass){QUOTE}[^<>\n]*[ \t]value="
            rf"{QUOTE}([^\"'<>\s\\&]{{6,}})"
        ),
        is_assigned,
    ),
    # Registries, and keys as JSON has them
    ("registry-auth", r"\\*\"auth\\*\"[ \t]*:[ \t]*\\*\"([A-Za-z0-9+/]{8,}={0,2})", is_a_pair),
    (
        "registry-auth",
        rf"(?:^|[^A-Za-z0-9])_(?:auth(?:Token)?|password)[ \t]*=[ \t]*{QUOTE}?({BARE}){END}",
        looks_random,
    ),
    ("private-key", r"\\*\"d\\*\"[ \t]*:[ \t]*\\*\"([A-Za-z0-9_-]{40,})", looks_random),
)
