include(GoogleTest)
include(${CMAKE_CURRENT_LIST_DIR}/TenonUnity.cmake)
file(WRITE "${PROJECT_BINARY_DIR}/unit_tests.txt" "")

# tenon_layer(<name> [COLD] [HEADERS h...] [SOURCES cc...] [ALONE cc...] [TESTS cc...] [USES layer...]
#             [LINKS target...] [HIDES target...] [TEST_LINKS target...])
#
# Declares the layer in this folder as target tenon::<name> and, if it has tests, <name>_test.
# <name> is the folder under src/tenon; a part of a layer is a layer too (`engine/llama` becomes
# tenon::engine_llama). USES names the layers whose headers it may include; each must be declared
# already, so a cycle cannot be written down. HEADERS are public: installed, and each compiled alone
# by the target all_verify_interface_header_sets. LINKS are libraries from outside Tenon that our
# headers show, HIDES those that only our sources see, TEST_LINKS those that only the tests see.
# SOURCES are compiled several at a time (TenonUnity.cmake), those that ALONE repeats one at a time.
# COLD: no token and no byte of an answer waits for this layer, so it is compiled quickly (tenon_cold).
function(tenon_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "COLD" "" "HEADERS;SOURCES;ALONE;TESTS;USES;LINKS;HIDES;TEST_LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_layer(${name}): what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT CMAKE_CURRENT_SOURCE_DIR STREQUAL "${PROJECT_SOURCE_DIR}/src/tenon/${name}")
    message(FATAL_ERROR "tenon_layer(${name}) belongs into src/tenon/${name}/CMakeLists.txt.")
  endif()
  string(REPLACE "/" "_" target "${name}")
  foreach(layer IN LISTS arg_USES)
    string(REPLACE "/" "_" used "tenon_${layer}")
    if(NOT TARGET ${used})
      message(FATAL_ERROR "Layer '${name}' uses '${layer}', which is not declared above it.")
    endif()
    list(APPEND arg_LINKS ${used})
  endforeach()

  set(kind PUBLIC)
  if(arg_SOURCES)
    tenon_unity(sources ${target} tenon/${name} SOURCES ${arg_SOURCES} ALONE ${arg_ALONE})
    add_library(tenon_${target} STATIC ${sources})
    target_link_libraries(tenon_${target} PRIVATE ${arg_HIDES})
    if(arg_COLD)
      tenon_cold(tenon_${target})
    endif()
  else()
    add_library(tenon_${target} INTERFACE)
    set(kind INTERFACE)
  endif()
  add_library(tenon::${target} ALIAS tenon_${target})
  target_compile_features(tenon_${target} ${kind} cxx_std_20)
  target_link_libraries(tenon_${target} ${kind} ${arg_LINKS})
  target_sources(tenon_${target} ${kind}
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${arg_HEADERS})
  set_target_properties(tenon_${target} PROPERTIES
    EXPORT_NAME ${target} POSITION_INDEPENDENT_CODE ON VERIFY_INTERFACE_HEADER_SETS ON)
  install(TARGETS tenon_${target} EXPORT tenon COMPONENT development FILE_SET HEADERS COMPONENT development)

  # One source root serves all layers, so the compiler cannot see a forbidden include. This check
  # can; it runs before the layer is compiled whenever one of its files changed, and as a test.
  list(JOIN arg_USES "," uses)
  set(check ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR}/src/tenon -D LAYER=${name}
    -D ALLOWED=${name},${uses} -P ${PROJECT_SOURCE_DIR}/cmake/CheckIncludes.cmake)
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/includes.stamp)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${check}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${arg_HEADERS} ${arg_SOURCES} ${arg_TESTS} CMakeLists.txt
            ${PROJECT_SOURCE_DIR}/cmake/CheckIncludes.cmake
    COMMENT "Includes of ${name}"
    VERBATIM)
  add_custom_target(${target}_includes ALL DEPENDS ${stamp})
  add_dependencies(tenon_${target} ${target}_includes)

  if(NOT BUILD_TESTING)
    return()
  endif()
  add_test(NAME ${target}.includes COMMAND ${check})
  if(arg_TESTS)
    # With sanitizers, tests are compiled without optimisation, which halves the time of their compilation. Proofs compute for
    # long, so they are compiled as the layer is.
    set(proofs ${arg_TESTS})
    list(FILTER proofs INCLUDE REGEX "_proof_test\\.cc$")
    list(FILTER arg_TESTS EXCLUDE REGEX "_proof_test\\.cc$")
    set(TENON_UNITY_BYTES 60000)  # small: an edit waits for its batch
    tenon_unity(tests ${target}_test tenon/${name} SOURCES ${arg_TESTS})
    tenon_unity(proofs ${target}_proof_test tenon/${name} SOURCES ${proofs})
    if(CMAKE_BUILD_TYPE STREQUAL "Debug")
      set_property(SOURCE ${tests} APPEND PROPERTY COMPILE_OPTIONS -O0)
    endif()
    tenon_test(${target} SOURCES ${tests} ${proofs}
      LINKS tenon_${target} ${arg_HIDES} ${arg_TEST_LINKS} GTest::gmock)
  endif()
