tandem_tests(
  serve
  SOURCES
    exec/serve/answer_text_test.cpp
    serve/access_test.cpp
    serve/answer_forms_test.cpp
    serve/api_choices_test.cpp
    serve/api_request_test.cpp
    serve/api_service_test.cpp
    serve/http_server_test.cpp
    serve/page_test.cpp
    serve/plan_question_test.cpp
    serve/request_target_test.cpp
    serve/tls_test.cpp
    serve/token_entry_test.cpp
  LIBRARIES tandem::serve OpenSSL::SSL nlohmann_json::nlohmann_json)
