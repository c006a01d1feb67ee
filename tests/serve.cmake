tandem_tests(
  serve
  SOURCES
    exec/serve/answer_text_test.cpp
    serve/access_test.cpp
    serve/api_request_test.cpp
    serve/api_service_test.cpp
    serve/http_server_test.cpp
    serve/page_test.cpp
    serve/token_entry_test.cpp
  LIBRARIES tandem::serve nlohmann_json::nlohmann_json)
