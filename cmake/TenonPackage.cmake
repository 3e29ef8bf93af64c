# What is installed beside the layers, and the Debian packages: `tenon` (the command, the C library, the service) and
# `libtenon-dev` (headers and libraries to build against).
#
#   cmake --install build/release --prefix DIR               all but the service
#   cpack --config build/release/CPackConfig.cmake           the packages, into build/release

# libllama and its ggml stand in a folder of their own, where no other program finds them: what is in it has to be of one
# version. Each has $ORIGIN as its run path.
get_filename_component(llama_folder "${llama_DIR}/../.." ABSOLUTE)
file(GLOB llama_libraries "${llama_folder}/libllama.so.*" "${llama_folder}/libggml*.so.*")
list(FILTER llama_libraries INCLUDE REGEX "\\.so\\.[0-9]+$")  # by the names that the loader asks for
if(llama_libraries)
  install(FILES ${llama_libraries} DESTINATION "${CMAKE_INSTALL_LIBDIR}/tenon" COMPONENT runtime)
else()
  message(WARNING "No libllama.so.N in ${llama_folder}: what is installed will look for it elsewhere.")
endif()
file(RELATIVE_PATH to_libraries "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}/tenon")
set_target_properties(tenon PROPERTIES
  INSTALL_RPATH "$ORIGIN/${to_libraries}" INSTALL_RPATH_USE_LINK_PATH OFF)

# ---- What the command says of itself -------------------------------------------------------------

set(share "${PROJECT_BINARY_DIR}/share")
# Which commands there are, and so which pages, only the command knows: what is made is a folder, and a file that says when.
set(said COMMAND ${CMAKE_COMMAND} -E rm -rf "${share}/man"
  COMMAND ${CMAKE_COMMAND} -E make_directory "${share}/completion"
  COMMAND tenon manual --all "${share}/man/man1"
  COMMAND ${CMAKE_COMMAND} -E make_directory "${share}/man/man5")
foreach(shell bash zsh fish)
  list(APPEND scripts "${share}/completion/${shell}")
  list(APPEND said COMMAND sh -c "$<TARGET_FILE:tenon> completion ${shell} > ${share}/completion/${shell}")
endforeach()
add_custom_command(OUTPUT "${share}/man.stamp" ${scripts}
  ${said}
  COMMAND sh -c "gzip -9nf ${share}/man/man1/*.1"
  COMMAND sh -c "gzip -9nc ${PROJECT_SOURCE_DIR}/packaging/tenon.toml.5 > ${share}/man/man5/tenon.toml.5.gz"
  COMMAND ${CMAKE_COMMAND} -E touch "${share}/man.stamp"
  DEPENDS tenon "${PROJECT_SOURCE_DIR}/packaging/tenon.toml.5"
  COMMENT "Manual pages and completions" VERBATIM)
add_custom_target(tenon_share ALL DEPENDS "${share}/man.stamp" ${scripts})

install(DIRECTORY "${share}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT runtime OPTIONAL)
install(FILES "${share}/completion/bash" RENAME tenon
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT runtime OPTIONAL)
install(FILES "${share}/completion/zsh" RENAME _tenon
        DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions" COMPONENT runtime OPTIONAL)
install(FILES "${share}/completion/fish" RENAME tenon.fish
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT runtime OPTIONAL)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/tenon" COMPONENT runtime)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" RENAME copyright
        DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/tenon" COMPONENT runtime)

# ---- The service: absolute places, in packages alone ---------------------------------------------

install(FILES "${PROJECT_SOURCE_DIR}/packaging/tenon.toml" DESTINATION /etc/tenon COMPONENT service EXCLUDE_FROM_ALL)
install(FILES "${PROJECT_SOURCE_DIR}/packaging/tenon.service" DESTINATION /lib/systemd/system
        COMPONENT service EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tenon)
set(CPACK_PACKAGE_VENDOR "Tenon")
set(CPACK_PACKAGE_CONTACT "The Tenon maintainers <maintainers@tenon.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Tool calls of open-weight models: a server and a library")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_PREFIX /usr)  # where DESTDIR is used
set(CPACK_SET_DESTDIR ON)       # for the service's absolute places
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime service development)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_RUNTIME_GROUP tenon)
set(CPACK_COMPONENT_SERVICE_GROUP tenon)
set(CPACK_COMPONENT_DEVELOPMENT_GROUP development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TENON_PACKAGE_NAME tenon)
set(CPACK_DEBIAN_TENON_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${llama_folder}")
set(CPACK_DEBIAN_TENON_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_TENON_PACKAGE_RECOMMENDS "bubblewrap, python3")
set(CPACK_DEBIAN_TENON_DESCRIPTION
"Clients speak OpenAI's or Anthropic's API; models run here or on other
servers; calls that leave are valid against the schema that was sent.")
set(maintenance "${PROJECT_SOURCE_DIR}/packaging/debian")
set(CPACK_DEBIAN_TENON_PACKAGE_CONTROL_EXTRA
  "${maintenance}/conffiles;${maintenance}/postinst;${maintenance}/prerm;${maintenance}/postrm")
set(CPACK_DEBIAN_TENON_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtenon-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "tenon (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
"What programs are built with: headers of the C interface and of the
C++ layers, and their libraries.")
include(CPack)
