# tenon_bench(<name> SOURCES cc... [LINKS target...])
#
# Declares a google-benchmark program <name>_bench. It is not part of the default build: the target
# `benchmarks` builds them all, `make bench` builds and runs them in the release preset.
add_custom_target(benchmarks)

function(tenon_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINKS")
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(STATUS "google-benchmark is missing: ${name}_bench is left out.")
    return()
  endif()
  add_executable(${name}_bench EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${name}_bench PRIVATE ${arg_LINKS} benchmark::benchmark_main)
  target_compile_features(${name}_bench PRIVATE cxx_std_20)
  target_compile_definitions(${name}_bench PRIVATE TENON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_dependencies(benchmarks ${name}_bench)
endfunction()
