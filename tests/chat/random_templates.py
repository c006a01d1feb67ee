"""Random chat templates, from a grammar that covers what Jinja2 and exec/tokenizer/chat have in common."""
import random

NAMES = ["a", "b", "x", "messages", "ns", "tools", "nothing", "bos_token", "k", "loop", "f", "m"]
TEXTS = [
    "''", "'a'", "'Abc'", "'a b  c'", "' x\\n'", "'a,b,,c'", "'\u00e9\u00df\u01c6'", "'\u03a3A\u03a3'", "'12'", "' 3.5 '",
    "'1e3'", "'%s-%s'", "'%d'", "'%5.2f|%-6s|'", "'%(a)s'", "'nan'", "'a\u2028b\\r\\nc'", "'\\u3000y\\xa0'", "\"it's\"", "'<b>&'",
    "'a' 'b'", "'\\x41\\101'", "'true'", "'a-b [c'", "'\u0130i'", "'\u00b2\u0663'", "'0x1f'", "'-7'", "'aaaa'", "'aa'",
]
NUMBERS = ["0", "1", "2", "-1", "3", "7", "1.5", "-2.5", "0.1", "1e3", "0x10", "0b11", "1_0", "2.675", "1e16", "1e-5", "100"]
OTHERS = ["true", "false", "none", "True", "None", "nothing", "tools", "bos_token", "messages", "messages[0]", "messages|length"]
# Of one kind of value each: what can follow it, and the kind that it makes.
TEXT_TO_TEXT = [
    ".strip()", ".lstrip('a ')", ".rstrip('c')", ".strip('')", ".upper()", ".lower()", ".title()", ".capitalize()", ".swapcase()",
    ".replace('a', 'bb')", ".replace('', '-')", ".replace('', '-', 2)", ".replace('a', '', 1)", ".removeprefix('a')", ".removesuffix('c')",
    ".zfill(5)", ".center(7)", ".center(8, '*')", ".ljust(4, '.')", ".rjust(4)", ".expandtabs(4)", ".join(['p', 'q'])", ".join('xyz')",
    ".join([])", "[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[1:3]", "[-2:]", "[::2]", "[5:]", "[3:1:-1]", "[none:2]", "['upper']()", "|upper",
    "|lower", "|title", "|capitalize", "|trim", "|trim('a')", "|string", "|default('d')", "|default('d', true)", "|replace('a', 'z')",
    "|replace('a', 'z', 1)", "|reverse", "|indent", "|indent(2, true)", "|indent('> ', blank=true)", "|center(9)", "|tojson", "|tojson(true)",
    "|join('.')", "|first", "|last", "|string", "|format", "|max", "|min", "|unique|join", "|sort|join", "|escape", "|safe", "|e|string",
    " ~ 1", " ~ 'b'", " + 'b'", " * 2", "|list|join('-')", "|sum(start='')", "|map('upper')|join",
]
TEXT_TO_NUMBER = [
    "|length", ".find('b')", ".find('b', 1)", ".rfind('a')", ".rfind('')", ".count('a')", ".count('')", ".count('a', 1, -1)", ".find('aa', -3)",
    ".rfind('', 1, 2)", "|wordcount", "|int", "|int(5)", "|int(0, 16)", "|int(default=2, base=2)", "|int(0, 0)", "|float", "|float(2)", "|count",
]
TEXT_TO_LIST = [
    ".split()", ".split(',')", ".split(',', 1)", ".rsplit(',', 1)", ".rsplit()", ".split(None, 1)", ".rsplit(none, 1)", ".split(maxsplit=1)",
    ".splitlines()", ".splitlines(true)", ".partition(',')", ".rpartition(',')", "|list", "|batch(2)|list", "|slice(2)|list", "|unique|list",
    "|sort", "|map('upper')|list", "|select('in', 'abc')|list", ".split('a')", ".rsplit('aa', 2)",
]
TEXT_TO_TRUTH = [
    ".startswith('a')", ".startswith(('b', 'A'))", ".endswith('c')", ".endswith('c', 1)", ".startswith('b', 1, 2)", ".startswith('', 9)",
    ".isupper()", ".islower()", ".isdigit()", ".isalpha()", ".isspace()", ".isalnum()", ".istitle()", ".isnumeric()", ".isdecimal()",
    ".isidentifier()", ".isprintable()", ".isascii()", " is upper", " is lower", " is string", " == 'a'", " in 'abcabc'", " < 'b'", " is eq 'a'",
    " is in ['a', '']", " >= 'a'", " is not none", " is iterable", " is sequence", " != 'a'", " not in ['a']",
]
NUMBER_TO_NUMBER = [
    "|abs", "|round", "|round(1)", "|round(1, 'floor')", "|round(0, 'ceil')", "|int", "|float", " + 1", " - 2.5", " * 3", " // 2", " % 3", " / 4",
    " % -3", " // -2", " ** 2", "|default(0)", " + true", " % 2.5", " // 0.3",
]
NUMBER_TO_TEXT = ["|string", " ~ ''", "|tojson", "|upper", "|replace('1', 'x')", "|trim", "|title", "|center(6)"]
NUMBER_TO_TRUTH = [" is odd", " is even", " is divisibleby 3", " is number", " is integer", " is float", " > 1", " <= 2", " == 1.0", " is gt 1",
                   " in [1, 2]", " is boolean", " is true", " is sameas none", " is lt(2)", " < 1e3 < 1e9", " > 0 == true"]
