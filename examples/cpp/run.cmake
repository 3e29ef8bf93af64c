# cmake -D PROGRAM=<example> [-D ARGUMENT=<its argument>] -D EXPECTED=<what it prints> -P run.cmake
# In what it prints * stands for what a model says, which may be anything.
execute_process(COMMAND "${PROGRAM}" ${ARGUMENT} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ "${EXPECTED}" expected)
string(REGEX REPLACE "([][+.?(){}^$|\\\\])" "\\\\\\1" pattern "${expected}")
string(REPLACE "*" ".*" pattern "${pattern}")
if(NOT status EQUAL 0 OR NOT printed MATCHES "^${pattern}$")
  message(FATAL_ERROR "${PROGRAM} ended with ${status} and printed\n${printed}\ninstead of\n${expected}")
endif()
