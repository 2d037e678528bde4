"""Secrets that no rule knows: by their looks, behind a word, below a column's name."""

import json

import pytest

from upthread.core.redaction.redactor import Redactor
from upthread.core.redaction.rules import BYTES_MAX, random_words

REDACTOR = Redactor(b"k" * 32)
ALONE = "9QNHeEhYl5Au1VZ5wA1gKhJcoYCX02Pp"
CERTIFICATE_LINE = "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ"


@pytest.mark.parametrize(
    "text",
    [
        f"$ az storage account keys list -o tsv\n«{ALONE}»\n",
        f'static let apiSecret: String = "«{ALONE}»"',
        f"[smtp.eu.mailgun.org]:587 ses.mailer:«{ALONE}»",
        f"curl https://rpc.acme.dev/v2/«{ALONE}»",
        '"result": "«tUSpTt+8%dNs{JxM_O-a+!}J»"',
        "Command: PASS «Jp3h.Xq+bSb63D»",
        "d-i passwd/root-password password «pdNe9r2CtBAOSR»",
        "PRIVMSG NickServ :IDENTIFY larkbot «IioGLtC48zmNfmw»",
        "das Kennwort lautet «LanternWalnut576@un» (steht im Wiki)",
        "Use the following password to proceed:\n\n«aK5107d3Xz88ac3a»\n\nThis may",
        "334 UGFzc3dvcmQ6\r\n>>> «cWM4QGZARTE5bl9hP1NhRw==»\r\n235 ok",
        "sqlplus -s hr_batch/«ZcaRDYj6Dj4FGT»@//ora19:1521/HRPRD",
        "mysqli_connect('db2', 'shop_rw', '«L847C1NTP3MM55Yd»', 'shop');",
        "[«" + ",".join(["239", "7", "113", "38"] * 16) + "»]",
        "const uint8_t aes_key[8] = {\n  «0xE8, 0x1A, 0x0A, 0x0E, 0x71, 0xD5, 0x88, 0xC6»\n};",
        "--certificate-key «cab651b43fd04e2ffd71a867e2ce4e5021d06e2eee3a3fe7cfd5f5f7d4a66147»",
        "id,email,password,role\n1,anna@acme.eu,«Ember%Cobalt57»,admin\n",
        'name,password\n"x","«Q9Q!g-z,NKA-A2PqV»"\n',
        " user | token\n------+-------\n bob  | «x91hq72bd04»\n(1 row)\n",
    ],
)
def test_a_secret_without_a_form_of_its_own_is_found(text):
    before, secret, after = text.replace("»", "«").split("«")
    redacted = REDACTOR.redact(before + secret + after)
    assert secret not in redacted
    assert redacted.startswith(before + "[redacted:")
    assert redacted.endswith("]" + after)


@pytest.mark.parametrize(
    "text",
    [
        f'"integrity": "sha512-{ALONE}=="',
        f"golang.org/x/text v0.3.0 h1:{ALONE}=",
        f'"node_id": "{ALONE}"',
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{ALONE} anna",
        "toolu_01AbC9dEfGh2JkLmNpQrStUv is the call",
        """env 'CODEX_HOME=/srv/V8-cZ2x/Q9dR/it'"'"'s mine' upthread tell""",
        "socket.J1939_PGN_PDU1_MAX and Options.OP_NO_TLSv1_3",
        "VGhpcyBpcyB0aGUgd2F5IG9mIHRoZSB3b3JsZA==",
        f"{CERTIFICATE_LINE}\n{CERTIFICATE_LINE[:-4]}\n",
        "A1b2" * (BYTES_MAX // 4 + 1),
        "import { TokenStore, OAuth2Error, X25519PrivateKey } from 'x'",
        f"inside{ALONE}(x)",
        "name,password\n",
        "def login(user, password, now):\n    a1b2c3d4e5 = f(1, 2)\n",
        "| measure | token |\n|---|---|\n| W6 | 8 writers |\n",
        "a,secret\nx,y,z1234567a\n",
        "make it compass,spin\nx1234567a,y1234567b\n",
        "Show the recovery codes once.\nImplement backup verification\nand document everything",
        "fix: refresh the token\n3f786850e387550fdab836ed7e6dc881de23001b\n",
        '#define PASS_THROUGH "transparent-mode2"',
        "for accounts 1 to 4, transaction 0x" + "4f" * 32,
        r"src\main.py:handler12 and key\nuser:abc123",
    ],
)
def test_what_only_looks_random_stays(text):
    assert REDACTOR.redact(text) is text


@pytest.mark.parametrize("session_id", ["r6jvP-Vptl4IRBECF2f4s", "tooluse_TQpuQ3oBGczpg0k_bS3B4F"])
def test_a_random_word_stays_where_it_is_an_id_and_a_known_secret_does_not(session_id):
    assert any(random_words(session_id.encode()))
    assert REDACTOR.redact_id(session_id) is session_id
    assert REDACTOR.redact_json({"call_id": session_id}) == {"call_id": session_id}
    assert REDACTOR.redact_id("ghp_" + "aB3dE6gH9" * 4).startswith("[redacted:github-token:")


def test_an_escape_before_a_word_is_not_part_of_it():
    for said in ("password: \x1fAbc1!xyZ9", "secret \nQ9gzN1kA2PqV7", f"\x8a{ALONE}"):
        document = REDACTOR.redact(json.dumps({"text": said}))
        assert "[redacted:" in json.loads(document)["text"]
