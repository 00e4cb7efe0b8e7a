# caravan_embed(OUTPUT FOLDER PREFIX): writes <build>/generated/OUTPUT, a row {"PREFIXname", "text"}, for each text file of
# FOLDER: what an array of a source includes. The files are read when they change, by this file as a script.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(CARAVAN_EMBED ${CMAKE_CURRENT_LIST_FILE})
  function(caravan_embed output folder prefix)
    set(output ${PROJECT_BINARY_DIR}/generated/${output})
    file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -Dfolder=${folder} -Dprefix=${prefix} -Doutput=${output} -P ${CARAVAN_EMBED}
      DEPENDS ${files} ${CARAVAN_EMBED}
      VERBATIM)
  endfunction()
  return()
endif()

file(GLOB names RELATIVE ${folder} ${folder}/*)
set(text "")
foreach(name IN LISTS names)
  file(READ ${folder}/${name} content)
  string(APPEND text "{\"${prefix}${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
file(WRITE ${output} "${text}")
