"""Jinja2 as Hugging Face's transformers set it up for chat templates."""
import copy
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """transformers' mark of what an assistant says: a block with names of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_content"), [], [], body).set_lineno(line)

    def _content(self, caller):
        return caller()


def refuse(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = datetime.datetime(2026, 11, 23).strftime
    return made


def rendered(template, messages, tools=None):
    """The text, and None; or None, and the fault."""
    try:
        text = environment().from_string(template).render(
            messages=copy.deepcopy(messages),
            add_generation_prompt=True,
            bos_token="<s>",
            eos_token="</s>",
            tools=copy.deepcopy(tools),
            documents=None,
        )
        return text, None
    except Exception as fault:  # whatever Python's operations throw
        return None, f"{type(fault).__name__}: {fault}"
