"""The grammar of the queries, for lark.

What binds how tightly follows `sql.g4` of azure-cosmos-dotnet-v3 (Query/Core/Parser): NOT binds like a sign,
comparisons bind more tightly than the operators on bits, and `||` less tightly than both.
"""

from __future__ import annotations

GRAMMAR = r"""
start: query

query: SELECT DISTINCT? top? selection from? where? group? order? page?
top: TOP (NUMBER | PARAMETER)
selection: "*" -> star
    | VALUE expression -> single
    | item ("," item)* -> listed
item: expression (AS? NAME)?

from: FROM source (JOIN source)*
source: path (AS? NAME)? -> named
    | NAME IN path -> iterated
    | "(" query ")" (AS? NAME)? -> derived
    | NAME IN "(" query ")" -> iterated_query
path: NAME -> path_root
    | path "." NAME -> path_name
    | path "[" (STRING | NUMBER | PARAMETER) "]" -> path_index

where: WHERE expression
group: GROUP BY expression ("," expression)*
order: ORDER BY key ("," key)*
key: expression (ASC | DESC)?
page: OFFSET (NUMBER | PARAMETER) LIMIT (NUMBER | PARAMETER)

?expression: coalesced
    | coalesced "?" expression ":" expression -> conditional
?coalesced: any
    | coalesced "??" any -> coalesce
?any: every
    | every (OR every)+ -> any_of
?every: test
    | test (AND test)+ -> all_of
?test: joined
    | joined NOT? BETWEEN joined AND joined -> between
    | joined NOT? IN "(" expression ("," expression)* ")" -> member_of
    | joined NOT? LIKE joined (ESCAPE STRING)? -> like
?joined: bits_or
    | joined CONCAT bits_or -> binary
?bits_or: bits_xor
    | bits_or BITS_OR bits_xor -> binary
?bits_xor: bits_and
    | bits_xor BITS_XOR bits_and -> binary
?bits_and: equality
    | bits_and BITS_AND equality -> binary
?equality: relation
    | equality EQUALITY relation -> binary
?relation: shift
    | relation RELATION shift -> binary
?shift: sum
    | shift SHIFT sum -> binary
?sum: product
    | sum SIGN product -> binary
?product: unary
    | product (FACTOR | "*") unary -> product
?unary: primary
    | (SIGN | TILDE | NOT) unary -> unary

?primary: NAME -> name
    | PARAMETER -> parameter
    | STRING -> string
    | NUMBER -> number
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | UNDEFINED -> undefined
    | "[" (expression ("," expression)*)? "]" -> array
    | "{" (property ("," property)*)? "}" -> object
    | "(" expression ")"
    | "(" query ")" -> scalar
    | EXISTS "(" query ")" -> exists
    | ARRAY "(" query ")" -> array_of
    | primary "." NAME -> member
    | primary "[" expression "]" -> index
    | NAME "(" (expression ("," expression)*)? ")" -> call
    | UDF "." NAME "(" (expression ("," expression)*)? ")" -> udf
property: (STRING | NAME) ":" expression

CONCAT: "||"
BITS_OR: "|"
BITS_XOR: "^"
BITS_AND: "&"
EQUALITY.1: "=" | "!=" | "<>"
RELATION: "<=" | ">=" | "<" | ">"
SHIFT: "<<" | ">>>" | ">>"
SIGN: "+" | "-"
FACTOR: "/" | "%"
TILDE: "~"

AND.2: /and\b/i
ARRAY.2: /array(?=\s*\()/i
AS.2: /as\b/i
ASC.2: /asc\b/i
BETWEEN.2: /between\b/i
BY.2: /by\b/i
DESC.2: /desc\b/i
DISTINCT.2: /distinct\b/i
ESCAPE.2: /escape\b/i
EXISTS.2: /exists(?=\s*\()/i
FALSE.2: /false\b/i
FROM.2: /from\b/i
GROUP.2: /group\b/i
IN.2: /in\b/i
JOIN.2: /join\b/i
LIKE.2: /like\b/i
LIMIT.2: /limit\b/i
NOT.2: /not\b/i
NULL.2: /null\b/i
OFFSET.2: /offset\b/i
OR.2: /or\b/i
ORDER.2: /order\b/i
SELECT.2: /select\b/i
TOP.2: /top\b/i
TRUE.2: /true\b/i
UDF.2: /udf(?=\s*\.)/i
UNDEFINED.2: /undefined\b/i
VALUE.2: /value\b/i
WHERE.2: /where\b/i

NAME: /[a-zA-Z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*/
PARAMETER: /@[a-zA-Z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*/
NUMBER: /(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/
STRING: /"(?:[^"\\\x00-\x08\x0b\x0c\x0e-\x1f]|\\.)*"/ | /'(?:[^'\\\x00-\x08\x0b\x0c\x0e-\x1f]|\\.)*'/

%ignore /[ \t\r\n\f\u00a0\ufeff]+/
%ignore /--[^\n]*/
%ignore /\/\*[\s\S]*?\*\//
"""

#: Words that cannot be names: what follows a dot or AS has to be written as `["value"]` then.
RESERVED = frozenset(
    [
        "and",
        "as",
        "asc",
        "between",
        "by",
        "desc",
        "distinct",
        "exists",
        "false",
        "from",
        "group",
        "in",
        "join",
        "like",
        "not",
        "null",
        "or",
        "order",
        "select",
        "top",
        "true",
        "udf",
        "undefined",
        "value",
        "where",
    ]
)
