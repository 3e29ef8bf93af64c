# cmake -D PROGRAM=<example> [-D ARGUMENT=<its argument>] -D EXPECTED=<what it prints> -P run.cmake
execute_process(COMMAND "${PROGRAM}" ${ARGUMENT} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ "${EXPECTED}" expected)
if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} ended with ${status} and printed\n${printed}\ninstead of\n${expected}")
endif()
