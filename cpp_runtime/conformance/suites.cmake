# The conformance suites as targets, in this repository and in an installation:
#   target_link_libraries(my-tests PRIVATE edgepipe::device_suite GTest::gtest_main)
# The program compiles a suite's sources itself, against its own GoogleTest.
add_library(edgepipe::conformance INTERFACE IMPORTED)
target_sources(edgepipe::conformance INTERFACE ${CMAKE_CURRENT_LIST_DIR}/implementation.cc)
target_link_libraries(edgepipe::conformance INTERFACE edgepipe::edgepipe GTest::gtest)
set(edgepipe_device_suite product_program.cc)
set(edgepipe_memory_suite accelerator_view.cc)
set(edgepipe_stage_suite allocation_counter.cc)
foreach(edgepipe_suite device_suite memory_suite stage_suite)
  add_library(edgepipe::${edgepipe_suite} INTERFACE IMPORTED)
  target_sources(edgepipe::${edgepipe_suite} INTERFACE
    ${CMAKE_CURRENT_LIST_DIR}/${edgepipe_suite}.cc
    ${CMAKE_CURRENT_LIST_DIR}/${edgepipe_${edgepipe_suite}})
  target_link_libraries(edgepipe::${edgepipe_suite} INTERFACE edgepipe::conformance)
endforeach()
