"""Secrets that the text beside them gives away: a name, an option, a prompt, a header.

The two tables, of configuration files with source code and of all other texts, are in the notation
of values.py. No rule begins at the beginning of a line, because tools put gutters there. Quotes are
matched as they are, and as JSON, HTML and URLs write them. A word beside a value proves little,
because code is full of `password = None`, so each rule has a check of the value (values.py).
"""

from upthread.core.redaction import values
from upthread.core.redaction.values import read_table

RULES = r"""
# --- configuration and source code --------------------------------------------------------------
named-secret, looks_random:
    (?i){WORD}[A-Za-z0-9_]{0,16}(?:{NAMES}|: *[^"=\n,(){}]{1,30}= *){OPEN}([^\s"'`\\]{8,}?){QUOTE}
    (?i){WORD}[A-Za-z0-9_]{0,16}{IS}([A-Za-z0-9+/_~.=-]{16,})(?:[\s,;&"'`<\\$\])}|]|$)
    # Encoded, changed, and of one member
    (?i){WORD}[\w-]{0,16}{QUOTE}?{IS}{TEXT}[^"\n]*{TEXT} *-> *{TEXT}([^"\n\\]{8,}){TEXT}
    # On the next line
    (?i){WORD}[A-Za-z0-9_]{0,16}{QUOTE}?{IS}\r?\n *{QUOTE}([^\s"'`\\]{8,}?){QUOTE}
    (?i)\b(?:unseal|recovery|root|master|backup) +(?:key|token|code)s? *[0-9]* *: *([^\s"'\\]{16,})
    (?i){WORD}(?:_?id)?{QUOTE}?(?:{IS}|\s+){QUOTE}?({UUID}){END}
    (?i){WORD}{QUOTE}? *[|\t] *([^\s|]{16,})
    # A file of Apple's
    (?i)<key>[^<]*(?:{WORD}|key)</key>[^<]*(?:<array>[^<]*<integer>[^<]*</integer>[^<]*)?<string>
        ([^<\s]{12,})
    # Alone on the next line. Not 40 digits, except after a colon: `git log` prints a commit's id
    # below its subject.
    (?i){WORD}[^\n]{0,80}\s*\n\s*([0-9a-f]{32,39}|[0-9a-f]{41,})[ \t\r]*(?:\n|$)
    (?i){WORD}[^\n]{0,80}: *[|>]?[+-]?[ \t\r]*\n\s*([0-9a-f]{40})[ \t\r]*(?:\n|$)
    (?i){WORD} *[*_`"']{1,3}([0-9a-f]{32,64})\b
    (?i)credentials\w*\([^)\n]*?{TEXT}([0-9a-f]{40,64}){TEXT}
    (?i)_salt{QUOTE}?{IS}{TEXT}([^\s"'\\]{8,}){TEXT}
    (?i)(?:key|auth|openweather|(?:\b|_)pat|license|hmac|signing|ntlm)(?:[_-]\w{1,12})?{QUOTE}?
        (?:{IS}| +){QUOTE}?([0-9a-z]{32,}){END}
named-secret, is_said:
    (?i)\b{NAMED}=({BARE}),
    (?i)\bx-[\w-]*(?:auth|key|token|secret)\w* +{QUOTE}({BARE}){QUOTE}
    (?i){PASSWORD}[^\n]*\$[^\n]*variables{QUOTE}: *\{[^{}\n]*?{QUOTE}({SAID}){QUOTE}
    (?i){NAMED}(?:: *[^"'=\n,(){}]{1,30}| string)? *= *(?:[\w:]+\()?{TEXT}([^\s"'\\/]{6,64}){TEXT}
    # `root_pw VALUE`, alone or at a line's end
    (?i)(?:(?:{NAMED}|authtok)\w{0,12}|[._-]key) +{QUOTE}?({BARE}){QUOTE}?;? *(?:{LINE}|$)
    # Sentences: `the password for the box is still VALUE`, `use VALUE as the password`
    (?i){TOLD}[^\n=(){}\[\];<>|\\]{0,60}?(?::|\xef\xbc\x9a|\xe2\x80[\x93-\x9c]|「|«|[`"'*]|\x20\(|\b(?:is
        |was|be|ist|est|es|er|jest|lautet)\b|\xc3[\xa8\xa9\xa4]r?\b|は|是|为
        |auf )[ \t]*(?:[a-z\xc3-\xdb\x80-\xbf]{2,11},? ){0,3}?[\x20\t"'`*_「“«]*({SAID})
    (?i){SPOKEN}[^\n=(){}\[\];<>|\\/]{0,60}?[ \t"'`*]({SAID})
    (?i)\b(?:set|chang\w+|reset|rotat\w+|setz\w*|\S*nder\w*|cambi\w+)\b[^\n]{0,60}?{TOLD}
        [^\n]{0,30}?\x20(?:from|to|von|auf|de|a|en|por) +["'`]?({SAID})
    (?i)[\s"'`(「]({SAID})["'`)」]{0,3} +(?:as|als|comme|como|come|is) +(?:\S+ +){0,3}?{TOLD}
    # Calls: `bcrypt.hash("VALUE")`, `login("bob", "VALUE")`, `setPassword("VALUE")`
    (?i)(?:crypt\w*\.\w+|\bcrypt|hashpw|password_hash|aes_\w+crypt|pbkdf2\w*|scrypt|argon2\w*
        |\blogin|authenticate|basic_?auth|credentials?|(?:set|add|with|use)_?(?:{NAMED}
        |api_?key))\( *(?:[^()\n]*?, *)?{OPEN}([^\s"'`\\(){}<>]{6,64}){QUOTE} *[,)]
    # XML whose element around or beside it has the name
    (?i)(?:{NAMED}|[._-]key)\w{0,16}(?:{QUOTE}?[^<>\n]*>)?\s*(?:</[^<>]*>\s*)?(?:<[^<>/]*>\s*){1,2}
        ([^<>\s]{6,64}) *</
    (?i)\b(?:value|val){QUOTE}? *[:=] *{QUOTE}([^\s"'<>\\]{6,}){QUOTE}[ ,]*{QUOTE}?(?:name
        |key){QUOTE}? *[:=] *{QUOTE}?[\w.-]*(?:{NAMED}|[_-]key)
    # `variable "api_token" { default = "VALUE" }`
    (?i){NAMED}\w{0,8}{QUOTE}?(?:{IS}| +by lazy +| *)\{\{?\s*(?:[^{}]{0,200}?\b(?:default|value
        |val){QUOTE}? *[:=] *)?{TEXT}([^\s"'\\]{6,64}){TEXT}
    (?i)\benv:\w*(?:{NAMED}|_key)\w*{QUOTE}?(?: +-value +| *= *){QUOTE}?({GIVEN})
    (?i)\binsert into\b[^\n]*{NAMED}[^\n]*\bvalues *\([^\n]*?'([^'\s@]{6,64})'
    # Lines below `secrets:`
    (?i)(?:^|\n)[^\n\w]*(?:secrets?|credentials|stringData|passwords|tokens
        |api_?keys){QUOTE}?: *\n(?:[^\n\w]*[\w.-]+: *[^\n]*\n){0,3}?[^\n\w]*
        [\w.-]+: *{QUOTE}?({BARE}){END}
    # `auth bob:VALUE`
    (?i)\b(?:auth|static|basic|creds?|credentials|zugangsdaten|accesos?|identifiants)\b
        [^\n:/]{0,30}?[ \t:=]+[\w.@-]+(?: / |:|/)({BARE})
    # Prompts
    (?i)(?:^|[\n?>]) *(?:\w+ ){0,4}?(?:api[\x20_-]key|token|secret|{SPOKEN})[:?]+ *({BARE}) *
        (?:{LINE}|$)
named-secret, is_chosen:
    (?i)(?:authenticator|2fa|totp|mfa|secret key|setup key)\b[^\n]{0,60}?\b((?:[a-z2-7]{4} ){3,}
        [a-z2-7]{4})\b
    (?i)\b(?:pwd|password)=\{([^{}\n]{6,})\}
    (?i)\buser(?:name)?=\S*[\s,;&]+(?:[^\n]* )?pass(?:word|wd)?=([a-z][\w!#%^*@?+$~.-]{5,})
        (?:{END}|,)
    (?i){PASSWORD}[^\n=(){}\[\];<>|\\",]{0,40}: +"([A-Za-z][^"\n]*[0-9][^"\n]*)"
    # `creds: bob / VALUE`, `log in with bob:VALUE`
    (?i)\b(?:creds?|credentials|log ?in|sign in|account|use)\b[^\n:/]{0,40}?[:\s]+[\w.@-]+(?: / |:
        |/)([^\s/:"'`,;().\\<>\[\]{}]{6,})(?:[\s,;.]|$)
    (?i){STRONG}{SET}{OPEN}([^\s"'`\\/(){}]{6,64}?){QUOTE}
    # A list of users of Redis
    \buser +\S+ +on\b[^\n]*? >(\S{6,})
    (?s)random_password.{0,600}?"result{TEXT}: *{TEXT}([^"\n\\]{8,}){TEXT}
named-secret, is_assigned:
    (?i)(?:{WORD}|(?:\b|[a-z_])pw){SET}{QUOTE}?({BARE}){END}
    (?i){STRONG}{SET}({BARE}){END}
    # A line of settings, whose value may hold any sign
    (?i)(?:^|\n)(?:export )?[\w.-]*{PASSWORD} ?[=:] ?((?:[^\s(){}\[\]$,;&\\"'`]|\\.){6,})
        [ \t]*(?:{LINE}|$)
    \b[A-Z][A-Z0-9_]*(?:PASSWORD|PASSWD|PASS|PWD)=([^\s"'`$<>{}();|]{6,64}) *(?:{LINE}|$)
    (?i){STRONG}{QUOTE} *, *{QUOTE}([^\s"'`\\/(){}:]{6,64}?){QUOTE}
    (?i)(?:{WORD}|(?:\b|_)(?:pass|pw)\b)(?:\[\])? +=? *"([^"\s]{6,64})"
    # A default: `password || "VALUE"`
    (?i){WORD}[\w\]"')]{0,16}\s*(?:\|\||\?\?|\bor\b|:-)\s*{TEXT}([^\s"'\\/(){}]{8,64}){TEXT}
    # `- name: DB_PASSWORD` and `value: VALUE`
    (?i)\b(?:name|key){QUOTE}? *[:=] *{QUOTE}?[\w.-]*(?:{WORD}|pass|[-_]key){QUOTE}?{NEXT}
        {QUOTE}?val(?:ue)?{QUOTE}? *[:=] *{QUOTE}?({BARE}){END}
    (?i)password[^\n]*\n[^\n:]{0,40}value: *({BARE}){END}
    (?i){WORD}\w{0,8}{QUOTE}{IS}\{[^{}:]{0,60}{QUOTE}(?:value|default|stringValue|secretValue
        |plain\w*|S){QUOTE} *: *{QUOTE}([^\s"'\\]{6,}){QUOTE}
    (?i){WORD}[\w-]{0,16}{QUOTE}?{IS}{TEXT}[^"\n]*{TEXT} *-> *{TEXT}([^\s"\n\\]{6,}){TEXT}
    # A function around it: `String::from("VALUE")`
    # R, Lua, Perl and Clojure; Gradle; Go's `%+v`
    (?i){STRONG}{QUOTE}?\]? *(?:<-|=>?) *(?:\[\[|q[qw]?[{(])([^\s\]}"')]{6,64})(?:\]\]|[})])
    # Below a heading
    (?i)(?:^|\n){GUTTER}(?:{WORD}|pass) *:? *\r?\n(?:{GUTTER}[-=]{3,} *\r?\n)?{GUTTER}({BARE}) *
        (?:\r?\n|$)
    # An array: `"passwords": ["VALUE"`
    (?i){WORD}s?{QUOTE}?{IS}\[(?:[^\]]{0,200}?, *)??\s*{TEXT}([^\s"'\\\[\]]{6,}){TEXT}
    # A block of YAML
    (?i){WORD}{NUMBERED}{QUOTE}? *: *[|>][+-]?[0-9]? *(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n
        |<br>){LAST_WORD}
    \bchpasswd:[^\n]*\n(?:[^\n]*\n){0,2}? *[\w-]+:({GIVEN})
    (?i)\b(?:(?:wpa[_-])?psk *[:=]|wpa-psk ) *({BARE}){END}
    # XML and HTML
    (?i)(?:{WORD}|pass)[\w-]{0,16}{QUOTE}?(?: [^<>\n]*)?(?:>|&gt;) *([^<>\s]{6,}?) *(?:</|&lt;/)
    # A registry of Windows, and secrets of strongSwan
    (?i){WORD}{QUOTE}? +REG_\w+ +({BARE})
    : *(?:PSK|XAUTH|EAP|NTLM) +"([^"\n]{6,})"
    (?i)(?:name|key|id|type)={QUOTE}[\w.:-]*(?:{WORD}|pass){QUOTE}[^<>\n]* value={QUOTE}
        ((?:[^"'<>\s\\&]|&[#\w]{1,8};){6,})
    # Prompts and sentences
    (?i)\b(?:enter|type|retype|new|current|give|paste)\b[^\n:]{0,60}(?:password|passphrase|pin|token
        |api[\x20_-]?key)[^\n:]{0,60}: *({BARE}){END}
    (?i)\b(?:pw|passwor[dt])(?:[ \t:]*[*`"']+|[^\n:]{0,30}? is (?:now )?)({BARE})
named-secret, is_set:
    (?i){PASSWORD}{SET}{OPEN}([a-z_.-]{6,64}){QUOTE}
    # A value that holds its own quote, behind a backslash or twice; JSON in JSON; all escaped
    (?i){STRONG}{SET}[bfruL@$]{0,2}"([^"\\\n]+(?:\\["'\\]|""|')(?:[^"\\\n]|\\.|"")*)"
    (?i){STRONG}{SET}[bfruL@$]{0,2}'([^'\\\n]+(?:\\["'\\]|''|")(?:[^'\\\n]|\\.|'')*)'
    (?i){STRONG}{NUMBERED}\\"{IS}\\"((?:[^"\\\n]|\\\\\\?["\\]?){4,}?)\\"
    (?i){STRONG}{SET}[bfruL@$]{0,2}{QUOTE}?((?:\\(?:u[0-9a-f]{4}|U[0-9a-f]{8}|x[0-9a-f]{2}|[0-7]{3})
        |&#x?[0-9a-f]{2,6};){6,})
    (?i){PASSWORD}[\w-]{0,16}(?: [^<>\n]*)?>\s*<!\[CDATA\[([^\n]{4,}?)\]\]>
    (?i){STRONG}{NUMBERED}='([^'\s]{6,64})'
    (?i){PASSWORD}{QUOTE}?(?: [^<>\n]*)?(?:>|&gt;) *([^<>\s]{6,}?) *(?:</|&lt;/)
    (?i)(?:name|key|id|type)={QUOTE}[\w.:-]*{PASSWORD}{QUOTE}[^<>\n]* value={QUOTE}
        ((?:[^"'<>\s\\&]|&[#\w]{1,8};){6,})
    (?i)<(?:key|name)>[^<]*{PASSWORD}</(?:key|name)>\s*<(?:string|value)>([^<\n]{4,})<
    (?i)<[^<>]*(?:{PASSWORD}|secret){QUOTE}?(?: [^<>]*)?>\s*<(?:value|string)[^<>]*>([^<\n]{4,})<
    (?i)(?:pass ?phrase|enter (?:\w+ )?password)[^\n]{0,80}: +
        ((?-i:(?:[a-z]+ ){2,7}(?:[A-Z]?[a-z]+ )*[a-z0-9]+)) *(?:{LINE}|$)
    (?i){PASSWORD}[^\n=(){}\[\];<>|\\"]{0,40} (?:should be|to|be|was|lautet) +"([^"\n\\]{6,64})"
    (?i)(?:^|[\n?]){GUTTER}(?:\w+ ){0,2}(?:password|passphrase)(?: for (?:'[^'\n]*'|"[^"\n]*"
        |[^\n:]{1,60}))?(?: \[[^\]\n]*\])?: +((?-i:[^\s"'`,;(){}\[\]<>:.A-Z]
        [^\s"'`,;(){}\[\]<>:.]{3,})) *(?:{LINE}|$)
    (?i){PASSWORD}[^\n=(){}\[\];<>|\\"]{0,40} (?:is|ist|est|es) +"([^"\n]{6,64})"
    (?i)\b(?:pin|puk)\b(?: code| number)?(?: is|:|=)? *([0-9]{4,8})\b
    (?i)\b(?:pin|(?:door|alarm|gate|access|safe|unlock|entry|pairing|pass|toegangs|deur
        |t\xc3\xbcr|zugangs)[ -]?code)\b(?:[^\n0-9=(){}]{0,40}?(?:\b(?:is|to|ist|es|est)(?: now| nu
        | jetzt| ahora| maintenant)?|:|=))? +{QUOTE}?([0-9]{4,8})\b
    # `const PASSWORD: &str = "VALUE"`, `Dim password As String = "VALUE"`, `password <- "VALUE"`
    (?i){PASSWORD}{NUMBERED}(?:: *[^"'=\n,(){}]{1,30}| As \w+)? *= *(?:[\w:]+\()?{TEXT}
        ([^\s"'\\/]{6,64}){TEXT}
    (?i){PASSWORD} *(?:<-|\|\||\?\?|\?=) *{TEXT}([^\s"'\\]{6,64}){TEXT}
    (?i){PASSWORD} *\?= *({BARE}){END}
    (?i)(?:password|passwd|passphrase|pwd),? +"([^"\s]{6,64})"
    (?i){PASSWORD}s{QUOTE}?{IS}\[\s*{TEXT}([^\s"'\\]{6,}){TEXT}
    (?i){PASSWORD}{QUOTE}?{IS}{TEXT}[^"\n]*{TEXT} *-> *{TEXT}([^\s"\n\\]{6,}){TEXT}
    # Arguments of a login
    (?:[Cc]redentials?|[Bb]asic_?[Aa]uth|\bauth{QUOTE}? *[:=] *|\.auth|[Aa]uthenticat\w+)[(\[] *
        {TEXT}[^\n"'\\]+{TEXT} *, *{TEXT}([^\s"'\\{}<>]{6,64}){TEXT} *[,)\]]
    # A block of YAML with one word
    (?i){PASSWORD}{NUMBERED}{QUOTE}? *: *[|>][+-]?[0-9]? *{LINE}[^A-Za-z\n]{0,24}({BARE}) *(?:{LINE}
        |$)
    # A pair of name and value, a form, a browser under test
    (?i)\b(?:name|key){QUOTE}? *[:=] *{QUOTE}?[\w.-]*{PASSWORD}{QUOTE}?{NEXT}{QUOTE}?value{QUOTE}? *
        [:=] *{QUOTE}?({BARE}){END}
    (?i){PASSWORD}:? *\n[^\n:\w]{0,40}value: *({BARE}){END}
    (?i)name="[\w-]*{PASSWORD}"\s*\n\s*\n(\S{4,})
    \.(?:fill|type|set_?[vV]alue)\([^\n]*?[pP]assw[^\n]*?{TEXT}, *{TEXT}{STRING}
    (?i)passw[^\n]{0,40}?(?:\)\.(?:fill|type|send_?keys|set_?value)\(|{TEXT}, *with: *){TEXT}
        {STRING}
    (?i)["'](?:password|passwd|pwd|pass)=([^"'\n&\\]{6,})\\*["']
    \bParameterKey=\w*(?:Password|Secret|Token|Key),ParameterValue=([^\s,"']{4,})
    (?i)(?:jwt|session|cookie|client|app|shared)[_-]?secret(?:[_-]?key)?{NAMES}{OPEN}
        ([\w -]{6,}){QUOTE}
    (?i)\bsecret_?key{NAMES}{OPEN}([^"'\n{}]{6,}){QUOTE}
    # Keys of libraries: `jwt.sign(payload, "VALUE")`
    (?:jwt\.(?:encode|decode|sign|verify)|createHmac|createCipher\w*)\([^()"'\n]*(?:{TEXT}
        [^"'\n]*{TEXT})?, *{OPEN}([^\n"'\\]{8,}){TEXT}
    (?:hmac\.new|HMAC\w*|Fernet|AES\.new)\( *{OPEN}([^\n"'\\]{8,}){TEXT}
    (?:mysqli|PDO)\( *{TEXT}[^\n"']*{TEXT}, *{TEXT}[^\n"']*{TEXT}, *{TEXT}{STRING}
    # Wireless networks
    (?i)wifi\w*\.(?:begin|connect)\( *{TEXT}[^\n"']+{TEXT}, *{TEXT}([^\n"']{8,}){TEXT}
    \bWIFI:[^\n]*?\bP:([^;\n]{8,});
    \.key='([^'\n]{8,63})'
    <auth-user-pass>\s*\n[^\n]*\n(\S{4,})
    (?:store|key)Password +{TEXT}([^\n"'\\]{6,}){TEXT}
    # Nothing but small letters: `password: correct-horse` on a line of its own, in a sentence
    (?i){PASSWORD}{NUMBERED}{IS}((?-i:[a-z]{6,}(?:-[a-z]+)*|[a-z]+(?:-[a-z]+)+)[0-9]?) *(?:{LINE}|$)
    (?i){PASSWORD}\b[^\n=(){}\[\];<>|\\]{0,40}(?: is| ist| est| es| lautet|:) +(?:`([\w-]{6,})`
        |"([\w-]{6,})"|((?-i:[a-z]{3,}(?:-[a-z]{3,})+)))
    (?i)\b(?:wpa[_-])?psk{QUOTE}? *[:=] *{TEXT}([^\n"'\\{}<>]{8,63}){TEXT}
    ConvertTo-SecureString\b[^\n]{0,40}?{TEXT}([^"'\n]{6,}){TEXT}
    #define +\w*(?:PASSWORD|PASSWD) +"([^"\s]{4,64})"
    #define +\w*PASS +"([^"\s]{0,63}[0-9][^"\s]{0,63})"
named-secret, is_real:
    \b(?:requirepass|masterauth|bindpw|rootpw) +(?:--\w+ +)*{QUOTE}?({BARE})
    \b(?:Cleartext-Password|User-Password) *:= *"([^"\n]{4,})"
    \bACL SETUSER\b[^\n]* >(\S{4,})
    \{PLAIN\}([^\s:"']{4,})
    (?i)\b(?:secret|userPassword|rootpw|passwd|remotepass) +"([^"\n]{6,})";
    (?i){PASSWORD}{SET}(?:'{3}|"{3})((?s:.{4,64}?))(?:'{3}|"{3})
    (?i)\b(?:nickserv|ns)\W{1,3}identify(?: +[\w|-]+)? +(\S{4,}) *(?:{LINE}|$)
    # A wireless network of Windows
    (?i)\bKey Content +: *(\S{6,})
    # Several words: `password = "four words and 2022"`
    (?i){STRONG}{IS}{TEXT}((?-i:[a-z]+)(?: [\w-]+){2,7}|(?:[a-z]+ )+[0-9]+[!?]?){TEXT}
    # A word in a login: `user=bob password=VALUE`
    (?i)\b(?:user(?:name)?|login)[\x20=:]+\S+[\s,;&]+(?:password|passwd|pwd|pass)(?: *[:=] *
        |=)((?-i:[a-z][\w!#%^*@&?$+~-]{5,}))(?:{END}|,)
    (?i)(?:^|[\s"'])[\w.-]*{PASSWORD}=((?-i:[a-z][\w-]{5,}))(?:["'\s&]|$)
named-secret, is_broken:
    # Cut over two lines
    (?i){WORD}[A-Za-z0-9_]{0,16}{QUOTE}?{IS}{QUOTE}?([A-Za-z0-9+/_~.=-]{12,}\\?\r?\n *
        [A-Za-z0-9+/_~.=-]{8,}){END}
named-secret, is_no_example:
    \bdefine\( *['"][A-Z_]*(?:KEY|SALT|PASSWORD|SECRET)['"] *, *(?:'([^'\n]{6,})'|"[^"\n]{6,}")
named-secret, is_mnemonic:
    # Words of a seed
    (?i)\b(?:mnemonic|seed|phrase|wallet|recovery|backup)\b[^\n]{0,80}\s*{GUTTER}((?-i:\b
        (?:[a-z]{3,8},? +){11,23}[a-z]{3,8}))
named-secret, anything:
    # A dump: hexadecimal of a line with a name
    (?i)(?:^|\n)[0-9a-f]{4,8}:? +((?:[0-9a-f]{2,4} +){4,16})\|?[^\n]{0,16}(?:passw|secret|token
        |_key)
    # A file or an answer of kubectl's: keys of any name, with base64
    (?s)\bdata: *\n((?:\s+[\w.-]+: +[A-Za-z0-9+/]{4,}={0,2} *\n)+)[^\n]*(?:\n
        [^\n]*){0,12}?kind: Secret
    # Base32 of one-time codes
    (?i)\b(?:[th]?otp|2fa|mfa|authenticator|setup key|seed)\b[^\n]{0,80}?[^\w]((?-i:[A-Z2-7]{16,64}
        |(?:[A-Z2-7]{4} ){3,}[A-Z2-7]{4}|(?:[a-z2-7]{4} ){7}[a-z2-7]{4}))\b
    # Escapes: `b"\x9d\x11…"`, and what a command is given by `printf`
    (?i)(?:{WORD}|key|salt|seed)[^\n"']{0,40}b?"((?:\\x[0-9a-f]{2}|[^\n"\\]){0,64}(?:\\x[0-9a-f]{2}
        [^\n"\\]?){4}[^\n"]*)"
    new char\[\] *\{((?: *'[^']{1,2}' *,?){6,})\}
    (?i)(?:pass|key)[\x20_-]?phrase{QUOTE}?{IS}{QUOTE}?((?:[a-z]{3,12}[\x20-]){3,}[a-z]{3,12})

"""


