# Read into llama-cpp-python's own CMake project (CMAKE_PROJECT_llama_cpp_INCLUDE, scripts/setup.sh).
# It forces llama.cpp's helper library of command-line programs on; nothing here uses it, and it is
# two fifths of the compilation.
set(LLAMA_BUILD_COMMON OFF)
