# What reads platform files, and the child process in which SimGrid does.
tandem_tests(
  platform
  SOURCES sim/network/child_test.cpp sim/platform/flattened_test.cpp
          sim/platform/platform_scenarios_test.cpp
          sim/platform/platform_test.cpp
  LIBRARIES tandem::sim)
target_include_directories(tandem_platform_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