endfunction()

# tenon_cold(<target>): -O1 in the release preset, which takes a fifth less time to compile than -O2.
function(tenon_cold target)
  if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# tenon_test(<name> SOURCES cc... [LINKS target...])
#
# Declares the GoogleTest program <name>_test. To ctest each of its tests is one, named
# <name>.<suite>.<test> and labelled `unit`; `make test` runs each program once as a whole, because
# starting a sanitised program a thousand times takes longer than its tests.
#
# The layers' archives stand before the tests' objects too when it is linked. An inline function that several objects hold, such as
# one of std::string, is taken from the first of them: from a layer, which is compiled with optimisation, not from a test, which is
# not. The Lexer tests of json_test took 13.7 s of processor time before and take 6.7 s so (2026-11-29; docs/benchmarks.md, "The
# build"). It works with mold; GNU ld ignores an archive that stands before what needs it.
#
# A test program runs in the tree's root, wherever it is started (test_main.cc), and TENON_SOURCE_DIR is that: for
# tests that read tests/golden, formats/ or models/. Only test_main.cc is compiled with the
# tree's path, and everything else of a test without it, so ccache has answers for every clone. Benchmarks and the program
# fuzz_schema_masks are compiled with the path too.
function(tenon_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  if(NOT TARGET tenon_test_main)
    add_library(tenon_test_main OBJECT "${PROJECT_SOURCE_DIR}/cmake/test_main.cc")
    target_link_libraries(tenon_test_main PUBLIC GTest::gtest)
    target_compile_features(tenon_test_main PRIVATE cxx_std_20)
    target_compile_definitions(tenon_test_main PRIVATE TENON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  endif()
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${arg_LINKS} tenon_test_main)
  tenon_archives(archives ${arg_LINKS})
  list(TRANSFORM archives REPLACE ".+" "$<TARGET_FILE:\\0>")
  target_link_options(${name}_test PRIVATE ${archives})
  target_compile_features(${name}_test PRIVATE cxx_std_20)
  target_compile_definitions(${name}_test PRIVATE TENON_SOURCE_DIR=".")
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS unit)
  file(APPEND "${PROJECT_BINARY_DIR}/unit_tests.txt" "${name}_test\n")
endfunction()

# tenon_archives(<result> target...): the static libraries of Tenon among the targets and what they link, each once.
function(tenon_archives result)
  set(found "")
  set(open ${ARGN})
  while(open)
    list(POP_FRONT open target)
    string(REGEX REPLACE "^tenon::" "tenon_" target "${target}")
    if(NOT TARGET ${target} OR NOT target MATCHES "^tenon_" OR target IN_LIST found)
      continue()
    endif()
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${target})
    endif()
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(APPEND open ${links})
    endif()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()