LIST_TO_LIST = [
    "[1:]", "[:2]", "[::-1]", "[-2:]", "|list", "|reverse|list", "|map('string')|list", "|select|list", "|reject|list", "|select('string')|list",
    "|reject('none')|list", "|select('defined')|list", "|batch(2)|list", "|batch(2, 'f')|list", "|slice(2)|list", "|slice(2, 0)|list",
    "|map('default', 'q')|list", " + [1]", " * 2", "|unique|list", "|sort", "|sort(reverse=true)", "|sort(case_sensitive=true)",
    "|map('length')|list", "|map('int')|list", "|map('tojson')|list", ".copy()", "|map(attribute='0')|list", "|map(attribute='a')|list",
    "|map(attribute='a', default=0)|list", "|selectattr('a')|list", "|rejectattr('a', 'defined')|list", "|selectattr('a', 'equalto', 1)|list",
    "|sort(attribute='a')", "|sort(attribute='a,0')", "|map('first')|list",
]
LIST_TO_TEXT = ["|join", "|join(',')", "|tojson", "|tojson(indent=2)", "|tojson(separators=(',', ':'))", "|tojson(indent=0)", "|string", " ~ ''",
                "|map('string')|join('|')", "|first ~ ''", "|last ~ ''", "|join('-', attribute='a')", "|tojson(true, 1, none, true)"]
LIST_TO_NUMBER = ["|length", "|count", "|sum", "|sum(start=2)", "|max", "|min", ".index(1)", ".count(1)"]
LIST_TO_TRUTH = [" == [1]", " is sequence", " is mapping", " is iterable", " < [2]", " == []", " is string", " is eq([])", " is in [[]]"]
MAPPING_TO_LIST = [".items()|list", ".keys()|list", ".values()|list", "|items|list", "|dictsort", "|dictsort(by='value')",
                   "|dictsort(reverse=true)", "|dictsort(true)", "|list", "|sort", "|reverse|list"]
MAPPING_TO_TEXT = ["|tojson", "|tojson(sort_keys=true)", "|tojson(indent=1)", "|string", ".a ~ ''", ".get('a') ~ ''", ".get('z', 3) ~ ''",
                   "['a'] ~ ''", "[1] ~ ''", ".items() ~ ''", ".keys() ~ ''", ".values() ~ ''", ".pop ~ ''", "|join(',')", "|first ~ ''",
                   "|last ~ ''", ".z ~ 'u'"]
