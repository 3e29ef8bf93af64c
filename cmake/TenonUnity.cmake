# tenon_unity(<result> <name> <folder> ALONE cc... SOURCES cc...)
#
# Puts into <result> what to compile for SOURCES: files in the build folder, <name>_<n>.cc, each of which includes
# several sources, as "<folder>/<source>". Headers are read, and templates instantiated, once for all of them:
# docs/benchmarks.md has the figures ("The build"). A file that needs options of its own is named in ALONE.
#
# Sources that follow each other are compiled together until they have TENON_UNITY_BYTES, so that no such file
# takes much longer than the largest source does. Names in their anonymous namespaces must differ within a layer.
# TENON_UNITY=OFF compiles each source by itself, as `make lint` does: a source must include all that it uses.
option(TENON_UNITY "Compile several sources of a layer at once" ON)
set(TENON_UNITY_BYTES 60000 CACHE STRING "How much source text is compiled at once")
mark_as_advanced(TENON_UNITY_BYTES)

function(tenon_unity result name folder)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "ALONE;SOURCES")
  if(NOT TENON_UNITY)
    set(${result} ${arg_SOURCES} PARENT_SCOPE)
    return()
  endif()
  set(files "")
  set(batch "")
  set(bytes 0)
  set(number 0)
  list(REMOVE_ITEM arg_SOURCES "" ${arg_ALONE})  # "": CMake demands an item, and ALONE may be empty
  foreach(source IN LISTS arg_SOURCES ITEMS "")  # the empty one closes the last batch
    set(size ${TENON_UNITY_BYTES})
    if(source)
      # In steps of 4 KiB: a small edit must not move the borders between batches.
      file(SIZE "${CMAKE_CURRENT_SOURCE_DIR}/${source}" size)
      math(EXPR size "(${size} + 4095) / 4096 * 4096")
    endif()
    math(EXPR sum "${bytes} + ${size}")
    if(batch AND sum GREATER TENON_UNITY_BYTES)
      math(EXPR number "${number} + 1")
      set(file "${CMAKE_CURRENT_BINARY_DIR}/unity/${name}_${number}.cc")
      list(JOIN batch "" content)
      file(CONFIGURE OUTPUT "${file}" CONTENT "${content}" @ONLY)
      list(APPEND files "${file}")
      set(batch "")
      set(sum ${size})
    endif()
    list(APPEND batch "#include \"${folder}/${source}\"\n")
    set(bytes ${sum})
  endforeach()
  if(files)
    # Two warnings are wrong about a source that is included. -Wshadow: a local name may equal one that another source of the
    # batch declares; clang-tidy checks each source by itself for that (.clang-tidy). -Wsubobject-linkage: GCC takes the source for a
    # header, where a type must not depend on types of an anonymous namespace.
    set(warnings -Wno-shadow)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND warnings -Wno-subobject-linkage)
    endif()
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${warnings}")
  endif()
  set(${result} ${files} ${arg_ALONE} PARENT_SCOPE)
endfunction()
