# Compares with llama.cpp itself, where it is at hand: -DTANDEM_LLAMA=FOLDER, its shared libraries
# (of the npm package @node-llama-cpp/linux-x64: bins/linux-x64).
set(TANDEM_LLAMA "" CACHE PATH "Folder of llama.cpp's shared libraries, for ctest -L llama")
add_executable(tandem_gguf_logits EXCLUDE_FROM_ALL llama/gguf_logits.cpp)
target_link_libraries(tandem_gguf_logits PRIVATE tandem::exec tandem_options)
target_include_directories(tandem_gguf_logits PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_executable(tandem_gguf_tokens EXCLUDE_FROM_ALL llama/gguf_tokens.cpp)
target_link_libraries(tandem_gguf_tokens PRIVATE tandem::exec tandem_options)
if(TANDEM_LLAMA)
  set_target_properties(tandem_gguf_logits tandem_gguf_tokens PROPERTIES EXCLUDE_FROM_ALL OFF)
  add_test(NAME "exec/gguf: llama.cpp makes the same tokens of random vocabularies"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/llama/check_tokens.py
                   $<TARGET_FILE:tandem_gguf_tokens> ${TANDEM_LLAMA})
  set_tests_properties("exec/gguf: llama.cpp makes the same tokens of random vocabularies"
                       PROPERTIES LABELS llama TIMEOUT 600)
  add_test(NAME "exec/gguf: llama.cpp computes the same of converted files"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/llama/check_llama.py
                   $<TARGET_FILE:tandem> $<TARGET_FILE:tandem_gguf_logits> ${TANDEM_LLAMA}
                   --tokenizers ${CMAKE_CURRENT_SOURCE_DIR}/tokenizers)
  set_tests_properties("exec/gguf: llama.cpp computes the same of converted files"
                       PROPERTIES LABELS llama TIMEOUT 1800)
  add_test(NAME "exec/block codec: golden files are what llama.cpp decodes"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/llama/make_goldens.py ${TANDEM_LLAMA})
  set_tests_properties("exec/block codec: golden files are what llama.cpp decodes"
                       PROPERTIES LABELS llama TIMEOUT 60)
endif()
