tandem_tests(
  grammar
  SOURCES
    exec/grammar/json_schema_test.cpp
    exec/grammar/token_grammar_test.cpp
  LIBRARIES tandem::exec nlohmann_json::nlohmann_json)

# Random answers to random schemas, judged by Python's jsonschema; run it with other seeds to look for faults.
add_executable(tandem_grammar_answers grammar/random_answers.cpp)
target_link_libraries(tandem_grammar_answers PRIVATE tandem::exec nlohmann_json::nlohmann_json tandem_options)
add_dependencies(tandem_all_tests tandem_grammar_answers)
add_test(NAME "exec/grammar: random answers conform, as jsonschema finds"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/grammar/check_answers.py $<TARGET_FILE:tandem_grammar_answers>
                 ${CMAKE_CURRENT_SOURCE_DIR}/tokenizers 60 1 $<TARGET_FILE:tandem> ${PROJECT_SOURCE_DIR}/scenarios/models/tandem-tiny)
set_tests_properties("exec/grammar: random answers conform, as jsonschema finds"
                     PROPERTIES LABELS python TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
