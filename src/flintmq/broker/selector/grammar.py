"""The grammar of selectors (JMS 3.1 §3.8.1.1), parsed by Lark into expressions.

Only the first selector loads this module, and Lark with it.
"""

from math import isfinite
from typing import Any, Final, TypeAlias, cast, final

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import SELECTOR_DEPTH_MAX
from flintmq.broker.fields import Field
from flintmq.broker.selector import expressions as ex
from flintmq.broker.selector.expressions import Expression
from flintmq.broker.selector.like import Like

# Literals are Java's: 0x1F and 017 are integers, 7., .5, 7E3 and 7D are not; L, F and D name a type. Names may have
# dots, for `properties.NAME`; other names are quoted.
_GRAMMAR: Final = r"""
?start: condition
?condition: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: predicate
    | _NOT negation -> negated
?predicate: sum
    | sum COMPARED sum -> comparison
    | sum _BETWEEN sum _AND sum -> between
    | sum _NOT _BETWEEN sum _AND sum -> outside
    | sum _IN members -> among
    | sum _NOT _IN members -> not_among
    | sum _LIKE STRING [_ESCAPE STRING] -> like
    | sum _NOT _LIKE STRING [_ESCAPE STRING] -> unlike
    | sum _IS _NULL -> missing
    | sum _IS _NOT _NULL -> present
?sum: product (SIGN product)*
?product: factor (FACTOR factor)*
?factor: atom
    | SIGN factor -> signed
?atom: NAME | QUOTED | STRING | APPROXIMATE | EXACT | TRUE | FALSE
    | _LEFT condition _RIGHT
members: _LEFT member (_COMMA member)* _RIGHT
?member: STRING | number
?number: EXACT | APPROXIMATE
    | SIGN number -> signed

COMPARED: "<>" | "<=" | ">=" | "<" | ">" | "="
SIGN: "+" | "-"
FACTOR: "*" | "/"
_LEFT: "("
_RIGHT: ")"
_COMMA: ","
APPROXIMATE.2: /([0-9]+\.[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[fd]?|[0-9]+e[+-]?[0-9]+[fd]?|[0-9]+[fd]/i
EXACT.1: /(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)l?/i
NAME: /[^\W\d][\w$]*(\.[\w$]+)*|\$[\w$]*(\.[\w$]+)*/
QUOTED: /"(?:[^"]|"")+"/
STRING: /'(?:[^']|'')*'/
%declare TRUE FALSE _OR _AND _NOT _BETWEEN _IN _LIKE _ESCAPE _IS _NULL
%ignore /[ \t\r\n\f]+/
"""

_KEYWORDS: Final = {
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "OR": "_OR",
    "AND": "_AND",
    "NOT": "_NOT",
    "BETWEEN": "_BETWEEN",
    "IN": "_IN",
    "LIKE": "_LIKE",
    "ESCAPE": "_ESCAPE",
    "IS": "_IS",
    "NULL": "_NULL",
}
# The names of tokens in errors. Tokens that are not listed are only expected together with a listed one.
_EXPECTED: Final = (
    ("NAME", "a name"),
    ("STRING", "a string"),
    ("EXACT", "a number"),
    ("COMPARED", "a comparison"),
    ("_BETWEEN", "BETWEEN"),
    ("_IN", "IN"),
    ("_LIKE", "LIKE"),
    ("_ESCAPE", "ESCAPE"),
    ("_IS", "IS"),
    ("_NULL", "NULL"),
    ("_AND", "AND"),
    ("_OR", "OR"),
    ("_COMMA", "a comma"),
    ("_LEFT", "("),
    ("_RIGHT", ")"),
    ("$END", "the end"),
)
_COMPARISONS: Final = {
    "=": ex.EQUAL,
    "<>": ex.UNEQUAL,
    "<": ex.LESS,
    "<=": ex.LESS_OR_EQUAL,
    ">": ex.GREATER,
    ">=": ex.GREATER_OR_EQUAL,
}
_OPERATORS: Final = {"+": ex.ADD, "-": ex.SUBTRACT, "*": ex.MULTIPLY, "/": ex.DIVIDE}
_KINDS: Final = {ex.STRING: "a string", ex.NUMBER: "a number", ex.BOOLEAN: "a condition"}
# Header fields that a selector must not name (JMS 3.1 §3.8.1.1).
_NOT_SELECTABLE: Final = ("JMSDeliveryTime", "JMSDestination", "JMSExpiration", "JMSRedelivered", "JMSReplyTo")


