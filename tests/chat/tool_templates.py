"""Templates that show tools, after the manner of those of Qwen 2.5, Llama 3.1 and Mistral, and conversations with calls."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "room_of",
            "description": "Finds a lamp's room: \"attic\", 'hall' or <b>.",
            "parameters": {
                "type": "object",
                "properties": {"lamp": {"type": "string", "enum": ["r\u00f6t", "blue"]}, "floor": {"type": "integer", "default": -1}},
                "required": ["lamp"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]
CALL = {"id": "c1", "type": "function", "function": {"name": "room_of", "arguments": {"lamp": "r\u00f6t", "floor": 2, "x": [1.5, None, True]}}}
CONVERSATIONS = [
    [{"role": "user", "content": "Where is the lamp?"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is the lamp?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "{\"room\": \"attic\"}", "tool_call_id": "c1", "name": "room_of"},
    ],
    [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL, dict(CALL, id="c2")]},
        {"role": "tool", "content": "b", "tool_call_id": "c1"},
        {"role": "tool", "content": "c", "tool_call_id": "c2"},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"},
    ],
]
TEMPLATES = [
    """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'You help.' }}{%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}""",
    """{{- bos_token }}
{%- if tools is not none %}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- message['role'] + ': ' + message['content'] | trim + '\\n' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at once") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", ' + '"parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}
    {%- elif message.role == "tool" %}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
    {%- endif %}
{%- endfor %}""",
    """{%- for tool in tools %}{%- set tool = tool.function %}{{- '{"type": "function", "function": {' }}
{%- for key, val in tool.items() if key != "return" %}
{%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}{{- "}}" }}{%- endfor %}
{%- for message in messages %}
{%- if message["role"] == "tool" %}{{- message.tool_call_id }}={{ message.content }}
{%- elif message.tool_calls is defined and message.tool_calls is not none %}
{%- for tool_call in message.tool_calls %}{%- set out = tool_call.function|tojson %}{{- out[:-1] }}{{- ', "id": "' + tool_call.id + '"}' }}{%- endfor %}
{%- else %}{{- message["content"] }}{%- endif %}{%- endfor %}""",
    "{{ tools }}{% for m in messages %}{{ m }}{{ m.items()|list|length }}{{ m.content is none }}{% endfor %}",
]
