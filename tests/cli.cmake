tandem_tests(
  cli
  SOURCES
    cli/answer_form_test.cpp
    cli/bad_input_test.cpp
    cli/bad_run_test.cpp
    cli/bad_weights_test.cpp
    cli/clumsy_input_test.cpp
    cli/commands_test.cpp
    cli/choice_command_test.cpp
    cli/city_command_test.cpp
    cli/compare_command_test.cpp
    cli/experiment_command_test.cpp
    cli/collective_command_test.cpp
    cli/family_commands_test.cpp
    cli/cli_program.cpp
    cli/eval_command_test.cpp
    cli/experts_command_test.cpp
    cli/fidelity_command_test.cpp
    cli/fit_command_test.cpp
    cli/free_changes_command_test.cpp
    cli/flags_test.cpp
    cli/formats_command_test.cpp
    cli/gathered_weights_command_test.cpp
    cli/gguf_command_test.cpp
    cli/interrupt_command_test.cpp
    cli/kernels_command_test.cpp
    cli/limits_command_test.cpp
    cli/format_loss_command_test.cpp
    cli/max_loss_command_test.cpp
    cli/manners_test.cpp
    cli/moved_plan_command_test.cpp
    cli/memory_command_test.cpp
    cli/outdated_profiles_command_test.cpp
    cli/programs_test.cpp
    cli/propositions_command_test.cpp
    cli/rates_command_test.cpp
    cli/replicas_command_test.cpp
    cli/rows_command_test.cpp
    cli/sparse_command_test.cpp
    cli/strategies_command_test.cpp
    cli/haproxy_test.cpp
    cli/head_command_test.cpp
    cli/cache_type_command_test.cpp
    cli/wire_type_command_test.cpp
    cli/whatif_command_test.cpp
    cli/workload_command_test.cpp
    cli/planned_command_test.cpp
    cli/platform_remarks_test.cpp
    cli/prefix_command_test.cpp
    cli/prompt_chunks_command_test.cpp
    cli/predicted_run_command_test.cpp
    cli/profile_command_test.cpp
    cli/serve_command_test.cpp
    cli/served_command_test.cpp
    cli/sweep_command_test.cpp
    cli/testbed_command_test.cpp
    cli/streaming_command_test.cpp
    cli/tokenizer_command_test.cpp
    cli/variation_command_test.cpp
    cli/search_effort_command_test.cpp
  LIBRARIES tandem::model OpenSSL::SSL nlohmann_json::nlohmann_json)
target_include_directories(tandem_cli_tests PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(tandem_cli_tests tandem tandem_device tandem-study)

add_test(NAME "cli/programs: an exception finds its way out of every function"
         COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/cli/unwinding.py $<TARGET_FILE:tandem>
                 $<TARGET_FILE:tandem_device> $<TARGET_FILE:tandem-study>)
set_tests_properties("cli/programs: an exception finds its way out of every function"
                     PROPERTIES LABELS cli TIMEOUT 60 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

# `make demo` builds the target tandem.
if(CMAKE_GENERATOR STREQUAL "Ninja")
  add_test(NAME "cli/programs: the target tandem is built without study"
           COMMAND ${CMAKE_MAKE_PROGRAM} -C ${PROJECT_BINARY_DIR} -t inputs tandem)
  set_tests_properties("cli/programs: the target tandem is built without study"
                       PROPERTIES LABELS cli TIMEOUT 60 FAIL_REGULAR_EXPRESSION "libtandem_study|cli/study/")
endif()
