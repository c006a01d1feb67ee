tandem_tests(
  gguf
  SOURCES
    exec/gguf/gguf_header_test.cpp
    exec/gguf/gguf_families_test.cpp
    exec/gguf/gguf_model_test.cpp
    exec/gguf/gguf_pieces_test.cpp
    exec/gguf/gguf_round_trip_test.cpp
    exec/gguf/gguf_tokenizer_test.cpp
    exec/gguf/gguf_vocabularies_test.cpp
    exec/weights/mapped_weights_test.cpp
  LIBRARIES tandem::exec nlohmann_json::nlohmann_json)
