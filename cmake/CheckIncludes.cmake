# cmake -D ROOT=<src/tenon> -D LAYER=<layer> -D ALLOWED=a,b -P CheckIncludes.cmake
# Fails if a file of LAYER includes a header of a layer that is not in ALLOWED, or includes a header
# of ours by any path but "tenon/<layer>/...". A folder inside LAYER that has its own CMakeLists.txt
# is another layer (engine/llama) and is checked as that.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" ALLOWED "${ALLOWED}")

# The layer that FOLDER (relative to ROOT) belongs to: the nearest one above it that declares itself.
function(layer_of folder result)
  while(folder MATCHES "/" AND NOT EXISTS "${ROOT}/${folder}/CMakeLists.txt")
    string(REGEX REPLACE "/[^/]+$" "" folder "${folder}")
  endwhile()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/${LAYER}/*.h" "${ROOT}/${LAYER}/*.cc")
foreach(file IN LISTS files)
  string(REGEX REPLACE "/[^/]+$" "" folder "${file}")
  layer_of("${folder}" owner)
  if(NOT owner STREQUAL LAYER)
    continue()
  endif()
  file(STRINGS "${ROOT}/${file}" includes REGEX "^[ \t]*#[ \t]*include[ \t]*(\"|<tenon/)")
  foreach(include IN LISTS includes)
    if(NOT include MATCHES "^#include \"tenon/([^\"]+)/[^/\"]+\"")
      message(SEND_ERROR "src/tenon/${file}: ${include}\n"
        "  ours is written #include \"tenon/<layer>/<file>\", a library's header in <>")
      continue()
    endif()
    layer_of("${CMAKE_MATCH_1}" used)
    if(NOT used IN_LIST ALLOWED)
      message(SEND_ERROR "src/tenon/${file}: ${include}\n  allowed layers: ${ALLOWED}")
    endif()
  endforeach()
endforeach()
