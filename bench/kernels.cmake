tandem_bench(exec_kernels_bench tandem::exec tandem::model Threads::Threads)
# Eigen as a user would build it: for this machine.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-march=native TANDEM_HAVE_MARCH_NATIVE)
add_library(tandem_bench_eigen OBJECT exec_kernels_eigen.cpp)
target_link_libraries(tandem_bench_eigen PRIVATE Eigen3::Eigen tandem_options)
target_include_directories(tandem_bench_eigen PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_features(tandem_bench_eigen PRIVATE cxx_std_20)
if(TANDEM_HAVE_MARCH_NATIVE)
  target_compile_options(tandem_bench_eigen PRIVATE -march=native -Wno-uninitialized
                                                    -Wno-maybe-uninitialized)
endif()
target_sources(exec_kernels_bench PRIVATE $<TARGET_OBJECTS:tandem_bench_eigen>)