# --- all other texts ------------------------------------------------------------------------------


_TABLE = r"""
# --- words --------------------------------------------------------------------------------------

WORD = (?:passw(?:or)?d|passwd|passphrase|pwd|secret|token|credentials?|authtok|passwort|kennwort
        |senha|(?:api|app|access|admin|auth|private|secret|signing|encryption|master|account|service
        |client|hmac|shared)[\x20_.-]?key(?:-data)?)
STRONG_WORD = (?:passw(?:or)?d|passwd|passphrase|pwd|secret|authtok|passwort|kennwort|contrase(?:n
        |\xc3\xb1)a|senha|mot de passe|wachtwoord)
PASS = (?:\b|_|db|user|root|admin|mail|smtp|imap|ftp|ssh|smb|vnc|rdp|wifi|sql|bind|proxy|ldap|key
        |store|sudo|become|remote)pass
STRONG = (?:{STRONG_WORD}|{PASS})
PASSWORD = (?:passw(?:or)?d|passwd|passphrase|passwort|kennwort|contrase(?:n|\xc3\xb1)a|senha
        |mot de passe|wachtwoord|{PASS}|(?:\b|_|user|db|root|admin|bind)(?:pwd|pw))

# The words for a password in a sentence, in many languages.
SPOKEN = (?:passw[od]\w*|pass(?:phrase|code)|\bpwd?\b|\b(?:mdp|psw)\b|\b(?:pass|pin)(?: is| *[:=])
        |mot de passe|kennwort|contrase\S+a|senha|palavra|\bclave|wachtwoord|l\xc3\xb6senord\w*
        |passord|kodeord|adgangskode|salasana|has\xc5\x82[oa]|heslo|jelsz|parol|\xc5\x9fifre|lozinka
        |geslo|пароль|паролем|пароля|пароли|Пароль|гасло|κωδικ|סיסמ|كلمة|密码|密碼|口令|パスワード|暗証|비밀번호|암호
        |รหัสผ่าน|पासवर्ड)
# What a text has that has one of these names.
LABEL = (?i)passw|passphrase|pwd|pw\b|secret|token|credential|authtok|kennwort|contrase|senha
        |mot de passe|wachtwoord|(?:\b|[a-z_])pass *[^\w\s]|-\w*pass\b|(?:api|app|access|admin|auth
        |private|signing|encryption|master|account|service|client|hmac|shared)[\x20_.-]?key
        |(?-i:[A-Z]_KEY|_SALT|_PAT\b|CREDS)
NUMBERED = (?:[_.-]?[0-9]{1,2}|[_.-](?:prod|dev|test|staging|live|value|base|data|all|again))?
QUOTE = (?:\\*["'`]|\\+u002[27]|&quot;|&#3[49];|%2[27])
TEXT = \\*["']
STRING = ([^\n"'\\]{4,}){TEXT}
OPEN = (?:[bfruL@]{0,2}#?{QUOTE})
IS = [ \t]{0,8}(?:=>|:=|::?|=|%3[aAdD]) *(?:[&!]\w+ +)?
SET = {NUMBERED}{QUOTE}?\]?{IS}
NAMES = {QUOTE}?\]?{IS}
LINE = (?:\r?\n|(?:\\+r)?\\+n)
GUTTER = [^\w\n]{0,24}
END = (?:[\s;&"'`\\<|)\]]|%26|%22|\^@|$)
BARE = [^\s"'`\\(){}\[\]<>,;&|$%*][^\s"'`\\(){}\[\]<>,;&|]{5,}
GIVEN = [^\s"'`\\|&;()<>\[\]{}$,-][^\s"'`\\|&;()<>\[\]{},]{3,}
ARGUMENT = (?:{QUOTE}?({GIVEN})|'([^'\n\[][^'\n]{3,})'|"([^"\n\[][^"\n]{3,})")
# Reads a password on its standard input.
READS = (?:\b(?:chpasswd|passwd|kinit|smbpasswd|cryptsetup|mysql_config_editor|sudo (?:-\w+ )*-S)\b
        |-(?:stdinpass|-password-stdin|-with-token|-stdin|-passphrase-fd[ =]0)\b
        |-pass(?:in|out)? stdin|\bhtpasswd [^\n]*-\w*i)
# Prints a secret, whatever its name.
PRINTS = (?:\bpass (?:show )?[\w-]+/|\b(?:bw|rbw|op|gopass|lpass|keepassxc-cli|secret-tool|keyring
        |credstash|chamber|doppler|infisical|security|pulumi|terraform|vault|sops)\b[^\n]*
        \b(?:get|read|show|lookup|find-\S*password|output|decrypt|access|-field\S*)\b
        |secret[^\n]*\| *base64|get-(?:secret|param|password)|secret show|ssm get-param
        |versions access
        |initial-?password)
UUID = [0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}

# To the next member of an object: on the line, or on the next one behind whatever gutter.
NEXT = (?: *,? *|,? *(?:\r?\n|\\+n)(?:[^\n]*[^\nA-Za-z0-9])?)

# The last word on a line, whatever gutter is before it.
LAST_WORD = (?:(?:[^\n\\]|\\{1,8}t)* )({BARE}) *(?:[\r\n\\"'<`]|$)

# A word that is no name, because a digit or a sign is in it: the check decides.
SAID = [A-Za-z0-9\xc3-\xdb][^\s"'`\\(){}\[\]<>,;|\xe0-\xf4]*[0-9!#%^@&?+$_~-]
        (?:[^\s"'`\\(){}\[\]<>,;|\xe0-\xf4]*[^\s"'`\\(){}\[\]<>,;|\xe0-\xf4.:])?
LITERAL = {TEXT}[^"'\n]*{TEXT} *, *
NAMED = (?:passw\w{0,3}|passphrase|pwd|secret|token|credentials?|authtok|kennwort|contrase\S+a|senha
        |{PASS}|wachtwoord|(?:\b|[a-z_])pw|(?:api|access|auth|secret|private|account
        |client)[_.-]?key)
TOLD = (?:{SPOKEN}|token\b|\bsecret\b|\bcredentials?\b|(?:api|access)[\x20-]?(?:key|code)
        |schl\xc3\xbcssel\b|cl\xc3\xa9 |chave|chiave|\bkey for\b|ключ|密钥|密鑰|キー|トークン)

CODE = (?:door|alarm|gate|access|safe|unlock|entry|pairing|pass|verification|one-time|login|security
        |confirmation|backup|recovery|scratch|emergency)[\x20_-]?codes?

COOKIES = (?i)\bcookie(?:{QUOTE} *,|{QUOTE}? *[:=]) *\[?{QUOTE}?
SESSION = [\w.-]*(?:sess|sid|auth|token|jwt|login|remember|identity)[\w.-]*
COOKIE = =([^\s;,"'\\<>\[\]{}()$|]{12,})
ENVIRONMENT = \b(?:[A-Z0-9_]*(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?|CREDS|APIKEY
        |[A-Z]_KEY|_SALT)[A-Z0-9_]*|[A-Z0-9_]*(?:PASS|_PAT)|[A-Z0-9_]*[A-Z0-9]_PWD)
FLAG = -(?:-?[a-z0-9]+)*-?(?:password|passwd|passphrase|pass|pwd|secret|token|(?:api|access|secret
        |auth|private|account|master|encryption)-?key)
SHORT_FLAGS = \b(?:mongo\w*|ldap\w+|sqlcmd|bcp|(?:docker|podman|nerdctl|helm registry|az|oc|cf
        |doctl) login|sshpass|redis-cli|zip|unzip|rar|unrar|snmp\w+|plink|pscp|puttygen
        |rabbitmqadmin|lftp|cqlsh|clickhouse-client|influx|mosquitto_\w+|ssh-keygen|(?:vsce
        |ovsx) publish|psexec\w*|ipmitool|twine upload|isql|rdesktop|altool|notarytool|useradd
        |usermod|wget|svn|mount|evil-winrm|impacket-\w+|crackmapexec|bw|isql|add-generic-password
        |unlock-keychain|(?:gem|nuget|cargo|vault|npm) (?:push|login))

# --- tokens by the beginning that their vendors document -----------------------------------------
vendor-token, looks_random:
    \b(?:(?:ak|mch)_live_|vc[pirak]_|nf[pcoub]_|rnd_|napi_|hc[abx]i?[kc]_|ABSK|AKID|AKCp|bk(?:ua
        |pat)_|sgp_(?:local_|[a-fA-F0-9]{16}_)?|CCI(?:PAT|PRJ)_|rubygems_|packagist_[ou]ut_
        |sk-or-(?:v1-)?|sk_|pplx-|xai-|lsv2_(?:pt|sk)_|fc-|e2b_|csk-|fw_|wandb_v1_|apify_api_|rpa_
        |dtn_|c[ks]_|EAA[MC]|FLW(?:SECK|PUBK)(?:_TEST)?-|pdl_(?:live|sdbx)_apikey_|polar_(?:oat|pat
        |whs)_|xkeysib-|ph[cx]_|re_[A-Za-z0-9]{8}_|PMAK-|rdme_|sq[upa]_|CLOJARS_|EZ[AT]K|ico-|API-
        |pnu_|shippo_(?:live|test)_|pk_[0-9]{6,10}_|key-|pul-|cf(?:k|ut|at)_
        |sbp_)[A-Za-z0-9]{20,}(?:[._~=-]?\w+)*
    \b(?:cio|oy2|(?:crsr|key|live|test)_|(?:secret|console)-)([A-Za-z0-9]{30,})\b
    \b(?:LTAI|AQVN|HRKU-|sb_secret_|mdb_sa_sk_|nvapi-|tvly-|tgp_v1_|jina_|pcsk_|bb_live_|fo1_|fio-u-
        |dp\.(?:pt|st|ct|sa|scim|audit)\.(?:\w+\.)?|pscale_[a-z]+_|tskey-[a-z]+-|vercel_blob_rw_
        |fig[dorh]_|tfp_|rzp_(?:live|test)_|sntry[su]_|snyk_(?:uat|sat)\.(?:[0-9a-f]{8}\.)?
        |duffel_(?:test|live)_|sha256~|tk-us-|CFPAT-|sm_(?:aat|pat|sat)_|sl\.|pa-|bce-v3/ALTAK-)([\w./+~=-]{14,})
    \b((?:IQoJb3JpZ2lu|FwoGZXIvYXdz)[A-Za-z0-9/+=]{60,})
    \b((?:FlyV1 )?fm[12][ar]?_[\w+/=]{80,}|BSA[\w-]{27,28}\b|[ps]at\.[\w-]{22}\.[\w.-]+
        |pat[A-Za-z0-9]{14}\.\w+)
    \b(?:sdk|api|mob|[ps]k-lf|access-[a-z]+|pat-(?:na|eu|ap)[0-9])-{UUID}

# --- secrets by their form and their neighbours, without a word --------------------------------
url-password, is_real:
    [a-z0-9]://[^\s/:@"'<>`]*:([^\s/@"'<>`]+)@[A-Za-z0-9\[]
    \bjdbc:oracle:\w+:[^\s/:@"'<>`]+/([^\s/@"'<>`]+)@
    # Any characters but a port
    # The DSN of Go: `app:VALUE@tcp(mysql:3306)/billing`
    \b[\w.-]+:([^\s@:"'`/]{6,})@(?:tcp|unix)\(
url-password, looks_random:
    [a-z]://([A-Za-z0-9_-]{16,})@[a-z]
    # A password with characters that belong encoded
    [a-z0-9]://[\w.%+-]*:([^\s"'<>`]*[^\s"'<>`0-9/@][^\s"'<>`/]*[@/#?][^\s"'<>`/]*)@[\w-]+[.:]
        [\w.:-]+
    (?:^|[\s])[^\s@:]+@[\w.-]+:([A-Za-z0-9+/_-]{16,})(?:[\s]|$)
url-password, is_assigned:
    # `DOMAIN\user:VALUE`
    \b(?:[A-Z][A-Z0-9-]+|[\w-]+(?:\.[\w-]+)+)\\[\w.-]+:({GIVEN})
cookie, looks_random:
    # A file of curl's
    \t(?:TRUE|FALSE)\t/[^\t\n]*\t(?:TRUE|FALSE)\t[0-9]+\t[^\t\n]+\t(\S{16,})
flag-secret, is_given:
    \s-u +\\*["']?[^\s:"'/]+:\\*["']?({GIVEN})
named-secret, looks_random:
    # Base32 of one-time codes, in groups
    \b((?:[a-z2-7]{4}\x20){7}[a-z2-7]{4})\b
named-secret, is_said:
    \]:[0-9]+ +\S+:({GIVEN}) *(?:{LINE}|$)
named-secret, is_real:
    # Lists of users: pgbouncer, ppp, FreeRADIUS, Redis, Dovecot
    (?:^|\n){GUTTER}(?:"?[\w.@-]+"? +\* +"?([^"\s()]{6,})"? +\*\s*(?:\n|$)
        |"[\w.@-]+" +"([^"\s]{6,})" *(?:{LINE}|$))
named-secret, is_mnemonic:
    (?:^|[\n"'`:])\s*((?:[a-z]{3,8} ){11,23}[a-z]{3,8})\s*(?:$|[\n"'`])
named-secret, is_unpronounceable:
    # An app's password, of Google and Apple
    \b((?:[a-z]{4}\x20){3}[a-z]{4}|(?:[a-z]{4}-){3}[a-z]{4})\b
named-secret, anything:
    # A pass phrase, and numbered words of a seed
    ((?:\b[0-9]{1,2}[.:)] *[a-z]{3,8}[\s|,]+){11,}[0-9]{1,2}[.:)] *[a-z]{3,8})
    \b(?:printf|echo)\b[^\n]*?((?:\\x[0-9a-f]{2}){6,})
pgpass-password, is_real:
    (?:\*|\b[\w.-]+):(?:[0-9]{4,5}|\*):[A-Za-z*][\w.-]*:[A-Za-z][\w.-]*:([^\s:"'\\,()]{6,})
        (?:[\s"'\\<\]]|$)
private-key, looks_random:
    # Of a JSON web key
    \\*"d\\*" *: *\\*"([A-Za-z0-9_-]{40,})
bitcoin-key, looks_random:
    \b([5KL][1-9A-HJ-NP-Za-km-z]{50,51})\b
generated-password, looks_random:
    \b((?:[A-Za-z0-9]{6}-){2}[A-Za-z0-9]{6})\b
chosen-password, looks_random:
    \b((?:[A-Z][a-z]{2,}){2,}[0-9]{2,4}[!?#$%&*])

# A rule below matches only a text with one of these words.
NEED = (?i)passw|pass[ _-]?(?:phrase|code|in|out)|(?:\b|[a-z_-])pass\b|pwd|pw\b|secret|token|\bcred
        |signing|auth(?:[^o]|ori|$)|log_?in\b|log in|sign in|cookie|sess(?:ion)?_?id|s(?:ess\w*
        |id){QUOTE}|bearer|basic +|digest [^\n]*resp|saml|psk|(?:xauth|eap|ntlm) +"|[&?](?:[tkcs]=
        |[\w.-]*(?:sig\w*|key|code|appid)=)|_salt|ntlm|[._-]key(?: +|['"<\]=|]|{QUOTE})
        |-pw |[ /]r?p[:=]|<<<|\bnet1? +us|\bvault +|mysql|mariadb|(?:key|pat|license
        |hmac)[\w-]{0,13}{QUOTE}?\]?(?:{IS}| +){QUOTE}?[0-9a-z]{32}|\b7z|curl|oathtool
        |\s-[uUl][ =]+[^\s-]\S* +(?:--?\w\S*(?: +[^\s-]\S*)? +){0,2}-[pPw]
        |{SHORT_FLAGS}\b(?:[^\n|;&]|\\\r?\n)* -[pwPaNAX]|\$ [^\n]*key|\brand\b|pwgen|\bhttps? .*-a
        |base64 +-|nmcli|smbclient|sqlplus|lftp|openssl|signtool|rabbitmqctl|setcookie|unseal|{CODE}
        |mnemonic|\bphrase|wallet|\bseed|(?:root|master|account|api|ssh|option|isakmp|shared|private
        |setup)[ _-]?key|key(?: content|-string| +[0-9]| +for\b|<)|\b[th]?otp\b|2fa|mfa|\b(?:pin
        |puk)\b
        |__construct|(?:connect|connection|PDO|mysqli\w*)\(|hashpw|crypt(?:setup|\w*[.(])|cipher
        |argon2|pbkdf2|jwt\.|fernet|aes[._]|wifi|\.key=|community|pragma (?:re)?key|sp_add|identif
        |insert into|new char|\bdata: *\n|\{PLAIN|SETUSER|\buser +\S+ +on\b|accounts\W|OpenVPN
        |random_pass|334 UGFz|cl\xc3|env:|{TOLD}|(?:license|product|activation|serial)[ _-]?(?:key
        |code|number)?\W{1,4}[A-Z0-9]{4,6}-|zugang|acceso|(?:echo|printf) [^\n]*(?:\||\\x)
        |(?:\\x[0-9a-f]{2}[^\n"\\]?){4}|static:|(?:api|auth|access|subscription|functions?|master
        |admin|app|client)-key|config host|alias set|altool|(?:put|get)-param|attach|obscure|--show
        |hashcat|crack|--user|/(?:t|key|hooks?)/|impacket|\b(?:bw|rbw|op|gopass|lpass|sops
        |pulumi)\x20|snmp|hmac|login|ogin|assword
        |redential|ftp> *user|radius|tacacs|(?:recovery|backup|scratch|emergency)[ _-]*(?:code
        |key|token)|kinit|http-basic|htpasswd|passphrase-fd|openweather

# --- addresses and headers ----------------------------------------------------------------------
url-password, looks_random:
    # In a path, and in a query
    ://[^\s"'<>]*/(?:t|tokens?|key|secret|hooks?|webhooks?)/([\w-]{20,})
    (?i)[?&](?:amp;)?(?:[\w.-]{0,32}(?:{WORD}|pass|auth|sig|signature|key|code|appid)
        |[tkcs])=([^\s"'&<>\\;)#]{8,})
    # A map of Postfix, and `user@host:VALUE`
    sasl_passwd[^\n]*{LINE}(?:[^\n]*[^\w\n])?[\w.-]+@[\w.-]+:({GIVEN})
url-password, is_set:
    # Connection strings and queries
    (?i)[?&;"'](?:[\w.]*password|pwd)=([^\s&;"'<>\\]{4,})[&;"'\s]
    (?i)\b(?:data source|server|host|dsn|driver|uid|user(?:name| id)?)=[^\n]*;\s*(?:password
        |pwd) *=*(?:([^\s;"'\\{}<>]{4,})|"([^"\n]{4,})")
url-password, is_assigned:
    # The third argument: `connect("db", "user", "VALUE")`
    (?i)(?:connect|connection|PDO|mysqli|__construct)\([^()]{0,300}?,\s*{TEXT}[^\n"']*{TEXT},\s*
        (?:{TEXT}{STRING}|q{1,2}\{([^\n{}]{4,})\})
authorization, looks_random:
    (?i)\bauthorization["'\\]* *[:=,] *["'\\]*(?:[a-z][a-z0-9-]{0,16} +)?([A-Za-z0-9._~+/=-]{8,})
    (?i)\bbearer[ ,]+([A-Za-z0-9._~+/-]{8,}=*)
    (?i)\b(?:(?:x-[a-z-]*|[a-z-]*(?:api|auth|access|subscription|functions?|master|admin|app
        |client)-)(?:key|token|secret)|[a-z]+-token)["'\\]*{IS}([\w.~+/=-]{8,})
authorization, is_a_pair:
    (?i)\bbasic +([A-Za-z0-9+/]{8,}={0,2})
authorization, anything:
    \bAUTH(?:ENTICATE)? +(?:PLAIN|LOGIN|X?OAUTH\w*) +([A-Za-z0-9+/]{8,}={0,2})
    (?i)\bdigest [^\n]*\bresponse=\\*"([0-9a-f]{32})
    \bSAML(?:Response|Request)=([A-Za-z0-9+/%=]{40,})
    # What answers `Password:` in a dialogue of SMTP
    334 UGFzc3dvcmQ6[^\n]*\n[^\n]*?([A-Za-z0-9+/]{8,}={0,2})(?:\\r\\n.?)?\s*(?:\n|$)
cookie, looks_random:
    {COOKIES}[\w.-]+{COOKIE}
    {COOKIES}(?:[^\n]*?; *)??{SESSION}{COOKIE}
    \bcurl [^\n|;]*(?:-b|--cookie)[\x20=]{QUOTE}?[\w.-]+{COOKIE}
    (?i)\b(?:jsessionid|phpsessid|asp\.net_sessionid|connect\.sid|laravel_session|_?session_?id
        |sessionid)=([^\s;,"'&\\<>]{16,})
    # A pair: `"name": "connect.sid", "value": "VALUE"`
    (?i)\bname{QUOTE}? *[:=] *{QUOTE}?{SESSION}{QUOTE}{NEXT}{QUOTE}?value{QUOTE}? *[:=] *{QUOTE}
        ([^\s"'\\]{16,})

# --- command lines ------------------------------------------------------------------------------
flag-secret, is_set:
    (?i){FLAG}={QUOTE}?({GIVEN})
    [\s"'\[]--?(?:[a-z0-9]+-)*[a-z]*(?:password|passwd|passphrase|pass|pwd)(?: +{ARGUMENT}
        |{QUOTE}{NEXT}{QUOTE}({GIVEN}))
    {SHORT_FLAGS}\b(?:[^\n|;&]|\\\r?\n)* (?:-p|-w|-P|-pw|-a|-N|-A|-X) +{ARGUMENT}
    (?:\b(?:sudo|su|openssl|gpg|login|read -\w*s)\b|(?i:pass|secret|token|creds)|{READS})
        [^\n]*<<< *{ARGUMENT}
    \bsigntool\b[^\n]* /p +{ARGUMENT}
    (?i)\b(?:config|secrets?|env|variable) +(?:set|add|put|create)(?: +-\S+)* +\S*{PASSWORD} +
        {ARGUMENT}
    \brabbitmqctl\b[^\n|;&]* (?:add_user|change_password|authenticate_user) +
        [^\s-]\S* +{QUOTE}?({GIVEN})
    # A script of expect
    (?i)assword[^\n]*\r?\n?[^\n]*\bsend(?:_?line)?[ (]+(?:-- +)?{TEXT}([^\n"']{4,}?)(?:\\+[rn]
        |{TEXT})
    \bopenssl passwd\b[^\n|;]* ({GIVEN}) *(?:{LINE}|$)
    # Dialogues of IMAP, IRC and FTP
    (?:^|[\n>:]) *[A-Za-z]{0,3}[0-9.]+ LOGIN +(?:"[^"\n]*"|\S+) +(?:"([^"\n\\]{4,})"
        |({GIVEN}))\s*(?:\n|$)
    (?i)\bftp> *user +\S+ +({GIVEN})
    # `CONFIG GET requirepass` of Redis
    (?i)(?:{PASSWORD}|auth|requirepass)"\s*\n[^\n"\w]*2\) +"([^"\n\\]{4,})"
flag-secret, is_said:
    (?:^|[\n>:]) *PASS +:?({GIVEN}) *(?:{LINE}|$)
    (?i)\bidentify +(?:[\w-]+ +)?({GIVEN})\s*(?:{LINE}|$)
    # `wandb login VALUE`, `snyk auth VALUE`
    (?:[$#%>] |\n|^) *[a-z][\w-]* +(?:[a-z]+ +)?(?:login|auth\w*|set-(?:token|key)
        |[a-z]+-(?:auth)?token|register|activate|unlock) +(?:--?[\w-]+ +)?({GIVEN}) *(?:{LINE}|$)
flag-secret, is_assigned:
    # Any tool with a user and a password
    \s-(?:u|U|l|-user(?:name)?|-login)[ =]+[^\s-]\S* +
        (?:--?\w\S*(?: +[^\s-]\S*)? +){0,2}(?:-p|-P|-w|-pw) *{ARGUMENT}
    (?i)\bnet1?(?:\.exe)? +user +[^\s/]\S* +{QUOTE}?({GIVEN})
    (?i)\bnet +use\b[^\n]*/user:\S+ +({GIVEN})
    (?i)\bnet +use\b[^\n]* \\\\\S+ +({GIVEN})
flag-secret, is_given:
    (?i){FLAG}(?: +{ARGUMENT}|{QUOTE}{NEXT}{QUOTE}({GIVEN}))
    # Printed by a command that names it
    (?i)(?:^|\n){GUTTER}(?:\S*[$#%>] |PS [^\n>]*> *|Bash\()[^\n]*(?:{WORD}|pass|key|cred|cookie
        |pwgen|\brand\b|SecretString)[^\n]*\n{GUTTER}([^\s"'`\\|&;:()<>\[\]{}$,]{6,}) *(?:\r?\n|$)
    \s--(?:(?:proxy-)?user(?:name)?|creds?|login|(?:basic-?|http-?)?auth)[ =]+\\*["']?
        [^\s:"'/]+:\\*["']?({GIVEN})
    (?:--show\b|hashcat|crack)[^\n]*\n(?:[^\n]*\n){0,4}?[^\s:]+:([^\s:/][^\s:]{5,})(?:[\s:]|$)
    \b[\w.-]+/[\w.-]+:'([^'\n]{4,})'@
    {PRINTS}[^\n]*\n([^\s"'`\[{</-]\S{5,}) *(?:\r?\n|$)
    (?i)\b(?:config|configure|secrets?|env|variable) +(?:set|add|put|create)(?: +-\S+)* +{QUOTE}?\S*
        (?:{WORD}|authtoken|_auth|pass)[\w-]*{QUOTE}?[ \t=]+{QUOTE}?({GIVEN})
    (?i){WORD}(?: ID)? *\[[^\]\n]*\]: *({BARE})
    \b(?:echo|printf) +(?:-n +)?{QUOTE}?([A-Za-z0-9+/]{8,}={0,2}){QUOTE}? *\| *base64 +-{1,2}[dD]
    # A session of redis-cli, and the protocol of Redis
    \bAUTH(?:\s|\\r\\n)+\$[0-9]+(?:\s|\\r\\n)+({GIVEN})
    [>\n] *AUTH +(?:[\w.-]+ +)?({BARE}){END}
flag-secret, is_real:
    \bget secrets?\b[^\n]*\bbase64 +-{1,2}[dD][^\n]*\n(\S{6,}) *(?:\r?\n|$)
    ://\{\w*\}:\{\w*\}@[^\n]*?\.format\( *{TEXT}[^"'\n]*{TEXT} *, *{TEXT}([^"'\n]{4,}){TEXT}
    (?i)[ /](?:p|pass|password|pw|rp|pwd)[:=]{QUOTE}?([^\s"'`\\|&;()<>\[\]{}$,/]{6,}){QUOTE}?(?: +/
        |{LINE}|$)
    \bgh secret set +\S+[^\n]* (?:-b|--body)[\x20=]*{ARGUMENT}
    \b(?:secretsmanager|put-parameter|keyvault secret|secret set|set-secret
        |secrets versions)\b[^\n]*--?(?:secret-string|value|secret)[\x20=]+{ARGUMENT}
    \b(?:user-secrets set|config:set|secrets set|env set) +"?[\w:.-]+"?[\x20=]+{ARGUMENT}
    \b(?:config:set|secrets set|env set) [^\n]*? [A-Z_]+=([^\s"'\[]{4,})
    \bnmcli\b[^\n]* password +{ARGUMENT}
    \bwpa_passphrase +(?:"[^"\n]*"|\S+) +{ARGUMENT}
    \bpsk +['"]{2}([^"'\n]{8,63})
    \brclone obscure +{ARGUMENT}
    \b(?:bw unlock|vault login|cargo login|mysqladmin [^\n]*password|bw login +\S+@\S+) +{ARGUMENT}
    \b(?:mc alias set|mc config host add) +\S+ +\S+ +\S+ +{ARGUMENT}
    \bopenssl enc\b[^\n]* -k +{ARGUMENT}
    \b(?:xfreerdp|rdesktop|cmdkey|schtasks|wmic)\b[^\n]* /(?:p|pass|password|rp):? *{ARGUMENT}
    \bhttps? (?:[^\n]* )?(?:-a|--auth)[\x20=]\S+?:({GIVEN})
    \b(?:mysql\w*|mariadb[\w-]*|sshpass|7z)\b[^\n|;&]*[ \t"']-p{QUOTE}?({GIVEN})
    \s-U *{QUOTE}?[^\s%"']+%({GIVEN}){QUOTE}?
    -pass(?:in|out)? +{QUOTE}?pass:{ARGUMENT}
    \bhtpasswd +-[a-zA-Z]*b[a-zA-Z]* +\S+ +(?:\S+ +)?{QUOTE}?({GIVEN})
    \b(?:echo|printf) +(?:-\w+ +|['"]%s(?:\\n)?['"] +)?(?:{QUOTE}?(?:[\w.-]+:)?({GIVEN}?(?:\\n
        [^\n|"']*)?){QUOTE}?|'(?:[\w.-]+:)?([^'\n]{4,})'
        |"(?:[\w.-]+:)?([^"\n]{4,})") *\| *(?:[^\n|]*{READS}
        |(?:sudo +)?(?:gpg|openssl|su)\b)
    \bconfig +(?:--?\w+ +)*http-basic\.\S+ +\S+ +{ARGUMENT}
    (?i)\bsqlplus\b[^\n]*[ \t"'][\w.$]+/{QUOTE}?({GIVEN}){QUOTE}?@
    \blftp\b[^\n]* -u +[^\s,]+,({GIVEN})

    # A session of FTP or POP
    \bUSER [^\n]*\n(?:[^\n]*\n){0,4}?[^\n]*\bPASS +(\S{4,})
    \bPASS +(\S{4,})[^\n]*\n(?:[^\n]*\n)?[^\n]*(?:\b230 |\+OK)
flag-secret, looks_random:
    \bvault +[^\n|;&]* [\w.-]+={QUOTE}?({GIVEN})
cookie, anything:
    (?i)\berlang\.cookie[^\n]*{LINE}{GUTTER}([A-Z]{20})\b
    -setcookie +(\w{6,})
flag-secret, anything:
    {READS}[^\n]*<<-? *["']?\w+["']?[^\n]*\n([^\n]+(?:\n[^\n]+){0,9}?)\n *[A-Z_]+ *(?:\n|$)
    \boathtool\b[^\n|;]* ([A-Z2-7]{16,})
curl-password, is_real:
    \bcurl[ \t"',][^\n|;]*(?:-[uU]|--user|--proxy-user)(?:[\x20=]|["'],\x20?)?\\*
        ["']?[^\s:"'\\]+:\\*["']?([^\s"'\\]{3,})
netrc-password, is_real:
    (?i)\blogin +\S+{NEXT}password +([^\s"'\\,]+)

# --- environments -------------------------------------------------------------------------------
env-secret, is_real:
    {ENVIRONMENT}=({BARE}){END}
    \b(?:ENV|setx|setenv|set -g?x) +{ENVIRONMENT} +{QUOTE}?({BARE}){END}
env-secret, is_given:
    # `NEO4J_AUTH=user/VALUE`
    \bNEO4J_AUTH=["']?[\w.-]+/([^\s"'/]{6,})
env-secret, is_set:
    "{ENVIRONMENT}=([^\n"'\\{}<>]{6,})"
    {ENVIRONMENT}=["']([^\n"'\\{}<>]{6,})["']
    {ENVIRONMENT}=\\+["']([^\n"'\\{}<>]{6,})\\+["']
env-secret, is_assigned:
    # A default: `env_var('DB_PW', 'VALUE')`
    \({TEXT}(?:{ENVIRONMENT}|\b[A-Z_]+_PW){QUOTE}\s*,\s*{TEXT}([^\s"'\\]{6,}){TEXT}
env-secret, looks_random:
    _KEY{QUOTE}\] *= *{TEXT}([^\s"'\\]{16,}){TEXT}

"""

