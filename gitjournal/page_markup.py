"""Text of anybody as HTML: as it is, as Markdown, as code, as a terminal showed it.

Floor 5, pure. Nothing that a text says becomes a tag, an attribute or a script: Markdown knows no raw HTML here, links
lead to web and mail addresses only, pictures are never fetched, and what would not be seen is spelled out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from itertools import groupby
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

#: Longer texts are cut, in characters: a page is to be looked at, and `gj show` has the rest.
LONGEST = 100_000
#: Longer texts are shown as they are: to parse them takes time that nobody wants to wait.
_LONGEST_MARKDOWN = 50_000
_LONGEST_CODE = 10_000
# Lexers go back and forth in long runs of the same, and the time they take grows with the square of the length.
_RUN = re.compile(r"(?s)(.{1,8}?)\1{127,}")
#: Deeper texts are shown as they are; the parser would leave out what is deeper than it goes.
_DEEPEST = 40

# Controls but tab and newline, marks that turn the direction of text, what takes no room or looks like a space, lone
# surrogates, and the tags and selectors that hide text in text. Joiners stay, as emoji and scripts need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
_LINKED = frozenset({"http", "https", "mailto"})
# What models write most, and was tried on texts made to be slow: other lexers take minutes for some of them.
_LEXERS = (
    *("bash", "c", "cpp", "csharp", "css", "diff", "docker", "go", "graphql", "html", "ini", "java", "javascript"),
    *("json", "jsx", "kotlin", "lua", "php", "python", "ruby", "rust", "scala", "sql", "swift", "toml", "tsx"),
    *("typescript", "xml", "yaml"),
)
#: Lexers by what people and files call a language.
_LANGUAGES = dict(zip(_LEXERS, _LEXERS, strict=True)) | {
    **dict.fromkeys(("sh", "shell", "zsh"), "bash"),
    **dict.fromkeys(("c++", "cc", "hpp"), "cpp"),
    **dict.fromkeys(("js", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("py", "python3", "pyi"), "python"),
}
_LANGUAGES |= {"h": "c", "cs": "csharp", "patch": "diff", "dockerfile": "docker", "htm": "html", "jsonc": "json"}
_LANGUAGES |= {"kt": "kotlin", "rb": "ruby", "rs": "rust", "ts": "typescript", "svg": "xml", "yml": "yaml"}
_COLOUR = re.compile("\x1b\\[([0-9;]{0,40})m")


# --- plain ---------------------------------------------------------------------------------------


def safe(text: str) -> str:
    """Text as HTML, with what would not be seen spelled out; newlines and tabs stay."""
    return _UNSEEN.sub(_mark, escape(text.replace("\r\n", "\n")))


def inline(text: str) -> str:
    """A name or another short text as HTML within a line, kept apart from what stands around it."""
    return f"<bdi>{safe(text)}</bdi>"


def attribute(text: str) -> str:
    """Text where no element can stand: in an attribute or a title."""
    return escape(_UNSEEN.sub("\ufffd", text))


def spelled(text: str) -> str:
    r"""Text that is no HTML, with what would not be seen as ``\u202e``; newlines and tabs stay."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text.replace("\r\n", "\n"))


def _mark(match: re.Match[str]) -> str:
    return f'<span class="u">U+{ord(match[0]):04X}</span>'


def shortened(text: str, longest: int = LONGEST) -> tuple[str, int]:
    """The beginning of a text, and how many characters are left out."""
    return text[:longest], max(0, len(text) - longest)


def pre(text: str, kind: str = "") -> str:
    """A text as it is, with the colours that a terminal would have shown."""
    named = f' class="{kind}"' if kind else ""
    # The parser of HTML drops a newline that comes first.
    return f'<pre{named} dir="auto">\n{_coloured(text)}</pre>'


def _coloured(text: str) -> str:
    if "\x1b[" not in text:
        return safe(text)
    out: list[str] = []
    style = ""
    end = 0
    for match in _COLOUR.finditer(text):
        out.append(_styled(text[end : match.start()], style))
        style = _style(match[1], style)
        end = match.end()
    out.append(_styled(text[end:], style))
    return "".join(out)


def _styled(text: str, style: str) -> str:
    return f'<span class="{style}">{safe(text)}</span>' if style and text else safe(text)


def _style(codes: str, before: str) -> str:
    """The classes after a sequence of SGR codes: eight colours (``a1`` is red), bold and dim."""
    style = set(before.split())
    for code in codes.split(";"):
        number = int(code[:4] or 0)
        if number in (0, 39):
            style = set() if number == 0 else {one for one in style if one[0] != "a"}
        elif number in (1, 2, 22):
            style = (style - {"bold", "dim"}) | ({"bold"} if number == 1 else {"dim"} if number == 2 else set())
        elif 30 <= number <= 37 or 90 <= number <= 97:
            style = {one for one in style if one[0] != "a"} | {f"a{number % 10}"}
    return " ".join(sorted(style))


# --- code ----------------------------------------------------------------------------------------


