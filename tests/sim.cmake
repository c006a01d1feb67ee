tandem_tests(
  sim
  SOURCES
    planner/planner_fixture.cpp
    sim/replay/cache_copies_replay_test.cpp
    sim/platform/city_test.cpp
    sim/replay/composed_replay_test.cpp
    sim/replay/collective_replay_test.cpp
    sim/replay/galaxy_replay_test.cpp
    sim/network/dynamics_test.cpp
    sim/replay/step_extrapolation_test.cpp
    sim/replay/in_flight_steps_test.cpp
    sim/replay/golden_test.cpp
    sim/network/network_test.cpp
    sim/replay/stage_ring_replay_test.cpp
    sim/replay/replay_test.cpp
    sim/replay/served_replay_test.cpp
    sim/replay/stages_replay_test.cpp
    sim/replay/window_replay_test.cpp
  LIBRARIES tandem::sim tandem::planner tandem::study)
target_include_directories(tandem_sim_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
