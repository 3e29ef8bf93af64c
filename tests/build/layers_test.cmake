# cmake -D ROOT=<project> -D OUT=<scratch folder> -P layers_test.cmake
# What the build promises about layers, tried on a tree of two layers, `low` and `high`.
cmake_minimum_required(VERSION 3.25)

# refused(<case> <what the message must hold> [<file> <line>]...): configures and builds a tree in
# which <file> consists of <line>. An empty message: the tree must build.
function(refused case message)
  set(tree "${OUT}/${case}")
  file(REMOVE_RECURSE "${tree}")
  file(WRITE "${tree}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.25)
project(trial LANGUAGES CXX)
set(BUILD_TESTING OFF)
include(\"${ROOT}/cmake/TenonLayer.cmake\")
file(COPY \"${ROOT}/cmake/CheckIncludes.cmake\" DESTINATION \"\${PROJECT_SOURCE_DIR}/cmake\")
set(layers low low/part high)
add_subdirectory(src/tenon/low)
if(EXISTS \"\${PROJECT_SOURCE_DIR}/src/tenon/low/part/CMakeLists.txt\")
  add_subdirectory(src/tenon/low/part)
endif()
add_subdirectory(src/tenon/high)
")
  file(WRITE "${tree}/src/tenon/low/CMakeLists.txt" "tenon_layer(low HEADERS low.h)\n")
  file(WRITE "${tree}/src/tenon/low/low.h" "#pragma once\n")
  file(WRITE "${tree}/src/tenon/high/CMakeLists.txt" "tenon_layer(high HEADERS high.h USES low)\n")
  file(WRITE "${tree}/src/tenon/high/high.h" "#include \"tenon/low/low.h\"\n")
  while(ARGN)
    list(POP_FRONT ARGN file line)
    file(WRITE "${tree}/src/tenon/${file}" "${line}\n")
  endwhile()

  execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S "${tree}" -B "${tree}/build"
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(status EQUAL 0)
    execute_process(COMMAND ${CMAKE_COMMAND} --build "${tree}/build"
      OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  endif()
  if(message STREQUAL "")
    if(NOT status EQUAL 0)
      message(SEND_ERROR "${case}: must build, but:\n${output}")
    endif()
  elseif(status EQUAL 0 OR NOT output MATCHES "${message}")
    message(SEND_ERROR "${case}: must be refused with '${message}', but status ${status}:\n${output}")
  endif()
endfunction()

refused(LowerLayerMayBeUsed "")
refused(IncludeUpwards "low/low.h: #include \"tenon/high/high.h\""
  low/low.h "#include \"tenon/high/high.h\"")
refused(IncludeThatUsesDoesNotName "high/high.h: #include \"tenon/low/low.h\""
  high/CMakeLists.txt "tenon_layer(high HEADERS high.h)")
refused(IncludeInAngles "high/high.h: #include <tenon/low/low.h>"
  high/high.h "#include <tenon/low/low.h>")
refused(IncludeByAnotherPath "high/high.h: #include \"../low/low.h\""
  high/high.h "#include \"../low/low.h\"")
refused(Cycle "Layer 'low' uses 'high', which is not declared above it"
  low/CMakeLists.txt "tenon_layer(low HEADERS low.h USES high)")
refused(UsesItself "Layer 'low' uses 'low', which is not declared above it"
  low/CMakeLists.txt "tenon_layer(low HEADERS low.h USES low)")
refused(UnknownLayer "Layer 'high' uses 'nosuch', which is not declared above it"
  high/CMakeLists.txt "tenon_layer(high HEADERS high.h USES nosuch)")
refused(UnknownWord "what is 'DEPENDS"
  high/CMakeLists.txt "tenon_layer(high DEPENDS low)")
refused(NameOfAnotherFolder "tenon_layer\\(other\\) belongs into src/tenon/other"
  high/CMakeLists.txt "tenon_layer(other HEADERS high.h)")
refused(PartIsALayerOfItsOwn "low/low.h: #include \"tenon/low/part/part.h\""
  low/part/CMakeLists.txt "tenon_layer(low/part HEADERS part.h USES low)"
  low/part/part.h "#include \"tenon/low/low.h\""
  low/low.h "#include \"tenon/low/part/part.h\"")
refused(PartMayBeUsedByName ""
  low/part/CMakeLists.txt "tenon_layer(low/part HEADERS part.h USES low)"
  low/part/part.h "#include \"tenon/low/low.h\""
  high/CMakeLists.txt "tenon_layer(high HEADERS high.h USES low/part)"
  high/high.h "#include \"tenon/low/part/part.h\"")
