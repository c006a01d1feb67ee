# Master and workers as programs that a user starts.
tandem_tests(
  program
  SOURCES
    exec/session/session_program_test.cpp
    cli/cli_program.cpp
  LIBRARIES tandem::exec Threads::Threads)
target_include_directories(tandem_program_tests PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(tandem_program_tests tandem)
