# Sessions first: they fork, and a process that has had threads is better not forked.
tandem_tests(
  runtime
  SOURCES
    exec_session_program_test.cpp
    exec_session_test.cpp
    exec_session_served_test.cpp
    exec_session_liveness_test.cpp
    exec_emulation_turn_test.cpp
    exec_collective_test.cpp
    exec_galaxy_test.cpp
    exec_runtime_announcement_test.cpp
    exec_runtime_cache_copies_test.cpp
    exec_runtime_generation_test.cpp
    exec_runtime_lanes_test.cpp
    exec_runtime_memory_test.cpp
    exec_runtime_pacer_test.cpp
    exec_runtime_program_test.cpp
    exec_runtime_random_graph_test.cpp
    exec_runtime_relay_test.cpp
    exec_runtime_report_test.cpp
    exec_runtime_lane_programs_test.cpp
    exec_runtime_tally_test.cpp
    exec_streaming_test.cpp
    exec_head_split_test.cpp
    exec_privacy_test.cpp
    exec_sparse_test.cpp
    exec_galaxy_sparse_test.cpp
    exec_gathered_weights_test.cpp
    exec_spread_test.cpp
    exec_wire_type_test.cpp
    cli_program.cpp
  LIBRARIES tandem::exec Threads::Threads)
target_include_directories(tandem_runtime_tests PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(tandem_runtime_tests tandem)

if(NOT TANDEM_SANITIZE)  # sanitizers take several times the memory
  add_test(NAME "exec/streaming: a model of four times a memory cgroup's limit runs to its end"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/streaming_limit.py
                   $<TARGET_FILE:tandem>)
  set_tests_properties("exec/streaming: a model of four times a memory cgroup's limit runs to its end"
                       PROPERTIES LABELS runtime SKIP_RETURN_CODE 77 TIMEOUT 300
                                  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
