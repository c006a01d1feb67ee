tandem_tests(
  sim
  SOURCES
    planner_fixture.cpp
    sim_cache_copies_test.cpp
    sim_city_test.cpp
    sim_collective_composed_test.cpp
    sim_collective_test.cpp
    sim_galaxy_test.cpp
    sim_dynamics_test.cpp
    sim_extension_test.cpp
    sim_flights_test.cpp
    sim_golden_test.cpp
    sim_network_test.cpp
    sim_recurrent_test.cpp
    sim_replay_test.cpp
    sim_served_test.cpp
    sim_stages_test.cpp
    sim_window_test.cpp
  LIBRARIES tandem::sim tandem::planner tandem::study)
target_include_directories(tandem_sim_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
