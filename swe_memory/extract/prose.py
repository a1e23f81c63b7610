"""The agent's own sentences: which of them say why the fault was there and what fixed it, and how they read without a repository's names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..patches import patch_lines
from .names import code_words, foreign_words, is_python, python_words
from .signals import Signals, thought_of
from .validate import sentences, squeeze

_LEAD = re.compile(
    r"^(?:(?:so|okay|ok|now|ah|aha|oh|yes|great|good|right|wait|thus|therefore|hence|however|but|and|also|"
    r"then|indeed|well|actually|excellent|perfect|"
    r"correct|confirmed|basically|specifically|interesting|essentially|in (?:this|that) case|as (?:expected|"
    r"suspected)|this confirms(?: my suspicion)? that|"
    r"(?:the|my) (?:output|reproduction script|script|test) (?:confirms|shows|indicates) that|this means(?: that)?|"
    r"it (?:seems|appears)(?: that)?|i see(?: that)?|"
    r"this confirms (?:that )?|(?:the|this) (?:only |root |real |actual |core )?(?:issue|problem|bug|root cause)(?: here)? is (?:\w+ly )?that|"
    r"we can see(?: that)?|note that|one detail)\b\s*[,!.:;-]*\s*)+",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\bbecause\b|\bsince\b|\b(?:issue|problem|bug|error|fault|cause|reason|culprit) (?:is|was|lies|comes|"
    r"occurs|happens|arises)\b|\bcaus(?:es?|ed|ing)\b|"
    r"\bdue to\b|\bresults? in\b|\bleads? to\b|\binstead of\b|\bfails? (?:to|when|because|for|if)\b|\bwhich (?:"
    r"means|raises|returns|causes|leads|breaks|ignores)\b|"
    r"\b(?:does|do|did|is|are|was|were|can)(?:n't| not) (?:\w+ )?(?:called|used|set|handled?|checked?|passed?|"
    r"defined|included?|escaped?|considered?|accounte?d?|"
    r"updated?|respecte?d?|supporte?d?|implemente?d?|override|return|propagated?|preserved?|add|apply|match|have|exist|inherit)\b|"
    r"\bonly (?:handles|checks|works|considers|applies|looks|matches|supports)\b|\bassumes?\b|\bexpects?\b|"
    r"\bignor(?:es|ed|ing)\b|\bwithout (?:checking|considering|handling)\b|"
    r"\balways\b|\bmissing\b|\boverwrit\w+|\bmutat\w+",
    re.IGNORECASE,
)
_INTENT = re.compile(
    r"^(?:I(?:'ll| will| need to| should| want to| can| plan to| have to)(?: now| just| simply| therefore| also)?|Need to) "
    r"(?P<rest>(?:change|modify|replace|update|add|insert|make|wrap|use|move|remove|extend|check|call|return|"
    r"set|handle|ensure|override|pass|convert|catch|skip|swap|take|compare|give|turn|copy|drop|put|quote|escape|raise|test|sort|strip)\b.*)",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^(?:(?:so|and) )?(?:the )?(?:fix|solution|remedy)(?: ?:| is to| was to)\s+", re.IGNORECASE)
_KNOWN = re.compile(
    r"\b(?:issue|problem|bug|root cause|error|reason) (?:here )?(?:is|happens|occurs|lies)\b|\bcauses?\b|\bthat(?:'s| is) why\b",
    re.IGNORECASE,
)
_FIX = re.compile(
    r"^(?:i(?:'ve| have)? (?:\w+ly )?)?(?:modified|changed|updated|added|fixed|replaced|removed|implemented|"
    r"refactored|made|moved|wrapped|extended|adjusted|renamed|"
    r"ensured|switched|used|converted|introduced|moving|changing|using|adding|replacing)\b|^(?:this|the (?:fix|"
    r"change|patch)|my (?:fix|change)|it) (?:\w+ )?"
    r"(?:ensures?|prevents?|makes?|handles?|checks?|allows?|fixes|avoids?|restores?|preserves?|correctly|now|"
    r"adds?|uses?|converts?|returns?|involves?|consists?)\b",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"\b(?:my|i'll|i will|let'?s|let me|i need to|i should|i want|i'm|i am|i can|i could|i must|we need|we should|"
    r"we can|i have to|i'd|plan is|i might|i see|i saw|"
    r"i had|i did|i was|i ran|i forgot|i made|i think|i know|i noticed|i found|my (?:test|script|command|sed|"
    r"reproduction|previous|plan|mock))\b|\bi\b.*\bwill\b",
    re.IGNORECASE,
)
HEDGE = re.compile(
    r"\b(?:maybe|perhaps|might|probably|possibly|i (?:guess|suspect|assume|believe|wonder|doubt)|likely|presumably|"
    r"seems?|appears?|not sure|unclear|hypothes\w+|suspicious|apparently|supposedly|usually|strange|weird|odd|unless i|i wonder|we wonder|"
    r"(?:if|let'?s|we|can) (?:we )?assum\w+|reasonable|my understanding|only (?:issue|problem|question) is (?:if|whether)|question is|"
    r"or something|\(or `|\(or similar\)|or similar|something like|or whatever|wait|hmm|actually|equivalent to|original code|i think|we think|must be|"
    r"if i\b|should (?:be|work)|would|could)\b",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"\b(?:PR description|issue description|pull request|reproduc\w+|instructions?|submit\w*|traceback|stack ?trace|"
    r"grep|sed|heredoc|indentation|line numbers?|temporary|"
    r"test (?:case|script|file|fail\w*|pass\w*)|tests? (?:pass|fail|still|suite)|my tests?|script|command|"
    r"output|printed|above|below|following|here|debug\w*|environment|"
    r"the (?:issue|PR|description|ticket|user|report\w*) (?:says|said|mentions?|asks?|wants?|states?|describes?|"
    r"suggests?|reports?|shows?)|earlier|previous(?:ly)?|hallucinat\w+|git|"
    r"this (?:file|line|looks|part|block)|successfully|verif(?:y|ied)|double.?check|looks? (?:good|correct|"
    r"right)|edge cases?|let's)\b|\blines? \d|\b\d+:|=>|->|:$|\.\.\.",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"(?:It|This|That|They|These|Those|He|She|One|Both|Because|Why|Raises|Returns|Currently|If it|Only this|"
    r"Which|Same|Subsequent|Here|There|Analy[sz]ed)\b|(?:Update|Modify|Change|Add|Use|Need|Check|Replace)\b"
)
"""A sentence that starts so hangs on the one before it, or is an instruction to oneself."""
_ASIDE = re.compile(
    r"\b(?:issue|problem|error|bug) is (?:about|related|in|with|likely|probably|reproduced|confirmed|still)\b|"
    r"\bmock|\b(?:my|the) (?:fix|change|patch|approach|solution|implementation|logic)\b|\bworks? because\b|\bis (?:correct|fine|safe|good|okay)\b|"
    r"\bas expected\b|\bstill (?:works?|handled?|passes|valid)\b|\bcorrectly\b|\bmakes sense\b|\bconfident\b|"
    r"\bskipped\b|\bgoal is\b|\binstalled\b|\bpython version\b|\bpass(?:es|ed)\b|\btests?\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"\bgoal is\b|\bout of scope\b|\bspecifically about\b|\bdistinguishing\b|\bindeed the (?:culprit|cause|problem)\b|\bissue (?:is )?(?:reported|described)\b|"
    r"^(?:the )?(?:issue|problem|bug) is (?:indeed |only |specifically |general |just |really )?(?:when|in|for|with|where)\b"
    r"(?!.*\b(?:because|which|so that|since)\b)|"
    r"\b(?:error|warning|failure|exception|problem|issue|crash) (?:happens|occurs|is raised|arises|comes) (?:when|during|in|at|from|inside)\b(?!.*\bbecause\b)",
    re.IGNORECASE,
)
"""Sentences in the form of a cause that name none."""
_SESSION = re.compile(r"\b(?:mistake|two commands|blocks?|script|reproduc\w+|summary|file again|the following)\b", re.IGNORECASE)
_ROLES = (
    r"class|classes|method|methods|function|functions|property|properties|attribute|attributes|variable|module|"
    r"file|argument|parameter|option|field|mixin|constant|object|instance|flag|keyword"
)
_QUOTED = re.compile(
    rf"(?P<article>\b(?:the|a|an|its|this) )?(?P<before>(?:{_ROLES}) )?`(?P<code>[^`]+)`(?P<possessive>'s)?(?P<after> (?:{_ROLES})\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One usable sentence: where it was said and how well it fits its role."""

    text: str
    step: int
    score: float


