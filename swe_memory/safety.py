"""Text from strangers made safe to keep and to show: secrets out, invisible and terminal characters out, orders recognised.

Use in this order: :func:`clean` (a key with an invisible character in it is no key yet), :func:`redact`, then :func:`hostile` on what shall become an item.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

# --- clean ---

# Format characters, fillers and selectors that show nothing: soft hyphen, Arabic letter mark, Hangul and Khmer fillers, zero-width and
# bidirectional controls, byte order mark, annotations, musical and shorthand controls, the tag block and both sets of variation selectors.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE_RUN = re.compile(f"[{_INVISIBLE}]+")
# CSI, OSC/DCS/APC/PM/SOS strings (bounded: an unfinished one must not eat the text), and two-character escapes; 7-bit and 8-bit forms.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]+")
_MOST_MARKS = 30
_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1},}}")  # marks are among these
_SPECIAL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff{_INVISIBLE}]")


def clean(text: str) -> str:
    """The text without terminal escapes, control characters, and characters that show nothing (zero width, bidirectional, tags, fillers); in NFC.

    Line ends become "\\n"; "\\n" and "\\t" stay. Cleaning twice changes nothing more. Emoji lose their joiners.
    """
    if _SPECIAL.search(text):
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
        text = _INVISIBLE_RUN.sub("", text)  # first, or they could split an escape in two
        text = _CONTROLS.sub("", _ESCAPES.sub("", text))
    return text if text.isascii() else _few_marks(unicodedata.normalize("NFC", _few_marks(text)))


def _few_marks(text: str) -> str:
    """Of more than 30 combining marks in a row the first 30, as in Unicode's Stream-Safe Text Format (UAX #15): sorting a run of them by their class
    takes time that grows with the square of its length. No language needs as many.
    """
    return _MARKS.sub(_first_marks, text)


def _first_marks(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for character in run.group():
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


# --- redact ---


@dataclass(frozen=True, slots=True)
class _Detector:
    """``hints``: one of them occurs (in lower case) wherever a pattern can match; looking for them first makes most texts cost almost nothing.

    ``group`` is what is replaced. ``valid`` has the last word on a match.
    """

    name: str
    hints: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    group: int = 0
    valid: Callable[[str], bool] | None = None


# Plugins of detect-secrets whose patterns name one kind of secret. Left out: entropy and keyword detectors (they flag commit hashes and ordinary
# words), public addresses, and patterns as wide as `key=WORD` (IBM, SoftLayer, Cloudant, Artifactory). (module, class, name, hints, group)
_PLUGINS: tuple[tuple[str, str, str, tuple[str, ...], int], ...] = (
    ("aws", "AWSKeyDetector", "aws-key", ("a3t", "abia", "acca", "akia", "asia", "aws"), 0),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure-storage-key", ("accountkey=",), 0),
    ("basic_auth", "BasicAuthDetector", "basic-auth", ("://",), 1),
    ("github_token", "GitHubTokenDetector", "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), 0),
    ("discord", "DiscordBotTokenDetector", "discord-token", (".",), 0),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", ("gl", "gr1348941"), 0),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", ("-us",), 0),
    ("pypi_token", "PypiTokenDetector", "pypi-token", ("pypi-",), 0),
    ("sendgrid", "SendGridDetector", "sendgrid-key", ("sg.",), 0),
    ("slack", "SlackDetector", "slack-token", ("xox", "hooks.slack.com"), 0),
    ("square_oauth", "SquareOAuthDetector", "square-secret", ("sq0csp-",), 0),
    ("stripe", "StripeDetector", "stripe-key", ("k_live_",), 0),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", (":aa",), 0),  # all that Telegram gives out start so
    ("twilio", "TwilioKeyDetector", "twilio-key", ("ac", "sk"), 0),
)

# What detect-secrets 1.5 lacks, and its patterns for JWT, npm and OpenAI without the backtracking that takes seconds on a hostile text of 100 kB.
# (name, hints, pattern); group 1 is replaced where there is one.
_SERVICE_HINTS = """
hf_ gsk_ xai- dop_v1_ doo_v1_ dapi shpat_ shpss_ hvs. hvb. dckr_pat_ nrak- sntrys_ sntryu_ glsa_ glc_ atatt3x lin_api_ ntn_ nfp_ tvly-
pplx- r8_ pat-na phx_ sbp_
"""
_OWN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("anthropic-key", ("sk-ant-",), r"sk-ant-[\w-]{16,}"),
    (
        "openai-key",
        ("sk-",),
        r"(?<![\w-])sk-(?:proj|svcacct|admin|None|or-v1|lf)-[\w-]{20,}|(?<![\w-])sk-[\w-]{20,200}T3BlbkFJ[\w-]{20,}|(?<![\w-])sk-[A-Za-z0-9]{32,}",
    ),
    ("github-token", ("github_pat_",), r"github_pat_\w{22,}"),
    ("google-key", ("aiza", "gocspx-", "ya29."), r"AIza[\w-]{35,}|GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,}"),
    ("jwt", ("eyj",), r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{2,}(?:\.[\w-]*)?"),
    ("npm-token", ("npm_",), r"(?<![\w-])npm_[A-Za-z0-9]{36,}"),
    ("npm-token", (":_authtoken",), r":_authToken\s{0,2}=\s{0,4}[\"']?([\w-]{16,})"),
    ("pypi-token", ("pypi-",), r"(?<![\w-])pypi-[\w-]{50,}"),
    ("slack-token", ("xox", "xapp-", "xwfp-"), r"(?<![\w-])(?:xox[a-z]|xapp|xwfp)-[\w.-]{20,}"),
    ("stripe-key", ("k_test_", "k_live_", "whsec_"), r"(?<![\w-])(?:[rs]k_(?:test|live)_[A-Za-z0-9]{10,}|whsec_[\w+/=]{20,})"),
    ("aws-secret", ("secret",), r"(?i)aws_?secret_?(?:access_?)?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z0-9/+]{40,})"),
    ("aws-session-token", ("session",), r"(?i)aws_?session_?token[\"']?\s{0,4}[:=]\s{0,4}[\"']?([A-Za-z0-9/+=]{60,})"),
    ("azure-secret", ("sharedaccesskey=",), r"(?i)SharedAccessKey=([A-Za-z0-9+/=]{40,})"),
    ("bearer-token", ("authorization",), r"(?i)authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token)\s{1,4}([\w.~+/=-]{16,})"),
    ("basic-auth", ("://",), r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'`<>]{1,100}:(?!\[redacted:)([^\s/@\"'`<>]{3,200})@"),
    (
        "service-token",
        tuple(_SERVICE_HINTS.split()),
        r"(?<![\w-])(?:hf_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,}|do[op]_v1_[a-f0-9]{64}|dapi[a-f0-9]{32}|shp(?:at|ss)_[a-fA-F0-9]{32}"
        r"|hv[sb]\.[\w-]{24,}|dckr_pat_[\w-]{20,}|NRAK-[A-Z0-9]{27}|sntry[su]_[\w+/=-]{40,}|gls?[ac]_[\w+/=-]{32,}|ATATT3x[\w=-]{40,}"
        r"|lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,}|nfp_[A-Za-z0-9]{36,}|tvly-[\w-]{24,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{37}"
        r"|pat-na\d-[a-f0-9-]{36}|phx_[A-Za-z0-9]{40,}|sbp_[a-f0-9]{40})",
    ),
    # To the end mark, or, in a cut one, as far as it looks like a key; also with line ends written as \n.
    (
        "private-key",
        ("private key", "putty-user-key-file"),
        r"-{2,5}\s?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?\s?-{2,5}"
        r"(?:(?:(?!-{2,5}\s?BEGIN )[\s\S]){0,20000}?-{2,5}\s?END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?\s?-{2,5}"
        r"|(?:\s|\\[nr]|[A-Za-z0-9+/=]{20,}|[A-Z][A-Za-z-]{2,20}: [^\n]{1,100}){1,400}[A-Za-z0-9+/=]{0,64}|)"
        r"|PuTTY-User-Key-File-\d[^\n]{0,100}(?:\n[^\n]{1,200}){0,200}",
    ),
)
_TAIL = re.compile(r"[\w-]*")


_NOT_INSIDE_A_WORD = r"(?<![\w-])"
# The "n" of a line end written as \n (outputs quoted in JSON or repr) is not part of a word either.
_START = r"(?:(?<![\w-])|(?<=\\[nrt]))"


@cache
def _detectors() -> tuple[_Detector, ...]:
    found: list[_Detector] = []
    for module, name, kind, hints, group in _PLUGINS:
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        found.append(_Detector(kind, hints, tuple(plugin.denylist), group))
    is_jwt = import_module("detect_secrets.plugins.jwt").JwtTokenDetector.is_formally_valid
    for kind, hints, pattern in _OWN:
        compiled = re.compile(pattern.replace(_NOT_INSIDE_A_WORD, _START))
        found.append(_Detector(kind, hints, (compiled,), 1 if compiled.groups else 0, is_jwt if kind == "jwt" else None))
    return tuple(found)


def redact(text: str) -> tuple[str, int]:
    """The text with each key, token, password in a URL and private key replaced by ``[redacted:TYPE]``, and how many were.

    Patterns of one kind of secret each: those of detect-secrets where it has them. Commit hashes, test names and ordinary words stay. A secret
    without a recognisable form (a bare password) is not found. Redacting twice changes nothing more.
    """
    lowered = text.lower()
    spans = sorted(
        {span for detector in _detectors() if any(hint in lowered for hint in detector.hints) for span in _spans(detector, text)}
    )
    parts: list[str] = []
    position = count = 0
    for start, end, kind in spans:
        if start < position:  # inside, or overlapping, what the last one took
            if end > position:
                position = end
            continue
        parts += [text[position:start], f"[redacted:{kind}]"]
        position, count = end, count + 1
    return "".join([*parts, text[position:]]) if count else text, count


def _spans(detector: _Detector, text: str) -> Iterator[tuple[int, int, str]]:
    for pattern in detector.patterns:
        position = 0
        while match := pattern.search(text, position):
            start, end = match.span(min(detector.group, pattern.groups))
            if detector.group == 0:
                # Several patterns stop at the shortest length that is certain; the rest of the token must not stay behind.
                tail = _TAIL.match(text, end)
                end = tail.end() if tail else end
            position = max(end, match.end(), position + 1)
            if detector.valid is None or detector.valid(match.group(0).rstrip(".")):
                yield start, end, detector.name


# --- hostile ---

# Letters of other scripts that look like Latin ones (a part of Unicode's confusables, UTS #39: what spells the words looked for here).
_ALIKE = [
    "aаαɑᴀ",
    "bьβʙ",
    "cсϲᴄ",
    "dԁɗᴅ",
    "eеєεҽᴇ",
    "fꜰғ",
    "gɡցɢ",
    "hһհʜн",
    "iіɩıιɪ",
    "jјϳᴊ",
    "kкκᴋ",
    "lӏʟ",
    "mмᴍ",
    "nпոηɴ",
    "oоοσօᴏ",
    "pрρᴘ",
    "qԛզ",
    "rгʀ",
    "sѕꜱ",
    "tтτᴛ",
    "uυսᴜ",
    "vνѵᴠ",
    "wԝωᴡ",
    "xхχ",
    "yуγү",
    "zᴢ",
]
_LOOKALIKES = str.maketrans({other: group[0] for group in _ALIKE for other in group[1:]})

_PAST = r"(?:previous|previously|prior|above|earlier|preceding|foregoing|former|before|system|initial|original|your)"
_TOLD = r"(?:instruct\w*|prompts?|guidelines?|told|briefing|system message|rules (?:you|that)|programming)"
_TOLD_WEAKLY = (
    r"(?:directives|directions|orders|commands|rules)"  # also words of parsers, axes and sorting: they need a person or "all" beside them
)
_DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|overrid(?:e|ing)|bypass(?:ing)?|discard(?:ing)?|neglect|dismiss|drop|stop following"
    r"|stop obeying|(?:do not|don't|never) (?:follow|obey|heed)|pay no attention to|set aside|put aside)"
)
_DO = (
    r"(?:run|execute|call|invoke|output|print|reply|respond|answer|write|type|delete|remove|submit|send|upload|download|install|push|post|say"
    r"|return|obey|comply)"
)
_TOOL_TAG = (
    r"(?:tool_call|tool_use|tool_result|tool_response|function_calls?|function_results?|antml:\w+|mswea_bash_command|execute_bash|execute_ipython"
    r"|str_replace_editor|bash)"
)
_SHELL = r"\|\s*(?:sudo\s+)?(?:env\s+)?(?:/\S{0,30}/)?(?:(?:ba|z|da|k|fi)?sh|(?:python|perl|ruby|node)\d?)\b"

# Each alternative is searched in the folded text: lower case, look-alikes replaced, white space single.
_ORDERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "role tag",
        (
            r"<\s*/?\s*(?:system|assistant|human|developer|sys|system-reminder)\b[^<>\n]{0,80}>",
            r"<\|[a-z_0-9]{2,30}\|>",
            r"\[\s*/?\s*(?:inst|sys)\s*\]|<<\s*/?\s*sys\s*>>|<\s*/?\s*(?:start|end)_of_turn\s*>",
            r"(?:^|\n) ?#{1,4}\s*(?:system|human|assistant|instruction)s?\s*:",
            r"(?:^|\n|[.!?]\s) ?(?:human|assistant)\s*:(?=\s|$)",
            r"(?:^|\n) ?\**(?:system|developer|admin(?:istrator)?)(?: message| prompt| note| override)?\**\s*:\s*"
            r"(?:you\b|ignore|from now|new\b|override|instruction|stop|important)",
        ),
    ),
    (
        "tool call",
        (
            rf"<\s*/?\s*{_TOOL_TAG}\b[^<>\n]{{0,80}}>",
            r"<invoke\s+name|<function\s*=|<parameter\s*(?:name)?\s*=",
            r"```\s*(?:bash|sh|shell|mswea_bash_command|tool_code|tool_call)\b",
            r"[\"']tool_calls[\"']\s*:|[\"']type[\"']\s*:\s*[\"'](?:tool_use|function_call)[\"']",
            r"[\"']name[\"']\s*:\s*[\"'](?:bash|execute_bash|shell)[\"']",
        ),
    ),
    (
        "submit phrase",
        (
            r"complete_task_and_submit|mini_swe_agent_final_output",
            r"(?:^|\n) ?[$>`]{0,3} ?submit ?`{0,3} ?(?:$|\n)",
            r"\b(?:run|execute|call|issue|type|enter|invoke|use)\s+(?:the\s+)?(?:[`'\"]submit[`'\"]|submit\s+(?:command|tool|function|action)\b)",
        ),
    ),
    (
        "override",
        (
            rf"\b{_DROP}\b[^.!?\n]{{0,40}}\b{_PAST}\b[^.!?\n]{{0,25}}\b{_TOLD}\b",
            rf"\b{_DROP}\b[^.!?\n]{{0,15}}\b(?:your(?: \w+)?|(?:all|any)(?: of)?(?: the| your)? {_PAST}) {_TOLD_WEAKLY}\b",
            rf"\b(?:stop following|stop obeying|do not obey|pay no attention to|disregard)\b[^.!?\n]{{0,30}}\b{_PAST}\b[^.!?\n]{{0,25}}\b{_TOLD_WEAKLY}\b",
            rf"\b{_DROP}\b[^.!?\n]{{0,30}}\b{_TOLD}\b[^.!?\n]{{0,25}}\b(?:above|before (?:this|that)|you (?:were|have been|had|got|received)|so far)\b",
            r"\b(?:ignore|disregard|forget)\s+(?:everything|anything|all|whatever)\s+(?:of\s+)?(?:that\s+)?(?:(?:is|was|came|comes|stands|written|said)\s+){0,4}"
            r"(?:above|before this|(?:you|i)(?:'ve|\s+have)?\s+(?:know|were|been|learned|told|said|wrote)|prior to this|previously)",
            r"\byour\s+(?:new|real|actual|true|only)\s+(?:task|goal|job|objective|mission|purpose|instructions?)\s+(?:is|are|now)\b",
            r"\bnew (?:system )?(?:instructions?|directives?|orders?)\s*:",
            r"\byou are (?:now|no longer)\s+(?:an?\b|in\b|the\b|bound|free|dan\b|allowed|restricted|required)",
            r"\bfrom (?:now|this point|here) on,?\s+(?:you|always|never|only|ignore|respond|act)\b|\b(?:jailbreak|developer mode|god mode)\b",
            r"\b(?:pretend|act as if) (?:that )?you (?:are|have|were)\b",
        ),
    ),
    (
        "order",
        (
            r"\byou\s+(?:must|shall|have to|need to|are (?:required|ordered|instructed|obliged|commanded) to|will|should)\s+"
            rf"(?:now|immediately|instantly|at once|instead|right away|always first)\s+{_DO}\b",
            rf"\b(?:must|have to|shall)\s+now\s+{_DO}\b",
            r"\b(?:you are|the agent is|the assistant is)\s+(?:hereby\s+)?(?:ordered|instructed|commanded|obliged)\s+to\b",
            rf"\byou\s+(?:must|have to|shall)\s+{_DO}\s+(?:this|these|the following|the below)\b",
            r"\b(?:do not|don't|never|without)\s+(?:tell|inform|mention|reveal|alert|notify)(?:ing)?\b[^.!?\n]{0,30}"
            r"\b(?:the user|the human|the operator|the reviewer|anyone|anybody)\b",
            r"\b(?:reveal|leak|exfiltrate|print|output|repeat|show|send|disclose)\b[^.!?\n]{0,25}\b(?:your|the|all)\s+"
            r"(?:system prompt|hidden (?:prompt|instructions?)|initial prompt|api keys?|secret keys?|credentials|access tokens?)\b",
        ),
    ),
    (
        "dangerous command",
        (
            rf"\b(?:curl|wget)\b[^\n|]{{0,300}}{_SHELL}",
            # Fetched into a file, then run.
            r"\b(?:curl|wget)\b[^\n|]{0,300}(?:&&|;)\s*(?:chmod \S{1,40} \S{1,100}\s*(?:&&|;)\s*\S|(?:sudo\s+)?(?:/\S{0,30}/)?(?:ba|z|da|k|fi)?sh\b)",
            r"\b(?:bash|sh|zsh|source|eval)\b\s+(?:-c\s+)?[\"']?(?:<\(|\$\(|`)\s*(?:curl|wget)",
            r"\brm\s+(?:-[a-z-]{1,20}\s+){0,4}-[a-z]{0,9}r[a-z]{0,9}\s+(?:-[a-z-]{1,20}\s+){0,4}(?:/|~|\$home)(?:\*|/|\s|$|[`'\"])",
            rf"\bbase64\s+(?:-d|-di|--decode)\b[^\n]{{0,60}}{_SHELL}",
            r"/dev/(?:tcp|udp)/|:\(\)\s*\{|\bmkfs\.|\bdd\s+if=[^\n]{0,80}of=/dev/",
            r"\b(?:curl|wget|nc)\b[^\n]{0,200}\$\(?\s*(?:env|printenv|cat\s)|powershell[^\n]{0,40}-e(?:nc|ncodedcommand)?\b",
        ),
    ),
    ("fence", (r"<\s*/?\s*past-attempts",)),
)
_COMPILED = tuple((name, re.compile("|".join(alternatives))) for name, alternatives in _ORDERS)

# The same phrases with everything but letters taken out: catches spacing, punctuation, hyphens and line breaks inside words.
_SQUEEZED = re.compile(
    "(?:ignore|disregard|forget|override|bypass)(?:all|any|everything|the|of|these|those|your|my|and)*"
    "(?:previous|prior|above|earlier|preceding|system)(?:and|or|system|given|the)*(?:instruction|prompt|guideline)"
    "|completetaskandsubmitfinaloutput|minisweagentfinaloutput"
)
_LEET = str.maketrans("013457@$!|", "oieastasil")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_.-])(?:[A-Za-z0-9+/]{40,200}[ \t]*\n[ \t]*){0,100}[A-Za-z0-9+/]{60,}={0,2}(?![A-Za-z0-9+/_.-])")
_HEX_BYTES = re.compile(r"(?:\\x[0-9a-fA-F]{2}){12,}|(?:\\u00[0-9a-fA-F]{2}){12,}|(?:&#x?[0-9a-fA-F]{2,4};){12,}|(?:%[0-9a-fA-F]{2}){16,}")
_TAGS = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]")  # outside a flag of England, Scotland or Wales
MAX_CHECKED = 100_000
"""Characters that are looked at; an item has a few hundred."""


def hostile(text: str) -> str:
    """Why this text looks like orders to an agent rather than information, or "" where it does not.

    Looks for role tags, tool-call markup, the agents' submit phrases, requests to drop earlier instructions, commands that fetch and run code,
    encoded blobs and our own fence, also behind look-alike letters, invisible characters, HTML entities, spacing and digits for letters. A heuristic: it stops
    the known and the careless, not everybody. A text over ``MAX_CHECKED`` characters is refused for its length.
    """
    if len(text) > MAX_CHECKED:
        return f"longer than {MAX_CHECKED} characters"
    if _TAGS.search(text):
        return "hidden text in tag characters"
    plain = clean(text)
    folded = _fold(plain)
    views = [folded]
    if "&" in plain:
        # Twice, for what was escaped twice; cleaned again, for what an entity may stand for.
        views.append(_fold(clean(html.unescape(html.unescape(plain)))))
    for view in dict.fromkeys(views):
        for name, pattern in _COMPILED:
            if match := pattern.search(view):
                return f"{name}: {_quote(match.group(0))}"
    for view in (*views, folded.translate(_LEET)):
        if match := _SQUEEZED.search(re.sub(r"[^a-z]+", "", view)):
            return f"override, disguised: {_quote(match.group(0))}"
    for match in _BASE64.finditer(plain):
        if _is_encoded(match.group(0)):
            return f"encoded blob of {len(match.group(0))} characters"
    if match := _HEX_BYTES.search(plain):
        return f"encoded blob of {len(match.group(0))} characters"
    return ""


def _fold(text: str) -> str:
    """Lower case, compatibility forms resolved, accents off, look-alikes replaced; runs of white space are one line end or one blank.

    So no pattern meets a long run of what it may skip, of which it would try every part from every place.
    """
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c)).casefold().translate(_LOOKALIKES)
        text = text.replace("’", "'").replace("‹", "<").replace("›", ">")
    return re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", text.lower()))


def _is_encoded(blob: str) -> bool:
    """Base64 mixes cases and digits throughout; a long path, a hash or a row of one letter does not."""
    body = re.sub(r"\s", "", blob).rstrip("=")
    lower, upper, digit = (sum(test(c) for c in body) / len(body) for test in (str.islower, str.isupper, str.isdigit))
    return min(lower, upper) > 0.15 and digit > 0.03 and body.count("/") < len(body) / 15


def _quote(found: str) -> str:
    return repr(" ".join(found.split())[:60])
