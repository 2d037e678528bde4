"""Passwords and keys as people write them down: each text marks the secret, «…»."""

from __future__ import annotations

from typing import Final

WRITTEN: Final[dict[str, tuple[str, ...]]] = {
    "configuration": (
        *("password: «<P1>»", "password: «<P2>»", "password: «<P3>»", "password: «<P4>»"),
        *("  password: '«<P2>»'", '  db_password: "«<P3>»"', "- password: «<P4>»  # rotate"),
        *("spring.datasource.password=«<P1>»", "spring.datasource.password=«<P2>»"),
        *("db.password = «<P3>»", "db.password: «<P4>»", "[client]\npassword=«<P1>»"),
        *("passwd = «<P4>»", "smtp_pass = «<P3>»", "admin.pwd=«<P2>»", "passphrase: «<P4>»"),
        *('"password": "«<P1>»",', '{"password":"«<P2>»","user":"app"}', '"db_pass": "«<P3>»"'),
        *('{"auth": {"pass": "«<P4>»"}}', 'password = "«<P2>»"', "password => '«<P3>»',"),
        *(
            'variable "x" {\n  password = "«<P4>»"\n}',
            'secret = "«<P3>»"',
            "client_secret: «<A32>»",
        ),
        *(
            'api_key = "«<A24>»"',
            "apiKey: «<A32>»",
            'auth_token: "«<h40>»"',
            "access_key: '«<b40>»'",
        ),
        *("secret_key_base: «<h128>»", "aws_secret_access_key = «<b40>»", "signing_key: «<h64>»"),
        *("ansible_become_pass: «<P2>»", "ansible_ssh_pass=«<P3>»", "ansible_password: «<P4>»"),
        *("define('DB_PASSWORD', '«<P2>»');", "define('AUTH_KEY', '«<b20> <b20> <b20>»');"),
        *(
            "machine ci.internal\nlogin deploy\npassword «<P2>»",
            "default login bob password «<P1>»",
        ),
        *("db.internal:5432:app:deploy:«<P2>»", "*:5432:*:postgres:«<P4>»"),
        *('{"auths":{"r.io":{"auth":"«YXBwOlNlY3JldDk4NzY=»"}}}', "//npm.corp/:_authToken=«<g>»"),
        *("_auth=«YXBwOlNlY3JldDk4NzY=»", "    token: «<A48>»", "client-key-data: «<b160>»"),
        *("- name: DB_PASSWORD\n  value: «<P2>»", '- name: API_TOKEN\n  value: "«<A24>»"'),
        *("requirepass «<A32>»", "PrivateKey = «<b43>»=", '"d": "«<w43>»"'),
        *('$env:DB_PASSWORD = "«<P4>»"', 'os.environ["DB_PASSWORD"] = "«<P2>»"'),
        *("admin:$apr1$<A8>$«<A22>»", "root:$6$<A16>$«<b86>»:19000:0:99999:7:::"),
        "app:$2y$10$«<A53>»",
        *('  psk="«<P2>»"', "psk=«<P3>»", "[wifi-security]\nkey-mgmt=wpa-psk\npsk=«<P1>»"),
        *("wpa-psk «<P4>»", 'auth=("bob","«<P2>»")', "r.get(u, auth=('bob', '«<P3>»'))"),
        *("password: >-\n  «<P2>»", "  db_password: |\n    «<P3>»\n  host: db"),
    ),
    "environments": (
        *('DB_PASS="«<P1>»"', "DB_PASS='«<P2>»'", "DB_PASS=«<P3>»", "export DB_PASSWORD=«<P1>»"),
        *('export DB_PASSWORD="«<P4>»"', "PGPASSWORD=«<P1>» psql -h db", "MYSQL_PWD=«<P2>» mysql"),
        *(
            'Environment="DB_PASSWORD=«<P1>»"',
            "Environment=API_TOKEN=«<A24>»",
            "SECRET_KEY=«<A32>»",
        ),
        *("ENV DB_PASSWORD=«<P2>»", "ENV DB_PASSWORD «<P3>»", "setx DB_PASSWORD «<P1>»"),
        *("docker run -e POSTGRES_PASSWORD=«<P1>» postgres", "REDIS_PASSWORD=«<P4>»"),
        *(
            "RAILWAY_TOKEN=«<g>»",
            "LINODE_TOKEN=«<h64>»",
            "DD_API_KEY=«<h32>»",
            "SSHPASS=«<P2>» ssh",
        ),
        *("CLOUDFLARE_API_TOKEN=«<w40>»", "AZURE_CLIENT_SECRET=«<A34>»", "JWT_SECRET='«<P4>»'"),
        'set -x GITHUB_TOKEN "«<A40>»"',
    ),
    "command lines": (
        *(
            "app --password «<P1>» --user bob",
            "app --password=«<P2>» --user bob",
            "app --password «<P3>»",
        ),
        *("app --password=«<P4>»", 'app --password "«<P2>»"', '["app", "--password", "«<P1>»"]'),
        *("app --db-password «<P4>»", "app --passphrase '«<P3>»'", "app --api-key «<A32>»"),
        *("app --token=«<A24>»", "mysql -u root -p«<P1>» app", "mysqldump -uroot -p'«<P2>»' app"),
        *(
            "mariadb -h db -p«<P4>»",
            "sshpass -p «<P1>» ssh bob@host",
            "sshpass -p'«<P2>»' scp a b:",
        ),
        *(
            "redis-cli -h r -a «<P1>» ping",
            "redis-cli --pass «<P3>» ping",
            "curl -u bob:«<P1>» https://x.io",
        ),
        *("curl --user 'bob:«<P2>»' https://x.io", "curl -ubob:«<P3>» https://x.io"),
        *(
            'curl -H "Authorization: Bearer «<A40>»" https://x.io',
            'curl -H "X-Api-Key: «<A32>»" x.io',
        ),
        *("htpasswd -b .htpasswd bob «<P1>»", "htpasswd -nbB bob «<P3>»"),
        *("docker login -u bob -p «<P1>» r.io", "helm install x --set db.password=«<P2>»"),
        *(
            "helm upgrade x --set auth.rootPassword=«<P3>»",
            "ansible-playbook x -e db_password=«<P4>»",
        ),
        *("wget --http-password=«<P1>» https://x.io", "openssl rsa -passin pass:«<P2>» -in k"),
        *("echo «<P1>» | sudo -S apt update", "echo 'bob:«<P3>»' | sudo chpasswd"),
        *("echo «<A40>» | docker login --password-stdin", "smbclient //h/s -U bob%«<P2>»"),
        *(
            "sqlcmd -S h -U sa -P «<P2>»",
            "ldapsearch -D cn=a -w «<P1>» -b dc=x",
            "mongosh -u a -p «<P3>»",
        ),
        "az login --service-principal -u x -p «<P4>»",
        *("rabbitmqctl add_user bob «<P1>»", "sudo rabbitmqctl change_password bob '«<P2>»'"),
        *("net user bob «<P2>» /add", 'net user "bob" «<P3>»', "curl -b 'sessionid=«<z32>»' x.io"),
    ),
    "addresses": (
        *(
            "postgres://app:«<P1>»@db:5432/app",
            "mysql://app:«<P3>»@db/app",
            "redis://:«<P2>»@r:6379/0",
        ),
        *(
            "amqp://app:«<P1>»@mq//",
            "mongodb+srv://app:«<P3>»@c.mongodb.net/x",
            "https://bob:«<P1>»@x.io/r.git",
        ),
        *("https://x-access-token:«<A40>»@github.com/a/b", "smtp://bob%40x.io:«<P1>»@mail:587"),
        *(
            "jdbc:postgresql://db/app?user=app&password=«<P1>»",
            "jdbc:mysql://db/app?password=«<P2>»",
        ),
        *("jdbc:oracle:thin:app/«<P1>»@db:1521/x", "jdbc:sqlserver://h;user=sa;password=«<P4>»;"),
        *("Server=h;Database=d;User Id=sa;Password=«<P1>»;", "Server=h;Uid=a;Pwd=«<P2>»;"),
        *(
            '"Default": "Server=h;Database=d;User Id=sa;Password=«<P3>»"',
            "host=db user=app password=«<P1>»",
        ),
        *("host=db password='«<P2>»' dbname=x", "https://x.io/a?api_key=«<A32>»&b=1"),
        *(
            "https://x.io/cb?access_token=«<A40>»",
            "DefaultEndpointsProtocol=https;AccountKey=«<b86>»==",
        ),
        "Endpoint=sb://x/;SharedAccessKey=«<b43>»=",
    ),
    "SQL and XML": (
        *(
            "CREATE USER app IDENTIFIED BY '«<P1>»';",
            "GRANT ALL ON *.* TO a IDENTIFIED BY '«<P2>»';",
        ),
        *(
            "ALTER USER a IDENTIFIED WITH mysql_native_password BY '«<P3>»';",
            "CREATE ROLE a PASSWORD '«<P1>»';",
            "CREATE LOGIN a WITH PASSWORD = N'«<P2>»';",
            "ALTER LOGIN a WITH PASSWORD=N'«<P3>»', CHECK_POLICY = OFF",
        ),
        *(
            "ALTER ROLE a WITH ENCRYPTED PASSWORD '«<P2>»';",
            "CREATE LOGIN a WITH PASSWORD = '«<P4>»';",
        ),
        *("SET PASSWORD FOR a = PASSWORD('«<P1>»');", "<password>«<P1>»</password>"),
        *("<db:password>«<P2>»</db:password>", '<user name="a" password="«<P3>»"/>'),
        *('<property name="password" value="«<P1>»"/>', '<entry key="db.password">«<P2>»</entry>'),
        *('<add key="DbPassword" value="«<P4>»"/>', '<input type="password" value="«<P1>»">'),
        *("&lt;password&gt;«<P3>»&lt;/password&gt;", '<string name="api_key">«<A32>»</string>'),
        '<connection password="«<P2>»" />',
    ),
    "headers": (
        *("Authorization: Bearer «<A40>»", "Authorization: Basic «YXBwOlNlY3JldDk4NzY=»"),
        *("Authorization: token «<h40>»", "authorization: Bearer «<w64>»", "X-Api-Key: «<A32>»"),
        *(
            "X-Auth-Token: «<h32>»",
            "PRIVATE-TOKEN: «<A24>»",
            "X-Vault-Token: «<A28>»",
            "Api-Key: «<h40>»",
        ),
        *('"Authorization": "Bearer «<A40>»"', "Bearer eyJhbGciOiJIUzI1NiJ9.«<w60>».«<w43>»"),
        *("Authorization: ApiKey «<A40>»", "Cookie: sessionid=«<z32>»"),
        *("Cookie: theme=dark; PHPSESSID=«<z26>»; lang=en", '"cookie": "JSESSIONID=«<U32>»"'),
        "Set-Cookie: connect.sid=s%3A«<w32>.<A43>»; Path=/; HttpOnly",
    ),
}
"""By family."""
