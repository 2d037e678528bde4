"""The rules for configuration files and source code; part of the table in contexts.py."""

from typing import Final

RULES: Final = r"""
# --- configuration and source code --------------------------------------------------------------
named-secret, looks_random:
    (?i){WORD}[A-Za-z0-9_]{0,16}{NAMES}{OPEN}([^\s"'`\\]{8,}?){QUOTE}
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
    (?i)(?:key|auth|(?:\b|_)pat|license|hmac|signing|ntlm)(?:[_-]\w{1,12})?{QUOTE}?(?:{IS}
        | +){QUOTE}?([0-9a-z]{32,}){END}
named-secret, is_said:
    (?i)\b{NAMED}=({BARE}),
    (?i)\bx-[\w-]*(?:auth|key|token|secret)\w* +{QUOTE}({BARE}){QUOTE}
    (?i){PASSWORD}[^\n]*\$[^\n]*variables{QUOTE}: *\{[^{}\n]*?{QUOTE}({SAID}){QUOTE}
    (?i){NAMED}(?:: *[^"'=\n,(){}]{1,30}| string)? *= *(?:[\w:]+\()?{TEXT}([^\s"'\\/]{6,64}){TEXT}
    # `root_pw VALUE`, alone or at a line's end
    (?i)(?:(?:{NAMED}|authtok)\w{0,12}|[._-]key) +{QUOTE}?({BARE}){QUOTE}?;? *(?:{LINE}|$)
    # Sentences: `the password for the box is still VALUE`, `use VALUE as the password`
    (?i){TOLD}[^\n=(){}\[\];<>|\\]{0,60}?(?::|\xef\xbc\x9a|\xe2\x80[\x93-\x9c]|「|«|[`"'*]|\b(?:is
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
        ([^"'<>\s\\&]{6,})
    # Prompts and sentences
    (?i)\b(?:enter|type|retype|new|current|give|paste)\b[^\n:]{0,60}(?:password|passphrase|pin|token
        |api[\x20_-]?key)[^\n:]{0,60}: *({BARE}){END}
    (?i)\b(?:pw|passwor[dt])(?:[ \t:]*[*`"']+|[^\n:]{0,30}? is (?:now )?)({BARE})
named-secret, is_set:
    (?i){PASSWORD}{SET}{OPEN}([a-z_.-]{6,64}){QUOTE}
    (?i){STRONG}{NUMBERED}='([^'\s]{6,64})'
    (?i){PASSWORD}{QUOTE}?(?: [^<>\n]*)?(?:>|&gt;) *([^<>\s]{6,}?) *(?:</|&lt;/)
    (?i)(?:name|key|id|type)={QUOTE}[\w.:-]*{PASSWORD}{QUOTE}[^<>\n]* value={QUOTE}
        ([^"'<>\s\\&]{6,})
    (?i)<(?:key|name)>[^<]*{PASSWORD}</(?:key|name)>\s*<(?:string|value)>([^<\n]{4,})<
    (?i)<[^<>]*(?:{PASSWORD}|secret){QUOTE}?(?: [^<>]*)?>\s*<(?:value|string)[^<>]*>([^<\n]{4,})<
    (?i)pass ?phrase[^\n:]{0,40}: +((?-i:(?:[a-z]+ ){2,7}[a-z0-9]+)) *(?:{LINE}|$)
    (?i){PASSWORD}[^\n=(){}\[\];<>|\\"]{0,40} (?:should be|to|be|was|lautet) +"([^"\n\\]{6,64})"
    (?i)(?:^|[\n?]){GUTTER}(?:\w+ ){0,2}(?:password|passphrase)(?: for (?:'[^'\n]*'|"[^"\n]*"
        |[^\n:]{1,60}))?(?: \[[^\]\n]*\])?: +((?-i:[^\s"'`,;(){}\[\]<>:.A-Z]
        [^\s"'`,;(){}\[\]<>:.]{3,})) *(?:{LINE}|$)
    (?i){PASSWORD}[^\n=(){}\[\];<>|\\"]{0,40} (?:is|ist|est|es) +"([^"\n]{6,64})"
    (?i)\bpin\b(?: code| number)?(?: is|:|=)? *([0-9]{4,8})\b
    (?i)\b(?:pin|(?:door|alarm|gate|access|safe|unlock|entry|pairing|pass)[ -]?code)\b
        (?:[^\n0-9=(){}]{0,40}?(?:\b(?:is|to|ist|es|est)|:|=))? +{QUOTE}?([0-9]{4,8})\b
    # `const PASSWORD: &str = "VALUE"`, `Dim password As String = "VALUE"`, `password <- "VALUE"`
    (?i){PASSWORD}{NUMBERED}(?:: *[^"'=\n,(){}]{1,30}| As \w+)? *= *(?:[\w:]+\()?{TEXT}
        ([^\s"'\\/]{6,64}){TEXT}
    (?i){PASSWORD} *(?:<-|\|\||\?\?|\?=) *{TEXT}([^\s"'\\]{6,64}){TEXT}
    (?i){PASSWORD} *\?= *({BARE}){END}
    (?i)(?:password|passwd|passphrase|pwd),? +"([^"\s]{6,64})"
    (?i){PASSWORD}s{QUOTE}?{IS}\[\s*{TEXT}([^\s"'\\]{6,}){TEXT}
    (?i){PASSWORD}{QUOTE}?{IS}{TEXT}[^"\n]*{TEXT} *-> *{TEXT}([^\s"\n\\]{6,}){TEXT}
    # Arguments of a login
    (?:[Cc]redentials?|[Bb]asic_?[Aa]uth|\bauth{QUOTE}? *[:=] *|\.auth|authenticate)[(\[] *{TEXT}
        [^\n"'\\]+{TEXT} *, *{TEXT}([^\s"'\\{}<>]{6,64}){TEXT} *[,)\]]
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
    \b(?:requirepass|masterauth|bindpw|rootpw) +{QUOTE}?({BARE})
    \b(?:Cleartext-Password|User-Password) *:= *"([^"\n]{4,})"
    \bACL SETUSER\b[^\n]* >(\S{4,})
    \{PLAIN\}([^\s:"']{4,})
    (?i)\b(?:secret|userPassword|rootpw|passwd|remotepass) +"([^"\n]{6,})";
    # A wireless network of Windows
    (?i)\bKey Content +: *(\S{6,})
    # Several words: `password = "four words and 2022"`
    (?i){STRONG}{IS}{TEXT}((?-i:[a-z]+)(?: [\w-]+){2,7}){TEXT}
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
