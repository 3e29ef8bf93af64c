include(${CMAKE_CURRENT_LIST_DIR}/TenonDependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/tenon-targets.cmake)
