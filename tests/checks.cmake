# Tests of the tree itself, and tests that build.
set(suite_folder "${CMAKE_CURRENT_SOURCE_DIR}/suite")
sluice_add_check(suite "${Python3_EXECUTABLE}" "${suite_folder}/check_suite.py" "${CMAKE_CURRENT_SOURCE_DIR}")
sluice_add_check(includes "${Python3_EXECUTABLE}" "${suite_folder}/check_includes.py" "${PROJECT_SOURCE_DIR}")
sluice_add_check(files "${Python3_EXECUTABLE}" "${suite_folder}/check_files.py" "${PROJECT_SOURCE_DIR}")
sluice_add_check(format "${Python3_EXECUTABLE}" "${suite_folder}/check_format.py" "${PROJECT_SOURCE_DIR}")
set_tests_properties(check.format PROPERTIES SKIP_RETURN_CODE 77)
sluice_add_check(checks "${Python3_EXECUTABLE}" "${suite_folder}/test_checks.py")
set_tests_properties(check.checks PROPERTIES ENVIRONMENT "CC=${CMAKE_C_COMPILER}")

# What the command prints: documents, its own examples, and the same everywhere.
if(TARGET sluice_command)
    set(sluice_folder "${PROJECT_BINARY_DIR}/cli")
    # Sanitized builds are slow; what differs there shows at few ranks.
    set(command_checks docs examples determinism schedules)
    set(schedules_arguments "")
    if(SLUICE_SANITIZE)
        set(command_checks examples schedules)
        set(schedules_arguments 5 8)
    endif()
    foreach(name IN LISTS command_checks)
        add_test(NAME command.${name}
                 COMMAND "${Python3_EXECUTABLE}" "${suite_folder}/check_${name}.py"
                         "${PROJECT_SOURCE_DIR}" "${sluice_folder}" ${${name}_arguments})
        set_tests_properties(command.${name} PROPERTIES LABELS command TIMEOUT 300)
    endforeach()
endif()

# Sanitizers add globals of their own.
if(sluice_parts AND NOT SLUICE_SANITIZE)
    set(archives "")
    foreach(part IN LISTS sluice_parts)
        if(NOT part STREQUAL "sluice_kernels")
            list(APPEND archives "$<TARGET_FILE:${part}>")
        endif()
    endforeach()
    sluice_add_check(globals "${Python3_EXECUTABLE}" "${suite_folder}/check_globals.py" ${archives})
endif()

# Installs into a scratch prefix and builds a small program against it, by CMake and by pkg-config.
if(TARGET sluice_shared AND EXISTS "${PROJECT_SOURCE_DIR}/runtime/sluice.h" AND NOT SLUICE_SANITIZE)
    add_test(NAME install.consumer
             COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh" "${CMAKE_COMMAND}"
                     "${PROJECT_BINARY_DIR}" "${CMAKE_CURRENT_BINARY_DIR}/install" "${CMAKE_C_COMPILER}"
                     "${PROJECT_VERSION}")
    set_tests_properties(install.consumer PROPERTIES LABELS install TIMEOUT 300)
endif()

# The same tests once more under ASan + UBSan, those of the executor under TSan, and each fuzz target
# on libFuzzer for some seconds.
# Each runs in a build of its own inside this one: sluice_add_nested(NAME PRESET TARGET
# WHICH...), WHICH being arguments of ctest.
function(sluice_add_nested name preset target)
    set(folder "${PROJECT_BINARY_DIR}/nested/${name}")
    add_test(NAME ${name}.build
             COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/install/nested.sh" "${CMAKE_COMMAND}"
                     "${PROJECT_SOURCE_DIR}" "${folder}" ${preset} ${target})
    set_tests_properties(${name}.build PROPERTIES LABELS sanitized FIXTURES_SETUP ${name}
                         PROCESSORS 2 TIMEOUT 1200)
    add_test(NAME ${name}.tests
             COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${folder}" --output-on-failure
                     --no-tests=error -j2 ${ARGN})
    set_tests_properties(${name}.tests PROPERTIES LABELS sanitized FIXTURES_REQUIRED ${name}
                         PROCESSORS 2 TIMEOUT 1500)
endfunction()

if(SLUICE_TEST_SANITIZED)
    sluice_add_nested(asan asan all -L "unit|lit|fuzz|command")
    sluice_add_nested(tsan tsan executor_tests -R "unit.executor" -E schedules)
    # Some kernels place memory where this compiler's TSan cannot have it.
    set_tests_properties(tsan.tests PROPERTIES SKIP_REGULAR_EXPRESSION "unexpected memory mapping")
    find_program(SLUICE_CLANG clang)
    if(SLUICE_CLANG)
        execute_process(COMMAND "${SLUICE_CLANG}" "-print-file-name=libclang_rt.fuzzer-${CMAKE_HOST_SYSTEM_PROCESSOR}.a"
                        OUTPUT_VARIABLE fuzzer_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    if(SLUICE_CLANG AND EXISTS "${fuzzer_runtime}")
        sluice_add_nested(libfuzzer fuzz fuzzers -L fuzz)
    else()
        string(APPEND SLUICE_TESTS_REPORT ", no libFuzzer (clang or its runtime is missing)")
    endif()
endif()
