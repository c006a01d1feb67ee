tandem_tests(
  model
  SOURCES
    model_analytic_test.cpp
    model_cluster_test.cpp
    model_config_json_test.cpp
    model_cost_model_test.cpp
    model_device_profile_test.cpp
    model_digest_test.cpp
    model_geometries_test.cpp
    model_memory_test.cpp
    model_perfetto_test.cpp
    model_quantity_text_test.cpp
    model_result_test.cpp
    model_task_graph_test.cpp
    model_trace_test.cpp
    model_work_test.cpp
  LIBRARIES tandem::model nlohmann_json::nlohmann_json)
