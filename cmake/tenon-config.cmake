# find_package(tenon)                     the layers for C++ (tenon::api, ...), and tenon::shared
# find_package(tenon COMPONENTS shared)   libtenon.so and tenon.h alone, which need no other package
include(${CMAKE_CURRENT_LIST_DIR}/tenon-shared.cmake OPTIONAL)
if(NOT tenon_FIND_COMPONENTS STREQUAL "shared")
  include(${CMAKE_CURRENT_LIST_DIR}/TenonDependencies.cmake)
  include(${CMAKE_CURRENT_LIST_DIR}/tenon-targets.cmake)
endif()