MAPPING_TO_TRUTH = [" is mapping", " == {}", ".a is defined", ".z is defined", " is sequence", ".items is callable", ".a is none", ".a == 1"]
UNTYPED = TEXT_TO_TEXT + TEXT_TO_NUMBER + NUMBER_TO_NUMBER + LIST_TO_LIST + LIST_TO_NUMBER + MAPPING_TO_LIST + MAPPING_TO_TEXT
TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "sequence", "iterable",
    "callable", "odd", "even", "upper", "lower", "divisibleby(2)", "divisibleby 3", "eq 1", "equalto('a')", "ne none", "gt 1", "ge(1)", "lt 2",
    "le 1", "in [1, 'a']", "in 'abc'", "sameas true", "sameas none", "escaped", "filter", "test",
]
SPACES = ["", " ", "\n", "  \n ", "\u00a0", "\u3000\n\u2003", "\t", "\n\n", "x", "x\n", " y ", "\x0b", "\x1c ", "\r\n", "\r", "{ }", "#}", "}}"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.in_loop = 0
        self.in_macro = 0

    def pick(self, options):
        return self.random.choice(options)

    def chance(self, probability):
        return self.random.random() < probability

    def many(self, make, most=3):
        return ", ".join(make() for _ in range(self.random.randint(0, most)))

    def chain(self, made, steps):
        for options in steps:
            made = "(" + made + self.pick(options) + ")" if self.chance(0.6) else made + self.pick(options)
        return made

    def text(self, depth):
        kind = self.random.randint(0, 9)
        if depth <= 0 or kind <= 2:
            return self.pick(TEXTS)
        if kind <= 5:
            return self.chain(self.text(depth - 1), [TEXT_TO_TEXT])
        if kind == 6:
            return self.chain(self.number(depth - 1), [NUMBER_TO_TEXT])
        if kind == 7:
            return self.chain(self.list(depth - 1), [LIST_TO_TEXT])
        if kind == 8:
            return self.chain(self.mapping(depth - 1), [MAPPING_TO_TEXT])
        return self.pick([
            "'%s-%r' % (" + self.any(depth - 1) + ", " + self.any(depth - 1) + ")",
            "'%5.2f|%-8d|%+i' % (" + self.number(depth - 1) + ", " + self.number(depth - 1) + ", 3)",
            "'%(a)s%%' % {'a': " + self.any(depth - 1) + "}",
            "'%x %#o %X %c' % (255, 8, " + self.pick(["-17", "true", "0"]) + ", 'z')",
            "'%e %G %g %.0f %8.3s|' % (12345.678, 1e-7, " + self.number(0) + ", 2.5, " + self.text(0) + ")",
            "'%*d|%-*s|' % (5, 42, 4, 'a')", "'%05d %+.1e % d' % (-42, 0.00012, 7)", "'%s|%s'|format(1, " + self.any(0) + ")",
            "strftime_now('%d %b %Y %H:%M %% %A')", "(joiner('|')() ~ 'j')", "messages[0].role", "messages[-1]['content']", "bos_token",
            "(" + self.text(depth - 1) + " if " + self.truth(depth - 1) + " else " + self.text(depth - 1) + ")",
        ])

    def number(self, depth):
        kind = self.random.randint(0, 6)
        if depth <= 0 or kind <= 1:
            return self.pick(NUMBERS)
        if kind <= 3:
            return self.chain(self.number(depth - 1), [NUMBER_TO_NUMBER])
        if kind == 4:
            return self.chain(self.text(depth - 1), [TEXT_TO_NUMBER])
        if kind == 5:
            return self.chain(self.list(depth - 1), [LIST_TO_NUMBER])
        return "(" + self.number(depth - 1) + self.pick([" + ", " - ", " * ", " // ", " % ", " / "]) + self.number(depth - 1) + ")"

    def list(self, depth):
        kind = self.random.randint(0, 7)
        if depth <= 0 or kind == 0:
            return self.pick(["[1, 2, 3]", "[]", "['b', 'A', 'a']", "[[1, 2], [3, 4]]", "(1, 'a')", "()", "range(4)|list", "messages",
                              "[{'a': 1}, {'a': 0, 'b': 2}, {}]", "[none, true, 1.0, 'x']", "[2, 1, 2, 3]", "(1,)", "range(5, 0, -2)",
                              "[nothing]", "['', 'ab', ' c ']"])
        if kind <= 2:
            make = self.pick([self.text, self.number, self.any])
            made = ", ".join(make(depth - 1) for _ in range(self.random.randint(0, 3)))
            return "[" + made + "]" if self.chance(0.7) or made == "" else "(" + made + ",)"
        if kind <= 5:
            return self.chain(self.list(depth - 1), [LIST_TO_LIST])
        if kind == 6:
            return self.chain(self.text(depth - 1), [TEXT_TO_LIST])
        return self.chain(self.mapping(depth - 1), [MAPPING_TO_LIST])

    def mapping(self, depth):
        if self.chance(0.2):
            return self.pick(["dict(a=1, b='x')", "dict([('a', 2)])", "dict({'a': 1}, c=2)", "messages[0]", "{}"])
        keys = ["'a'", "'b'", "1", "'A'", "true", "none", "(1, 2)", "1.0", "'items'", "0"]
        return "{" + self.many(lambda: self.pick(keys[:4] if self.chance(0.7) else keys) + ": " + self.any(depth - 1)) + "}"

    def truth(self, depth):
        kind = self.random.randint(0, 7)
        if depth <= 0 or kind == 0:
            return self.pick(OTHERS)
        if kind == 1:
            return "not " + self.chain(self.any(depth - 1), [[""]])
        if kind == 2:
            return "(" + self.truth(depth - 1) + self.pick([" and ", " or ", " == ", " != "]) + self.truth(depth - 1) + ")"
        if kind == 3:
            return "(" + self.any(depth - 1) + " is " + self.pick(["", "", "not "]) + self.pick(TESTS) + ")"
        make, options = self.pick([(self.text, TEXT_TO_TRUTH), (self.number, NUMBER_TO_TRUTH), (self.list, LIST_TO_TRUTH),
                                   (self.mapping, MAPPING_TO_TRUTH)])
        return "(" + make(depth - 1) + self.pick(options) + ")"

    def any(self, depth):
        if self.chance(0.04):
            return self.chain(self.any(depth - 1), [UNTYPED])
        if self.chance(0.08):
            return self.pick(NAMES)
        return self.pick([self.text, self.text, self.number, self.list, self.mapping, self.truth])(depth)

    def expression(self, depth):
        return self.any(depth)

    def tag(self, inner, kind="%"):
        opening, closing = ("{{", "}}") if kind == "{" else ("{" + kind, kind + "}")
        return opening + self.pick(["", "", "-", "+" if kind != "{" else ""]) + " " + inner + " " + self.pick(["", "", "-"]) + closing

    def body(self, depth):
        return "".join(self.statement(depth - 1) for _ in range(self.random.randint(1, 3)))

    def call(self, name):
        arguments = [self.expression(1) for _ in range(self.random.randint(0, 2))]
        if self.chance(0.3):
            arguments.append(self.pick(["q=", "p=", "b="]) + self.expression(1))
        if self.chance(0.1):
            arguments.append(self.pick(["*[1, 2]", "**{'q': 1}"]))
        return name + "(" + ", ".join(arguments) + ")"

    def loop(self, depth):
        target = self.pick(["x", "x", "k", "a", "x", "k, x"])
        through = self.pick([self.list(2), self.list(1), self.text(1), self.mapping(1), "messages", "range(3)", "[1, 2, 3]", "'abc'", "{'a': 1, 'b': 2}.items()",
                             "[[1, 2], [3, 4]]", "messages|map(attribute='role')", "[1, [2, 3]]"])
        condition = self.pick(["", "", " if " + self.pick(["x", "loop", "x is odd", "k == 1", self.expression(1)])])
        recursive = self.pick(["", "", "", " recursive"])
        self.in_loop += 1
        inner = self.body(depth)
        if self.chance(0.5):
            inner += self.tag("loop." + self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem",
                                                   "depth", "cycle('p', 'q')", "changed(x)"]), "{")
        if recursive and self.chance(0.7):
            inner += "{% if x is sequence and x is not string and loop.depth < 3 %}{{ loop(x) }}{% endif %}"
        if self.chance(0.2):
            inner += self.tag("if " + self.expression(1)) + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + self.statement(0)
        self.in_loop -= 1
        made = self.tag("for " + target + " in " + through + condition + recursive) + inner
        if self.chance(0.3):
            made += self.tag("else") + self.body(depth)
        return made + self.tag("endfor")

    def statement(self, depth):
        text = self.pick(SPACES)
        if depth <= 0:
            return text + self.tag(self.expression(2), "{") + self.pick(SPACES)
        kind = self.random.randint(0, 17)
        if kind <= 5:
            made = self.tag(self.expression(3), "{")
        elif kind <= 7:
            made = self.tag("if " + self.expression(2)) + self.body(depth)
            if self.chance(0.3):
                made += self.tag("elif " + self.expression(2)) + self.body(depth)
            if self.chance(0.5):
                made += self.tag("else") + self.body(depth)
            made += self.tag("endif")
        elif kind <= 9:
            made = self.loop(depth)
        elif kind == 10:
            made = self.tag("set " + self.pick(["a", "b", "x", "k", "bos_token", "a, b", "ns", "m"]) + " = " + self.expression(3))
        elif kind == 11:
            made = self.tag("set ns = namespace(a=0)") + self.body(depth) + self.tag("set ns." + self.pick("ab") + " = " + self.expression(2))
        elif kind == 12:
            name = self.pick(["f", "m"])
            parameters = self.pick(["", "p", "p, q=1", "p=2, q=p", "x, *y" if self.chance(0.05) else "x"])
            inner = self.body(depth) + self.pick(["", "{{ p }}{{ q }}", "{{ caller() }}", "{{ varargs|length }}{{ kwargs|length }}", "{{ x }}"])
            made = self.tag("macro " + name + "(" + parameters + ")") + inner + self.tag("endmacro")
            if self.chance(0.8):
                made += self.tag(self.call(name), "{")
        elif kind == 13:
            made = self.tag("call" + self.pick(["", "(p)", "(p, q=3)"]) + " " + self.call(self.pick(["f", "m", "range"]))) + self.body(depth)
            made += self.tag("endcall")
        elif kind == 14:
            made = self.tag("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "indent(2)", "title", "length", "trim|upper", "tojson"]))
            made += self.body(depth) + self.tag("endfilter")
        elif kind == 15:
            made = self.tag("with " + self.pick(["", "a = " + self.any(1), "x = 1, b = a", "a, b = (1, 2)"]))
            made += self.body(depth) + self.tag("endwith")
        elif kind == 16:
            made = self.tag("set " + self.pick(["a", "x", "k"]) + self.pick(["", "|upper", "|trim|length"])) + self.body(depth) + self.tag("endset")
        else:
            made = self.pick([
                "{#- c -#}", "{# c #}\n", "{% raw %} {{ x }} {% endraw %}", "{%- raw -%}\n {% if %}\n{%- endraw -%}\n", "{#+ c +#}",
                "{% raw %}\n {% endraw +%}\n", "{% print 1, 'a' %}", "{% generation %}g{{ x }}{% set x = 1 %}{% endgeneration %}", "{%+ if true +%}\n t{% endif %}",
                "{% if false %}{% include 'x' %}{{ a|urlize }}{% endif %}", "{% if true: %}c{% endif %}", "{% if x %}{{ x|unknown }}{% endif %}",
            ])
        return text + made + self.pick(SPACES)

    def template(self):
        return "".join(self.statement(3) for _ in range(self.random.randint(1, 4)))


def template(seed):
    return Maker(seed).template()
