"""Chat templates and what Hugging Face's transformers make of them: vectors.json, made with Jinja2 itself.

The templates are written for this test after the manner of those that models come with (ChatML, Llama 2 and 3, Qwen 3,
Gemma 2 and 3), hold a construct each, or are random. `--check` compares the file with what is made now.
"""
import json
import pathlib
import sys
import warnings

import constructs
import random_templates
import jinja_reference as reference
import tool_templates

CONVERSATIONS = [
    [{"role": "user", "content": "Hi there"}],
    [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Was ist 2+2?\n"}],
    [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b </think> c"},
        {"role": "user", "content": "\u00fcn\u00efc\u00f6d\u00e9 \u6771\u4eac\u3000"},
    ],
    [{"role": "assistant", "content": "b"}, {"role": "user", "content": "a"}],
    [],
]
T = []
T.append("a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\rd\r\n")
T.append("{% for m in messages %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}")
T.append("{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}")
T.append("{% set x = 'o' %}{% macro a(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ a('1') }}{{ a('1', '2') }}{{ a('1', nothing) }}{{ a('1', y=nothing) }}")
T.append("{% for i in [1] %}{% break %}{% else %}E{% endfor %}{% for i in [1, 2] %}{% if i == 2 %}{% continue %}{% endif %}{% else %}F{% endfor %}")
T.append("{{ '\u01c6a'|capitalize }}{{ '\u00dfA'|capitalize }}{{ ''|capitalize }}")
T.append("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
T.append("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
T.append("""{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- a comment #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""")
T.append("""{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {{- tools | tojson }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""")
T.append("""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""")
T.append("""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""")
T.append("{% for message in messages %}\n  {% if loop.first %}\nfirst\n  {% endif %}\n  {{ loop.index }}: {{ message.role|upper }} {{ message.content|length }} {{ message.content[:3] }} {{ message.content[::-1] }}\n{% endfor %}\nend\n")
T.append("{% macro show(m, x=2) %}[{{ m.role }}:{{ x }}]{% endmacro %}{% for m in messages %}{{ show(m) }}{{ show(m, x=loop.index) }}{% endfor %}{{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role','equalto','user')|list|length }} {{ (messages|last).content if messages else 'none' }}")
T.append("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 7 / 2 }} {{ 1 + 2 * 3 }} {{ 'a' ~ 1 ~ 2.5 ~ none ~ true }} {{ 1 < 2 < 3 }} {{ 'a' in 'cat' }} {{ 3 not in [1,2] }} {{ not false }} {{ 1 if false }}  {{ 'x' if messages else 'y' }}")
T.append("{%- set x %}block {{ 1 }}{% endset %}{{ x }}{% for k, v in {'a':1,'b':2}.items() %}{{ k }}={{ v }};{% endfor %}{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}{{ x }}{{ {'k':[1,2,{'z':none}]}|tojson }}{{ {'k':[1,{}]}|tojson(indent=2) }}")
T.append("{% for m in messages if m.role == 'user' %}{{ loop.length }}{{ loop.revindex }}{{ loop.last }}{{ loop.previtem.role if loop.previtem is defined }}{% endfor %}{{ ' a '|trim }}{{ 'abc'|replace('b','x') }}{{ 'A'|lower }}{{ 'hello world'|capitalize }}{{ undefined_thing }}{{ undefined_thing|default('d') }}{{ ''|default('e', true) }}{{ '3'|int + 1 }}{{ 'x'|int }}{{ 3.7|int }}{{ 'a,b,c'.split(',')|join('/') }}{{ ' a b  c\\n'.split()|join('/') }}{{ 'a,b,c'.split(',', 1)|tojson }}{{ 'abc'.find('c') }}")
T.append("   {% if true %}  x  {%- endif %}\n\n   {%+ if true %} y{% endif +%}\n  {# c #}\n z {{- 'q' -}}  \n w\n\n")
T.append("{% generation %}x{{ bos_token }}{% endgeneration %}{{ eos_token }}\n")
T.append("{{ messages[0].foo }}{{ messages[0].foo.bar }}")
T.append("{{ 'a' + 1 }}"); T.append("{% if %}"); T.append("{{ 'abc }}"); T.append("{% for x in y %}"); T.append("{{ x|nofilter }}"); T.append("{{ {'a': {'b': 1}}['a']['b'] }}{{ '}}' }}{{ \"it's\" }}")
T.append("{{ 'tab\\tnl\\n\\\\ q' }}{{ 'a' 'b' }}{{ messages is iterable }}{{ messages is mapping }}{{ 1 is number }}{{ 'x' is string }}{{ none is none }}{{ 4 is even }}{{ 3 is divisibleby 3 }}")
T.append("{%- for m in messages %}{% set r = m.role %}{% endfor %}{{ r is defined }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{{ messages[-1].role if messages }}{{ messages[5] is defined }}{{ ('a','b')|join('-') }}{{ [3,1,2]|first }}{{ ([1,2]+[3])|tojson }}{{ 'x'*2 }}")

RANDOM = 250  # templates that Jinja2 renders
LONGEST = 500  # bytes of a random template


def vector(template, messages, tools=None):
    text, _ = reference.rendered(template, messages, tools)
    return {"template": template, "messages": messages, "text": text, **({"tools": tools} if tools else {})}


def random_vectors():
    """Of templates that render, without addresses and texts marked as safe."""
    made = []
    seed = 0
    while len(made) < RANDOM:
        template = random_templates.template(seed)
        seed += 1
        if len(template) > LONGEST or "safe" in template or "|e" in template or "escape" in template:
            continue
        one = vector(template, CONVERSATIONS[0])
        if one["text"] is not None and " at 0x" not in one["text"].lower():
            made.append(one)
    return made


def main():
    warnings.simplefilter("ignore")
    path = pathlib.Path(__file__).with_name("vectors.json")
    vectors = [vector(t, m) for t in T for m in CONVERSATIONS]
    vectors += [vector(t, constructs.MESSAGES) for t in constructs.TEMPLATES]
    vectors += random_vectors()
    vectors += [vector(t, m, tools) for t in tool_templates.TEMPLATES for m in tool_templates.CONVERSATIONS for tools in (tool_templates.TOOLS, None)]
    text = json.dumps(vectors, indent=1, ensure_ascii=False) + "\n"
    if sys.argv[1:] != ["--check"]:
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        sys.exit(f"{path}: is not what its generator makes")


main()
