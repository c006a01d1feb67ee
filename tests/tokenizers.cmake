tandem_tests(
  tokenizers
  SOURCES
    exec_chat_test.cpp
    exec_tokenizer_bad_files_test.cpp
    exec_tokenizer_roundtrip_test.cpp
    exec_tokenizer_test.cpp
    exec_tokenizer_vectors_test.cpp
  LIBRARIES tandem::exec nlohmann_json::nlohmann_json)

# The stored vectors are what Debian's Python packages say today.
add_test(NAME "exec/tokenizers: their vectors can be made again, byte by byte"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/tokenizers/make_vectors.py --check)
set_tests_properties("exec/tokenizers: their vectors can be made again, byte by byte"
                     PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

add_test(NAME "exec/chat: its vectors can be made again, byte by byte"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/chat/make_vectors.py --check)
set_tests_properties("exec/chat: its vectors can be made again, byte by byte"
                     PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
