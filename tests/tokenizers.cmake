tandem_tests(
  tokenizers
  SOURCES
    exec/tokenizer/chat/chat_template_test.cpp
    exec/tokenizer/bad_tokenizer_files_test.cpp
    exec/tokenizer/tokenizer_roundtrip_test.cpp
    exec/tokenizer/tokenizer_test.cpp
    exec/tokenizer/tokenizer_vectors_test.cpp
  LIBRARIES tandem::exec nlohmann_json::nlohmann_json)

# The stored vectors are what Debian's Python packages say today.
add_test(NAME "exec/tokenizers: their vectors can be made again, byte by byte"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/tokenizers/make_tokenizer_vectors.py --check)
set_tests_properties("exec/tokenizers: their vectors can be made again, byte by byte"
                     PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

add_test(NAME "exec/chat: its vectors can be made again, byte by byte"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/chat/make_chat_vectors.py --check)
set_tests_properties("exec/chat: its vectors can be made again, byte by byte"
                     PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

# Random templates by Jinja2 and by tandem; run it with other seeds to look for differences.
add_executable(tandem_chat_render chat/render_template.cpp)
target_link_libraries(tandem_chat_render PRIVATE tandem::exec nlohmann_json::nlohmann_json tandem_options)
add_dependencies(tandem_all_tests tandem_chat_render)
add_test(NAME "exec/chat: random templates render as Jinja2 renders them"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/chat/compare_random.py $<TARGET_FILE:tandem_chat_render> 500 1)
set_tests_properties("exec/chat: random templates render as Jinja2 renders them"
                     PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
