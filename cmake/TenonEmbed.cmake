# tenon_embed(<layer target> <header> FILES file...)
#
# Puts the files into the binary. <header> is written "tenon/<layer>/<name>.h" and then declares
#   namespace tenon { std::span<const EmbeddedFile_<name>> <name>(); }
# whose elements have `name` (the file's name without folder) and `bytes`, sorted by name.
#
#   tenon_embed(tenon_format tenon/format/builtin_definitions.h FILES ${definitions})
#   for (const auto& file : tenon::builtin_definitions()) load(file.name, file.bytes);
function(tenon_embed target header)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FILES")
  set(generated "${PROJECT_BINARY_DIR}/generated")
  cmake_path(GET header STEM name)
  string(REGEX REPLACE "\\.h$" ".cc" source "${generated}/${header}")
  list(TRANSFORM arg_FILES REPLACE "^([^/])" "${CMAKE_CURRENT_SOURCE_DIR}/\\1")
  list(SORT arg_FILES)
  list(JOIN arg_FILES "," files)
  set(script "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/EmbedFiles.cmake")
  add_custom_command(OUTPUT "${generated}/${header}" "${source}"
    COMMAND ${CMAKE_COMMAND} -D FILES=${files} -D NAME=${name} -D HEADER=${header}
            -D OUT=${generated} -P ${script}
    DEPENDS ${arg_FILES} ${script}
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE "${source}" "${generated}/${header}")
  target_include_directories(${target} PRIVATE "${generated}")
endfunction()
