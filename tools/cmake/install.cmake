# `make install`: tool, library, headers, man page and completion. The last two are printed by the
# tool itself from its tables of commands and options, so they cannot disagree with it.
include(GNUInstallDirs)
install(TARGETS fivefold_tool fivefold
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/fivefold DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(man_page ${PROJECT_BINARY_DIR}/fivefold.1)
set(completion ${PROJECT_BINARY_DIR}/fivefold.bash)
add_custom_command(
  OUTPUT ${man_page} ${completion}
  COMMAND fivefold_tool help --man > ${man_page}
  COMMAND fivefold_tool help --completion > ${completion}
  DEPENDS fivefold_tool)
add_custom_target(manual ALL DEPENDS ${man_page} ${completion})
install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${completion} RENAME fivefold
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

file(RELATIVE_PATH prefix_from_here /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(tools/cmake/fivefold.pc.in fivefold.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fivefold.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
