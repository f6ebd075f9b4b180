# Tests find the sources through FF_SOURCE_DIR and the tool through FF_BINARY: macros for the C
# programs, variables of the environment for the scripts. A script that exits 77 is skipped.
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
if(CMOCKA_FOUND)
  file(GLOB test_sources CONFIGURE_DEPENDS tests/*_test.c)
  foreach(source ${test_sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_compile_definitions(${name} PRIVATE FF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               FF_BINARY="$<TARGET_FILE:fivefold_tool>")
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${name} PRIVATE fivefold PkgConfig::CMOCKA)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  endforeach()
  foreach(name engine_golden_test engine_kernels_test engine_verify_test)
    string(REPLACE engine_ engine64_ name64 ${name})
    add_executable(${name64} tests/${name}.c $<TARGET_OBJECTS:engine64>)
    set_target_properties(${name64} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_compile_definitions(${name64} PRIVATE FF_ENGINE_FP64
                                                 FF_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_include_directories(${name64} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${name64} PRIVATE fivefold PkgConfig::CMOCKA)
    add_test(NAME ${name64} COMMAND ${name64})
    set_tests_properties(${name64} PROPERTIES TIMEOUT 600)
  endforeach()
else()
  message(STATUS "cmocka not found: the test programs are left out (make test installs it)")
endif()

file(GLOB test_scripts CONFIGURE_DEPENDS tests/*.sh)
foreach(script ${test_scripts})
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME ${name} COMMAND bash ${script})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "FF_BINARY=$<TARGET_FILE:fivefold_tool>;FF_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
endforeach()
