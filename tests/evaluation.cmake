# Sessions fork: nothing here starts a thread in this process before.
tandem_tests(
  evaluation
  SOURCES exec/evaluation/scores_test.cpp exec/evaluation/evaluation_session_test.cpp
  LIBRARIES tandem::exec Threads::Threads)
target_include_directories(tandem_evaluation_tests PRIVATE ${PROJECT_SOURCE_DIR})