def _keyword(token: Token) -> Token:
    """Return a token as a keyword if it is one. Keywords are reserved, in upper and lower case."""
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

# A node of the parse tree.
_Node: TypeAlias = Token | Tree[Token]


def parse(text: str) -> Expression:
    """Parse a selector. Raises PreconditionFailed with the position of the error and what was expected there."""
    try:
        tree = _PARSER.parse(text)
    except UnexpectedCharacters as error:
        # Lark declares this as always None, and compiled code would trust the declaration.
        at: int = cast("Any", error).pos_in_stream
        raise _fault(text, at, _unreadable(text, at)) from None
    except UnexpectedToken as error:
        accepted = error.accepts or error.expected
        at = len(text) if error.token.type == "$END" else error.token.start_pos or 0
        expected = [name for kind, name in _EXPECTED if kind in accepted]
        raise _fault(text, at, f"expected {', '.join(expected)}") from None
    return _Builder(text).condition(tree, 0)


def _unreadable(text: str, at: int) -> str:
    if text[at] == "'":
        return "a string that does not end; within one, ' is written twice"
    if text[at] == '"':
        return "a name in quotation marks that is empty, or does not end"
    return "no selector has such a character"


def _fault(text: str, at: int, why: str) -> PreconditionFailed:
    found = text[at : at + 16].split()
    return PreconditionFailed(f"at character {at + 1} ({found[0] if found else 'the end'}): {why}")


