# libsluice from the directories' static libraries, and all that `cmake --install` puts in place.
set(sluice_parts "")
foreach(part sluice_runtime sluice_compiler sluice_kernels sluice_dsl)
    if(TARGET ${part})
        list(APPEND sluice_parts ${part})
    endif()
endforeach()

# What programs inside the tree link: the command, the tests.
add_library(sluice_all INTERFACE)
target_link_libraries(sluice_all INTERFACE ${sluice_parts} Threads::Threads m)

# Where CUDA is, the library runs on GPUs as well. Programs that need no GPU do not link that part.
set(sluice_objects "")
set(sluice_cuda_runtime "")
set(library_parts ${sluice_parts})
if(TARGET sluice_cuda)
    list(PREPEND library_parts sluice_cuda sluice_kernels_gpu)
    set(sluice_cuda_runtime CUDA::cudart_static)
endif()
foreach(part IN LISTS library_parts)
    list(APPEND sluice_objects "$<TARGET_OBJECTS:${part}>")
endforeach()
if(sluice_objects)
    add_library(sluice_static STATIC ${sluice_objects})
    add_library(sluice_shared SHARED ${sluice_objects})
    set(sluice_exports "${PROJECT_SOURCE_DIR}/cmake/libsluice.map")
    target_link_options(sluice_shared PRIVATE "-Wl,--version-script=${sluice_exports}")
    set_target_properties(sluice_shared PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
        LINK_DEPENDS "${sluice_exports}")
    set_target_properties(sluice_static PROPERTIES EXPORT_NAME static)
    set_target_properties(sluice_shared PROPERTIES EXPORT_NAME shared)
    foreach(library sluice_static sluice_shared)
        set_target_properties(${library} PROPERTIES OUTPUT_NAME sluice LINKER_LANGUAGE C)
        target_include_directories(${library} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    endforeach()
    target_link_libraries(sluice_static PUBLIC ${sluice_cuda_runtime} Threads::Threads m)
    target_link_libraries(sluice_shared PRIVATE ${sluice_cuda_runtime} Threads::Threads m)

    install(TARGETS sluice_static sluice_shared EXPORT sluice_targets
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT sluice_targets NAMESPACE sluice:: FILE sluice-targets.cmake
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
    include(CMakePackageConfigHelpers)
    configure_package_config_file(cmake/sluice-config.cmake.in sluice-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
    write_basic_package_version_file(sluice-config-version.cmake COMPATIBILITY SameMinorVersion)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/sluice-config.cmake"
                  "${CMAKE_CURRENT_BINARY_DIR}/sluice-config-version.cmake"
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
    set(sluice_private_libs "-lpthread -lm")
    if(sluice_cuda_runtime)
        set(sluice_private_libs
            "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ${sluice_private_libs}")
    endif()
    configure_file(cmake/sluice.pc.in sluice.pc @ONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/sluice.pc"
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/runtime/sluice.h")
    install(FILES runtime/sluice.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
if(EXISTS "${PROJECT_SOURCE_DIR}/schedules")
    install(DIRECTORY schedules/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/schedules
            FILES_MATCHING PATTERN "*.slc")
endif()
