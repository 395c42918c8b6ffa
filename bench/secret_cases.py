"""Texts with and without secrets, labelled: what detectors are measured on (docs/secrets.md).

No secret of anybody is in here, and none that looks like one: each is put together from a form and drawn characters
when the module runs, the same for the same seed. Contexts are those of agents' transcripts: what shells print, files
that are read, commands, code, and talk.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from hashlib import sha1, sha256, sha512
from typing import NamedTuple

from secret_forms import CONTEXTS, SEED, TOKENS, Draw


class Case(NamedTuple):
    """One text, and the secrets that stand in it; none in a hard negative."""

    name: str
    text: str
    secrets: tuple[str, ...] = ()


def _jwt(draw: Draw) -> str:
    head = draw.url64(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = draw.url64(json.dumps({"sub": draw.form("{d10}"), "iat": 1760000000}).encode())
    return f"{head}.{body}.{draw.url64(draw.bytes(32))}"


def _pem(draw: Draw, kind: str, size: int, line: int = 64) -> str:
    body = draw.base64(size)
    lines = [body[start : start + line] for start in range(0, len(body), line)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


def _body(pem: str) -> str:
    """The lines between the first and the last."""
    return "\n".join(pem.split("\n")[1:-1])


def _structured(draw: Draw) -> Iterator[Case]:
    """Secrets that are more than one word, or stand inside something."""
    for kind, size in (("RSA PRIVATE KEY", 600), ("PRIVATE KEY", 900), ("EC PRIVATE KEY", 120)):
        pem = _pem(draw, kind, size)
        yield Case(f"pem {kind}", f"$ cat key.pem\n{pem}\n$ ", (_body(pem),))
    pem = _pem(draw, "OPENSSH PRIVATE KEY", 1200, 70)
    yield Case("pem OPENSSH PRIVATE KEY", f"{pem}\n", (_body(pem),))
    pem = _pem(draw, "PGP PRIVATE KEY BLOCK", 1200)
    begin, end = pem.split("\n")[:: pem.count("\n")]
    armor = "\n".join([begin, "", _body(pem), f"={draw.base64(3)}", end])
    yield Case("pem PGP PRIVATE KEY BLOCK", f"{armor}\n", (_body(pem),))
    pem = _pem(draw, "PRIVATE KEY", 1100)
    account = {"type": "service_account", "private_key_id": draw.form("{h40}"), "private_key": pem + "\n"}
    yield Case("gcp service account", json.dumps(account, indent=2), (_body(pem).replace("\n", "\\n"),))
    for place in ("Authorization: Bearer ", "token=", "It expired: "):
        jwt = _jwt(draw)
        yield Case(f"jwt {place.strip()}", f"{place}{jwt}\n", (jwt,))
    for scheme in ("postgres", "postgresql+asyncpg", "mysql", "mongodb+srv", "redis", "amqp", "https"):
        password = draw.form("{A16}")
        # The only one of these that has no port.
        port = "" if scheme == "mongodb+srv" else ":5432"
        yield Case(f"uri {scheme}", f"DATABASE_URL={scheme}://app:{password}@db.acme.internal{port}/app\n", (password,))
    password = draw.form("{A12}")
    yield Case("basic", "curl -u admin:" + password + " https://acme.internal/api", (password,))
    basic = base64.b64encode(f"admin:{draw.form('{A18}')}".encode()).decode()
    yield Case("basic header", f"> Authorization: Basic {basic}\n> Accept: */*", (basic,))
    yield from _files(draw)
    hook = draw.form("T{U8}/B{U10}/{A24}")
    yield Case("slack hook", f"curl -X POST https://hooks.slack.com/services/{hook} -d @m.json", (hook[-24:],))
    hook = draw.form("{b68}")
    yield Case("discord hook", f"POST https://discord.com/api/webhooks/{draw.form('{d19}')}/{hook} 204", (hook,))
    key = draw.base64(64)
    text = f"DefaultEndpointsProtocol=https;AccountName=store;AccountKey={key};EndpointSuffix=core.windows.net"
    yield Case("azure storage", text, (key,))
    signature = draw.base64(32)
    quoted = signature.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    yield Case("azure sas", f"https://store.blob.core.windows.net/c/f?sv=2024-11-04&sp=r&sig={quoted}", (quoted,))
    password = draw.form("{A15}")
    yield Case("sql server", f"Server=tcp:db.acme.internal;Database=app;User Id=sa;Password={password};", (password,))


def _files(draw: Draw) -> Iterator[Case]:
    """Files that hold credentials and that agents like to read."""
    password = draw.form("{A20}")
    yield Case("netrc", f"machine git.acme.internal login ada password {password}\n", (password,))
    auth = base64.b64encode(f"ada:{draw.form('{A24}')}".encode()).decode()
    yield Case("docker config", json.dumps({"auths": {"docker.acme.internal": {"auth": auth}}}, indent=1), (auth,))
    secret = base64.b64encode(draw.form("{A24}").encode()).decode()
    yield Case("kubernetes secret", f"apiVersion: v1\nkind: Secret\ndata:\n  password: {secret}\n", (secret,))
    password = draw.form("{A18}")
    yield Case("pgpass", f"db.acme.internal:5432:app:app:{password}\n# ~/.pgpass\n", (password,))
    key = draw.base64(32)
    yield Case("wireguard", f"[Interface]\nPrivateKey = {key}\nAddress = 10.0.0.2/32\n", (key,))
    password = draw.form("{A14}")
    yield Case("compose", f"  db:\n    environment:\n      - MYSQL_ROOT_PASSWORD={password}\n", (password,))
    password = draw.form("{A16}")
    yield Case("xml", f"<datasource><user>app</user><password>{password}</password></datasource>", (password,))
    password = draw.form("{L5}{d3}#{L4}")
    yield Case("said", f"the admin password is {password} for the staging box", (password,))


def positives() -> list[Case]:
    """Texts with a secret in them, by the name of who issues it."""
    draw = Draw()
    cases = []
    for name, form, variable, context in TOKENS:
        secret = draw.form(form)
        cases.append(Case(f"{name} {context}", CONTEXTS[context].format(name=variable, secret=secret), (secret,)))
    return [*cases, *_structured(draw)]


def negatives() -> list[Case]:
    """Texts without one that look as if."""
    draw = Draw()
    draw.random.seed(SEED + 1)
    return [*_ids(draw), *_hashes(draw), *_opaque(draw), *_references(draw), *_code(draw)]


def _ids(draw: Draw) -> Iterator[Case]:
    forms = {
        "uuid": '{{"uuid": "{u}", "parentUuid": "{u}", "isSidechain": false}}',
        "session id": '{{"sessionId":"{u}","cwd":"/home/ada/notes"}}',
        "message id": '{{"id":"msg_01{A22}","type":"message","role":"assistant"}}',
        "toolu id": '{{"type":"tool_use","id":"toolu_01{A22}","name":"Read","input":{{}}}}',
        "call id": '{{"type":"function_call_output","call_id":"call_{A24}","output":"ok"}}',
        "response id": '{{"id":"resp_{h50}","object":"response"}}',
        "chat id": '{{"id":"chatcmpl-{A29}","object":"chat.completion"}}',
        "request id": '{{"requestId":"req_011C{A20}","type":"assistant"}}',
        "rs id": '{{"type":"reasoning","id":"rs_{h50}","summary":[]}}',
        "thread id": "thread_{A24} run_{A24} asst_{A24} file-{A22}",
        "session key": "session_key: 42, primary_key: id, foreign_key: user_id",
        "ulid": "01J{K23} is older than 01K{K23}",
        "trace id": "traceparent: 00-{h32}-{h16}-01",
        "container id": "CONTAINER ID   IMAGE\n{h12}   postgres:16\n{h12}   redis:7",
        "account id": "arn:aws:iam::{d12}:role/deploy-{a6}",
        "order id": "order_number=SO-{d10} token_count=18233 total_tokens=20311",
        "commit url": "https://git.example.com/team/app/commit/{h40}",
        "etag": 'ETag: W/"{h32}"\nX-Request-Id: {u}',
        "docid": "https://docs.example.com/document/d/{b44}/edit",
        "cache key": "cache_key: build-linux-{h64}",
        "key fingerprint": "SHA256:{B43} ada@laptop (ED25519)",
    }
    for name, form in forms.items():
        yield Case(
            name, draw.form(form.replace("{{", "\x01").replace("}}", "\x02")).replace("\x01", "{").replace("\x02", "}")
        )


def _hashes(draw: Draw) -> Iterator[Case]:
    data = draw.bytes(40)
    one, two, three = sha1(data).hexdigest(), sha256(data).hexdigest(), sha512(data).digest()
    integrity = "sha512-" + base64.b64encode(three).decode()
    module = "h1:" + base64.b64encode(sha256(data).digest()).decode()
    yield Case("git log", f"commit {one}\nAuthor: Ada <ada@example.com>\n\n    Rotate the token cache\n")
    yield Case("git reflog", f"{one[:8]} HEAD@{{0}}: commit: password reset page\n{one[8:16]} HEAD@{{1}}: rebase")
    yield Case("git tree", f"100644 blob {one}\tsecrets.py\n100644 blob {one[::-1]}\ttokens.py")
    yield Case("sha256sum", f"{two}  dist/app-1.2.0.tar.gz\n{two[::-1]}  dist/app.whl")
    yield Case("docker digest", f"FROM python:3.12@sha256:{two}")
    yield Case("npm lock", f'"node_modules/a": {{"version": "1.2.3", "integrity": "{integrity}"}}')
    yield Case(
        "yarn lock",
        f'"a@^1.0.0":\n  version "1.0.4"\n  resolved "https://r.example.com/a.tgz#{one}"\n  integrity {integrity}',
    )
    yield Case("go sum", f"example.com/mod v1.2.3 {module}\nexample.com/mod v1.2.3/go.mod {module[::-1]}")
    yield Case("cargo lock", f'[[package]]\nname = "secrecy"\nversion = "0.8.0"\nchecksum = "{two}"')
    yield Case("pip hashes", f"requests==2.32.0 \\\n    --hash=sha256:{two} \\\n    --hash=sha256:{two[::-1]}")
    yield Case("uv lock", f'sdist = {{ url = "https://f.example.com/p.tar.gz", hash = "sha256:{two}", size = 1 }}')
    yield Case("flake lock", f'"narHash": "sha256-{base64.b64encode(sha256(data).digest()).decode()}", "rev": "{one}"')
    yield Case("sri", f'<script src="/a.js" integrity="{integrity}" crossorigin></script>')
    yield Case("event hash", f'{{"seq":4,"prev":"{two}","type":"message"}}')
    yield Case("password column", f"SELECT id, password_hash FROM users; -- {one[:6]}")
    yield Case("md5 of assets", f"app.{two[:20]}.js  vendor.{two[20:40]}.css")


def _opaque(draw: Draw) -> Iterator[Case]:
    for size in (300, 3000):
        image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + draw.bytes(size)
        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image).decode()}
        yield Case(f"image {size}", json.dumps({"type": "image", "source": source}))
    yield Case("data url", f"background: url(data:image/woff2;base64,{draw.base64(900)})")
    block = {"type": "thinking", "thinking": "", "signature": "Er" + draw.base64(420)}
    yield Case("thinking signature", json.dumps(block))
    yield Case(
        "encrypted content", json.dumps({"type": "reasoning", "encrypted_content": "gAAAAA" + draw.form("{b900}")})
    )
    yield Case("thought signature", json.dumps({"functionCall": {"name": "ls"}, "thoughtSignature": draw.base64(500)}))
    yield Case("redacted thinking", json.dumps({"type": "redacted_thinking", "data": "Em" + draw.base64(600)}))
    yield Case("certificate", _pem(draw, "CERTIFICATE", 700))
    yield Case("public key", _pem(draw, "PUBLIC KEY", 290))
    yield Case("ssh public key", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{draw.form('{B43}')} ada@laptop")
    yield Case("ssh signature", _pem(draw, "SSH SIGNATURE", 190, 70))
    yield Case("known hosts", f"git.example.com ssh-rsa AAAAB3NzaC1yc2E{draw.form('{B300}')}")
    yield Case(
        "source map", '{"version":3,"mappings":"' + ";".join(draw.form("AA{L2}A,IAA{L4}") for _ in range(40)) + '"}'
    )
    yield Case("not a jwt", "eyJhIjoxfQ is base64 of a JSON object; a.b.c and 1.2.3 are versions")
    yield Case("jwt in words", "A JWT is header.payload.signature, for example eyJhbGciOi... (cut)")
    yield Case(
        "hexdump", "\n".join(f"{n:08x}  {draw.bytes(16).hex(' ')}  |................|" for n in range(0, 96, 16))
    )
    yield Case("coredump address", "0x7ffd" + draw.form("{h8}") + " in PyObject_Call () from /usr/lib/libpython3.11.so")
    yield Case("notebook output", json.dumps({"image/png": draw.base64(800), "text/plain": ["<Figure size 640x480>"]}))


def _references(draw: Draw) -> Iterator[Case]:
    texts = {
        "env var": "export OPENAI_API_KEY=$OPENAI_API_KEY\nexport TOKEN=${GITHUB_TOKEN:?not set}",
        "python env": 'api_key = os.environ["OPENAI_API_KEY"]\ntoken = os.getenv("GITHUB_TOKEN", "")',
        "node env": "const apiKey = process.env.STRIPE_SECRET_KEY; const password = config.get('db.password');",
        "workflow": "env:\n  NPM_TOKEN: ${{ secrets.NPM_TOKEN }}\n  PASSWORD: ${{ secrets.DB_PASSWORD }}",
        "compose": "environment:\n  POSTGRES_PASSWORD: ${POSTGRES_PASSWORD}\n  API_KEY: ${API_KEY:-}",
        "helm": "password: {{ .Values.auth.password | quote }}\nsecretName: {{ .Release.Name }}-tls",
        "placeholder": "OPENAI_API_KEY=your-api-key-here\nDB_PASSWORD=changeme\nSECRET_KEY=<secret>",
        "example": "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nTOKEN=YOUR_TOKEN_HERE\nsk-...",
        "asterisks": 'password: ********\ntoken = "****************abcd"\nsk-ant-***',
        "aws docs key": "AWS_ACCESS_KEY_ID=" + "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "aws docs secret": "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCY" + "EXAMPLEKEY",
        "localhost": "postgres://localhost:5432/app and redis://127.0.0.1:6379/0",
        "uri with reference": "postgres://app:${DB_PASSWORD}@db.example.com/app and mysql://user:password@host/db",
        "vault path": "secret/data/prod/api-key and op://vault/item/password",
        "terraform reference": "password = var.db_password\ntoken    = data.vault_secret.app.token",
        "keychain": 'security find-generic-password -s "app" -w; pass show prod/token',
        "docs": "Set the api_key parameter to the key from your dashboard. Keys begin with sk- or pk-.",
        "redacted before": "Authorization: Bearer [REDACTED]\napi_key=<redacted>\npassword=***",
        "our own mark": "Authorization: Bearer [redacted:github_token:1a2b3c4d]",
        "question": "Is the password stored hashed? Should the token be rotated? The secret is in the vault.",
        "path": "/etc/ssl/private/server.key /run/secrets/db_password ~/.ssh/id_ed25519",
        "error": "KeyError: 'password'\nPermissionError: token expired at 2026-11-02T10:00:00Z",
        "form field": '<input type="password" name="password" autocomplete="current-password" required>',
        "css": ".token.keyword{color:#07a}.token-punctuation{color:#999}",
        "type": "password: str | None = None\ntoken: Optional[SecretStr] = Field(default=None)",
        "schema": '{"properties": {"api_key": {"type": "string"}, "token": {"type": "string", "minLength": 20}}}',
        "counters": '{"input_tokens": 19231, "output_tokens": 512, "cache_read_input_tokens": 18220}',
        "command": "gh auth token | docker login ghcr.io -u ada --password-stdin",
        "generated at run time": "SECRET_KEY=$(openssl rand -hex 32)\npassword=$(pass show x)",
    }
    for name, text in texts.items():
        yield Case(name, text)
    yield Case("publishable", f"Stripe(pk_live_{draw.form('{A24}')}) is in the page, everybody may see it")
    yield Case("hash in url", f"https://cdn.example.com/{draw.form('{h32}')}/logo.png?v={draw.form('{h8}')}")


def _code(draw: Draw) -> Iterator[Case]:
    yield Case(
        "minified", "!function(e,t){" + ";".join(draw.form("var {l1}={l2}({l1}.{l6},{d2})") for _ in range(60)) + "}();"
    )
    yield Case("assigned call", "token = tokenizer.next_token()\npassword = getpass.getpass('Password: ')")
    yield Case("compare", 'if token == "EOF" or key == "Escape": return self.password_field')
    yield Case("constants", 'SECRET_HEADER = "X-Hub-Signature-256"\nTOKEN_TYPE = "Bearer"\nPASSWORD_MIN_LENGTH = 12')
    yield Case("test data", 'user = create_user(username="ada", password="password")\nassert login("ada", "test")')
    yield Case("regex", r'KEY = re.compile(r"sk-[A-Za-z0-9]{48}"); TOKEN = "ghp_[A-Za-z0-9]{36}"')
    yield Case(
        "enum", 'class Kind(Enum):\n    API_KEY = "api_key"\n    PASSWORD = "password"\n    TOKEN = "access_token"'
    )
    yield Case(
        "translation", '"auth.password.reset": "Reset your password",\n"auth.token.invalid": "This token is not valid"'
    )
    yield Case("dataframe", "df = df.set_index('customer_key').join(tokens, on='token_id')")
    yield Case("svg", '<path d="M12.5 3.2c' + " ".join(draw.form("{d2}.{d1}-{d1}.{d2}") for _ in range(50)) + 'z"/>')
    yield Case("glyph names", "uni0041uni0042uni0043AacuteAbreveAcircumflexAdieresisAgrave" * 3)
    yield Case("long identifier", "AbstractSingletonProxyFactoryBeanTokenResolverConfigurationManagerImpl2")
    yield Case("base64 words", base64.b64encode(b"The quick brown fox jumps over the lazy dog, twice.").decode())
    yield Case("floats", "weights = [" + ", ".join(draw.form("0.{d16}") for _ in range(40)) + "]")
    yield Case("dna", draw.some("ACGT", 400))


def cases() -> list[Case]:
    """All of them, those with a secret first."""
    return [*positives(), *negatives()]
