"""The grammar of SQL filter expressions in AMQP 1.0 (OASIS filtex 1.0 §6), parsed by Lark into expressions.

Only the first expression loads Lark. The language is RabbitMQ 4.2's part of it: sections before names, ordered strings,
division with a fraction, `%`, UTC().
"""

from math import isfinite
from typing import Any, Final, cast, final

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import SELECTOR_DEPTH_MAX, SQL_MAX_CHARACTERS, SQL_MAX_TOKENS
from flintmq.broker.fields import SECTION_FIELDS, Field, SectionField
from flintmq.broker.selector import expressions as ex
from flintmq.broker.selector import sql_expressions as sql
from flintmq.broker.selector.expressions import Expression
from flintmq.broker.selector.like import Like

_GRAMMAR: Final = r"""
?start: condition
?condition: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: predicate
    | _NOT negation -> negated
?predicate: sum
    | sum COMPARED sum -> comparison
    | sum _IN members -> among
    | sum _NOT _IN members -> not_among
    | sum _LIKE STRING [_ESCAPE STRING] -> like
    | sum _NOT _LIKE STRING [_ESCAPE STRING] -> unlike
    | name _IS _NULL -> missing
    | name _IS _NOT _NULL -> present
?sum: product (SIGN product)*
?product: factor (FACTOR factor)*
?factor: atom
    | SIGN atom -> signed
?atom: name | STRING | BINARY | APPROXIMATE | EXACT | TRUE | FALSE
    | UTC _LEFT _RIGHT -> now
    | _LEFT condition _RIGHT
members: _LEFT sum (_COMMA sum)* _RIGHT
?name: NAME | SECTION | DELIMITED

COMPARED: "<>" | "!=" | "<=" | ">=" | "<" | ">" | "="
SIGN: "+" | "-"
FACTOR: "*" | "/" | "%"
_LEFT: "("
_RIGHT: ")"
_COMMA: ","
BINARY.3: /0x([0-9A-Fa-f]{2})+/
APPROXIMATE.2: /[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?/
EXACT.1: /[0-9]+/
SECTION.2: /[a-zA-Z][a-zA-Z_-]*\.[a-zA-Z][a-zA-Z0-9_]*/
NAME: /[a-zA-Z][a-zA-Z0-9_]*/
DELIMITED: /\[([^\[\]\x00-\x1f\x7f]|\[\[|\]\])*\]/
STRING: /'(?:[^']|'')*'|"(?:[^"]|"")*"/
%declare TRUE FALSE UTC RESERVED _OR _AND _NOT _IN _LIKE _ESCAPE _IS _NULL
%ignore /[ \t\r\n\f]+/
"""

_KEYWORDS: Final = {
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "OR": "_OR",
    "AND": "_AND",
    "NOT": "_NOT",
    "IN": "_IN",
    "LIKE": "_LIKE",
    "ESCAPE": "_ESCAPE",
    "IS": "_IS",
    "NULL": "_NULL",
    "UTC": "UTC",
} | dict.fromkeys(("EXISTS", "NAN", "INF", "LOWER", "UPPER", "LEFT", "RIGHT", "SUBSTRING", "DATE"), "RESERVED")
_COMPARISONS: Final = {
    "=": ex.EQUAL,
    "<>": ex.UNEQUAL,
    "!=": ex.UNEQUAL,
    "<": ex.LESS,
    "<=": ex.LESS_OR_EQUAL,
    ">": ex.GREATER,
    ">=": ex.GREATER_OR_EQUAL,
}
_OPERATORS: Final = {"+": ex.ADD, "-": ex.SUBTRACT, "*": ex.MULTIPLY, "/": ex.DIVIDE, "%": sql.REMAINDER}
# The sections that may stand before a name, with their abbreviations (filtex 1.0 §6.4.4.4).
_HEADER: Final = ("header", "h")
_PROPERTIES: Final = ("properties", "p")
_APPLICATION_PROPERTIES: Final = ("application_properties", "a")


def _keyword(token: Token) -> Token:
    kind = _KEYWORDS.get(token.upper())
    return token if kind is None else Token.new_borrow_pos(kind, token, token)


_PARSER: Final = Lark(
    _GRAMMAR,
    parser="lalr",
    lexer="basic",
    maybe_placeholders=False,
    propagate_positions=True,
    lexer_callbacks={"NAME": _keyword},
)


def parse_sql(text: str) -> Expression:
    """Parse an SQL expression. Raises PreconditionFailed with the position of the error."""
    if len(text) > SQL_MAX_CHARACTERS:
        raise PreconditionFailed(f"the expression has {len(text)} characters, at most {SQL_MAX_CHARACTERS} are allowed")
    try:
        tokens = sum(1 for _ in _PARSER.lex(text))
        if tokens > SQL_MAX_TOKENS:
            raise PreconditionFailed(f"the expression has {tokens} tokens, at most {SQL_MAX_TOKENS} are allowed")
        tree = _PARSER.parse(text)
    except UnexpectedCharacters as error:
        # Lark declares this as always None, and compiled code would trust the declaration.
        raise _fault(text, cast("Any", error).pos_in_stream, "this character is not allowed here") from None
    except UnexpectedToken as error:
        at = len(text) if error.token.type == "$END" else error.token.start_pos or 0
        raise _fault(text, at, "this token is not allowed here") from None
    return _Builder(text).build(tree, 0)