@final
class _Builder:
    """Builds expressions from a parse tree. Raises PreconditionFailed for expressions without a meaning."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _refusal(self, node: _Node, why: str) -> PreconditionFailed:
        at = node.start_pos if isinstance(node, Token) else node.meta.start_pos
        return _fault(self._text, at or 0, why)

    # -- expressions of a kind ----------------------------------------------------------------------------------

    def condition(self, node: _Node, depth: int) -> Expression:
        return self._build_as(node, depth, (ex.BOOLEAN,), "expected a condition, such as a comparison")

    def _number(self, node: _Node, depth: int) -> Expression:
        return self._build_as(node, depth, (ex.NUMBER,), "expected a number")

    def _build_as(self, node: _Node, depth: int, kinds: tuple[int, ...], why: str) -> Expression:
        expression = self._build(node, depth)
        if expression.kind != ex.ANY and expression.kind not in kinds:
            raise self._refusal(node, f"{why}, and this is {_KINDS[expression.kind]}")
        return expression

    # -- trees --------------------------------------------------------------------------------------------------

    def _build(self, node: _Node, depth: int) -> Expression:
        if isinstance(node, Token):
            return self._leaf(node)
        if depth >= SELECTOR_DEPTH_MAX:
            raise self._refusal(node, f"more than {SELECTOR_DEPTH_MAX} expressions are within each other")
        below = depth + 1
        kind = str(node.data)
        parts = node.children
        if kind == "condition":
            return ex.Junction([self.condition(part, below) for part in parts], True)
        if kind == "conjunction":
            return ex.Junction([self.condition(part, below) for part in parts], False)
        if kind == "negated":
            return ex.Not(self.condition(parts[0], below))
        if kind == "sum" or kind == "product":
            return self._arithmetic(parts, below)
        if kind == "signed":
            return self._signed(parts, below)
        if kind == "comparison":
            return self._comparison(parts, below)
        if kind == "between" or kind == "outside":
            part, low, high = [self._number(each, below) for each in parts]
            return ex.Between(part, low, high, kind == "outside")
        return self._question(kind, parts, below)

    def _question(self, kind: str, parts: list[_Node], depth: int) -> Expression:
        """Build a predicate of one expression: IS NULL, LIKE, IN."""
        if kind == "missing" or kind == "present":
            subject = self._build(parts[0], depth)
            if not isinstance(subject, ex.Name):
                raise self._refusal(parts[0], "IS NULL is asked of a name")
            return ex.IsNull(subject) if kind == "missing" else ex.Not(ex.IsNull(subject))
        if kind == "like" or kind == "unlike":
            subject = self._build_as(parts[0], depth, (ex.STRING,), "LIKE compares strings")
            like = Like(subject, self._symbols(parts[1:]))
            return like if kind == "like" else ex.Not(like)
        subject = self._build_as(parts[0], depth, (ex.STRING, ex.NUMBER), "IN looks for strings and numbers")
        members = parts[1]
        assert isinstance(members, Tree)
        found: list[object] = []
        for member in members.children:
            literal = self._build(member, depth)
            assert isinstance(literal, ex.Literal)
            found.append(literal.constant)
        return ex.In(subject, found) if kind == "among" else ex.Not(ex.In(subject, found))

    def _comparison(self, parts: list[_Node], depth: int) -> Expression:
        operator = _COMPARISONS[str(parts[1])]
        kinds: tuple[int, ...] = (ex.NUMBER,) if operator > ex.UNEQUAL else (ex.NUMBER, ex.STRING, ex.BOOLEAN)
        left = self._build_as(parts[0], depth, kinds, "only numbers are in an order")
        right = self._build_as(parts[2], depth, kinds, "only numbers are in an order")
        return ex.Comparison(operator, left, right)

    def _arithmetic(self, parts: list[_Node], depth: int) -> Expression:
        first = self._number(parts[0], depth)
        rest = [(_OPERATORS[str(parts[at])], self._number(parts[at + 1], depth)) for at in range(1, len(parts), 2)]
        return ex.Arithmetic(first, rest)

    def _signed(self, parts: list[_Node], depth: int) -> Expression:
        sign = -1 if str(parts[0]) == "-" else 1
        number = parts[1]
        if isinstance(number, Token) and number.type == "EXACT":
            # The digits of the lowest integer, without their sign, exceed the highest one.
            return ex.Literal(ex.NUMBER, self._exact(number, sign))
        if isinstance(number, Token) and number.type == "APPROXIMATE":
            return ex.Literal(ex.NUMBER, sign * self._approximate(number))
        part = self._number(number, depth)
        return part if sign > 0 else ex.Negative(part)

    # -- tokens -------------------------------------------------------------------------------------------------

    def _leaf(self, token: Token) -> Expression:
        kind = token.type
        if kind == "NAME":
            return self._name(token, str(token))
        if kind == "QUOTED":
            return self._name(token, token[1:-1].replace('""', '"'))
        if kind == "STRING":
            return ex.Literal(ex.STRING, _unquoted(token))
        if kind == "EXACT":
            return ex.Literal(ex.NUMBER, self._exact(token, 1))
        if kind == "APPROXIMATE":
            return ex.Literal(ex.NUMBER, self._approximate(token))
        return ex.Literal(ex.BOOLEAN, kind == "TRUE")

    def _name(self, token: Token, name: str) -> Expression:
        if name in _NOT_SELECTABLE:
            raise self._refusal(token, "selectors cannot ask for this one")
        try:
            return ex.Name(Field(name))
        except PreconditionFailed as error:
            raise self._refusal(token, error.text) from None

    def _exact(self, token: Token, sign: int) -> int:
        digits = token.rstrip("lL").lower()
        value = sign * int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10)
        if not ex.INTEGER_MIN <= value <= ex.INTEGER_MAX:
            raise self._refusal(token, "whole numbers have 64 bits")
        return value

    def _approximate(self, token: Token) -> float:
        value = float(token.rstrip("fFdD"))
        if not isfinite(value):
            raise self._refusal(token, "the number is too large")
        return value

    def _symbols(self, parts: list[_Node]) -> list[str | None]:
        """Return a pattern's characters; None stands for _, and "" for %."""
        pattern = parts[0]
        escape = ""
        if len(parts) > 1:
            escape = _unquoted(parts[1])
            if len(escape) != 1:
                raise self._refusal(parts[1], "one character escapes")
        symbols: list[str | None] = []
        is_escaped = False
        for character in _unquoted(pattern):
            if is_escaped:
                if character not in ("%", "_", escape):
                    raise self._refusal(pattern, f"{escape} must be followed by %, _ or itself")
                symbols.append(character)
                is_escaped = False
            elif character == escape:
                is_escaped = True
            elif character == "%":
                symbols.append("")
            else:
                symbols.append(None if character == "_" else character)
        if is_escaped:
            raise self._refusal(pattern, f"{escape} must be followed by %, _ or itself")
        return symbols


def _unquoted(node: _Node) -> str:
    return str(node)[1:-1].replace("''", "'")
