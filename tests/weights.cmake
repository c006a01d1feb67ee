tandem_tests(
  weights
  SOURCES
    exec/compute/shortlist_test.cpp
    exec/compute/logprobs_test.cpp
    exec/compute/samplers_test.cpp
    exec/compute/sampling_test.cpp
    exec/weights/files/atomic_file_test.cpp
    exec/weights/formats/block_codec_test.cpp
    exec/weights/formats/convert_test.cpp
    exec/weights/weights_digest_test.cpp
    exec/weights/source/weight_families_test.cpp
    exec/weights/random_weights_test.cpp
    exec/weights/source/safetensors_test.cpp
    exec/weights/store/block_assembly_test.cpp
    exec/weights/store/block_pieces_test.cpp
    exec/weights/files/block_record_test.cpp
    exec/weights/store/block_store_test.cpp
    exec/weights/formats/golden_blocks_test.cpp
    exec/weights/move_choice_test.cpp
    exec/weights/shard_test.cpp
    exec/weights/strategy_shards_test.cpp
    exec/weights/source/tensor_check_test.cpp
  LIBRARIES tandem::exec)

# Against PyTorch. Debian's Python, not one that the user's PATH may find first: it has the package
# python3-torch.
add_executable(tandem_dump_logits torch/dump_logits.cpp)
target_link_libraries(tandem_dump_logits PRIVATE tandem::exec nlohmann_json::nlohmann_json
                                                 tandem_options)
target_include_directories(tandem_dump_logits PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_dependencies(tandem_all_tests tandem_dump_logits)
if(NOT TANDEM_SANITIZE)  # numbers are looked at; the same code is run by other tests
  add_test(NAME "serve/embeddings: equal an independent PyTorch implementation to 1e-5"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/torch/check_embeddings.py
                   $<TARGET_FILE:tandem>)
  set_tests_properties("serve/embeddings: equal an independent PyTorch implementation to 1e-5"
                       PROPERTIES LABELS torch TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
  add_test(NAME "exec/logits: equal an independent PyTorch implementation to 1e-4"
           COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/torch/check_logits.py
                   $<TARGET_FILE:tandem_dump_logits>)
  set_tests_properties("exec/logits: equal an independent PyTorch implementation to 1e-4"
                       PROPERTIES LABELS torch TIMEOUT 600 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
