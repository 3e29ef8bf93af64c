# Read into llama-cpp-python's own CMake project (CMAKE_PROJECT_llama_cpp_INCLUDE, scripts/setup.sh).
# It forces llama.cpp's helper library of command-line programs on; nothing here uses it, and it is
# two fifths of the compilation.
set(LLAMA_BUILD_COMMON OFF)

# GCC before 14 takes the configuration of AMX tiles for eight bytes and leaves the others unwritten
# (GCC bug 114098), so that ggml dies of an illegal instruction at the first product with a Q8_0 or
# Q4_0 matrix.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND CMAKE_CXX_COMPILER_ID STREQUAL GNU
   AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 11 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  add_compile_options(-mno-amx-tile -mno-amx-int8 -mno-amx-bf16)
endif()
