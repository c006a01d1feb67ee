# The options that every target of ours has, and tandem_library(): one library a folder.

add_library(tandem_options INTERFACE)
target_compile_features(tandem_options INTERFACE cxx_std_20)
target_compile_options(
  tandem_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                           $<$<BOOL:${TANDEM_WERROR}>:-Werror>)
# GCC 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tandem_options INTERFACE -Wno-restrict)
endif()
# Builds that check also have the standard library check indices and iterators.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_definitions(tandem_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
if(TANDEM_SANITIZE)
  target_compile_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE}
                                                  -fno-omit-frame-pointer)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
  # Asked at each access to memory, these take a third to half of the time to compile. A null pointer ends in a signal that the
  # address sanitizer reports, too; alignment is watched nowhere, as is the type of an object behind a pointer.
  if(TANDEM_SANITIZE MATCHES "undefined")
    target_compile_options(tandem_options INTERFACE -fno-sanitize=alignment,null,object-size,vptr)
  endif()
  # SimGrid's headers use fences, which GCC's thread sanitizer does not follow; sim has no threads.
  if(TANDEM_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(tandem_options INTERFACE -Wno-tsan)
  endif()
endif()

# For folders that take requests and print answers: what computes is elsewhere, and -O1 compiles in three quarters of the time of -O2.
set(TANDEM_LIGHT $<$<CONFIG:Release>:-O1>)

# tandem_optimize(REGEX OPTION): OPTION for the sources of any library whose names, relative to the root, match.
function(tandem_optimize regex option)
  get_property(targets GLOBAL PROPERTY TANDEM_UNITY_TARGETS)
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
      file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
      if(name MATCHES "${regex}")
        set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS ${option})
      endif()
    endforeach()
  endforeach()
endfunction()

# tandem_library(NAME SOURCES ... HEADERS ... PUBLIC deps... PRIVATE deps...)
# Makes tandem_NAME with alias tandem::NAME. Its headers are private: include/tandem/ has those of the library (api/).
function(tandem_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  set(target tandem_${name})
  add_library(${target} ${ARG_SOURCES})
  add_library(tandem::${name} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_sources(${target} PRIVATE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES
                                   ${ARG_HEADERS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE}
                                  $<BUILD_INTERFACE:tandem_options>)
  set_property(GLOBAL APPEND PROPERTY TANDEM_LIBRARIES ${target})
  set_property(GLOBAL APPEND PROPERTY TANDEM_UNITY_TARGETS ${target})
endfunction()

# tandem_table(LIBRARY FUNCTION ROW HEADER NAMES...): the instances of a concept that has one source each, and their table. Adds NAME.cpp
# of each to tandem_LIBRARY and defines `const std::vector<ROW>& FUNCTION()`, which HEADER declares: the results of NAME_row(), in the
# order of NAMES. Nothing else lists them, so that one more is a source and a name here. Two rows of one name are a logic_error when the
# table is first read (model/base/named_rows.hpp).
function(tandem_table library function row header)
  string(TOLOWER ${row} suffix)
  set(declarations)
  set(calls)
  foreach(name ${ARGN})
    target_sources(tandem_${library} PRIVATE ${name}.cpp)
    string(APPEND declarations "${row} ${name}_${suffix}();\n")
    list(APPEND calls "${name}_${suffix}()")
  endforeach()
  list(JOIN calls ", " calls)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  file(CONFIGURE OUTPUT ${file} CONTENT [[
#include "@header@"
#include "model/base/named_rows.hpp"

namespace tandem::@library@ {

@declarations@
const std::vector<@row@>& @function@() {
  static const std::vector<@row@> table =
      model::named_rows<@row@>("@function@", {@calls@});
  return table;
}

}  // namespace tandem::@library@
]] @ONLY)
  target_sources(tandem_${library} PRIVATE ${file})
endfunction()