def _thought_sentences(thought: str) -> tuple[str, ...]:
    found: list[str] = []
    for line in thought_of(thought).splitlines():
        line = re.sub(r"^\s*(?:[-*+•]|\(?\d+[.)])\s+", "", line).strip().replace("**", "")
        if line:
            found.extend(sentences(line))
    return tuple(found)


def tidy(sentence: str) -> str:
    """A sentence without the words that only lead in, capitalised, closed with a full stop."""
    text = re.sub(r"^(?:the )?(?:root )?(?:cause|reason) ?: ", "", sentence.strip(), flags=re.IGNORECASE)
    text = _LEAD.sub("", text)
    text = re.sub(
        r"\s*\((?:lines?|line number) [\d\s,-]+\)|\s+(?:at|on|in|around|near) lines? \d+(?:\s*(?:-|to|and)\s*\d+)?",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(r"(?<!\w)\*{1,2}([^*`]+?)\*{1,2}(?!\w)", r"\1", text)
    text = re.sub(
        r"(?<=[a-z`] )(?:NOT|ALL|ONLY|DOES|ALREADY|AND|STILL|IS|BEFORE|AFTER|EVERY|NEVER|ALWAYS|OR|WAS|BROKE|CAN|"
        r"MUST|SHOULD|WILL|THEN|BUT|NO|ANY)(?= [a-z`])",
        lambda m: m[0].lower(),
        text,
    )
    text = squeeze(text).rstrip("!;,")
    text = re.sub(r"^I(?:'ve| have)?(?: \w+ly| also| then)? (?=\w+ed\b|made\b)", "", text)
    text = re.sub(r"^(?:My|The) (?:fix|change|patch|solution) ", "The change ", text)
    if not text:
        return ""
    text = text[0].upper() + text[1:] if text[0].isalpha() else text
    return text if text.endswith((".", "?")) else text + "."


def statements(found: Signals) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """Sentences that say why the fault was there, and sentences that say what the change does: each best first, without repetition.

    A plan, a guess, talk about the session, a quotation of the patch and anything out of shape is left out.
    """
    steps = found.trajectory.steps
    first = found.first_edit if found.first_edit is not None else len(steps)
    last = found.last_edit if found.last_edit is not None else len(steps)
    touched = _touched_words(found)
    lines = {squeeze(line) for line in patch_lines(found.patch)}
    causes: dict[str, Statement] = {}
    fixes: dict[str, Statement] = {}
    for number, step in enumerate(steps):
        late = number >= len(steps) - 4
        if number > last + 3 and not late:
            continue
        for raw in _thought_sentences(step.thought):
            labelled = _LABEL.match(raw) is not None
            named = raw.lower().startswith(("root cause:", "cause:", "the cause:", "the root cause:"))
            if not (20 if labelled or named else 40) <= len(raw) <= 330 or "?" in raw:
                continue
            text = tidy(_LABEL.sub("", raw))
            intent = _INTENT.match(text)
            if intent is not None:
                text = tidy(intent["rest"])
            is_fix = labelled or intent is not None or _FIX.search(text) is not None
            if (not is_fix and not named and not _CAUSE.search(text)) or not _usable(text, lines, labelled or named):
                continue
            if HEDGE.search(raw) or (_EMPTY.search(text) and not is_fix):
                continue  # a guess is neither a cause nor a fix, however well it would fit
            known = len(touched & set(re.findall(r"\w+", text)))
            score = 1.0 + min(known, 3) + (1.0 if re.search(r"\bbecause\b|\binstead of\b|\bwhich means\b|\bso that\b", text) else 0.0)
            score -= 1.0 if len(text) < 70 and not (labelled or named) else 0.0
            if is_fix and not named and not _SESSION.search(text):
                around = first - 2 <= number <= last
                score += 7.0 if labelled else ((2.0 if around else -3.0) if intent is not None else (4.0 if late else 0.0))
                score -= 3.0 if re.search(r"\btests?\b|tests?/|docstring|\bexamples\b|\bdocumentation\b|\bcomments?\b", text) else 0.0
                score -= 2.0 if re.match(r"(?:It|This)\b", text) else 0.0
                _keep(fixes, Statement(text, number, score))
            elif named or (not is_fix and not _OPEN.match(text)):
                score += min(len(_CAUSE.findall(text)), 2)
                # Before the first edit the agent explains the fault; after it, mostly its own change.
                score += 3.0 if first - 10 <= number <= first else (0.5 if number <= last else 0.0)
                score += 5.0 if named else (2.0 if _KNOWN.search(raw) else 0.0)
                score -= 3.0 if _ASIDE.search(text) else 0.0
                score -= 1.5 if re.match(r"(?:If|As|Why|For|Test)\b", text) else 0.0
                score -= 1.0 if re.search(r"\bwe\b|\bshould\b", text) else 0.0
                _keep(causes, Statement(text, number, score))
    return _ranked(causes), _ranked(fixes)


def _keep(statements: dict[str, Statement], new: Statement) -> None:
    if new.text not in statements or statements[new.text].score < new.score:
        statements[new.text] = new


def _ranked(statements: dict[str, Statement]) -> tuple[Statement, ...]:
    return tuple(sorted(statements.values(), key=lambda s: (-s.score, s.step, s.text)))


def broken(text: str) -> bool:
    """Markup that came apart: code quotes in pairs of two, inside a word, or around nothing."""
    return bool(re.search(r"``|\w`[^`\s]*`\w|` `|:`|`\w+`\w{2,}", text)) or text.count("`") % 2 == 1


def _usable(text: str, lines: set[str], labelled: bool) -> bool:
    """Whether a sentence can stand in an item; one that its agent called cause or fix may be shorter."""
    if broken(text):
        return False
    if (
        not (15 if labelled else 45) <= len(text) <= 260
        or "?" in text
        or text.startswith((">", '"', "'", "#"))
        or text.endswith((":.", ",."))
    ):
        return False
    if re.search(r"\bI\b(?!\w)", text) or text.count("`") % 2 or _PLAN.search(text) or _NOISE.search(text):
        return False
    if text.count("(") != text.count(")") or text.count('"') % 2:
        return False
    quoted = re.findall(r"`([^`]+)`", text)
    if any(len(code) > 60 or squeeze(code) in lines for code in quoted) or sum(map(len, quoted)) > 0.6 * len(text):
        return False
    return len(re.findall(r"[A-Za-z]{2,}", re.sub(r"`[^`]*`", "", text))) >= (3 if labelled else 6)


def _touched_words(found: Signals) -> set[str]:
    words: set[str] = set()
    for line in patch_lines(found.patch):
        words.update(re.findall(r"[A-Za-z_]\w{3,}", line))
    return {word for word in words if word not in python_words()}


@dataclass(frozen=True, slots=True)
class Roles:
    """Which names were seen being defined as functions or classes, and which followed a dot."""

    functions: frozenset[str]
    classes: frozenset[str]
    attributes: frozenset[str]

    def of(self, code: str) -> str:
        """What to call a name once it is gone: class, function, method, attribute, module, constant or value."""
        base = re.sub(r"\(.*", "", code)
        last = base.rsplit(".", 1)[-1]
        if "/" in base or re.search(r"\.(?:py|js|c|h|rst|txt|cfg|toml|html|css)$", base):
            return "module"
        if last in self.classes or re.match(r"_*[A-Z]\w*[a-z]", last):
            return "class"
        if last in self.functions or "(" in code:
            return "method" if "." in base else "function"
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", last):
            return "constant"
        return "attribute" if "." in base or last in self.attributes else "value"


def roles_of(found: Signals) -> Roles:
    """Read the roles off everything that the attempt saw and wrote (the first 20,000 characters of each output)."""
    functions: set[str] = set()
    classes: set[str] = set()
    attributes: set[str] = set()
    for step in found.trajectory.steps:
        for action in step.actions:
            for text in (action.command[:20_000], action.output[:20_000]):
                for kind, name in re.findall(r"\b(def|class)\s+(\w+)", text):
                    (functions if kind == "def" else classes).add(name)
        attributes.update(re.findall(r"\.(\w+)\b(?!\()", step.thought[:20_000]))
    return Roles(frozenset(functions), frozenset(classes), frozenset(attributes))


def abstract(text: str, names: frozenset[str], roles: Roles) -> str:
    """The sentence with every name of the repository taken out, "" where too little would be left.

    Python's own words stay; ordinary lower-case words lose their code quotes; any other name becomes its role with a letter ("class A").
    """
    if broken(text):
        return ""
    letters: dict[str, str] = {}
    unreadable = False

    def letter(name: str) -> str:
        key = re.sub(r"\(.*", "", name).rsplit(".", 1)[-1].lower()
        return letters.setdefault(key, "ABCDEFGHIJ"[min(len(letters), 9)])

    def replace(match: re.Match[str]) -> str:
        nonlocal unreadable
        code = match["code"].strip()
        role = (match["before"] or match["after"] or "").strip().lower()
        tail = match["possessive"] or ""
        if _is_neutral(code, names):
            return match[0]
        if re.fullmatch(r"[a-z]{3,}", code) and code not in names and code not in roles.functions:
            return f"{match['article'] or ''}{match['before'] or ''}{code}{tail}{match['after'] or ''}"
        if re.search(r"[\s=+*/<>\[{]", code.split("(")[0]) or len(code) > 40:
            unreadable = True
            return match[0]
        return f"{role or roles.of(code)} {letter(code)}{tail}"

    result = _QUOTED.sub(replace, text)
    if unreadable:
        return ""
    plain = re.sub(r"`[^`]*`", lambda m: m[0] if _is_neutral(m[0].strip("`"), names) else " ", result)
    if set(foreign_words(plain, names)) - {
        w.lower() for code in code_words(plain) for w in (code, *re.findall(r"[a-z0-9_]+", code.lower()))
    }:
        return ""  # a repository named in plain prose acts there: no role can stand in for it
    for word in sorted({*code_words(plain), *foreign_words(plain, names)}, key=len, reverse=True):
        shaped = roles.of(word)
        result = re.sub(
            rf"(?:\b(?:the|a|an) )?(?<![\w.]){re.escape(word)}(?:\(\))?(?![\w.])(?: (?:{_ROLES})\b)?",
            f"{shaped} {letter(word)}",
            result,
            flags=re.IGNORECASE,
        )
    result = squeeze(re.sub(r"\b(class|method|function|module|attribute|constant|value) ([A-J])(?: \1)+\b", r"\1 \2", result))
    shown = re.findall(rf"\b({_ROLES}|value) ([A-J])\b", result, re.IGNORECASE)
    # One letter in two roles, or again and again: two names fell together, or the sentence says nothing without them.
    if any(len({r.lower() for r, x in shown if x == one}) > 1 or sum(x == one for _, x in shown) > 2 for _, one in shown):
        return ""
    if broken(result) or re.search(
        r"\b([A-J]) (?:which is |is |are |and |or )?(?:the )?\w+ \1\b|\b[A-J][`'\"(\[{]|\b[A-J]\.[\w]|\w/\w+ [A-J]\b", result
    ):
        return ""
    if len(letters) > 3 or code_words(result) or foreign_words(result, names):
        return ""
    prose = re.sub(r"`[^`]*`", "", result)
    if len(re.findall(r"[a-z]{3,}", prose)) < 8:
        return ""
    return result[0].upper() + result[1:]


def _is_neutral(code: str, names: frozenset[str]) -> bool:
    words = re.findall(r"[A-Za-z_][\w.]*", re.sub(r"'[^']*'|\"[^\"]*\"", "", code))
    if any(word.lower() in names for word in re.findall(r"\w+", code)):
        return False
    return all(is_python(word.strip(".")) for word in words) and not re.search(r"\w/\w", code)
