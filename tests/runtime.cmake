# Sessions first: they fork, and a process that has had threads is better not forked.
tandem_tests(
  runtime
  SOURCES
    exec/session/session_test.cpp
    exec/session/session_weights_test.cpp
    exec/session/session_served_test.cpp
    exec/session/session_live_test.cpp
    exec/session/session_liveness_test.cpp
    exec/session/session_prefix_test.cpp
    exec/emulation/turn_test.cpp
    exec/runtime/collective_run_test.cpp
    exec/runtime/galaxy_run_test.cpp
    exec/runtime/announcement_run_test.cpp
    exec/runtime/cache_copies_run_test.cpp
    exec/runtime/generation_run_test.cpp
    exec/runtime/lanes_test.cpp
    exec/machine/available_memory_test.cpp
    exec/emulation/pacer_test.cpp
    exec/runtime/program_run_test.cpp
    exec/runtime/random_graph_run_test.cpp
    exec/runtime/relay_run_test.cpp
    exec/runtime/run_report_test.cpp
    exec/runtime/lane_programs_test.cpp
    exec/runtime/run_tally_test.cpp
    exec/streaming/streaming_test.cpp
    exec/runtime/head_run_test.cpp
    exec/transport/privacy_test.cpp
    exec/runtime/csps_sparse_run_test.cpp
    exec/runtime/galaxy_sparse_run_test.cpp
    exec/runtime/gathered_weights_run_test.cpp
    exec/runtime/spread_run_test.cpp
    exec/runtime/spread_served_test.cpp
    exec/runtime/wire_type_run_test.cpp
    exec/runtime/chosen_instructions.cpp
  LIBRARIES tandem::exec Threads::Threads)
target_include_directories(tandem_runtime_tests PRIVATE ${PROJECT_SOURCE_DIR})

if(NOT TANDEM_SANITIZE)  # sanitizers take several times the memory
  add_test(NAME "exec/streaming: a model of four times a memory cgroup's limit runs to its end"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/exec/streaming/streaming_limit.py
                   $<TARGET_FILE:tandem>)
  set_tests_properties("exec/streaming: a model of four times a memory cgroup's limit runs to its end"
                       PROPERTIES LABELS runtime SKIP_RETURN_CODE 77 TIMEOUT 300
                                  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