def code(text: str, language: str = "") -> str:
    """A block of code, in colours if the language is one of those that are known here."""
    name = _LANGUAGES.get(language.lower())
    if name is None or len(text) > _LONGEST_CODE or _RUN.search(text):
        return pre(text, "code")
    return f'<pre class="code">\n{_highlighted(text, name)}</pre>'


def _highlighted(text: str, language: str) -> str:
    out: list[str] = []
    for kind, run in groupby(_lexer(language).get_tokens(text), lambda token: _colour(token[0])):
        shown = safe("".join(value for _, value in run))
        out.append(f'<span class="{kind}">{shown}</span>' if kind else shown)
    return "".join(out)


@cache
def _colour(kind: Any) -> str:
    """The class of a kind of token; most have none, which makes pages half as long."""
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String

    groups = {
        "c": (Comment,),
        "k": (Keyword, Operator.Word, Generic.Heading, Generic.Subheading),
        "m": (Number,),
        "s": (String, Literal),
        "n": (Name.Function, Name.Class, Name.Tag, Name.Attribute, Name.Decorator, Name.Builtin),
        "i": (Generic.Inserted,),
        "d": (Generic.Deleted, Generic.Error),
    }
    return next((f"p-{name}" for name, kinds in groups.items() if any(kind in one for one in kinds)), "")


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@cache
def language_of(path: str) -> str:
    """The language of a file by the end of its name, as `code` takes it; empty when there is none."""
    end = path.rpartition("/")[2].lower()
    end = end.rpartition(".")[2] if "." in end else end
    return _LANGUAGES.get(end, "")


def as_json(value: Any) -> str:
    """A JSON value of any shape as text of several lines."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=lambda one: f"<{len(one)} bytes>")
    except (ValueError, TypeError, RecursionError):
        return "[deeply nested]"


# --- Markdown ------------------------------------------------------------------------------------


def markdown(text: str) -> str:
    """A text as Markdown, or as it is when it is very long."""
    # Of these two the parser would make something else.
    text = re.sub("[\ud800-\udfff]", "\ufffd", text.replace("\0", "\u2400"))
    if len(text) > _LONGEST_MARKDOWN:
        return pre(text, "plain")
    parser = _parser()
    try:
        tokens = parser.parse(text)
        deep = max((token.level for token in tokens), default=0) >= _DEEPEST
        return pre(text, "plain") if deep else str(parser.renderer.render(tokens, parser.options, {}))
    except (RecursionError, ValueError):
        return pre(text, "plain")


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": 2 * _DEEPEST, "xhtmlOut": False}
    parser = MarkdownIt("commonmark", options, renderer_cls=_Renderer).enable(["table", "strikethrough"])
    # Definitions of links are not shown, and could hold any text.
    parser.disable("reference")
    parser.validateLink = may_lead  # type: ignore[method-assign]
    return parser


def may_lead(url: str) -> bool:
    """Whether a link may be one: to the web, to somebody's mail, or to a file, which has no scheme."""
    scheme = _SCHEME.match(url)
    return scheme is None or scheme[1].lower() in _LINKED


def _below(heading: str) -> str:
    """The tag of a heading in a text, which stands below those of the page."""
    return f"h{min(6, int(heading[1:]) + 2)}"


class _Renderer(RendererHTML):
    """Tokens as HTML: text, code and addresses are made safe, attributes are ours."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return safe(tokens[idx].content)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<{_below(tokens[idx].tag)}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"</{_below(tokens[idx].tag)}>\n"

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f"<code>{safe(tokens[idx].content)}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return code(tokens[idx].content)

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        info = tokens[idx].info.strip()
        label = f'<div class="info">{inline(info)}</div>' if info else ""
        return label + code(tokens[idx].content.removesuffix("\n"), info.partition(" ")[0])

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        words = self.renderInlineAsText(token.children, options, env) if token.children else ""
        address = str(token.attrGet("src") or "")
        return f'<span class="ref">[{safe(words) or "picture"}: {safe(address)}]</span>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        address, title = (str(tokens[idx].attrGet(name) or "") for name in ("href", "title"))
        linked = bool(_SCHEME.match(address))
        for close in tokens[idx + 1 :]:
            if close.type == "link_close" and close.level == tokens[idx].level:
                close.tag = "a" if linked else "span"
                break
        if linked:
            return f'<a href="{attribute(address)}" title="{attribute(title)}" rel="noopener noreferrer nofollow">'
        return f'<span class="ref" title="{attribute(address)} {attribute(title)}">'

    @staticmethod
    def renderAttrs(token: Token) -> str:  # noqa: N802 - the parser's name
        """The number that a list begins with, and how a cell is aligned. No other attribute of a text stands."""
        if token.type == "ordered_list_open" and type(start := token.attrGet("start")) is int:
            return f' start="{start}"'
        side = str(token.attrGet("style") or "").partition("text-align:")[2]
        return f' class="{side}"' if side in ("left", "right", "center") else ""
