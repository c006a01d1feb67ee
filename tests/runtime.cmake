# Sessions first: they fork, and a process that has had threads is better not forked.
tandem_tests(
  runtime
  SOURCES
    exec_session_test.cpp
    exec_runtime_generation_test.cpp
    exec_runtime_pacer_test.cpp
    exec_runtime_random_graph_test.cpp
    exec_runtime_report_test.cpp
    exec_runtime_schedule_test.cpp
  LIBRARIES tandem::exec Threads::Threads)
