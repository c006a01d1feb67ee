tandem_tests(
  study
  SOURCES
    planner_fixture.cpp
    study_choice_test.cpp
    study_csps_test.cpp
    study_mdi_test.cpp
    study_prediction_test.cpp
    study_steady_state_boundary_points_test.cpp
    study_steady_state_closed_form_test.cpp
    study_steady_state_cycle_mean_test.cpp
    study_steady_state_recurrence_test.cpp
    study_steady_state_residency_test.cpp
    study_steady_state_schedule_graph_test.cpp
    study_steady_state_simgrid_test.cpp
    study_swap_test.cpp
    study_whatif_test.cpp
  LIBRARIES tandem::study)
