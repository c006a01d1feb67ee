tandem_tests(
  gguf
  SOURCES
    exec_gguf_header_test.cpp
    exec_gguf_families_test.cpp
    exec_gguf_model_test.cpp
    exec_gguf_pieces_test.cpp
    exec_gguf_round_trip_test.cpp
    exec_gguf_tokenizer_test.cpp
    exec_gguf_vocabularies_test.cpp
    exec_weights_mapped_test.cpp
  LIBRARIES tandem::exec nlohmann_json::nlohmann_json)
