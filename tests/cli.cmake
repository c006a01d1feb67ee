tandem_tests(
  cli
  SOURCES
    cli_bad_input_test.cpp
    cli_bad_run_test.cpp
    cli_bad_weights_test.cpp
    cli_commands_test.cpp
    cli_choice_test.cpp
    cli_city_test.cpp
    cli_comparison_test.cpp
    cli_experiment_test.cpp
    cli_collective_test.cpp
    cli_families_test.cpp
    cli_program.cpp
    cli_eval_test.cpp
    cli_flags_test.cpp
    cli_formats_test.cpp
    cli_gathered_weights_test.cpp
    cli_gguf_test.cpp
    cli_max_loss_test.cpp
    cli_manners_test.cpp
    cli_memory_test.cpp
    cli_outdated_profiles_test.cpp
    cli_propositions_test.cpp
    cli_rows_test.cpp
    cli_sparse_test.cpp
    cli_head_test.cpp
    cli_cache_type_test.cpp
    cli_wire_type_test.cpp
    cli_whatif_test.cpp
    cli_workload_test.cpp
    cli_served_test.cpp
    cli_sweep_test.cpp
    cli_streaming_test.cpp
    cli_tokenizer_test.cpp
    cli_variation_test.cpp
  LIBRARIES tandem::model nlohmann_json::nlohmann_json)
target_compile_definitions(tandem_cli_tests PRIVATE TANDEM_PROGRAM="$<TARGET_FILE:tandem>")
target_include_directories(tandem_cli_tests PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(tandem_cli_tests tandem)
