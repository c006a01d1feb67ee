# Sessions first: they fork, and a process that has had threads is better not forked.
tandem_tests(
  runtime
  SOURCES
    exec_session_program_test.cpp
    exec_session_test.cpp
    exec_runtime_generation_test.cpp
    exec_runtime_pacer_test.cpp
    exec_runtime_random_graph_test.cpp
    exec_runtime_report_test.cpp
    exec_runtime_schedule_test.cpp
    exec_streaming_test.cpp
    cli_program.cpp
  LIBRARIES tandem::exec Threads::Threads)
target_compile_definitions(tandem_runtime_tests PRIVATE TANDEM_PROGRAM="$<TARGET_FILE:tandem>")
target_include_directories(tandem_runtime_tests PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(tandem_runtime_tests tandem)
