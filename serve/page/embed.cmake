# cmake -D FILE=F -D OUTPUT=O -P embed.cmake: writes the text of F to O as a raw string literal of C++.
file(READ ${FILE} text)
string(FIND "${text}" ")page\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${FILE}: has ')page\"', expected a text without it; it ends the literal")
endif()
file(WRITE ${OUTPUT} "R\"page(${text})page\"\n")
