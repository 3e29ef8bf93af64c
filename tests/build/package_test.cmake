# cmake -D BUILD=<built tree> -D VENV=<virtual environment> -D OUT=<scratch folder> -D FLAGS=<flags>
#       -P package_test.cmake
# An installed Tenon is found by find_package(tenon), and a program links with it.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${OUT}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${OUT}/installed")
file(GLOB site_packages "${VENV}/lib/python3*/site-packages")
file(WRITE "${OUT}/program/CMakeLists.txt" "cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES CXX)
list(APPEND CMAKE_PREFIX_PATH \"${OUT}/installed\" \"${site_packages}\")
find_package(tenon REQUIRED)
add_executable(program main.cc)
target_link_libraries(program PRIVATE tenon::api tenon::engine_llama)
")
file(WRITE "${OUT}/program/main.cc" "#include <tenon/engine/llama/llama_engine.h>
#include <tenon/format/registry.h>
#include <tenon/json/value.h>

int main() { return tenon::json::parse(\"[1]\") && tenon::format::find(\"hermes\") ? 0 : 1; }
")
run(${CMAKE_COMMAND} -G Ninja -S "${OUT}/program" -B "${OUT}/program/build" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build "${OUT}/program/build")
run("${OUT}/program/build/program")
