"""What the tokenizers of make_tokenizer_vectors.py are trained on, and the texts that they are tried with."""

import random
import unicodedata

SENTENCES = [
    "The red lamp is in the kitchen, and Anna's brother doesn't know it's there.",
    "Where is the key? It was left under the third stone behind the old mill.",
    "Counting goes on: 1, 2, 3, 10, 11, 12, 100, 1000, 31415926.",
    "They've said we'll go, but I'm sure he'd rather stay; you're late.",
    "for (int i = 0; i < 10; ++i) {\n    sum += values[i];\n}",
    "Gr\u00fc\u00dfe aus K\u00f6ln, na\u00efve caf\u00e9s, \u0141\u00f3d\u017a and S\u00e3o Paulo.",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430?",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3068\u4e2d\u6587\u7684\u53e5\u5b50\u3002",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "A line.\nAnother line.\n\nA paragraph  with   runs of    spaces.",
]

# Varied, so that training has words of many lengths and counts.
CORPUS = [sentence for i, sentence in enumerate(SENTENCES) for _ in range(12 - i)] + [
    f"{person} puts the {colour} {thing} {place} at {hour} o'clock."
    for hour, person in enumerate(["Anna", "Boris", "Clara", "David", "Emil", "Frieda"])
    for colour in ["red", "green", "blue", "yellow"]
    for thing in ["lamp", "book", "letter", "basket"]
    for place in ["on the table", "behind the door", "under the bed"]
]

TEXTS = [
    "", " ", "  ", "\n", "\t", "\r\n", "a", " a", "a ", "  a  b   c    ", "Hello world", "hello\nworld",
    "line\r\nline\r\n\r\nend", "tabs\t\tand \t mixed", "\n\n\n  indented\n\t\tmore", "trailing   ", "   \n  \n x",
    "The red lamp is in the kitchen, and Anna's brother doesn't know it's there.",
    "I'M SURE HE'D SAY WE'LL GO, THEY'VE, YOU'RE, IT'S, DON'T", "'s 't 're 've 'm 'll 'd 'x ''s l'\u00e9t\u00e9 o\u2019clock",
    "0 1 12 123 1234 12345 1234567890", "3.14159, 1e-5, 0x1F, 1,000,000", "x1y22z333", "\u0663\u0664\u0665 \u2167 \u00bd \u2074",
    "!!! ??? ... --- *** ((())) [a]{b}<c>", "a_b-c/d\\e|f", "#include <vector>\nint main() { return 0; }\n",
    "caf\u00e9 cafe\u0301 A\u030a\u00c5 \u212b \u1e9b\u0323 \ufb01 \u00df", "e\u0301\u0301\u0301 \u0301alone",
    "\u1112\u1161\u11ab \ud55c \u304c \u304b\u3099", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3068\u4e2d\u6587\u7684\u53e5\u5b50\u3002\u5168\u89d2\uff21\uff22\uff11",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u05e9\u05c1\u05dc\u05d5\u05b9\u05dd \u200f\u202babc\u202c",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\u00a0nbsp\u2003em\u3000ideographic\u2028line\u2029para\u0085nel\u180emvs\u200bzwsp\ufeffbom", "\x00nul\x01\x1c\x1f\x7f\x80\x9f",
    "\u2581lower \u2581 block\u2581", "<0x41> <0xE2> <s", "< s> </ s>", "\ufffd\uffff\U0010ffff\U00020000\U000e0041",
    "a" * 50, "ab" * 40, "1" * 20, " " * 33 + "x", "\n" * 9, "=" * 30, "the " * 12, "\u017fame 'S '\u017f",
    "Zu\u00e4llererst\u00dcberpr\u00fcfungsausschussvorsitzende", "anna\u00b7boris\u2026clara\u2014david\u201cemil\u201d",
]


def random_texts(count):
    """Texts of assigned characters of all planes, some with runs of one kind; always the same."""
    generator = random.Random(20240229)
    def character():
        while True:
            limit = generator.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
            c = chr(generator.randrange(limit))
            if unicodedata.category(c) not in ("Cs", "Cn"):
                return c
    return ["".join(character() * generator.choice([1, 1, 1, 2, 5]) for _ in range(generator.randrange(1, 24)))
            for _ in range(count)]
