# Man pages and completions: the command prints them from its own options.
set(reprise_text_dir ${PROJECT_BINARY_DIR}/manuals)
set(reprise_text_names reprise)
set(reprise_text_commands COMMAND $<TARGET_FILE:reprise_command> help --man > reprise.1)
foreach(name record info plan check replay compare convert report diff help completion)
  list(APPEND reprise_text_names reprise-${name})
  list(APPEND reprise_text_commands
    COMMAND $<TARGET_FILE:reprise_command> help ${name} --man > reprise-${name}.1)
endforeach()
foreach(shell bash zsh fish)
  list(APPEND reprise_text_commands
    COMMAND $<TARGET_FILE:reprise_command> completion ${shell} > completion.${shell})
endforeach()
file(MAKE_DIRECTORY ${reprise_text_dir})
list(TRANSFORM reprise_text_names PREPEND ${reprise_text_dir}/ OUTPUT_VARIABLE reprise_manuals)
list(TRANSFORM reprise_manuals APPEND .1)
add_custom_command(OUTPUT ${reprise_manuals} ${reprise_text_commands}
  DEPENDS reprise_command WORKING_DIRECTORY ${reprise_text_dir} VERBATIM
  COMMENT "Writing man pages and completions")
add_custom_target(reprise_manuals ALL DEPENDS ${reprise_manuals})
install(FILES ${reprise_manuals} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES ${reprise_text_dir}/completion.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME reprise
        COMPONENT command)
install(FILES ${reprise_text_dir}/completion.zsh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _reprise
        COMPONENT command)
install(FILES ${reprise_text_dir}/completion.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME reprise.fish
        COMPONENT command)