_OTHERS = r"""
# --- databases, devices and registries ----------------------------------------------------------
sql-password, is_set:
    (?i)\bpragma (?:re)?key *= *{TEXT}([^\n"']{4,}){TEXT}
    \bsp_(?:addlogin|password)\b[^\n]*?, *N?'([^'\n]{4,})'
    \b(?:SECRET|KEY) +'([^'\n]{6,})'
    (?i)\bset password\b[^\n;]*= *(?:password\()?{TEXT}([^\n"'`\\]{4,}){TEXT}
    (?i)\bpgp_sym_\w+\([^\n]*,\s*'([^'\n]{4,})'\)
    (?i)\bpassword *= *N{TEXT}([^\n"'`\\]{4,}){TEXT}
sql-password, is_real:
    (?i)\b(?:create|alter)\b[^\n;]* password +(?:'((?:[^'\\\n]|''){4,})'|{TEXT}
        ([^\n"'`\\]{4,}){TEXT}|\$\w*\$([^$\n]{4,})\$)
    (?i)\b(?:create|alter|grant|set)\b[^\n;]* identified[^\n;]* (?:by|as) +{TEXT}
        ([^\n"'`\\]{4,}){TEXT}
sql-password, is_assigned:
    (?i)\bpassword *[ \t(] *{TEXT}([^\s"'`\\]{4,}){TEXT}
    (?i)\bidentified +by +([^\s"'`;]{6,})
device-secret, is_set:
    (?:^|\n){GUTTER}(?:enable|username \S+(?: privilege [0-9]+)?) +(?:password
        |secret) +(?:[0-9] +)?({GIVEN})\s*(?:\n|$)
    \bset (?:psksecret|passwd|password|secret) +(?:ENC +)?({GIVEN})
    \boption key +{TEXT}([^'"\n]{8,}){TEXT}
    \bcachemgr_passwd +({GIVEN})
device-secret, is_given:
    \bkey +[0-9] +({GIVEN})
    \br[ow]community6? +({GIVEN})
    \bsnmp\w+ [^\n]*-c +({GIVEN})
    (?i)\bcommunity *: *({GIVEN})\s*(?:\n|$)
    (?i)\bpre-?shared-?(?:key|secret)(?:{IS}| +)(?:[a-z-]+ +)?{QUOTE}?({GIVEN})
    : *PSK +({GIVEN})
    \b(?:wpa[\w-]*|wep|psk) +(?:wpa2? )?(?:ascii|hex|key|passphrase) +(?:[0-9] +)?({GIVEN})
    \b(?:message-digest-key [0-9]+ md5|key-string|isakmp key|wpa-psk) +(?:[0-9] +)?({GIVEN})
    (?i)\b(?:chang\w+|reset|set)\b[^\n]{0,60}?password[^\n"]{0,20}? to ({GIVEN})
    (?i){PASSWORD} *\| *({BARE}) *(?:\n|$)
    (?i)\b(?:password|secret) +[0-9] +({GIVEN})
    \bsnmp-server +community +(\S{6,})
    \b(?:tacacs|radius)-server [^\n]*?key +(?:[0-9] +)?(\S{6,})
registry-auth, is_a_pair:
    \\*"auth\\*" *: *\\*"([A-Za-z0-9+/]{8,}={0,2})
registry-auth, looks_random:
    (?:^|[^A-Za-z0-9])_(?:auth(?:Token)?|password) *= *{QUOTE}?({BARE}){END}

# --- keys, hashes and codes ---------------------------------------------------------------------
private-key, anything:
    (?i)(?:key|secret)\w*\[\w*\] *= *\{\s*((?:0x[0-9a-f]{2},\s*){7,}0x[0-9a-f]{2})
    (?i)\b(?:accounts|private[_\x20]?keys?)\\*["']? *[:=][^\n\w]*0x([0-9a-f]{64})\b
    OpenVPN Static key V1-----((?:[^0-9a-f]{1,12}[0-9a-f]{32}){2,})
recovery-code, anything:
    (?i)\b(?:(?:backup|recovery|scratch|emergency|2fa)[\x20_-]?codes?|2fa backup)\b
        [^0-9]{0,160}?((?:(?:[0-9]{1,2}[.):] +)?
        (?:[0-9]{4,6}[ -]?[0-9]{4,6}|[0-9a-f]{5}-[0-9a-f]{5})
        [\s,;|*"-]*){2,})
    (?i)\b(?:backup|recovery)[\x20_-]code\b[^\n]{0,120}\s+([0-9a-f]{5}-[0-9a-f]{5})\b
    (?i)\b(?:verification|one-time|otp|2fa|mfa|login|security|confirmation)[\x20-](?:code|passcode
        |pin)(?: is|:)? *([0-9]{6,8})\b
    (?i)\b(?:license|product|activation|serial)[\x20_-]?(?:key|code|number)?\W{1,4}
        ((?:[A-Z0-9]{4,6}-){3,}[A-Z0-9]{4,6})\b
recovery-code, looks_random:
    (?i)\b(?:recovery|backup)_?codes?\\*" *:\s*\[((?:\s*\\*"[\w-]{8,16}\\*",?)+)\s*\]
    (?i)\b(?:recovery|backup|scratch|emergency)[\x20_-]codes?\b
        (?:[^\n]{0,120}\n){1,3}?((?:[^\n]{0,80}\b(?:[0-9a-z]{4,6}-[0-9a-z]{4,6}
        |[0-9a-f]{16,64})\b[^\n]{0,80}(?:\n|$)){2,})

# Passwords by their form, as macOS and people make them
"""

WORDS, CONTEXTS = read_table(_TABLE + RULES + _OTHERS, vars(values))
