# cmake "-Dcompile=COMPILER;ARG..." -Dsource=FILE -P compile_fail.cmake
# The file must compile as it is, and with -DBAD be refused with the phrase its first line expects:
#   // expect: phrase
file(STRINGS ${source} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "The first line of ${source} must be: // expect: phrase of the compiler's message")
endif()
set(phrase "${CMAKE_MATCH_1}")
set(ENV{LC_ALL} C)  # messages in English, plain quotes

execute_process(COMMAND ${compile} ${source} RESULT_VARIABLE status ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "Without -DBAD it must compile, but:\n${output}")
endif()

execute_process(COMMAND ${compile} -DBAD ${source} RESULT_VARIABLE status ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "With -DBAD it must be refused, but it compiles.")
endif()
string(FIND "${output}" "${phrase}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "The compiler's message does not contain \"${phrase}\":\n${output}")
endif()
