# tenon_embed(<layer target> <header> FILES file...)
#
# Puts the files into the binary. <header> is written "tenon/<layer>/<name>.h" and then declares
#   namespace tenon { std::span<const EmbeddedFile_<name>> <name>(); }
# whose elements have `name` (the file's name without folder) and `bytes`, sorted by name.
#
#   tenon_embed(tenon_format tenon/format/builtin_definitions.h FILES ${definitions})
#   for (const auto& file : tenon::builtin_definitions()) load(file.name, file.bytes);
#
# The target `embedded` makes all such headers and compiles nothing.
add_custom_target(embedded)

function(tenon_embed target header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FILES")
  set(generated "${PROJECT_BINARY_DIR}/generated")
  cmake_path(GET header STEM name)
  string(REGEX REPLACE "\\.h$" ".cc" source "${generated}/${header}")
  set(paths)
  foreach(file IN LISTS arg_FILES)
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    list(APPEND paths "${file}")
  endforeach()
  list(SORT paths)
  list(JOIN paths "," files)
  set(script "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/EmbedFiles.cmake")
  add_custom_command(OUTPUT "${generated}/${header}" "${source}"
    COMMAND ${CMAKE_COMMAND} -D FILES=${files} -D NAME=${name} -D HEADER=${header}
            -D OUT=${generated} -P ${script}
    DEPENDS ${paths} ${script}
    COMMENT "Embedding ${name}"
    VERBATIM)
  add_custom_target(${target}_${name} DEPENDS "${generated}/${header}" "${source}")
  add_dependencies(embedded ${target}_${name})
  add_dependencies(${target} ${target}_${name})
  target_sources(${target} PRIVATE "${source}" "${generated}/${header}")
  target_include_directories(${target} PRIVATE "${generated}")
endfunction()
