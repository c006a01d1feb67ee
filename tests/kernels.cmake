tandem_tests(
  kernels
  SOURCES
    exec_block_cache_test.cpp
    exec_cache_type_test.cpp
    exec_compute_errors_test.cpp
    exec_compute_test.cpp
    exec_compute_touches_test.cpp
    exec_kernels_attention_test.cpp
    exec_kernels_integer_product_test.cpp
    exec_kernels_product_test.cpp
    exec_kernels_rowwise_test.cpp
    exec_kernels_thread_pool_test.cpp
    exec_kernels_weight_product_test.cpp
    exec_kernels_wire_row_test.cpp
    exec_profile_test.cpp
  LIBRARIES tandem::exec Threads::Threads)
