# tenon_fuzz(<name> SOURCES cc... CORPUS folder [LINKS target...] [DICT file])
#
# Declares a fuzz target. A source defines
#   extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
# Two ways to build it, from the same source:
#   any preset        fuzz_<name> replays every file of CORPUS, a test named fuzz.<name>: what a fuzzer
#                     has once found stays fixed, with any compiler.
#   preset `fuzz`     (clang) fuzz_<name> is the libFuzzer binary; `make fuzz` runs each for a while
#                     and keeps new inputs in build/fuzz/corpus.
# A crash becomes a file in CORPUS in the commit that fixes it.
option(TENON_FUZZ "Build libFuzzer binaries instead of corpus replays (clang only)" OFF)

function(tenon_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;DICT" "SOURCES;LINKS")
  if(NOT arg_SOURCES OR NOT arg_CORPUS)
    message(FATAL_ERROR "tenon_fuzz(${name}): SOURCES and CORPUS are needed.")
  endif()
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_path(ABSOLUTE_PATH arg_CORPUS BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  add_executable(fuzz_${name} ${arg_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${arg_LINKS})
  target_compile_features(fuzz_${name} PRIVATE cxx_std_20)
  add_dependencies(fuzzers fuzz_${name})
  if(TENON_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    # One line a target, read by scripts/fuzz.sh: binary, seed corpus, dictionary.
    if(arg_DICT)
      cmake_path(ABSOLUTE_PATH arg_DICT BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    endif()
    file(APPEND "${PROJECT_BINARY_DIR}/fuzz_targets.txt"
      "fuzz_${name}\t${arg_CORPUS}\t${arg_DICT}\n")
    return()
  endif()
  if(NOT TARGET fuzz_replay)  # compiled once for all
    add_library(fuzz_replay OBJECT "${PROJECT_SOURCE_DIR}/cmake/fuzz_replay.cc")
    target_compile_features(fuzz_replay PRIVATE cxx_std_20)
  endif()
  target_link_libraries(fuzz_${name} PRIVATE fuzz_replay)
  add_test(NAME fuzz.${name} COMMAND fuzz_${name} "${arg_CORPUS}")
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 600)
endfunction()

add_custom_target(fuzzers)
if(TENON_FUZZ)
  file(WRITE "${PROJECT_BINARY_DIR}/fuzz_targets.txt" "")
endif()