def _fault(text: str, at: int, why: str) -> PreconditionFailed:
    found = text[at : at + 16].split()
    return PreconditionFailed(f"at character {at + 1} ({found[0] if found else 'the end'}): {why}")


@final
class _Builder:
    def __init__(self, text: str) -> None:
        self._text = text

    def _refusal(self, node: Token | Tree[Token], why: str) -> PreconditionFailed:
        at = node.start_pos if isinstance(node, Token) else node.meta.start_pos
        return _fault(self._text, at or 0, why)

    def build(self, node: Token | Tree[Token], depth: int) -> Expression:
        if isinstance(node, Token):
            return self._leaf(node)
        if depth >= SELECTOR_DEPTH_MAX:
            raise self._refusal(node, f"more than {SELECTOR_DEPTH_MAX} expressions are within each other")
        kind = str(node.data)
        parts = node.children
        if kind == "now":
            return sql.Received()
        if kind == "like" or kind == "unlike":
            like = Like(self.build(parts[0], depth + 1), self._symbols(parts[1:]))
            return ex.Not(like) if kind == "unlike" else like
        if kind == "among" or kind == "not_among":
            members = parts[1]
            assert isinstance(members, Tree)
            among = sql.Among(
                self.build(parts[0], depth + 1), [self.build(each, depth + 2) for each in members.children]
            )
            return ex.Not(among) if kind == "not_among" else among
        if kind == "sum" or kind == "product":
            first = self.build(parts[0], depth + 1)
            rest = [
                (_OPERATORS[str(parts[at])], self.build(parts[at + 1], depth + 1)) for at in range(1, len(parts), 2)
            ]
            return sql.Arithmetic(first, rest)
        if kind == "comparison":
            left, right = self.build(parts[0], depth + 1), self.build(parts[2], depth + 1)
            return sql.Comparison(_COMPARISONS[str(parts[1])], left, right)
        if kind == "signed":
            return sql.Signed(self.build(parts[1], depth + 1), str(parts[0]) == "-")
        built = [self.build(part, depth + 1) for part in parts]
        if kind == "condition" or kind == "conjunction":
            return ex.Junction(built, kind == "condition")
        if kind == "negated" or kind == "present":
            return ex.Not(built[0] if kind == "negated" else ex.IsNull(built[0]))
        assert kind == "missing", kind
        return ex.IsNull(built[0])

    def _leaf(self, token: Token) -> Expression:
        kind = token.type
        if kind == "NAME":
            return ex.Name(Field(str(token), is_header=True))
        if kind == "DELIMITED":
            return ex.Name(Field(token[1:-1].replace("[[", "[").replace("]]", "]"), is_header=True))
        if kind == "SECTION":
            return self._section_field(token)
        if kind == "STRING":
            return ex.Literal(ex.STRING, _unquoted(token))
        if kind == "BINARY":
            return ex.Literal(ex.ANY, bytes.fromhex(token[2:]))
        if kind == "EXACT":
            whole = int(token)
            if whole > ex.INTEGER_MAX:
                raise self._refusal(token, "whole numbers have 64 bits")
            return ex.Literal(ex.NUMBER, whole)
        if kind == "APPROXIMATE":
            value = float(token)
            if not isfinite(value):
                raise self._refusal(token, "the number is too large")
            return ex.Literal(ex.NUMBER, value)
        return ex.Literal(ex.BOOLEAN, kind == "TRUE")

    def _section_field(self, token: Token) -> Expression:
        section, _, name = token.partition(".")
        if section in _APPLICATION_PROPERTIES:
            return ex.Name(Field(name, is_header=True))
        if section in _HEADER and name == "priority":
            return sql.Priority()
        if section in _PROPERTIES and name in SECTION_FIELDS:
            return sql.Property(SectionField(name))
        raise self._refusal(token, "messages have no such field")

    def _symbols(self, parts: list[Token | Tree[Token]]) -> list[str | None]:
        """Return a pattern's characters; None stands for _, and "" for %."""
        pattern = _unquoted(parts[0])
        escape = ""
        if len(parts) > 1:
            escape = _unquoted(parts[1])
            if len(escape) != 1:
                raise self._refusal(parts[1], "one character escapes")
        symbols: list[str | None] = []
        characters = iter(pattern)
        for character in characters:
            if character < " " or character == "\x7f":
                raise self._refusal(parts[0], "a pattern has no control characters")
            if character == escape:
                following = next(characters, "")
                if following == "":
                    raise self._refusal(parts[0], f"a character must follow {escape}")
                symbols.append(following)
            elif character == "%":
                symbols.append("")
            else:
                symbols.append(None if character == "_" else character)
        return symbols


def _unquoted(node: Token | Tree[Token]) -> str:
    text = str(node)
    return text[1:-1].replace(text[0] * 2, text[0])
