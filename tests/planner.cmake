tandem_tests(
  planner
  SOURCES
    planner_allreduce_search_test.cpp
    planner_collective_test.cpp
    planner_fixture.cpp
    planner_interpreter.cpp
    planner_lowering_test.cpp
    planner_monotony_test.cpp
    planner_partition_test.cpp
    planner_pipeline_test.cpp
    planner_plan_test.cpp
    planner_proximity_test.cpp
    planner_search_test.cpp
    planner_tensor_collective_test.cpp
    planner_window_memory_test.cpp
    planner_window_test.cpp
  LIBRARIES tandem::planner nlohmann_json::nlohmann_json)
