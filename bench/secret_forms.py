"""Forms of secrets, the texts that they stand in, and what draws them (for `secret_cases`)."""

from __future__ import annotations

import base64
import random
import re
import string
import uuid
import zlib

SEED = 20261129
_LOWER, _UPPER, _DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
_BASE62 = _DIGITS + _UPPER + _LOWER
#: What a letter in a form draws from: ``{A36}`` is 36 letters and digits.
_DRAWN = {
    "A": _UPPER + _LOWER + _DIGITS,
    "a": _LOWER + _DIGITS,
    "U": _UPPER + _DIGITS,
    "L": _UPPER + _LOWER,
    "l": _LOWER,
    "d": _DIGITS,
    "h": "0123456789abcdef",
    "K": _UPPER + "234567",
    "b": _UPPER + _LOWER + _DIGITS + "-_",
    "B": _UPPER + _LOWER + _DIGITS + "+/",
    "q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_FIELD = re.compile(r"\{([A-Za-z])([0-9]+)\}")


#: Provider, form of the secret, name of the variable, and which of `CONTEXTS` it stands in.
TOKENS = (
    ("aws", "{B40}", "AWS_SECRET_ACCESS_KEY", "env"),
    ("aws", "AKIA{K16}", "AWS_ACCESS_KEY_ID", "env"),
    ("aws", "AKIA{K16}", "key", "talk"),
    ("aws-session", "{B40}", "aws_secret_access_key", "ini"),
    ("anthropic", "sk-ant-api03-{b93}AA", "ANTHROPIC_API_KEY", "env"),
    ("anthropic-admin", "sk-ant-admin01-{b93}AA", "key", "header"),
    ("anthropic-oauth", "sk-ant-oat01-{b93}AA", "accessToken", "json"),
    ("openai-old", "sk-{A20}T3BlbkFJ{A20}", "OPENAI_API_KEY", "env"),
    ("openai-project", "sk-proj-{b74}T3BlbkFJ{b74}", "api_key", "python"),
    ("openai-service", "sk-svcacct-{b74}T3BlbkFJ{b74}", "key", "header"),
    ("openrouter", "sk-or-v1-{h64}", "OPENROUTER_API_KEY", "env"),
    ("deepseek", "sk-{h32}", "DEEPSEEK_API_KEY", "env"),
    ("groq", "gsk_{A52}", "GROQ_API_KEY", "yaml"),
    ("xai", "xai-{A80}", "XAI_API_KEY", "env"),
    ("perplexity", "pplx-{A48}", "key", "header"),
    ("mistral", "{A32}", "MISTRAL_API_KEY", "env"),
    ("cohere", "{A40}", "COHERE_API_KEY", "env"),
    ("google", "AIza{b35}", "GEMINI_API_KEY", "env"),
    ("google", "AIza{b35}", "key", "url"),
    ("google-oauth", "GOCSPX-{b28}", "client_secret", "json"),
    ("google-refresh", "1//0{b60}", "refresh_token", "json"),
    ("google-access", "ya29.a0{b120}", "key", "header"),
    ("huggingface", "hf_{L34}", "HF_TOKEN", "env"),
    ("replicate", "r8_{A37}", "REPLICATE_API_TOKEN", "env"),
    ("langsmith", "lsv2_pt_{h32}_{h10}", "LANGSMITH_API_KEY", "env"),
    ("tavily", "tvly-{A32}", "TAVILY_API_KEY", "json"),
    ("pinecone", "pcsk_{A6}_{A63}", "PINECONE_API_KEY", "python"),
    ("wandb", "{h40}", "WANDB_API_KEY", "env"),
    ("fireworks", "fw_{A24}", "FIREWORKS_API_KEY", "env"),
    ("elevenlabs", "sk_{h48}", "ELEVENLABS_API_KEY", "env"),
    ("github", "ghp_{c30}", "GITHUB_TOKEN", "env"),
    ("github", "ghp_{c30}", "key", "remote"),
    ("github-oauth", "gho_{c30}", "oauth_token", "yaml"),
    ("github-server", "ghs_{c30}", "key", "header"),
    ("github-fine", "github_pat_{A22}_{A59}", "GH_TOKEN", "talk"),
    ("gitlab", "glpat-{b20}", "GITLAB_TOKEN", "env"),
    ("gitlab", "glpat-{b20}", "key", "remote"),
    ("gitlab-runner", "glrt-{b20}", "token", "ini"),
    ("bitbucket", "ATBB{A32}", "BITBUCKET_APP_PASSWORD", "env"),
    ("atlassian", "ATATT3xFfGF0{b171}={H8}", "JIRA_API_TOKEN", "env"),
    ("npm", "npm_{c30}", "//registry.acme.internal/:_authToken", "ini"),
    ("pypi", "pypi-AgEIcHlwaS5vcmc{b160}", "password", "ini"),
    ("rubygems", "rubygems_{h48}", "GEM_HOST_API_KEY", "env"),
    ("crates", "cio{A32}", "token", "toml"),
    ("nuget", "oy2{a43}", "NUGET_API_KEY", "env"),
    ("docker", "dckr_pat_{b27}", "DOCKER_PASSWORD", "env"),
    ("slack-bot", "xoxb-{d12}-{d13}-{A24}", "SLACK_BOT_TOKEN", "env"),
    ("slack-user", "xoxp-{d12}-{d12}-{d13}-{h32}", "token", "url"),
    ("slack-app", "xapp-1-A{U10}-{d13}-{h64}", "SLACK_APP_TOKEN", "json"),
    ("stripe", "sk_live_{A24}", "STRIPE_SECRET_KEY", "env"),
    ("stripe-restricted", "rk_live_{A24}", "api_key", "python"),
    ("stripe-webhook", "whsec_{A32}", "STRIPE_WEBHOOK_SECRET", "yaml"),
    ("square", "EAAA{b60}", "SQUARE_ACCESS_TOKEN", "env"),
    ("shopify", "shpat_{h32}", "SHOPIFY_ACCESS_TOKEN", "env"),
    ("paypal-braintree", "access_token$production${a16}${h32}", "BRAINTREE_TOKEN", "yaml"),
    ("twilio", "{h32}", "TWILIO_AUTH_TOKEN", "env"),
    ("twilio-key", "{A32}", "TWILIO_API_KEY_SECRET", "env"),
    ("sendgrid", "SG.{b22}.{b43}", "SENDGRID_API_KEY", "env"),
    ("mailgun", "key-{h32}", "MAILGUN_API_KEY", "env"),
    ("mailchimp", "{h32}-us12", "MAILCHIMP_API_KEY", "env"),
    ("postmark", "{u}", "POSTMARK_SERVER_TOKEN", "env"),
    ("brevo", "xkeysib-{h64}-{A16}", "BREVO_API_KEY", "json"),
    ("resend", "re_{A8}_{A24}", "RESEND_API_KEY", "env"),
    ("telegram", "{d10}:AA{b33}", "TELEGRAM_BOT_TOKEN", "env"),
    ("discord", "MT{A24}.G{b5}.{b38}", "DISCORD_BOT_TOKEN", "python"),
    ("facebook", "EAA{A180}", "FB_PAGE_ACCESS_TOKEN", "env"),
    ("twitter", "AAAAAAAAAAAAAAAAAAAAA{A80}", "TWITTER_BEARER_TOKEN", "env"),
    ("linear", "lin_api_{A40}", "LINEAR_API_KEY", "header"),
    ("notion", "ntn_{d11}{A35}", "NOTION_TOKEN", "env"),
    ("notion-old", "secret_{A43}", "NOTION_API_KEY", "json"),
    ("figma", "figd_{b40}", "FIGMA_TOKEN", "env"),
    ("airtable", "pat{A14}.{h64}", "AIRTABLE_API_KEY", "env"),
    ("asana", "2/{d16}/{d16}:{h32}", "ASANA_ACCESS_TOKEN", "env"),
    ("dropbox", "sl.u.{b130}", "DROPBOX_TOKEN", "python"),
    ("digitalocean", "dop_v1_{h64}", "DIGITALOCEAN_TOKEN", "env"),
    ("linode", "{h64}", "LINODE_TOKEN", "env"),
    ("hetzner", "{A64}", "HCLOUD_TOKEN", "env"),
    ("cloudflare", "{b40}", "CLOUDFLARE_API_TOKEN", "env"),
    ("fastly", "{b32}", "FASTLY_API_TOKEN", "env"),
    ("netlify", "nfp_{A36}", "NETLIFY_AUTH_TOKEN", "env"),
    ("vercel", "{A24}", "VERCEL_TOKEN", "env"),
    ("heroku", "HRKU-AA{b58}", "HEROKU_API_KEY", "env"),
    ("render", "rnd_{A28}", "RENDER_API_KEY", "header"),
    ("supabase", "sbp_{h40}", "SUPABASE_ACCESS_TOKEN", "env"),
    ("planetscale", "pscale_tkn_{b43}", "PLANETSCALE_TOKEN", "env"),
    ("databricks", "dapi{h32}", "DATABRICKS_TOKEN", "env"),
    ("sentry", "sntryu_{h64}", "SENTRY_AUTH_TOKEN", "env"),
    ("datadog", "{h32}", "DD_API_KEY", "env"),
    ("newrelic", "NRAK-{U27}", "NEW_RELIC_API_KEY", "json"),
    ("grafana", "glsa_{A32}_{h8}", "GRAFANA_TOKEN", "header"),
    ("dynatrace", "dt0c01.{K24}.{K64}", "DT_API_TOKEN", "env"),
    ("pagerduty", "u+{b18}", "PAGERDUTY_API_KEY", "env"),
    ("okta", "00{b40}", "OKTA_API_TOKEN", "env"),
    ("vault", "hvs.{b95}", "VAULT_TOKEN", "env"),
    ("terraform", "{A14}.atlasv1.{b67}", "token", "hcl"),
    ("pulumi", "pul-{h40}", "PULUMI_ACCESS_TOKEN", "env"),
    ("doppler", "dp.pt.{A43}", "DOPPLER_TOKEN", "env"),
    ("age", "AGE-SECRET-KEY-1{q58}", "key", "talk"),
    ("tailscale", "tskey-auth-k{A11}CNTRL-{A32}", "TS_AUTHKEY", "command"),
    ("postman", "PMAK-{h24}-{h34}", "POSTMAN_API_KEY", "env"),
    ("mapbox", "sk.eyJ{b80}.{b22}", "MAPBOX_SECRET", "env"),
    ("easypost", "EZAK{A54}", "EASYPOST_API_KEY", "env"),
    ("sonar", "squ_{h40}", "SONAR_TOKEN", "command"),
    ("buildkite", "bkua_{h40}", "BUILDKITE_TOKEN", "env"),
    ("circleci", "CCIPAT_{A22}_{h40}", "CIRCLE_TOKEN", "env"),
    ("artifactory", "AKCp{A69}", "ARTIFACTORY_API_KEY", "header"),
    ("prefect", "pnu_{a36}", "PREFECT_API_KEY", "env"),
    ("clojars", "CLOJARS_{a60}", "CLOJARS_PASSWORD", "env"),
    ("password", "{A9}!{A6}", "DB_PASSWORD", "env"),
    ("password", "{A14}", "password", "json"),
    ("password", "{l6}-{l5}-{d3}!", "PGPASSWORD", "command"),
    ("password", "{A16}", "password", "python"),
    ("django", "django-insecure-{a50}", "SECRET_KEY", "python"),
    ("session-secret", "{h64}", "SESSION_SECRET", "env"),
    ("jwt-secret", "{B44}", "JWT_SECRET", "yaml"),
    ("api-key", "{A32}", "X-Api-Key", "named header"),
    ("client-secret", "{b40}", "client_secret", "form"),
    ("encryption-key", "{B43}=", "ENCRYPTION_KEY", "env"),
)

#: Detectors know that example.com is an example, so these have a host of somebody's own.
CONTEXTS = {
    "env": "$ cat .env\nDEBUG=1\n{name}={secret}\nPORT=8080\n",
    "ini": "[default]\nregion = eu-west-1\n{name} = {secret}\n",
    "toml": '[registry]\n{name} = "{secret}"\n',
    "json": '{{\n  "id": 7,\n  "{name}": "{secret}",\n  "verbose": true\n}}\n',
    "yaml": "services:\n  web:\n    environment:\n      {name}: {secret}\n      TZ: UTC\n",
    "hcl": 'credentials "app.terraform.io" {{\n  {name} = "{secret}"\n}}\n',
    "header": 'curl -s -H "Authorization: Bearer {secret}" https://api.acme.internal/v1/me | jq .',
    "named header": 'curl -s -H "{name}: {secret}" https://api.acme.internal/v1/me',
    "python": 'import client\n\nc = client.Client({name}="{secret}", retries=3)\nprint(c.ping())\n',
    "url": "GET https://api.acme.internal/v2/items?limit=10&{name}={secret} 200 31ms",
    "form": "POST /oauth/token\ngrant_type=client_credentials&client_id=web&{name}={secret}",
    "remote": "origin\thttps://oauth2:{secret}@git.acme.internal/team/app.git (fetch)",
    "command": "$ {name}={secret} ./deploy.sh --region eu",
    "talk": "It is {secret} and you can use it for the tests, I will take it back afterwards.",
}


class Draw:
    """Draws secrets and everything else; the order of calls decides what comes."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)

    def some(self, characters: str, count: int) -> str:
        """So many of these characters."""
        return "".join(self.random.choices(characters, k=count))

    def form(self, form: str) -> str:
        """A form with its fields drawn; ``{c30}`` is 30 characters and their checksum, as GitHub and npm do it."""
        form = form.replace("{u}", str(uuid.UUID(int=self.random.getrandbits(128), version=4)))
        return _FIELD.sub(self._field, form)

    def _field(self, match: re.Match[str]) -> str:
        letter, count = match[1], int(match[2])
        if letter == "H":
            return self.some("0123456789ABCDEF", count)
        if letter != "c":
            return self.some(_DRAWN[letter], count)
        drawn = self.some(_DRAWN["A"], count)
        return drawn + _base62(zlib.crc32(drawn.encode()))

    def bytes(self, count: int) -> bytes:
        """So many bytes."""
        return self.random.randbytes(count)

    def base64(self, count: int) -> str:
        """Base64 of so many bytes."""
        return base64.b64encode(self.bytes(count)).decode()

    def url64(self, data: bytes) -> str:
        """Base64 of these bytes as URLs and tokens have it."""
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _base62(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 62)
        text = _BASE62[digit] + text
    return text.rjust(6, "0")
