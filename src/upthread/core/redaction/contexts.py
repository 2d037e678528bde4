"""Secrets that the text beside them gives away: a name, an option, a prompt, a header.

The table is in the notation of notation.py. No rule begins at the beginning of a line, because
tools put gutters there. Quotes are matched as they are, and as JSON, HTML and URLs write them. A
word beside a value proves little, because code is full of `password = None`, so each rule has a
check of the value (values.py).
"""

from __future__ import annotations

from typing import Final

from upthread.core.redaction import configuration, values
from upthread.core.redaction.notation import read_table

_TABLE: Final = r"""
# --- words --------------------------------------------------------------------------------------

WORD = (?:passw(?:or)?d|passwd|passphrase|pwd|secret|token|credentials?|authtok|passwort|kennwort
        |senha|(?:api|app|access|admin|auth|private|secret|signing|encryption|master|account|service
        |client|hmac|shared)[\x20_.-]?key(?:-data)?)
STRONG_WORD = (?:passw(?:or)?d|passwd|passphrase|pwd|secret|authtok|passwort|kennwort|contrase(?:n
        |\xc3\xb1)a|senha|mot de passe|wachtwoord)
PASS = (?:\b|_|db|user|root|admin|mail|smtp|imap|ftp|ssh|ldap|key|store|sudo|become|remote)pass
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
ARGUMENT = (?:{QUOTE}?({GIVEN})|'([^'\n]{4,})'|"([^"\n]{4,})")
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
    # A map of Postfix
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
        |{SHORT_FLAGS}\b(?:[^\n|;&]|\\\r?\n)* -[pwPaNAX]|\$ [^\n]*key|\brand\b|pwgen|\bhttps? .*-a
        |base64 +-|nmcli|smbclient|sqlplus|lftp|openssl|signtool|rabbitmqctl|setcookie|unseal|{CODE}
        |mnemonic|\bphrase|wallet|\bseed|(?:root|master|account|api|ssh|option|isakmp|shared|private
        |setup)[ _-]?key|key(?: content|-string| +[0-9]| +for\b|<)|\b[th]?otp\b|2fa|mfa|\bpin\b
        |__construct|(?:connect|connection|PDO|mysqli\w*)\(|hashpw|crypt(?:setup|\w*[.(])|cipher
        |argon2|pbkdf2|jwt\.|fernet|aes[._]|wifi|\.key=|community|pragma (?:re)?key|sp_add|identif
        |insert into|new char|\bdata: *\n|\{PLAIN|SETUSER|\buser +\S+ +on\b|accounts\W|OpenVPN
        |random_pass|334 UGFz|cl\xc3|env:|{TOLD}|(?:license|product|activation|serial)[ _-]?(?:key
        |code|number)?\W{1,4}[A-Z0-9]{4,6}-|zugang|acceso|(?:echo|printf) [^\n]*(?:\||\\x)
        |(?:\\x[0-9a-f]{2}[^\n"\\]?){4}|static:|(?:api|auth|access|subscription|functions?|master
        |admin|app|client)-key|config host|alias set|altool|put-param|snmp|hmac|login|ogin|assword
        |redential|ftp> *user|radius|tacacs|recovery|backup

# --- addresses and headers ----------------------------------------------------------------------
url-password, looks_random:
    # In a query
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
    \b(?:sudo|kinit|cryptsetup|passwd|su|openssl|gpg|login|chpasswd|read -\w*s)\b
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
    (?i)\bnet1?(?:\.exe)? +user +[^\s/]\S* +{QUOTE}?({GIVEN})
    (?i)\bnet +use\b[^\n]*/user:\S+ +({GIVEN})
    (?i)\bnet +use\b[^\n]* \\\\\S+ +({GIVEN})
flag-secret, is_given:
    (?i){FLAG}(?: +{ARGUMENT}|{QUOTE}{NEXT}{QUOTE}({GIVEN}))
    # Printed by a command that names it
    (?i)(?:^|\n){GUTTER}(?:\S*[$#%>] |PS [^\n>]*> *|Bash\()[^\n]*(?:{WORD}|pass|key|cred|cookie
        |pwgen|\brand\b|SecretString)[^\n]*\n{GUTTER}([^\s"'`\\|&;:()<>\[\]{}$,]{6,}) *(?:\r?\n|$)
    (?i)\b(?:config|configure|secrets?|env|variable) +(?:set|add|put|create)(?: +-\S+)* +{QUOTE}?\S*
        (?:{WORD}|authtoken|_auth|pass)[\w-]*{QUOTE}?[ \t=]+{QUOTE}?({GIVEN})
    (?i){WORD}(?: ID)? *\[[^\]\n]*\]: *({BARE})
    \b(?:echo|printf) +(?:-n +)?{QUOTE}?([A-Za-z0-9+/]{8,}={0,2}){QUOTE}? *\| *base64 +(?:-d|-D
        |--decode)
    # A session of redis-cli, and the protocol of Redis
    \bAUTH(?:\s|\\r\\n)+\$[0-9]+(?:\s|\\r\\n)+({GIVEN})
    [>\n] *AUTH +(?:[\w.-]+ +)?({BARE}){END}
flag-secret, is_real:
    (?i)[ /](?:p|pass|password|pw|rp|pwd)[:=]{QUOTE}?([^\s"'`\\|&;()<>\[\]{}$,/]{6,}){QUOTE}?(?: +/
        |{LINE}|$)
    \bgh secret set +\S+[^\n]* (?:-b|--body)[\x20=]*{ARGUMENT}
    \b(?:secretsmanager|put-parameter|keyvault secret|secret set|set-secret
        |secrets versions)\b[^\n]*--?(?:secret-string|value|secret)[\x20=]+{ARGUMENT}
    \b(?:user-secrets set|config:set|secrets set|env set) +"?[\w:.-]+"?[\x20=]+{ARGUMENT}
    \b(?:config:set|secrets set|env set) [^\n]*? [A-Z_]+=([^\s"'\[]{4,})
    \bnmcli\b[^\n]* password +{ARGUMENT}
    \bwpa_passphrase +(?:"[^"\n]*"|\S+) +{ARGUMENT}
    \b(?:bw unlock|vault login|cargo login|mysqladmin [^\n]*password|bw login +\S+@\S+) +{ARGUMENT}
    \b(?:mc alias set|mc config host add) +\S+ +\S+ +\S+ +{ARGUMENT}
    \bopenssl enc\b[^\n]* -k +{ARGUMENT}
    \b(?:xfreerdp|rdesktop|cmdkey|schtasks|wmic)\b[^\n]* /(?:p|pass|password|rp):? *{ARGUMENT}
    \bhttps? (?:[^\n]* )?(?:-a|--auth)[\x20=]\S+?:({GIVEN})
    \b(?:mysql\w*|mariadb[\w-]*|sshpass|7z)\b[^\n|;&]*[ \t"']-p{QUOTE}?({GIVEN})
    \bsmbclient\b[^\n|;&]*-U *{QUOTE}?[^\s%]+%({GIVEN})
    -pass(?:in|out)? +{QUOTE}?pass:({GIVEN})
    \bhtpasswd +-[a-zA-Z]*b[a-zA-Z]* +\S+ +(?:\S+ +)?{QUOTE}?({GIVEN})
    \b(?:echo|printf) +(?:-\w+ +|['"]%s(?:\\n)?['"] +)?{QUOTE}?(?:[\w.-]+:)?({GIVEN}?(?:\\n
        [^\n|"']*)?){QUOTE}? *\| *(?:sudo +-S|[^\n|]*--(?:password-stdin|with-token|stdin)
        |(?:sudo +)?(?:chpasswd|passwd|cryptsetup|kinit|gpg|openssl|smbpasswd|su)\b)
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

_OTHERS: Final = r"""
# --- databases, devices and registries ----------------------------------------------------------
sql-password, is_set:
    (?i)\bpragma (?:re)?key *= *{TEXT}([^\n"']{4,}){TEXT}
    \bsp_(?:addlogin|password)\b[^\n]*?, *N?'([^'\n]{4,})'
    \bSECRET +'([^'\n]{6,})'
    (?i)\bset password\b[^\n;]*= *(?:password\()?{TEXT}([^\n"'`\\]{4,}){TEXT}
    (?i)\bpgp_sym_\w+\([^\n]*,\s*'([^'\n]{4,})'\)
    (?i)\bpassword *= *N{TEXT}([^\n"'`\\]{4,}){TEXT}
sql-password, is_real:
    (?i)\b(?:create|alter)\b[^\n;]* password +(?:{TEXT}([^\n"'`\\]{4,}){TEXT}|\$\w*\$([^$\n]{4,})\$)
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
    \b(?:message-digest-key [0-9]+ md5|key-string|isakmp key|wpa-psk ascii) +(?:[0-9] +)?({GIVEN})
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
    (?i)\b(?:backup|recovery)[\x20_-]codes?\b[^\n0-9]{0,20}((?:[0-9]{4,6}-?[0-9]{4,6}[,;\s]*){2,})
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

WORDS, CONTEXTS = read_table(_TABLE + configuration.RULES + _OTHERS, vars(values))
